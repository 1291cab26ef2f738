"""Record the answers of one state, or compare those of another with them: see the head of the package."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import same_answers
from benchmarks.harness import load
from benchmarks.same_answers import classes, commands, labels
from benchmarks.same_answers.answers import Answer, Calls, Families, compared, family_of, run
from benchmarks.same_answers.tables import drawn_classes, drawn_labels

OF_CLASSES = (*classes.FAMILIES, *commands.CLASSES)
OF_LABELS = (*labels.FAMILIES, *commands.LABELS)
NAMES = [family.__name__ for family in (*OF_CLASSES, *OF_LABELS)]


def calls(chosen: list[str], npz: str | None, folder: Path) -> Calls:
    """Yield the name of every call, and what makes it: the table, the family, and what is asked."""
    given = [] if npz is None else load(npz)
    for tables, families in ((drawn_classes() + given, OF_CLASSES), (drawn_labels(), OF_LABELS)):
        for data in tables:
            for family in families:
                if family.__name__ in chosen:
                    for name, call in family(data, folder):
                        yield f"{data.stem} {family.__name__} {name}", call


def answered(chosen: list[str], npz: str | None, families: Families) -> Iterator[tuple[str, Answer]]:
    """Yield the names and answers of all calls."""
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls(chosen, npz, Path(folder)):
            with families.timed(name):
                found = run(call, Path(folder))
            yield name, found


def main() -> None:
    """Record or compare."""
    about = str(same_answers.__doc__)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_answers",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--only", type=lambda text: text.split(","), default=NAMES, help=", ".join(NAMES))
    parser.add_argument("--loss", type=float)
    given = parser.parse_args()
    if unknown := {*given.only} - {*NAMES}:
        parser.error(f"there is no family {', '.join(unknown)}; there are {', '.join(NAMES)}")
    families = Families()
    answers = answered(given.only, given.folder, families)
    if given.action == "record":
        found = dict(answers)
        given.file.write_text(json.dumps(found))
        families.show()
        print(f"{len(found)} calls, of which {sum('error' in one for one in found.values())} are refused")
    else:
        recorded = json.loads(given.file.read_text())
        was = {name: one for name, one in recorded.items() if family_of(name) in given.only}
        sys.exit(compared(was, answers, given.loss, families) > 0)


if __name__ == "__main__":
    main()
