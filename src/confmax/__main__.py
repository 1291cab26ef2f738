"""``python -m confmax`` and the command ``confmax``."""

from __future__ import annotations

import os
import sys

_EXTRA = ("click", "rich", "pyarrow")


def main() -> None:
    """Run the command line. If its libraries are missing, say how to install them."""
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
        from confmax.cli import confmax

        confmax(prog_name="confmax")
    except ModuleNotFoundError as error:
        # any other missing module is a fault of the installation, which a hint at extras would hide
        if error.name not in _EXTRA:
            raise
        print(
            f"error: the command line needs {error.name}; install it with: pip install 'confmax[cli]'", file=sys.stderr
        )
        sys.exit(2)
    except KeyboardInterrupt:  # while the libraries are loaded
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
