"""The command line (extra ``cli``): click commands over `confmax.maximize`, tables in CSV, Parquet and NPZ."""

# each file adds its command to the group
from confmax.cli import apply, compare, demo, explain, export, metrics, report, score, tune
from confmax.cli.app import confmax

__all__ = ["apply", "compare", "confmax", "demo", "explain", "export", "metrics", "report", "score", "tune"]
