"""What the commands do, apart from reading options and printing: each returns a document that JSON can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from confmax import metrics
from confmax.calibration import Calibration
from confmax.calibration.column_order import doubt_of_order
from confmax.cli.columns import Asked, Rows, keys_of, listed, read_rows
from confmax.cli.files import read_cells, write_decisions, writing
from confmax.cli.frame import Frame, is_number
from confmax.cli.large import Large
from confmax.evaluate import Score
from confmax.evaluate.uncertainty import compare, doubts, plain_rules
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned, or_its_name
from confmax.optimize import Progress
from confmax.report.metrics import named
from confmax.rule import DecisionRule
from confmax.solution import Solution, maximize
from confmax.solution.tuning import MAX_MATRIX_CLASSES
from confmax.tables import make_table
from confmax.tables.columns import find, table_order

Document = dict[str, Any]
Warn = Callable[[str], None]


# --- tune ------------------------------------------------------------------------------------------------------------


def tune(
    frame: Frame | Large,
    asked: Asked,
    metric: str,
    params: Mapping[str, Any],
    costs: Path | None,
    *,
    warn: Warn,
    callback: Callable[[Progress], Any] | None = None,
    found: Callable[[tuple[Solution, Rows]], Any] | None = None,
    **settings: Any,
) -> tuple[DecisionRule, Document]:
    """Return the rule that maximises a metric on a file's rows, and what is to be told of it.

    Parameters
    ----------
    frame, asked
        The file, and which columns of it are meant.
    metric : str
        Name or alias.
    params : mapping
        Parameters of the metric.
    costs : Path or None
        Table of costs of the metric ``linear``.
    warn : callable
        Takes sentences that the reader should see.
    callback : callable or None
        Takes each step's `Progress`.
    found : callable or None
        Takes the solution and the rows, for those who want more than the document.
    **settings
        Further keywords of `maximize`.
    """
    chosen = named_metric(metric, params, costs)
    rows = frame.rows(asked) if isinstance(frame, Large) else read_rows(frame, asked)
    extra: tuple[str, ...] = ()
    order_known = rows.order_known
    if costs is not None:
        table, extra, by_name = read_costs(costs, rows.classes)
        chosen, order_known = metrics.get("linear", cost=table), order_known or by_name
    if chosen.binary:
        chosen.check_table(len(rows.classes), len(rows.classes))  # with more classes no order helps
    if chosen.ordered and not order_known:
        raise ValueError(_order_needed(chosen, rows))
    for note in rows.notes:
        warn(note)
    solution = maximize(
        chosen, rows.proba, rows.labels, sample_weight=rows.weight, classes=rows.classes, callback=callback, **settings
    )
    rule = solution.rule
    if extra:
        rule = replace(rule, class_names=(*rows.classes, *extra))
    if found is not None:
        found((replace(solution, rule=rule), rows))
    return rule, {**_about(frame, asked, rows), **_found(solution, costs), "rule": json.loads(rule.to_json())}


def named_metric(name: str, params: Mapping[str, Any], costs: Path | None) -> Metric:
    """Return a metric by name or alias; the table of ``linear`` comes later, when the classes are known."""
    if costs is None and name != "linear":
        return metrics.get(name, **params)
    if name != "linear":
        raise ValueError(f"--costs is for the metric linear; got {name}: leave one of them out")
    if params:
        raise ValueError(f"linear takes its table from --costs, not --param {next(iter(params))}")
    if costs is None:
        raise ValueError("the metric linear needs a table of costs; give it with --costs FILE.csv")
    return metrics.get("linear", cost=np.zeros((2, 2)))


def _order_needed(metric: Metric, rows: Rows) -> str:
    found = listed(rows.classes)
    positive = " (the negative first), or the positive one with --positive" if len(rows.classes) == 2 else ""
    return (
        f"{metric.name} depends on the order of the classes, and the order of {found} is not known; give the order "
        f"with --classes{positive}{or_its_name(metric, rows.classes)}"
    )


def _about(frame: Frame | Large, asked: Asked, rows: Rows) -> Document:
    """Return which rows and columns were used."""
    return {
        "file": str(frame.path),
        "rows": rows.n_rows,
        "label": asked.label,
        "weight": asked.weight,
        "classes": list(rows.classes),
        "columns": list(rows.columns),
        "table": rows.block,
    }


def _found(solution: Solution, costs: Path | None) -> Document:
    """Return values, gap and status of a solution."""
    metric, base = solution.metric, solution.baselines
    return {
        "metric": repr(metric),
        "unit": None if costs is None else "minus the mean cost of a row",
        "confusion": solution.mode,
        "model_share": solution.model_share,
        "argmax": finite(base["argmax"]),
        "p_prior": finite(base["p/prior"]),
        "tuned": finite(solution.value),
        "tuned_on_labels": finite(solution.label_value),
        "upper_bound": finite(solution.upper_bound),
        "gap": finite(solution.gap),
        "randomization_loss": finite(solution.randomization_loss),
        "status": solution.status.name.lower(),
        "guarantee": solution.guarantee,
        "passes": solution.n_passes,
        "calibration": None if solution.calibration is None else _calibration(solution.calibration),
    }


def _calibration(found: Calibration) -> Document:
    """Return what was done to the probabilities, with log losses in nats."""
    return {
        "kind": found.kind,
        "log_loss_before": finite(found.log_loss_before),
        "log_loss_after": finite(found.log_loss_after),
        "cv_log_loss_before": finite(found.cv_log_loss_before),
        "cv_log_loss_after": finite(found.cv_log_loss_after),
        "told": str(found).removeprefix("calibration "),
    }


def finite(value: float | None) -> float | None:
    """Return a number as JSON can hold it."""
    return None if value is None or not math.isfinite(value) else float(value)


# --- the table of costs ----------------------------------------------------------------------------------------------


def read_costs(path: Path, classes: Sequence[Any]) -> tuple[list[list[float]], tuple[str, ...], bool]:
    """Return the costs (K, M) in the order of the classes, the decisions beyond them, and whether names told the order.

    The file has one row per true class and one column per decision. A first row of names, and a first column of
    names, are matched to the classes; with one of them alone, the other axis follows its order.

    Raises
    ------
    ValueError
        If it is not such a table.
    """
    names = [str(name) for name in classes]
    cells = read_cells(path)
    header = None
    named = bool(cells) and _names(cells[0], classes)
    if cells and (not all(map(is_number, cells[0][1:])) or (named and len(cells) > len(names))):
        header, cells = cells[0], cells[1:]
    row_names = None
    corner = header is not None and len(header) > len(names) and _names(header[1:], classes)
    if cells and (not is_number(cells[0][0]) or corner):
        row_names, cells = [row[0] for row in cells], [row[1:] for row in cells]
        if header is not None and len(header) > len(cells[0]):
            header = header[1:]
    width = len(cells[0]) if header is None else len(header)
    for k, row in enumerate(cells):
        bad = next((cell for cell in row if not is_number(cell)), None)
        if len(row) != width or bad is not None:
            what = f"has {len(row)} costs, not {width}" if bad is None else f"holds {bad!r}, which is not a number"
            raise ValueError(f"row {k} of the cost table {path} {what}; give one number per decision")
    if len(cells) != len(names) or width < len(names):
        raise ValueError(
            f"the cost table {path} has {len(cells)} rows and {width} columns for {len(names)} classes "
            f"({listed(names)}); give one row per true class and one column per decision"
        )
    axes = (f"first column of the cost table {path}", f"first row of the cost table {path}")
    lines, columns = table_order(row_names, header, (len(cells), width), classes, axes=axes)
    table = [[float(cells[i][j]) for j in columns] for i in lines]
    extra = () if header is None else tuple(header[j] for j in columns[len(names) :])
    return table, extra, header is not None or row_names is not None


def _names(cells: Sequence[str], classes: Sequence[Any]) -> bool:
    """Return whether cells name all classes."""
    return find(cells, classes, whole=False, affix=False).places is not None


# --- score -----------------------------------------------------------------------------------------------------------


def score(
    frame: Frame,
    asked: Asked,
    names: Sequence[str],
    params: Mapping[str, Any],
    rule: DecisionRule | None,
    *,
    warn: Warn,
    **settings: Any,
) -> Document:
    """Return every applicable metric of argmax, p/prior and a rule on a file's labels; with ``names`` only those.

    ``settings`` are those of the bootstrap, as `uncertainty.compare` takes them.
    """
    own = () if rule is None else rule.class_names[: rule.n_classes]
    positive = None if rule is None else positive_of(rule)
    rows = read_rows(frame, asked, own, positive)
    for note in rows.notes:
        warn(note)
    if positive is not None and not asked.classes and not asked.positive:
        rows = _reordered(rows, tuple(sorted(rows.classes, key=lambda name: name == positive)))
    tuned_for = None if rule is None else _tuned_metric(rule, rows.classes)
    ordered = positive is not None or (tuned_for is not None and tuned_for.ordered)
    if rule is not None and own != rows.classes:
        rule = rule.reordered((*rows.classes, *rule.class_names[rule.n_classes :]))
    table = make_table(rows.proba, rows.labels, rows.weight, rows.classes).in_memory()
    present = table.label_weight() > 0
    chosen = [aligned(metrics.get(name, **params), rows.classes) for name in names if name != "linear"]
    if "linear" in names:
        raise ValueError("score has no table of costs for linear; confmax tune --costs shows its values")
    if not names:
        # with their default beta f_beta and macro_f_beta are f1 and macro_f1
        chosen = [metrics.get(name) for name in metrics.names() if name not in ("linear", "f_beta", "macro_f_beta")]
        if tuned_for is not None:
            chosen = [tuned_for, *(metric for metric in chosen if not _is_same(metric, tuned_for, len(rows.classes)))]
    used, skipped = {}, []
    for metric in chosen:
        why = _not_applicable(metric, rows, order_known=rows.order_known or ordered)
        if why and names:
            raise ValueError(
                _order_needed(metric, rows) if "order" in why else f"{metric.name} cannot be scored: {why}"
            )
        if why:
            skipped.append({"metric": metric.name, "why": why})
            continue
        used[repr(metric)] = metric
    rules = plain_rules(table) | ({} if rule is None else {"rule": rule})
    found = compare(table, used, rules, **settings)
    if not present.all():
        absent = listed([name for name, here in zip(rows.classes, present, strict=True) if not here])
        warn(f"no row has the label {absent}: metrics that divide by class sizes are taken over the other classes")
    doubt = doubt_of_order(table, calibrated=0.0)
    for sentence in [*([doubt] if doubt else []), *doubts(found, used, undefined=False)]:
        warn(sentence)
    values = [{"metric": name, **_scored(found, name)} for name in found.metrics]
    about = {**_about(frame, asked, rows), "tuned_for": rule and rule.metric}
    return {**about, "values": values, "skipped": skipped, "intervals": _bootstrap(found)}


def _is_same(metric: Metric, tuned_for: Metric, n_classes: int) -> bool:
    """Return whether a metric of the catalogue is the one that a rule was tuned for, which may name its class."""
    of_last = tuned_for.classes is None or (n_classes == 2 and tuned_for.classes[-1] == 1)
    return (metric.name, metric.params) == (tuned_for.name, tuned_for.params) and of_last


_COLUMNS = {"argmax": "argmax", "p/prior": "p_prior", "rule": "rule"}  # names of rules in documents


def _scored(found: Score, metric: str) -> Document:
    """Return a metric's value for every rule; with replicates also intervals, and differences between rules."""
    rules = found.to_dict()["metrics"][metric]
    told: Document = {_COLUMNS[name]: entry["value"] for name, entry in rules.items()}
    if found.n_replicates:
        told["intervals"] = {_COLUMNS[name]: [entry["low"], entry["high"]] for name, entry in rules.items()}
        told["differences"] = {
            _COLUMNS[name]: {_COLUMNS[base]: minus for base, minus in entry["minus"].items()}
            for name, entry in rules.items()
        }
    return told


def _bootstrap(found: Score) -> Document | None:
    """Return what the intervals are."""
    if not found.n_replicates:
        return None
    return {
        "method": found.method,
        "level": found.level,
        "replicates": found.n_replicates,
        "stratified": found.stratified,
        "absent": {str(name): share for name, share in found.absent.items()},
    }


def _not_applicable(metric: Metric, rows: Rows, *, order_known: bool) -> str:
    """Return why a metric has no value on these rows, nothing if it has."""
    K = len(rows.classes)
    if metric.binary and K != 2:
        of_one = f"; for one class write {metric.name}[NAME]" if metric.one_class else ""
        return f"for two classes; the file has {K}{of_one}"
    if metric.statistics == "matrix" and K > MAX_MATRIX_CLASSES:
        return f"the confusion matrix of {K} classes is too large"
    if order_known or not metric.ordered:
        return ""
    positive = ", or name the positive class with --positive" if K == 2 else ""
    return f"the order of the classes is not known; give it with --classes{positive}"


# --- apply, metrics --------------------------------------------------------------------------------------------------


def apply(frame: Frame, asked: Asked, rule: DecisionRule, out: Path, *, warn: Warn) -> Document:
    """Decide every row of a file and write its columns with the decisions."""
    own = rule.class_names[: rule.n_classes]
    rows = read_rows(frame, asked, own, positive_of(rule))
    for note in rows.notes:
        warn(note)
    # --positive says here whose probability a score is; the rule keeps its order, and with it its ties
    rows = _reordered(rows, own)
    names = rule.classes if rule.classes.dtype != object else rule.classes.astype(str)
    decisions = rule.predict_index(rows.proba, keys=keys_of(frame, asked.key))
    with writing(out):
        left_out = write_decisions(
            out, frame, names[decisions], block=rows.block, block_names=[str(name) for name in rows.classes]
        )
    if left_out:
        warn(
            f"{listed(left_out)} of {frame.path} cannot be columns of {len(decisions)} rows and were left out of {out}"
        )
    shares = np.bincount(decisions, minlength=len(names)) / len(decisions)
    return {
        **_about(frame, asked, rows),
        "out": str(out),
        "decided": {str(name): float(share) for name, share in zip(names.tolist(), shares, strict=True)},
    }


def _reordered(rows: Rows, classes: tuple[Any, ...]) -> Rows:
    """Return the rows with their classes in another order."""
    if classes == rows.classes:
        return rows
    order = [rows.classes.index(name) for name in classes]
    columns = tuple(rows.columns[k] for k in order)
    return replace(rows, proba=np.ascontiguousarray(rows.proba[:, order]), classes=classes, columns=columns)


def positive_of(rule: DecisionRule) -> Any:
    """Return the positive class of a rule of two classes, None where its metric has none.

    Of a metric that names its class, such as ``f1[yes]``, it is this class.
    """
    own = rule.class_names[: rule.n_classes]
    metric = _tuned_metric(rule, own)
    if metric is None or len(own) != 2 or not (metric.binary or metric.one_class):
        return None
    return own[(metric.classes or (0, 1))[-1]]


def _tuned_metric(rule: DecisionRule, classes: Sequence[Any]) -> Metric | None:
    """Return the metric that a rule was tuned for, over its classes in this order; None where its file does not say."""
    own = rule.class_names[: rule.n_classes]
    metric = named(rule.metric)
    try:
        metric = metric and aligned(metric, own)
    except ValueError:  # a rule whose classes were renamed
        return None
    if metric is None or metric.classes is None:
        return metric
    if max(metric.classes) >= len(own):
        return None
    places = tuple(list(classes).index(own[k]) for k in metric.classes)
    in_order = metric.label is None and places == tuple(range(len(own)))
    return replace(metric, classes=None if in_order else places)


def catalogue() -> Document:
    """Return the metrics with what there is to know of each."""
    entries = []
    for name in metrics.names():
        metric = metrics.get("linear", cost=np.zeros((2, 2))) if name == "linear" else metrics.get(name)
        free = {} if name == "linear" else {key: value for key, value in metric.params if key not in metric.fixed}
        entries.append(
            {
                "name": name,
                "aliases": sorted(alias for alias, target in metrics.aliases().items() if target == name),
                "structure": metric.structure,
                "parameters": free,
                "two_classes": metric.binary,
                "one_class": metric.one_class is not None,
                "needs_order": metric.ordered,
                "description": metric.description,
            }
        )
    return {"metrics": entries}
