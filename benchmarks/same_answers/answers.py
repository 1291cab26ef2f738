"""What is kept of an answer, and how two of them are compared.

An answer is a dictionary that JSON can hold. ``value`` is what is maximised, ``documents`` are numbers and texts by
their paths, and ``points`` are the answers that it is made of, such as those of the levels of a frontier.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

Answer = dict[str, Any]
Call = Callable[[], Answer]
Calls = Iterator[tuple[str, Call]]

EXACT, ALIKE = 1e-12, 1e-9  # of numbers, relative, and of decision probabilities
ROWS = 50  # whose decision probabilities are kept; of all rows a hash of the decisions is kept
ON_AVERAGE = 0.1  # of the loss that a single value may have: the values of a family may be lower on average
SHOWN = 400  # characters of a difference
# what a search needed is listed apart, and numbers of rounding size differ from run to run of another order of sums
_PASSES = re.compile(r"\b\d+ passe?s?\b")
_TINY = re.compile(r"-?\d+(\.\d+)?e-(09|[1-9]\d)")
_FIELDS = (
    *("upper_bound", "model_value", "model_upper_bound", "randomization_loss", "label_value", "baselines", "mode"),
    *("model_share", "multipliers", "doubt", "tested_on", "missed_before", "missed_by", "guarantee", "infeasibility"),
    *("constraints", "counts", "statistics"),
)


def answer(found: Any, new: Any, **decides: Any) -> Answer:
    """Return a solution, and what its rule decides on ``new`` rows."""
    chances = np.asarray(found.rule.decision_probabilities(new, **decides))
    # several labels are decided one by one
    decided = np.flatnonzero(chances > 0.5) if found.rule.decisions.several else chances.argmax(axis=1)
    documents = {name: getattr(found, name) for name in _FIELDS}
    return {
        "value": found.value,
        "gap": found.gap,
        "model_gap": found.model_gap,
        "passes": found.n_passes,
        "kept": bool(found.feasible),
        "missed": -min([one.slack for one in found.constraints], default=0.0),
        "text": [found.status.name, *map(plain_text, (repr(found), repr(found.rule)))],
        "chances": chances[:ROWS].round(12).tolist(),
        "all": digest(decided.astype("i4").tobytes()),
        "documents": flat({**documents, "rule": json.loads(found.rule.to_json())}),
    }


def document(content: Any, *texts: str) -> Answer:
    """Return what is no solution, such as a score or what a command prints."""
    return {"value": 0.0, "text": [plain_text(text) for text in texts], "documents": flat(content)}


def along(points: Iterable[Answer], content: Any) -> Answer:
    """Return an answer of several ``points``, and of what else is said of them."""
    return {**document(content), "points": list(points)}


def flat(content: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of nested records, arrays and dictionaries by their paths."""
    if dataclasses.is_dataclass(content) and not isinstance(content, type):
        content = {field.name: getattr(content, field.name) for field in dataclasses.fields(content)}
    elif isinstance(content, (np.ndarray, np.generic)):
        content = content.tolist()
    items: Any = ()
    if isinstance(content, dict):
        items = content.items()
    elif isinstance(content, (list, tuple)):
        items = enumerate(content)
    if items or isinstance(content, (dict, list, tuple)):
        parts = (flat(inner, f"{path}.{key}") for key, inner in items if key not in ("passes", "n_passes"))
        return {leaf: value for part in parts for leaf, value in part.items()}
    known = content is None or isinstance(content, (bool, int, float))
    return {path: content if known else plain_text(str(content))}


def plain_text(text: str) -> str:
    """Return a text without numbers of passes and of rounding."""
    return _TINY.sub("0", _PASSES.sub("passes", text))


def digest(content: bytes) -> str:
    """Return a short hash."""
    return hashlib.sha256(content).hexdigest()[:12]


def run(call: Call, folder: Path) -> Answer:
    """Return the answer of a call, or its error, with its warnings, and without the name of the ``folder``."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = call()
        # whatever is raised is an answer, too: another state may raise something else
        except Exception as error:
            found = {"error": type(error).__name__, "sentence": plain_text(str(error))}
    found["warnings"] = sorted({plain_text(str(one.message)) for one in warned if one.category is UserWarning})
    kept: Answer = json.loads(json.dumps(found).replace(str(folder), ""))
    return kept


# --- how two answers differ -------------------------------------------------------------------------------------------


def differences(old: Answer, new: Answer, loss: float | None) -> list[str]:
    """Return in words how two answers differ."""
    if "error" in old or "error" in new:
        return _of_errors(old, new, loss)
    said, was, now = [], old["value"], new["value"]
    kept, still = (each.get("kept", True) for each in (old, new))
    if kept and not still:
        said.append("the limits are kept no longer")
    if loss is None and not close(was, now):
        said.append(f"value {was!r} -> {now!r}")
    # where limits are missed, the values of rules that miss them more and less do not compare
    if loss is not None and kept and now < was - loss:
        said.append(f"value lower by {was - now:.3g}")
    if loss is not None and not kept and new["missed"] > old["missed"] + loss:
        said.append(f"the limits are missed by {old['missed']:.6g} -> {new['missed']:.6g}")
    for name in ("gap", "model_gap"):
        said += _of_bounds(name, old, new, loss)
    if loss is None:
        said += exact_differences(old, new)
    several, others = (each.get("points", []) for each in (old, new))
    if len(several) != len(others):
        said.append(f"{len(several)} points -> {len(others)}")
    pairs = enumerate(zip(several, others, strict=False))
    return said + [f"point {j}: {words}" for j, pair in pairs for words in differences(*pair, loss)]


def _of_errors(old: Answer, new: Answer, loss: float | None) -> list[str]:
    sentences = [f"{each.get('error')}: {each.get('sentence', '')}" for each in (old, new)]
    was, now = sentences if loss is None else [re.sub(r"\d[\d.e-]*", "#", one) for one in sentences]
    return [] if was == now else ["error " + changed(*sentences)]


def _of_bounds(name: str, old: Answer, new: Answer, loss: float | None) -> list[str]:
    one, other, was, now = old.get(name), new.get(name), old["value"], new["value"]
    if one is None or other is None:
        return [] if one is None else [f"{name} lost"]
    said = []
    if name == "gap" and (now + other < was - ALIKE or was + one < now - ALIKE):
        said.append("a bound below a value")
    if other > max(one, 1e-6) + (ALIKE if loss is None else loss):
        said.append(f"{name} {one:.3g} -> {other:.3g}")
    return said


def exact_differences(old: Answer, new: Answer) -> list[str]:
    """Return in words what differs beside values and bounds."""
    said = [f"{key} {old.get(key)} -> {new.get(key)}" for key in ("all", "kept") if old.get(key) != new.get(key)]
    for key in ("text", "warnings"):
        was, now = ("\n".join(each.get(key, [])) for each in (old, new))
        if was != now:
            said.append(f"{key}: {changed(was, now)}")
    one, other = (np.array(each.get("chances", [])) for each in (old, new))
    if one.shape != other.shape or (one.size and np.abs(one - other).max() > ALIKE):
        said.append("decision probabilities")
    one, other = (each.get("documents", {}) for each in (old, new))
    moved = [key for key in {**one, **other} if not (key in one and key in other and close(one[key], other[key]))]
    leaves = [f"{key}: {changed(str(one.get(key)), str(other.get(key)))}" for key in moved[:5]]
    return said + leaves + ([f"and {len(moved) - 5} more leaves"] if len(moved) > 5 else [])


def changed(was: str, now: str) -> str:
    """Return the first lines in which two texts differ."""
    one, other = was.splitlines(), now.splitlines()
    at = next(
        (j for j, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(map(len, (one, other)))
    )
    first, second = ((lines[at] if at < len(lines) else "nothing").strip() for lines in (one, other))
    return f"{first!r} -> {second!r}"


def close(one: Any, other: Any) -> bool:
    """Whether two leaves are equal, numbers within their last digits."""
    both = (one, other)
    if all(isinstance(leaf, (int, float)) and not isinstance(leaf, bool) for leaf in both):
        return bool(
            one == other or abs(one - other) <= EXACT * max(1.0, abs(one)) or all(np.isnan(leaf) for leaf in both)
        )
    return bool(one == other)


def family_of(name: str) -> str:
    """Return the family of a call: the second word of its name."""
    return name.split(" ")[1]


class Families:
    """How many calls every family has, how many of them differ, and the time of the processor that they take."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.differ: Counter[str] = Counter()

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count a call, and how long it takes."""
        began = time.process_time()
        yield
        self.total[family_of(name)] += 1
        self.seconds[family_of(name)] += time.process_time() - began

    def show(self) -> None:
        """Print a line for every family."""
        for name in {**self.total, **self.differ}:
            print(f"{name:15s}{self.total[name]:5d} calls{self.seconds[name]:7.1f} s{self.differ[name]:5d} differ")


def compared(
    was: dict[str, Answer], answers: Iterable[tuple[str, Answer]], loss: float | None, families: Families
) -> int:
    """Print what differs; return how many calls do."""
    passes, total, drift = 0, 0, defaultdict(list)
    for name, new in answers:
        total += 1
        old = was.pop(name, {"error": "a call that was not recorded"})
        said = differences(old, new, loss)
        families.differ[family_of(name)] += bool(said)
        if said:
            print(f"{name}: {'; '.join(said)}"[:SHOWN], flush=True)
        elif old.get("passes") != new.get("passes"):
            passes += 1
            print(f"{name}: passes {old['passes']} -> {new['passes']}", flush=True)
        if "value" in old and "value" in new and old.get("kept", True):
            drift[family_of(name)].append(new["value"] - old["value"])
    for name in was:
        print(f"{name}: not called any more")
        families.differ[family_of(name)] += 1
    for family, moves in drift.items() if loss is not None else ():
        if np.mean(moves) < -ON_AVERAGE * loss:
            print(f"{family}: lower on average by {-np.mean(moves):.3g}")
            families.differ[family] += 1
    families.show()
    wrong = families.differ.total()
    print(f"{total} calls: {wrong} differ, {passes} with other passes")
    return wrong
