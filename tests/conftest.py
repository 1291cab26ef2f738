"""What all tests share: Java compiles little; a folder to be in; a number of threads; both forms of the kernels."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from confmax import kernels
from confmax.kernels import blocks
from confmax.tables.partitioned import table

# Spark's programs are short here: Java's optimising compiler takes about half of their processor time
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """A folder of the test's own, where relative paths lie."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def threads(monkeypatch):
    """Return a function that lets compiled scans take so many threads."""

    def take(number):
        monkeypatch.setattr(blocks, "most_threads", lambda: number)
        monkeypatch.setattr(blocks, "_pool", ThreadPoolExecutor(number))

    return take


@pytest.fixture(params=["compiled", "numpy"])
def form(request, monkeypatch):
    """Run a test with the compiled kernels and without."""
    if request.param == "numpy":
        monkeypatch.setattr(kernels, "native", None)
    elif kernels.native is None:
        pytest.skip("there is no compiled module")


@pytest.fixture
def small_samples(monkeypatch):
    """As if a sample were a small part of a large table."""
    sizes = {"SAMPLE_CELLS": 4000, "SAMPLE_CELLS_UNLABELLED": 4000, "SAMPLE_ROWS": 100, "ROWS_PER_CLASS": 10}
    for name, value in sizes.items():
        monkeypatch.setattr(table, name, value)
