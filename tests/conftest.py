"""What all tests share: one that hangs ends; Java compiles little; a folder to be in; threads; forms of kernels."""

import faulthandler
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from confmax import kernels
from confmax.kernels import blocks
from confmax.tables.partitioned import table
from confmax.tables.partitioned.checking import CheckedSource

# whose tables are small, and are read in parts all the same
PARTS = {
    *("test_confidence", "test_dask", "test_groups_in_parts", "test_label_lines", "test_labels_in_parts"),
    *("test_limits_everywhere", "test_odd_sources", "test_open_table", "test_parts", "test_score_parts", "test_shift"),
    *("test_sources_alike", "test_spark", "test_spark_connect", "test_streams", "test_wide_files", "test_remote_files"),
    *("test_class_thresholds", "test_further_decisions", "test_model_bound", "test_row_prices"),
    *("test_confidence_parts", "test_shift_groups", "test_shift_likelihood", "test_shift_misfit", "test_streams_files"),
}

HANGS = float(os.environ.get("CONFMAX_TEST_SECONDS", "600"))  # after which a test hangs

# Spark's programs are short here: Java's optimising compiler takes about half of their processor time
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure():
    # while nothing is captured yet
    global _stderr
    _stderr = os.dup(sys.__stderr__.fileno())


# after pytest has set its own clock, which ends nothing
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol():
    """A test that hangs shows where and ends its process; of several, pytest names it and goes on with the others."""
    faulthandler.dump_traceback_later(HANGS, file=_stderr, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


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


@pytest.fixture(autouse=True)
def _parts_stay_apart(request):
    """Small tables of one class are not brought into memory where a module tests what is done with parts."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__.rpartition(".")[2] in PARTS and "gathers" not in request.fixturenames:
            fits = CheckedSource.fits.fget
            patch.setattr(CheckedSource, "fits", property(lambda source: source.decisions.several and fits(source)))
        yield


@pytest.fixture
def gathers():
    """Small tables in parts are brought into memory, as everywhere."""


@pytest.fixture
def small_samples(monkeypatch):
    """As if a sample were a small part of a large table."""
    sizes = {"SAMPLE_CELLS": 4000, "SAMPLE_CELLS_UNLABELLED": 4000, "SAMPLE_ROWS": 100, "ROWS_PER_CLASS": 10}
    for name, value in sizes.items():
        monkeypatch.setattr(table, name, value)


@pytest.fixture
def small_parts(monkeypatch):
    """Rows that stream are cut into parts of 400 rows of three classes."""
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 1200)
