"""`confmax tune`: the rule that maximises a metric on the rows of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from confmax import metrics
from confmax.calibration import Calibration
from confmax.calibration.words import MISSES, with_names
from confmax.cli import app
from confmax.cli.cells import is_number
from confmax.cli.choosing import ask_for_metric, can_ask
from confmax.cli.columns import TABLE_OPTIONS, FileRows, TableOptions, read_rows
from confmax.cli.constraints import constraint_document, constraint_lines
from confmax.cli.counts import asked_class, counts_document, show_matrix
from confmax.cli.in_parts import is_read_in_parts, rows_in_parts
from confmax.cli.label_options import LABEL_OPTIONS, refuse_label_options
from confmax.cli.labels import tune_labels
from confmax.cli.matching import check_applies, check_limits, name_beside
from confmax.cli.outputs import arrays_beside, check_rule_output, one_result, save_rule
from confmax.cli.report import check_page, check_tune, write_cross_fitted_page
from confmax.cli.show import Document, Page, finite, key_of, number, print_document, show_source, source_document
from confmax.cli.tables import read_cells, read_frame
from confmax.cli.texts import joined
from confmax.constraints import Constraint
from confmax.constraints import resolve as resolve_constraints
from confmax.constraints.outcomes import price_note
from confmax.errors import extended
from confmax.evaluate.protocols import how_counted, refuted
from confmax.metrics import Metric
from confmax.progress import Bar
from confmax.rule import DecisionRule
from confmax.solution import Infeasible, Solution, maximize
from confmax.solution.plan import check_confidence
from confmax.tables.columns import find, table_order

BOUNDS = ("upper_bound", "model_value", "model_upper_bound")
LOSSES = ("gap", "model_gap", "randomization_loss")


def tune(
    file: Path, out: Path | None, force: bool, as_json: bool, report: Path | None, second: str, **more: Any
) -> int:
    """Run `confmax tune`, and return its exit code: 3 if labels refute a limit, or do not assure it."""
    if more["decisions"] != "one":
        return tune_labels(file, out, force=force, as_json=as_json, report=report, second=second, **more)
    refuse_label_options("several labels per row", "give --decisions any, or a number of labels, or leave it out")
    for name in ("decisions", *LABEL_OPTIONS):
        del more[name]
    name, params, costs, in_parts = (more.pop(key) for key in ("metric", "params", "costs", "in_parts"))
    asks = name is None and costs is None
    if asks and not can_ask(file):
        raise click.UsageError("give --metric NAME, or --costs FILE.csv; 'confmax metrics' lists the names")
    # whatever can be refused is refused before the file is read, which may take minutes
    metric = None if asks else named_metric(name or "linear", params, costs)
    read = [*(path for path in (file, costs) if path is not None), *arrays_beside(more)]
    check_rule_output(out, force, *read)
    one_result(as_json, out, report)
    wanted = resolve_constraints(more["constraints"])
    options = TableOptions(**{key: more.pop(key) for key in TABLE_OPTIONS}, group=more.pop("group"))
    _check(more, options.label, wanted, costs)
    parted = is_read_in_parts(file, in_parts)
    check_tune(report, out, options.label is not None, second, read, in_parts=parted)
    # what is left are the settings of `maximize`, by its names
    abstain = more.pop("abstain")
    calibration = None if more["calibration"] == "none" else more["calibration"]
    randomized = {"auto": "auto", "yes": True, "no": False}[more["randomized"]]
    settings = {**more, "calibration": calibration, "randomized": randomized}
    with Bar("tuning", "passes") as bar:
        # one pass over the file can take minutes, so its rows are shown as they are read
        rows = rows_in_parts(file, options, bar.rows) if parted else read_rows(read_frame(file, options.sep), options)
        check_limits(wanted, rows)
        if abstain is not None:
            settings["abstain"] = name_beside(abstain, rows.classes)
        if metric is None:
            by_name = partial(named_metric, params=params, costs=None)
            metric = ask_for_metric(rows, by_name, wanted, abstains=abstain is not None)
        try:
            paged = None if report is None else partial(check_page, rows, second, abstains=abstain is not None)
            solution = tune_rows(rows, metric, costs, paged, callback=bar.step, **settings)
        except Infeasible as error:
            app.fail(error.sentence, 3)
    document = {**source_document(rows), **_solution_document(solution)}
    document["rule_file"] = save_rule(solution.rule, out, force)
    if report is not None:
        try:
            write_cross_fitted_page(report, solution, rows, second=second, settings=settings)
        except ValueError as error:
            # tuning may have taken hours, and its rule is not lost
            written = "" if out is None else f"the rule is written to {out}, the report is not: "
            raise extended(error, written) from None
        document["report_file"] = str(report)
    document["guarantee"] = app.in_words_of_options(document["guarantee"])
    print_document(document, as_json, partial(_show, rule=solution.rule), out, report)
    return 3 if refuted(solution) or any(one.assured is False for one in solution.constraints) else 0


def _check(more: Mapping[str, Any], label: str | None, wanted: Sequence[Constraint], costs: Path | None) -> None:
    """Refuse settings that no file could make right; ``wanted`` are the limits."""
    if not 0 <= more["random_state"] < 2**63:
        raise click.UsageError(f"--seed is a whole number from 0 to 2^63 - 1; got {more['random_state']}")
    if more["confusion"] in ("labels", "blend") and label is None:
        raise click.UsageError(f"--confusion {more['confusion']} needs --label, the column of true classes")
    if more["calibration"] in ("temperature", "vector", "matrix") and label is None:
        raise click.UsageError(f"--calibration {more['calibration']} needs --label, the column of true classes")
    if more["confidence"] is not None:
        if label is None:
            raise click.UsageError("--confidence tests the limits on labels; give --label, the column of true classes")
        check_confidence(more["confidence"], wanted)
    # a table of costs says what abstaining costs
    if more["abstain"] is not None and not wanted and costs is None:
        raise click.UsageError(
            "--abstain needs a limit, because the best rule would decide next to nothing; give --subject-to "
            "'coverage >= 0.8', or another"
        )


# --- the work --------------------------------------------------------------------------------------------------------


def tune_rows(
    rows: FileRows, metric: Metric, costs: Path | None, check: Callable[[Metric], None] | None = None, **settings: Any
) -> Solution:
    """Return the solution that maximises a metric on a file's rows; ``settings`` are those of `maximize`.

    What ``check`` refuses of the metric is refused before anything is tuned.
    """
    if costs is not None:
        table, extra, by_name = read_costs(costs, rows.classes)
        metric = metrics.get("linear", cost=table)
        rows = replace(rows, order_known=rows.order_known or by_name)
        if extra:
            # without these names the library would count the decisions beyond the classes
            metric = replace(metric, names=(rows.classes, (*rows.classes, *extra)))
    check_applies(metric, rows)
    if check is not None:
        check(metric)
    # only now: after an error nobody needs notes on the columns that were chosen
    app.warn(*rows.notes)
    solution = cast(Solution, maximize(metric, **rows.arguments, classes=rows.classes, **settings))
    return replace(solution, rule=replace(solution.rule, columns=rows.columns_called_otherwise))


def named_metric(name: str, params: Mapping[str, Any], costs: Path | None) -> Metric:
    """Return a metric by name or alias; the table of ``linear`` comes later, when the classes are known."""
    if costs is None and name != "linear":
        # by `resolve`, which knows coverage too
        return metrics.get(name, **params) if params else metrics.resolve(name)
    if name != "linear":
        raise ValueError(f"--costs is for the metric linear; got {name}: leave one of them out")
    if params:
        raise ValueError(f"linear takes its table from --costs, not --param {next(iter(params))}")
    if costs is None:
        raise ValueError("the metric linear needs a table of costs; give it with --costs FILE.csv")
    return metrics.get("linear", cost=np.zeros((2, 2)))


def _solution_document(solution: Solution) -> Document:
    """Return values, gap and status of a solution."""

    def shown(value: float | None) -> float | None:
        return None if value is None else finite(metric.shown(value))

    metric = solution.metric
    base = solution.baselines
    rule = solution.rule
    undecided = {}
    if rule.abstain is not None:
        decided = solution.statistics.columns[: rule.n_classes].sum()
        undecided = {"abstain": rule.abstain, "coverage": float(decided)}
    within: Document = {}
    if solution.confidence is not None:
        within = {"confidence": solution.confidence, "tested_on": solution.tested_on}
    if solution.constraints:
        within["constraints"] = [constraint_document(one) for one in solution.constraints]
        within["missed_by"] = list(solution.missed_by)
    return {
        "metric": repr(solution.metric),
        "unit": metric.cost_table and f"{metric.shown_name} of a row",
        **undecided,
        "confusion": solution.mode,
        "model_share": solution.model_share,
        "argmax": shown(base["argmax"]),
        "p_prior": shown(base["p/prior"]),
        "tuned": shown(solution.value),
        "tuned_on_labels": shown(solution.label_value),
        "counts": None if solution.counts is None else counts_document(solution.counts, asked_class(rule)),
        **{name: shown(getattr(solution, name)) for name in BOUNDS},
        **{name: finite(getattr(solution, name)) for name in LOSSES},
        "status": solution.status.name.lower(),
        "guarantee": solution.guarantee,
        **within,
        "passes": solution.n_passes,
        "calibration": None if solution.calibration is None else _calibration(solution.calibration),
        "rule": json.loads(rule.to_json()),
    }


def _calibration(calibration: Calibration) -> Document:
    """Return what was done to the probabilities, with log losses in nats."""
    losses = ("log_loss_before", "log_loss_after", "cv_log_loss_before", "cv_log_loss_after")
    return {
        "kind": calibration.kind,
        **{name: finite(getattr(calibration, name)) for name in losses},
        "told": str(calibration).removeprefix("calibration "),
    }


# --- the table of costs ----------------------------------------------------------------------------------------------


def read_costs(path: Path, classes: Sequence[Any]) -> tuple[list[list[float]], tuple[str, ...], bool]:
    """Return the costs (K, M) in the order of the classes, the decisions beyond them, and whether names gave the order.

    The file has one row per true class and one column per decision. A first row of names, and a first column of names,
    are matched to the classes; with one of them alone, the other axis follows its order.
    """
    names = [str(name) for name in classes]
    cells = read_cells(path)
    header = None
    named = bool(cells) and _names(cells[0], classes)
    if cells and (not all(map(is_number, cells[0][1:])) or (named and len(cells) > len(names))):
        header = cells[0]
        cells = cells[1:]
    row_names = None
    # numbered classes: a first column of numbers may be names, if the row of names has a corner above it
    corner = header is not None and len(header) > len(names) and _names(header[1:], classes)
    if cells and (not is_number(cells[0][0]) or corner):
        row_names = [row[0] for row in cells]
        cells = [row[1:] for row in cells]
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
            f"({joined(names)}); give one row per true class and one column per decision"
        )
    axes = (f"first column of the cost table {path}", f"first row of the cost table {path}")
    lines, columns = table_order(row_names, header, (len(cells), width), classes, axes=axes)
    table = [[float(cells[i][j]) for j in columns] for i in lines]
    extra = () if header is None else tuple(header[j] for j in columns[len(names) :])
    return table, extra, header is not None or row_names is not None


def _names(cells: Sequence[str], classes: Sequence[Any]) -> bool:
    """Return whether cells name all classes."""
    return find(cells, classes, whole=False, affix=False).places is not None


# --- what is printed -------------------------------------------------------------------------------------------------


def _show(page: Page, document: Document, rule: DecisionRule) -> None:
    """Print what `tune` found."""
    show_source(page, document)
    how = how_counted(document["confusion"], document["model_share"])
    unit = document["unit"]
    # coverage and costs are those of all rows
    decided = " of what is decided" if "abstain" in document and not unit and document["metric"] != "coverage" else ""
    metric = unit or with_names(document["metric"], document["rule"]["classes"])
    page.say("", f"{metric}{decided} on the tuning rows, {how}", style="bold")
    items = {name: number(document[key_of(name)]) for name in ("argmax", "p/prior", "tuned")}
    confidence = document.get("confidence")
    # rows that only test; a threshold on one class is tested on all rows
    apart = confidence is not None and document["tested_on"] == "other rows"
    on_labels = "on test rows" if apart else "on labels"
    # where the confusion is counted on the labels of the same rows, "tuned" is already the value on labels
    if (document["confusion"] != "labels" or apart) and document["tuned_on_labels"] is not None:
        items[on_labels] = number(document["tuned_on_labels"])
    if "abstain" in document:
        items["coverage"] = (
            f"{document['coverage']:.1%} of the rows are decided, the others left ({document['abstain']})"
        )
    counts = document["counts"]
    if counts is not None:
        items |= counts["told"]
    if document["calibration"] is not None:
        items["calibration"] = document["calibration"]["told"]
    if limits := document.get("constraints"):
        items |= {name: items[name] + MISSES for name in document["missed_by"] if name in items}
        page.items(items)
        page.say()
        tested = [] if confidence is None else ["rows tested", f"assured at {confidence:g}", "rows needed"]
        page.table(
            ["constraint", "value", on_labels, "price", "kept", *tested],
            [line for one in limits for line in constraint_lines(one, len(tested))],
        )
        prices = [one["price"] for one in limits]
        notes = [sentence for one in limits for sentence in _decided(one, document)]
        page.say(*notes, *filter(None, [price_note(metric, prices, falls=bool(unit) and unit.startswith("cost"))]), "")
        items = {}
    page.items({**items, "guarantee": document["guarantee"], "passes": str(document["passes"])})
    page.say()
    page.block(str(rule))
    if counts is not None:
        show_matrix(page, counts)
    out = document["rule_file"]
    written = "The rule is not saved; -o rule.json writes it to a file." if out is None else f"Rule written to {out}."
    which = "The values above that are not on test rows" if apart else "The values above"
    page.say(
        "",
        f"{written} {which} are computed on the tuning rows, so they are optimistic: run 'confmax score' on "
        f"other rows.",
    )
    if "report_file" in document:
        page.say(f"Report written to {document['report_file']}; its figures are cross-fitted.")


def _decided(one: Document, document: Document) -> list[str]:
    """Return how many rows are decided as the class of a limit on a precision, in a sentence; none of other limits."""
    if one["decided"] is None:
        return []
    share = f"{100.0 * one['decided']:.3g}% of the rows"
    # of rows that are divided, those that tuned are counted
    if document["weight"] is None and document.get("tested_on") != "other rows":
        share += f", {round(one['decided'] * document['rows']):,} of {document['rows']:,}"
    return [f"{one['text']}: its class is decided for {share}"]
