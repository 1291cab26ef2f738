"""The questions: each returns an answer on a table, whatever is decided for its rows and wherever they stand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import confmax
from benchmarks.harness import Data
from benchmarks.same_answers.answers import Answer, along, answer, digest, document
from benchmarks.same_answers.tables import names, placed, small_samples, truth

REPLICATES = 50  # of a bootstrap


def solution(
    data: Data,
    metric: Any,
    *,
    place: str = "array",
    folder: Path = Path(),
    small: bool = False,
    group: Any = None,
    **settings: Any,
) -> Any:
    """Return what `confmax.maximize` finds on the rows in a ``place``, with a ``small`` sample of rows in parts."""
    P, y, more = placed(place, data, folder, labelled=settings.pop("labelled", True), group=group)
    with small_samples() if small else nullcontext():
        return confmax.maximize(metric, P, y, **{"random_state": 0, "on_infeasible": "closest", **more, **settings})


def solved(data: Data, metric: Any, *, decides: Mapping[str, Any] | None = None, **settings: Any) -> Answer:
    """Return the solution, and what its rule decides on new rows, beside which stands what ``decides``."""
    decides = decides or {}
    return answer(solution(data, metric, **settings), new_rows(data, decides), **decides)


def new_rows(data: Data, decides: Mapping[str, Any]) -> np.ndarray:
    """Return new rows, as many as those of which is known what ``decides``."""
    Q = np.asarray(data.Q, dtype=np.float64)
    return Q[: len(next(iter(decides.values())))] if decides else Q


def path(
    data: Data,
    metric: Any,
    limit: str,
    *,
    place: str = "array",
    folder: Path = Path(),
    small: bool = False,
    group: Any = None,
    levels: Any = 4,
    decides: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Answer:
    """Return a frontier, and in memory what its rules are worth on new rows."""
    P, y, more = placed(place, data, folder, group=group)
    with small_samples() if small else nullcontext():
        found = confmax.frontier(metric, limit, P, y, levels=levels, random_state=0, **more, **settings)
    decides = decides or {}
    points = [answer(one, new_rows(data, decides), **decides) for one in found.solutions]
    content = {"frontier": found.to_dict(), "text": repr(found)}
    if not (decides or place in ("files", "stream")):
        content["on new rows"] = found.on(data.Q, data.z if data.z.ndim == 2 else truth(data.z))
    return along(points, content)


def adapted(
    data: Data, metric: Any, *, priors: Any = None, skewed: bool = False, tuned: Mapping[str, Any], **where: Any
) -> Answer:
    """Return the solution on rows of other shares: those of ``priors``, or of new rows that are ``skewed`` or not."""
    found = solution(data, metric, **where, **tuned)
    Q = np.asarray(data.Q, dtype=np.float64)
    # rows of the first class, or label, are seen twice
    first = np.flatnonzero(data.z[:, 0] > 0 if data.z.ndim == 2 else data.z == 0)
    if skewed:
        Q = np.concatenate([Q, Q[first]])
    with small_samples() if where.get("small") else nullcontext():
        moved = found.adapt(None if priors is not None else Q, priors=priors)
    more = [] if moved.shift is None else [repr(moved.shift)]
    adapted = answer(moved, Q)
    return {**adapted, "text": [*adapted["text"], *more]}


def batched(data: Data, metric: Any, caps: Mapping[str, int], *, place: str, folder: Path, **tuned: Any) -> Answer:
    """Return the decisions of a batch of rows, of which at most so many are made."""
    rule = solution(data, metric, **tuned).rule
    P = placed(place, data, folder, labelled=False)[0]
    if place in ("files", "stream"):
        parts = list(rule.predict_batches(P, **({"at_most": caps} if caps else {})))
    else:
        parts = [rule.predict(P, **({"at_most": caps} if caps else {}))]
    decided = np.concatenate([np.asarray(part) for part in parts])
    made, counts = np.unique(decided, return_counts=True)
    return document({"all": digest(str(decided.tolist()).encode()), "made": made, "counts": counts})


def scored(data: Data, metrics: Any, tuned: Mapping[str, Any], *, metric: Any, **settings: Any) -> Answer:
    """Return the score of a rule on new rows."""
    rule = solution(data, metric, **tuned).rule
    y = data.z if data.z.ndim == 2 else truth(data.z)
    settings = {"classes": names(data.K), "n_replicates": REPLICATES, **settings}
    found = confmax.score(metrics, np.asarray(data.Q), y, rules={"rule": rule}, **settings)
    return document(found.to_dict(), repr(found))


def written(data: Data, tuned: Mapping[str, Any], *, metric: Any) -> Answer:
    """Return what a rule is written as: its texts in other languages, and what is read back."""
    rule = solution(data, metric, **tuned).rule
    Q = np.asarray(data.Q, dtype=np.float64)
    again = type(rule).from_json(rule.to_json())
    content: dict[str, Any] = {"same": bool((again.predict(Q[:20]) == rule.predict(Q[:20])).all())}
    for dialect in ("standard", "duckdb", "sqlite"):
        content[dialect] = _or_error(rule.to_sql, dialect)
    content["python"] = _or_error(rule.to_python)
    return document(content, repr(rule))


def _or_error(call: Any, *words: str) -> str:
    try:
        return digest(call(*words).encode())
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
