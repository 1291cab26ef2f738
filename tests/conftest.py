"""What all tests share: Java compiles little, and a folder to be in."""

import os

import pytest

# Spark's programs are short here: Java's optimising compiler takes about half of their processor time
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """A folder of the test's own, where relative paths lie."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
