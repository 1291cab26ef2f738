"""`confmax frontier`: the best value of a metric at every level of a limit, on the rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from confmax.cli import app
from confmax.cli.columns import TABLE_OPTIONS, FileRows, TableOptions, read_rows
from confmax.cli.in_parts import refuse_several
from confmax.cli.label_columns import read_label_rows
from confmax.cli.label_options import label_source, only_options, refuse_label_options
from confmax.cli.matching import check_applies, check_limits, name_beside
from confmax.cli.outputs import check_output, refuse_same, write_file
from confmax.cli.show import Document, Page, between, number, print_document, show_source, source_document
from confmax.cli.tables import Frame, read_frame
from confmax.cli.texts import joined
from confmax.cli.tune import named_metric
from confmax.constraints import resolve as resolve_constraints
from confmax.frontiers import Frontier
from confmax.frontiers import frontier as tuned
from confmax.frontiers.levels import checked_levels, read_limit
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.plotting import FrontierDisplay
from confmax.plotting.shared import check_installed
from confmax.progress import Bar
from confmax.solution import Infeasible
from confmax.tables.decisions import decisions_of

LINES = 12  # of the table
# options of several labels
_OF_LABELS = (
    *("file", "decisions", "label", "label_columns", "separator", "weight", "columns", "classes", "sep", "metric"),
    *("params", "over", "levels", "constraints", "confusion", "calibration", "random_state", "plot", "as_json"),
)
PICTURES = (".png", ".svg", ".pdf")


def frontier(file: Path, plot: Path | None, over: str, levels: int | list[float], as_json: bool, **more: Any) -> None:
    """Run `confmax frontier`."""
    decisions = decisions_of(more.pop("decisions"))
    metric_of, rows_of = (_label_metric, _label_rows) if decisions.several else (_metric, _rows)
    metric = metric_of(more.pop("metric"), more.pop("params"))
    # what no file could make right is refused before the file is read
    moved, asked = read_limit(over)
    checked_levels(levels, asked)
    limits = (moved, *resolve_constraints(more["constraints"]))
    if plot is not None:
        refuse_same(plot, file, option="--plot")
        check_output(plot, as_json)
        if plot.suffix.lower() not in PICTURES:
            raise ValueError(f"{plot} has no ending of a picture; name it {', '.join(PICTURES)}")
        check_installed()
    of_labels = {key: more.pop(key) for key in ("label_columns", "separator")}
    options = TableOptions(**{key: more.pop(key) for key in TABLE_OPTIONS}, group=more.pop("group"), **of_labels)
    abstain = more.pop("abstain")
    more["calibration"] = None if more["calibration"] == "none" else more["calibration"]
    with Bar("tuning", "levels") as bar:
        refuse_several(file, "confmax.frontier")
        rows, source = rows_of(read_frame(file, options.sep), options, metric, limits)
        app.warn(*rows.notes)
        if abstain is not None:
            more["abstain"] = name_beside(abstain, rows.classes)
        try:
            settings = {"classes": rows.classes, "decisions": decisions, "levels": levels, "progress": bar, **more}
            found = tuned(metric, over, **rows.arguments, **settings)
        except Infeasible as error:
            app.fail(error.sentence, 3)
    document: Document = {**source, **found.to_dict()}
    reached = np.array([point["level"] for point in document["points"]])
    missing = [level for level in ([] if isinstance(levels, int) else levels) if not np.isclose(reached, level).any()]
    if missing:
        app.warn(f"levels are left out, because no rule was met that keeps them: {joined(missing)}")
    if plot is not None:
        _draw(found, plot)
        document["plot_file"] = str(plot)
    print_document(document, as_json, _show, plot)


def _metric(name: str, params: Mapping[str, Any]) -> Metric:
    refuse_label_options("several labels per row", "give --decisions any, or leave it out")
    return named_metric(name, params, None)


def _label_metric(name: str, params: Mapping[str, Any]) -> Metric:
    only_options(_OF_LABELS, "--decisions means")
    return label_metrics.get(name, None, **params)


def _rows(frame: Frame, options: TableOptions, metric: Metric, limits: Any) -> tuple[FileRows, Document]:
    """Return rows of one class each, and their source; what has no value on them is refused."""
    rows = read_rows(frame, options)
    check_applies(metric, rows)
    check_limits(limits, rows)
    return rows, source_document(rows)


def _label_rows(frame: Frame, options: TableOptions, *_: Any) -> tuple[FileRows, Document]:
    """Return rows of several labels each, and their source."""
    rows = read_label_rows(frame, options)
    return rows, label_source(rows)


def _draw(found: Frontier, path: Path) -> None:
    """Write the picture, completely or not at all."""
    drawn = BytesIO()
    figure = FrontierDisplay(found).plot().figure_
    figure.savefig(drawn, format=path.suffix.lower().removeprefix("."))
    write_file(path, drawn.getvalue())


def _show(page: Page, document: Document) -> None:
    """Print the frontier as a table."""
    show_source(page, document)
    points = document["points"]
    estimate = "expected from the probabilities" if document["confusion"] == "model" else document["confusion"]
    metric = document["unit"] or document["metric"]
    title = f"the best {metric} at {len(points)} levels of {document['limit']}, {estimate}"
    page.say("", title, style="bold")
    on_labels = "label_value" in points[0]
    proved = any(point["upper_bound"] is not None for point in points)
    names = [document["limit"], metric] + (["at most"] if proved else [])
    names += ["on the labels", f"{document['limit'].rsplit(' ', 1)[0]} there"] if on_labels else []
    lines = []
    kept = set(np.linspace(0, len(points) - 1, LINES).round().astype(int).tolist())
    for k, point in enumerate(points):
        if k not in kept and point["level"] != document["asked"]:
            continue
        line = [number(point["level"]), number(point["value"])] + ([number(point["upper_bound"])] if proved else [])
        if on_labels:
            line.append(between(point["label_value"], *point["label_interval"]))
            line.append(between(point["label_reached"], *point["label_reached_interval"]))
        lines.append(line)
    page.table(names, lines)
    marks = {name: f"{number(y)} at {number(x)}" for name, (x, y) in document["marks"].items()}
    page.say()
    page.items({f"{name}, on the labels": text for name, text in marks.items()})
    if len(lines) < len(points):
        page.say("", f"{len(lines)} of {len(points)} levels are shown; --json prints all.")
    page.say(
        "",
        "The values are computed on the tuning rows, so they are optimistic. 'confmax tune --subject-to' writes the "
        "rule of a level.",
    )
    if "plot_file" in document:
        page.say(f"Picture written to {document['plot_file']}.")
