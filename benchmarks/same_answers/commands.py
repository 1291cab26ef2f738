"""The command line: its documents, and the words of its pages."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Data
from benchmarks.same_answers.answers import Answer, Calls, document
from benchmarks.same_answers.classes import LIMITED, WIDE, worded
from benchmarks.same_answers.tables import files, groups, names, truth

REPLICATES = 50
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)
_DATE = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?")


def commands(data: Data, folder: Path) -> Calls:
    """All commands, on rows of classes."""
    ((metric, limits),) = worded(data, LIMITED[:1])
    label, within = ("--label", "truth"), [f"--subject-to={limit}" for limit in limits]
    for name, settings in (("macro_f1", ()), (metric, within)):
        yield (
            name,
            partial(
                of_rule, data, folder, label, (*label, "--metric", name, *settings), caps=f"c0={len(data.y) // 20}"
            ),
        )
    asked = ("--metric", "accuracy", "--metric", "macro_f1")
    yield "compare", partial(ran, data, folder, "compare", *label, *asked)
    if data.K < WIDE:
        yield "compare within", partial(ran, data, folder, "compare", *label, *asked, *within)
    for over in ("rate[c0] <=", "recall[c0] >= 0.5"):
        asked = ("--metric", "macro_f1", "--over", over, "--levels", 3)
        yield f"frontier {over}", partial(ran, data, folder, "frontier", *label, *asked)
    asked = ("--metric", "accuracy", "--abstain", "ask", "--subject-to", "coverage >= 0.8")
    yield "abstain", partial(of_rule, data, folder, label, (*label, *asked))
    fair = "difference(rate[c0] | group) <= 0.05"
    asked = ("--metric", "macro_f1", "--group", "group", "--subject-to", fair)
    yield "groups", partial(of_rule, data, folder, (*label, "--group", "group"), (*label, *asked))
    asked = ("--metric", "recall[c0]", "--subject-to", "precision[c0] >= 0.6", "--confidence", 0.8)
    yield "assured", partial(ran, data, folder, "tune", *label, *asked)
    asked = ("--metric", "macro_f1", "--in-parts", "yes")
    yield "parts", partial(ran_in_parts, data, folder, "tune", *label, *asked)
    for wrong in ("recall[nobody] >= 0.5", "macro_f1 >= 0.5", "rate[c0] <= 1.5"):
        yield (
            f"refused {wrong}",
            partial(ran, data, folder, "tune", *label, "--metric", "accuracy", "--subject-to", wrong),
        )


def label_commands(data: Data, folder: Path) -> Calls:
    """All commands, on rows of several labels."""
    label = ("--label", "truth", "--separator", ";")
    for decisions in ("any", 2, "at-most:2"):
        chosen = (*label, "--decisions", decisions)
        for name, settings in (("plain", ()), ("within", ("--subject-to", "recall[c0] >= 0.7"))):
            tuned = (*chosen, "--metric", "macro_f1", *settings)
            yield f"{decisions} {name}", partial(of_rule, data, folder, label, tuned)
        yield f"{decisions} compare", partial(ran, data, folder, "compare", *chosen, "--metric", "macro_f1")
        asked = ("--metric", "micro_f1", "--over", "rate[c0] <=", "--levels", 3)
        yield f"{decisions} frontier", partial(ran, data, folder, "frontier", *chosen, *asked)
        asked = ("--metric", "macro_f1", "--subject-to", "recall[nobody] >= 0.5")
        yield f"{decisions} refused", partial(ran, data, folder, "tune", *chosen, *asked)


CLASSES, LABELS = (commands,), (label_commands,)


def csv(data: Data, folder: Path, new: bool = False) -> Path:
    """Return the path of the rows as CSV: those that tune, or ``new`` ones."""
    path = folder / f"{data.stem}_{'new' if new else 'tune'}.csv"
    if not path.exists():
        P, y = (data.Q, data.z) if new else (data.P, data.y)
        group = groups(data)[int(new)]
        words = truth(np.asarray(y))
        lines = [
            ",".join([*(repr(float(p)) for p in row), word if isinstance(word, str) else ";".join(word), str(by)])
            for row, word, by in zip(P, words, group, strict=True)
        ]
        path.write_text("\n".join([",".join([*names(data.K), "truth", "group"]), *lines]))
    return path


def printed(*words: Any) -> tuple[Any, str]:
    """Return the document that a command prints, and what it prints on stderr with its exit code."""
    from click.testing import CliRunner

    from confmax.cli.app import confmax as command

    result = CliRunner().invoke(command, [*map(str, words), "--json"])
    said = f"{result.exit_code} {result.stderr}"
    return (json.loads(result.stdout) if result.exit_code in (0, 3) and result.stdout else None), said


def ran(data: Data, folder: Path, name: str, *words: Any) -> Answer:
    """Return the document of a command on the rows that tune."""
    return document(*printed(name, csv(data, folder), *words))


def ran_in_parts(data: Data, folder: Path, name: str, *words: Any) -> Answer:
    """Return the document of a command on files that are read in parts."""
    files(data, folder)
    columns = ",".join(names(data.K))
    return document(*printed(name, folder / data.stem / "*.parquet", "--columns", columns, *words))


def of_rule(data: Data, folder: Path, label: tuple[str, ...], tuned: tuple[Any, ...], caps: str = "") -> Answer:
    """Return the documents of the commands that make a rule and use it."""
    rule, out, page = folder / "rule.json", folder / "decided.csv", folder / "page.html"
    new = csv(data, folder, new=True)
    ends = [printed("tune", csv(data, folder), *tuned, "--seed", 0, "-o", rule, "--force")]
    if ends[0][0] is not None and rule.exists():
        beside = label[2:] if "--group" in label else ()
        ends.append(printed("score", new, *label, "--rule", rule, "--replicates", REPLICATES))
        ends.append(printed("explain", rule))
        ends.append(printed("apply", rule, new, *beside, "-o", out))
        if caps:
            ends.append(printed("apply", rule, new, *beside, "-o", out, "--at-most", caps))
        decided = out.read_text() if out.exists() else ""
        ends.append(printed("report", rule, new, *label, "--replicates", REPLICATES, "-o", page))
        words = _DATE.sub("", _HIDDEN.sub("\n", page.read_text())) if page.exists() else ""
        ends.append(([decided[-2000:], [line.strip() for line in words.splitlines() if line.strip()]], ""))
        for path in (rule, out, page):
            path.unlink(missing_ok=True)
    return document([end for end, _ in ends], *(said for _, said in ends))
