"""The rule file: versioned JSON, checked against its schema on the way in. A file from a stranger is data."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

from confmax.calibration import Scaling
from confmax.calibration.calibrators import SCALINGS
from confmax.confusion import Array, CostTable, Gains, Layout
from confmax.rule.shares import LabelShares, SourceShares
from confmax.tables.decisions import Decisions, several_of
from confmax.tables.fingerprints import Fingerprint

if TYPE_CHECKING:
    from confmax.calibration.labels import LabelScaling

T = TypeVar("T")

FORMAT = "confmax-rule"
BEFORE_RELEASE = "confmax.rule"  # the format of files that no release has written
NEWEST = 1
MAX_BYTES = 256 * 2**20
MAX_CLASSES = 1_000_000
MAX_ATOMS = 10_000
MAX_GROUPS = 100

_FIELDS = {"format", "version", "metric", "seed", "classes", "atoms"}
# fields that a file may leave out, and the version that added each: a file has the lowest that holds what is in it
_SINCE = {
    "calibration": 1,
    "constraints": 1,
    "abstain": 1,
    "groups": 1,
    "groups_known": 1,
    "tuned_on": 1,
    "decisions": 1,
    "shares": 1,
    "cost_table": 1,
    "positive": 1,
    "columns": 1,
}


def dump(rule: Any, calibrator: Any) -> str:
    """Return the JSON text of a `DecisionRule` or `LabelRule`, with this ``calibrator`` in the place of its own."""
    gains = rule.gains
    refuse_names(rule.class_names)
    groups = _written_groups(rule) if rule.groups else {}
    atoms = [
        {"weight": float(weight), **({} if groups else _numbers_of(gains, k))} for k, weight in enumerate(rule.weights)
    ]
    fields: dict[str, Any] = {"metric": rule.metric}
    if rule.cost_table is not None:
        fields["cost_table"] = {"of": rule.cost_table.of, "rows": list(map(list, rule.cost_table.rows))}
    if rule.constraints:
        fields["constraints"] = list(rule.constraints)
    fields["seed"] = int(rule.seed)
    if rule.tuned_on is not None:
        # the hash as text, as other readers of JSON round such numbers
        fields["tuned_on"] = {"rows": int(rule.tuned_on.n_rows), "hash": f"{rule.tuned_on.content:016x}"}
    shares = getattr(rule, "shares", None)
    if shares is not None:
        by = getattr(shares, "calibrator", None)
        fields["shares"] = {**shares.written(), **({} if by is None else {"calibration": _calibration_of(by)})}
    fields["classes"] = list(rule.class_names)
    if rule.columns:
        fields["columns"] = list(rule.columns)
    if rule.abstain is not None:
        fields["abstain"] = rule.abstain
    if getattr(rule, "positive", 1) == 0:
        fields["positive"] = 0
    fields |= rule.decisions.written()
    if calibrator is not None:
        fields["calibration"] = _calibration_of(calibrator)
    fields |= groups
    version = max(_SINCE.get(name, 1) for name in fields)
    document = {"format": FORMAT, "version": version, **fields, "atoms": atoms}
    import json

    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def parse(text: str | bytes) -> dict[str, Any]:
    """Return the fields of the `DecisionRule`, or with ``decisions`` of the `LabelRule`, in a rule file's text."""
    # before anything is parsed: JSON takes several times the memory of its text
    if len(text) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
    import json

    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except KeyError as error:
        raise ValueError(f"it names the field {_short(error.args[0])} twice in one object") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({type(error).__name__})") from None
    given = document.get("format") if isinstance(document, dict) else None
    if given == BEFORE_RELEASE:
        raise ValueError(
            "it was tuned by a version of confmax before the first release, which is no longer read; tune again"
        )
    if given != FORMAT:
        raise ValueError(f'it is JSON but not a rule (no "format": "{FORMAT}")')
    version = document.get("version")
    if not _is_whole(version, 1, NEWEST + 1):
        raise ValueError(
            f"its version is {_short(version)} and this confmax reads versions up to {NEWEST}; update confmax"
        )
    optional = {name for name, since in _SINCE.items() if version >= since}
    unknown = set(document) - _FIELDS - optional
    missing = _FIELDS - set(document)
    if unknown or missing:
        raise ValueError(
            f"its fields are not those of a rule (missing: {_listed(missing)}; unknown: {_listed(unknown)})"
        )
    metric = document["metric"]
    seed = document["seed"]
    if not isinstance(metric, str) or len(metric) > 10_000:
        raise ValueError("its metric is not a short string")
    if not _is_whole(seed, 0, 1 << 64):
        raise ValueError("its seed is not a 64-bit integer")
    names = document["classes"]
    several = "decisions" in document
    fewest = 1 if several else 2
    if not isinstance(names, list) or not fewest <= len(names) <= MAX_CLASSES:
        raise ValueError(f"its classes are not a list of {fewest} to {MAX_CLASSES} names")
    refuse_names(names)
    groups: dict[str, Any] = {}
    if "groups" in document:
        gains, weights, groups = _read_groups(document, len(names))
        layout: Layout = groups.pop("layout")
        K = layout.n_classes
        M = layout.n_decisions
    else:
        gains, weights = _atoms(document["atoms"], len(names))
        K = gains.n_classes
        M = gains.n_decisions
    abstain = _abstain(document["abstain"], names, K, M) if "abstain" in document else None
    calibrator = _calibrator(document["calibration"], K, several=several) if "calibration" in document else None
    return {
        "gains": gains,
        "weights": weights,
        "class_names": tuple(names),
        "metric": metric,
        "seed": seed,
        "calibrator": calibrator,
        "constraints": _constraints(document.get("constraints", [])),
        "tuned_on": _read_mark(document["tuned_on"]) if "tuned_on" in document else None,
        "columns": _columns(document["columns"], K) if "columns" in document else (),
        **({"decisions": _decisions(document, gains)} if several else {"abstain": abstain}),
        **({"cost_table": _cost_table(document["cost_table"], K, M)} if "cost_table" in document else {}),
        **({"positive": _positive(document["positive"], K)} if "positive" in document else {}),
        **({"shares": _shares(document["shares"], K, M, several=several)} if "shares" in document else {}),
        **groups,
    }


def _cost_table(record: Any, K: int, M: int) -> CostTable:
    if not isinstance(record, dict) or set(record) != {"of", "rows"} or record["of"] not in ("costs", "gains"):
        raise ValueError("its cost_table does not hold rows, and of costs or gains, alone")
    return CostTable(tuple(map(tuple, _rows(record["rows"], K, M, "its cost_table").tolist())), record["of"])


def _shares(record: Any, K: int, M: int, *, several: bool) -> SourceShares | LabelShares:
    if several:
        return LabelShares.read(record, K)
    if not isinstance(record, dict) or "calibration" not in record:
        return SourceShares.read(record, K, M)
    rest = {name: value for name, value in record.items() if name != "calibration"}
    by: Any = _calibrator(record["calibration"], K, several=False)
    return replace(SourceShares.read(rest, K, M), calibrator=by)


def load(path: str | os.PathLike[str], read: Callable[[bytes], T]) -> T:
    """Return what ``read`` makes of the text of the rule file ``path``; a ValueError that names it if it is none."""
    from pathlib import Path

    try:
        with Path(path).open("rb") as stored:
            # one byte more than a rule may have tells that a file is too large, however large it is
            return read(stored.read(MAX_BYTES + 1))
    except ValueError as error:
        raise ValueError(f"{path} is not a rule that can be used: {error}") from None


def canonical(constraints: Any) -> tuple[str, ...]:
    """Return constraints, as texts or objects, as the texts that a file holds."""
    if isinstance(constraints, tuple) and not constraints:
        return ()
    # only now: rules without constraints do not wait for the metrics
    from confmax.constraints import parse, resolve

    return tuple(parse(one.text).text for one in resolve(constraints))


def _read_mark(mark: Any) -> Fingerprint:
    if not isinstance(mark, dict) or set(mark) != {"rows", "hash"}:
        raise ValueError("its tuned_on does not hold rows and a hash, and nothing else")
    rows = mark["rows"]
    content = mark["hash"]
    if not _is_whole(rows, 1, 1 << 63):
        raise ValueError("the rows of its tuned_on are not a positive number")
    if not isinstance(content, str) or re.fullmatch("[0-9a-f]{16}", content) is None:
        raise ValueError("the hash of its tuned_on is not a text of 16 hexadecimal digits")
    return Fingerprint(rows, int(content, 16))


def _numbers_of(gains: Gains, k: int) -> dict[str, Any]:
    """Return one gain as a file holds it."""
    parts = {"gain": gains.full} if gains.full is not None else {"a": gains.a, "b": gains.b}
    found: dict[str, Any] = {name: part[k].tolist() for name, part in parts.items() if part is not None}
    return {**found, **({"power": gains.power} if gains.power else {})}


def _written_groups(rule: Any) -> dict[str, Any]:
    """Return the groups of a rule as a file holds them: the gains of each, one for every atom."""
    refuse_names(rule.groups, "group")
    parts = [rule.layout.gains_of(rule.gains, g) for g in range(len(rule.groups))]
    every = [
        {"name": name, "gains": [_numbers_of(part, k) for k in range(len(rule.weights))]}
        for name, part in zip(rule.groups, parts, strict=True)
    ]
    return {"groups": every, **({} if rule.groups_known else {"groups_known": False})}


def _read_groups(document: dict[str, Any], n_names: int) -> tuple[Gains, Array, dict[str, Any]]:
    """Return gains, weights, and the fields of a rule with groups."""
    listed = document["groups"]
    atoms = document["atoms"]
    known = document.get("groups_known", True)
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_GROUPS:
        raise ValueError(f"its groups are not a list of 1 to {MAX_GROUPS}")
    if not all(isinstance(one, dict) and set(one) == {"name", "gains"} for one in listed):
        raise ValueError("its groups do not all hold a name and gains")
    if not isinstance(known, bool):
        raise ValueError("its groups_known is neither true nor false")
    names = [one["name"] for one in listed]
    refuse_names(names, "group")
    if not isinstance(atoms, list) or not all(isinstance(atom, dict) and set(atom) == {"weight"} for atom in atoms):
        raise ValueError("its atoms hold more than a weight, beside groups that hold the gains")
    parts = []
    for one in listed:
        gains = one["gains"]
        if not isinstance(gains, list) or len(gains) != len(atoms) or not all(isinstance(g, dict) for g in gains):
            raise ValueError("the gains of a group are not one for every atom")
        each = [{**gain, "weight": atom["weight"]} for gain, atom in zip(gains, atoms, strict=True)]
        part, weights = _atoms(each, n_names)
        if part.power:
            raise ValueError("the gains of groups hold distances, which only rules without groups have")
        parts.append(part)
    shapes = {(part.n_classes, part.n_decisions) for part in parts}
    if len(shapes) != 1:
        raise ValueError("the gains of its groups differ in shape")
    K, M = shapes.pop()
    layout = Layout(len(names), K, M - K, shared=not known)
    return layout.beside(parts), weights, {"groups": tuple(names), "groups_known": known, "layout": layout}


def _decisions(document: dict[str, Any], gains: Gains) -> Decisions:
    """Return the decisions of a rule of several labels, which has no groups, and abstains from none."""
    of_one_class = {"groups", "abstain", "cost_table"} & set(document)
    if of_one_class or gains.full is not None or gains.power or gains.has_further:
        raise ValueError("it decides several labels, with no more than one weight and one offset for each")
    try:
        return several_of(document["decisions"], gains.n_classes)
    except (ValueError, TypeError) as error:
        raise ValueError(f"its decisions cannot be read: {_short(str(error))}") from None


def _abstain(name: Any, names: Sequence[Any], n_classes: int, n_decisions: int) -> Any:
    # 1, 1.0 and JSON's true are equal in Python, and are different names
    if type(name) is not type(names[-1]) or name != names[-1]:
        raise ValueError("its abstain is not the last of its classes")
    if n_decisions != n_classes + 1:
        raise ValueError(
            f"it abstains, which takes one decision more than there are classes, and has {n_decisions} decisions for "
            f"{n_classes} classes"
        )
    return name


def _positive(column: Any, n_classes: int) -> int:
    # the second of two classes need not be named
    if not _is_whole(column, 0, 1) or n_classes != 2:
        raise ValueError("its positive is not 0, the first of two classes")
    return column


def _columns(names: Any, n_classes: int) -> tuple[str, ...]:
    if not isinstance(names, list) or len(names) != n_classes or not all(isinstance(name, str) for name in names):
        raise ValueError(f"its columns are not a list of {n_classes} names")
    return tuple(names)


def _constraints(texts: Any) -> tuple[str, ...]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("its constraints are not a list of texts")
    try:
        return canonical(tuple(texts))
    except ValueError as error:
        raise ValueError(f"its constraints cannot be read: {error}") from None


def _is_whole(value: Any, low: int, stop: int) -> TypeGuard[int]:
    """Return whether a value is an integer from ``low`` to below ``stop``; JSON's true equals 1 in Python."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < stop


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        # which of two values is meant, nobody knows: the last would win, and another program may read the first
        if key in found:
            raise KeyError(key)
        found[key] = value
    return found


def _short(value: Any) -> str:
    """Return a value of a stranger's file for a message: ASCII on one line, not long."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:40] + "..."


def _listed(fields: set[str]) -> str:
    return ", ".join(map(_short, sorted(fields)[:8])) + (", ..." if len(fields) > 8 else "") or "none"


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def refuse_names(names: Sequence[Any], what: str = "class") -> None:
    """Refuse names of classes, or of ``what``, that JSON does not give back, on the way out and on the way in."""
    for name in names:
        if not isinstance(name, (str, int, float)):
            raise ValueError(f"a rule file holds {what} names that are strings or numbers; got {type(name).__name__}")
        if isinstance(name, float) and not math.isfinite(name):
            raise ValueError(f"a rule file holds {what} names that are finite numbers; got {name}: rename this {what}")
    if len(set(names)) < len(names):
        raise ValueError(
            f"a rule file holds distinct {what} names, and this rule names a {what} twice; rename one of them"
        )


def _calibration_of(calibrator: Any) -> dict[str, Any]:
    from confmax.calibration.labels import LabelScaling

    if isinstance(calibrator, Scaling):
        numbers = {name: np.asarray(getattr(calibrator, name)).tolist() for name in calibrator.numbers}
        kept = {} if calibrator.kept is None else {"kept": calibrator.kept}
        return {"kind": calibrator.kind, **numbers, **kept}
    if isinstance(calibrator, LabelScaling):
        return {"kind": calibrator.kind, "a": calibrator.a.tolist(), "c": calibrator.c.tolist()}
    raise ValueError(
        f"a rule file holds numbers and no objects such as the calibration {type(calibrator).__name__}; tune with "
        f"calibration='auto', or apply that object yourself before and tune with calibration=None"
    )


def _calibrator(document: Any, K: int, *, several: bool) -> Scaling | LabelScaling:
    from confmax.calibration.labels import LabelScaling

    kind = document.get("kind") if isinstance(document, dict) else None
    if several:
        if kind != LabelScaling.kind or set(document) != {"kind", "a", "c"}:
            raise ValueError("its calibration is not of the kind labels with a and c")
        return LabelScaling(*(_numbers(document[name], K, f"{name} of its calibration") for name in ("a", "c")))
    # a stranger's kind may be a list, which no dictionary takes as a key
    maker: Any = SCALINGS.get(str(kind))
    may_keep = {"kept"} if kind in ("vector", "matrix") else set()
    if maker is None or set(document) - may_keep != {"kind", *maker.numbers}:
        raise ValueError(
            "its calibration is not of the kind temperature with a temperature and a floor, vector with a, b and a "
            "floor, or matrix with W, b and a floor; the last two may have a kept class"
        )
    numbers: dict[str, Any] = {}
    if "kept" in document:
        kept = document["kept"]
        if not _is_whole(kept, 0, K):
            raise ValueError(f"kept of its calibration is not a column from 0 to {K - 1}")
        numbers["kept"] = kept
    for name in maker.numbers:
        what = f"{name} of its calibration"
        if name == "W":
            numbers[name] = _rows(document[name], K, K, what)
        elif name in ("a", "b"):
            numbers[name] = _numbers(document[name], K, what)
        else:
            numbers[name] = float(_numbers([document[name]], 1, name)[0])
    # calibrators refuse numbers out of range themselves
    found: Scaling = maker(**numbers)
    return found


def _atoms(values: Any, n_names: int) -> tuple[Gains, Array]:
    """Return gains and weights; reduced gains may have fewer weights a than names."""
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_ATOMS:
        raise ValueError(f"its atoms are not a list of 1 to {MAX_ATOMS}")
    atoms = [atom if isinstance(atom, dict) else {} for atom in values]
    keys = {frozenset(atom) for atom in atoms}
    powers = [atom.get("power", 0) for atom in atoms]
    if not _is_whole(powers[0], 0, 3) or powers != powers[:1] * len(powers):
        raise ValueError("the powers of its atoms are not all 1 or all 2")
    if keys in ({frozenset(("weight", "a", "b"))}, {frozenset(("weight", "a", "b", "power"))}):
        # decisions beyond the classes have no weight, so that the first weights tell how many classes there are
        first = atoms[0]["a"]
        fewer = isinstance(first, list) and 2 <= len(first) < n_names
        n_classes = len(first) if fewer else n_names
        a = np.array([_numbers(atom["a"], n_classes, "a") for atom in atoms])
        b = np.array([_numbers(atom["b"], n_names, "b") for atom in atoms])
        gains = Gains.reduced(a, b, power=powers[0])
    elif keys == {frozenset(("weight", "gain"))}:
        matrices = [_matrix(atom["gain"], n_names) for atom in atoms]
        if len({matrix.shape for matrix in matrices}) != 1:
            raise ValueError("its gain matrices differ in shape")
        gains = Gains.from_matrix(np.array(matrices))
    else:
        raise ValueError("its atoms do not all hold weight, a and b, or all weight and gain")
    weights = _numbers([atom["weight"] for atom in atoms], len(values), "weight")
    # a draw is compared with running sums of the weights: without the sum one the last rule would get another share
    if (weights <= 0).any() or not math.isclose(weights.sum(), 1.0, abs_tol=1e-9):
        raise ValueError("the weights of its atoms are not positive numbers that sum to one")
    return gains, weights


def _matrix(rows: Any, n_names: int) -> Array:
    if not isinstance(rows, list) or not 2 <= len(rows) <= n_names:
        raise ValueError("a gain matrix does not have one row per class")
    return _rows(rows, len(rows), n_names, "gain")


def _rows(rows: Any, n_rows: int, n: int, name: str) -> Array:
    if not isinstance(rows, list) or len(rows) != n_rows:
        raise ValueError(f"{name} is not a list of {n_rows} rows")
    return np.array([_numbers(row, n, name) for row in rows])


def _numbers(values: Any, n: int, name: str) -> Array:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError(f"{name} is not a list of {n} numbers")
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        raise ValueError(f"{name} holds something that is not a number")
    try:
        array = np.array(values, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"{name} holds a number that is too large") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds a number that is not finite")
    return array
