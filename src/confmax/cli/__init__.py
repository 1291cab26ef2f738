"""The command line (extra ``cli``): click commands over `confmax.maximize`, tables in CSV, Parquet and NPZ."""

# each module adds its commands to the group
from confmax.cli import comparing, completing, explaining, exporting, reporting
from confmax.cli.commands import confmax

__all__ = ["comparing", "completing", "confmax", "explaining", "exporting", "reporting"]
