"""The command line (extra ``cli``): click commands over `confmax.maximize`, tables in CSV, Parquet and NPZ."""

from confmax.cli.commands import confmax

__all__ = ["confmax"]
