"""The command line (extra ``cli``): click commands over `confmax.maximize`, tables in CSV, Parquet and NPZ."""

# this file adds every command to it
from confmax.cli import commands
from confmax.cli.app import confmax

__all__ = ["commands", "confmax"]
