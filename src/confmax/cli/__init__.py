"""The command line (extra ``cli``): click commands over `confmax.maximize`, tables in CSV, Parquet and NPZ."""

# each file adds its command to the group
from confmax.cli import apply, demo, explain, metrics, report, tune
from confmax.cli.app import confmax

__all__ = ["apply", "confmax", "demo", "explain", "metrics", "report", "tune"]
