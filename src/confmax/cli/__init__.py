"""The command line (extra ``cli``): click commands over `confmax.maximize`, tables in CSV, Parquet and NPZ."""

from confmax.cli.reporting import confmax  # with the commands of all modules

__all__ = ["confmax"]
