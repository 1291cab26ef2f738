"""Searches in processes of their own, which can be stopped from outside and still leave what is known of them.

Such a process takes names of metrics as its last arguments. For each it prints a line of JSON with ``event`` "start",
then one "found" as soon as the search is over, then "done" with everything that is recorded.
"""

from __future__ import annotations

import json
import queue
import threading
import time

import numpy as np

from benchmarks._speed_tools import child, resident


def emit(**record):
    """Print one line of JSON at once."""
    print(json.dumps(record), flush=True)


def measured(arguments, names, limit):
    """Yield the record of every metric; a new process goes on after one that was stopped.

    ``limit`` takes the median seconds of confmax that the process told, 0 without any, and returns the seconds that
    the search gets.
    """
    todo = list(names)
    while todo:
        process = child([*arguments, *todo])
        stopped = False
        for record in _records(process, limit):
            stopped = record.get("stopped", False)
            todo.remove(record["metric"])
            yield record
        process.wait()
        if todo and not stopped:
            yield from ({"metric": name, "failed": True} for name in todo)
            return


def _records(process, limit):
    """Yield the finished metrics of a process; a search beyond its limit is ended, and what is known of it is last."""
    lines = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    started, deadline = {}, None
    while True:
        try:
            record = lines.get(timeout=None if deadline is None else max(0.0, deadline - time.perf_counter()))
        except queue.Empty:
            yield _stop(process, started)
            reader.join()
            return
        if record is None:
            return
        event = record.pop("event")
        deadline = None
        if event == "start":
            started = {**record, "clock": time.perf_counter()}
            deadline = started["clock"] + limit(float(np.median(record.get("ours") or [0.0])))
        elif event == "done":
            yield record


def _read(stream, lines):
    with stream:
        for line in stream:
            lines.put(json.loads(line))
    lines.put(None)


def _stop(process, started):
    """End a search that takes too long and return what is known of it."""
    seconds = time.perf_counter() - started["clock"]
    peak = resident("VmHWM", process.pid) - started.get("floor", 0)
    process.kill()
    ours = started.get("ours", [])
    return {"metric": started["metric"], "seconds": [seconds], "ours": ours, "peak": peak, "stopped": True}
