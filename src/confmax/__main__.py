"""``python -m confmax`` and the command ``confmax``."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any

_EXTRA = ("click", "rich", "pyarrow")
_ENDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if sys.platform != "win32":
    _ENDS[signal.SIGHUP] = "the terminal was closed"


def _end(number: int, _frame: Any) -> None:
    """Say that a signal ends the process, and end it without a trace.

    An exception would not do: callbacks of libraries and of the import system print it and go on, and threads that
    still work would be waited for.
    """
    # an import in here could meet the same one half done; without this module no file is being written
    remove_parts = getattr(sys.modules.get("confmax.places"), "remove_parts", None)
    if remove_parts is not None:
        remove_parts()
    with suppress(OSError, ValueError, AttributeError):
        # a progress bar has hidden the cursor of the terminal, and stands in the line
        shown = "\r\x1b[K\x1b[?25h" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else ""
        # not print, which may be what was interrupted
        os.write(sys.stderr.fileno(), f"{shown}{_ENDS[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


def main() -> None:
    """Run the command line. If its libraries are missing, say how to install them."""
    for number in _ENDS:
        # a shell lets what runs in its background ignore interruptions
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    if sys.stderr is None:  # closed: what is said there goes nowhere, and exit codes stay as they are
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        print(
            "error: standard output is closed, so results would be lost; redirect it to a file or to /dev/null",
            file=sys.stderr,
        )
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        # a class name that the terminal's encoding lacks must not end the run
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        # this import stands here because it fails without the extra, and the user then reads how to install it; what
        # only one command needs fails when that command runs
        try:
            from confmax.cli import confmax
        except ValueError as error:  # what the environment says of the kernels is read when they are imported
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        confmax(prog_name="confmax")
    except ModuleNotFoundError as error:
        # any other missing module is a fault of the installation, which a hint at extras would hide
        if error.name not in _EXTRA:
            raise
        print(
            f"error: the command line needs {error.name}; install it with: pip install 'confmax[cli]'", file=sys.stderr
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
