"""`confmax report`: a page that evaluates a saved rule on rows that it was not tuned on; and the page of `tune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions
from confmax.cli.in_parts import is_read_in_parts
from confmax.cli.judging import metric_named
from confmax.cli.label_options import labelled_rows, only_options, refuse_label_options
from confmax.cli.matching import over, rows_for
from confmax.cli.outputs import arrays_beside, check_output, load_any_rule, refuse_same, writing
from confmax.cli.show import print_document
from confmax.metrics import Metric, get
from confmax.metrics import labels as label_metrics
from confmax.metrics.alignment import aligned
from confmax.metrics.catalogue import metric_of
from confmax.places import check_place, same_place
from confmax.progress import Bar
from confmax.rule import LabelRule
from confmax.solution import LabelSolution, Solution

FOLDS = 5
# what a page of several labels takes
_OF_LABELS = (
    *("rule", "file", "out", "label", "label_columns", "separator", "weight", "columns", "sep", "metric", "params"),
    *("n_replicates", "level", "seed", "in_parts", "as_json"),
)


def report(rule: Path, file: Path, out: Path, as_json: bool, **more: Any) -> None:
    """Run `confmax report`."""
    name, params, second = (more.pop(key) for key in ("metric", "params", "second"))
    if params and name is None:
        raise click.UsageError("--param belongs to --metric; give both")
    check_output(out, as_json, file, rule, *arrays_beside(more))
    loaded = load_any_rule(rule)
    if isinstance(loaded, LabelRule):
        labels = {**more, "metric": name, "params": params}
        _print(rule, file, _of_labels(loaded, rule, file, out, labels), out, as_json)
        return
    in_parts = more.pop("in_parts")
    refuse_label_options("a rule of several labels")
    if more["label"] is None:
        raise click.UsageError("Missing option '--label'")
    for option in ("label_columns", "separator"):
        del more[option]
    pages = installed_pages()
    metric = None if name is None else metric_named(name, params, {str(rule): loaded})
    check_second(second)
    settings = {"n_replicates": more.pop("n_replicates"), "level": more.pop("level"), "random_state": more.pop("seed")}
    with Bar("judging", "rows") as bar:
        rows = rows_for(
            {str(rule): loaded},
            file,
            TableOptions(**more),
            in_parts=is_read_in_parts(file, in_parts),
            progress=bar.rows,
        )
        tuned_for = metric_of(loaded)
        # who tuned a rule for a metric of ordered classes has said what the order is
        ordered = rows.order_known or (tuned_for is not None and tuned_for.ordered)
        with writing(out):
            pages.write(
                out,
                over(loaded, rows.classes),
                **rows.arguments,
                metric=metric,
                order_known=ordered,
                **_about(rows, second),
                **settings,
            )
    _print(rule, file, rows, out, as_json)


def _print(rule: Path, file: Path, rows: FileRows, out: Path, as_json: bool) -> None:
    document = {"rule_file": str(rule), "file": str(file), "rows": rows.n_rows, "report_file": str(out)}
    items = {"evaluated on": f"{file}, {rows.n_rows} rows", "written": str(out)}
    print_document(document, as_json, lambda page, _: page.items(items), out)


def _of_labels(rule: LabelRule, path: Path, file: Path, out: Path, more: Mapping[str, Any]) -> FileRows:
    """Write the page of a rule of several labels, whose file is ``path``, and return the rows that it is on."""
    only_options(_OF_LABELS, f"{path} decides")
    pages = installed_pages(charts=False)
    metric = None if more["metric"] is None else label_metrics.get(more["metric"], None, **more["params"])
    with Bar("judging", "rows") as bar:
        rows = labelled_rows(rule, file, more, bar.rows)
        with writing(out):
            pages.write(
                out,
                rule,
                rows.proba,
                rows.labels,
                rows.weight,
                metric=metric,
                source=rows.path.name,
                again=app.command_line(click.get_current_context()),
                n_replicates=more["n_replicates"],
                level=more["level"],
                random_state=more["seed"],
            )
    return rows


def installed_pages(*, charts: bool = True) -> ModuleType:
    """Return the module that writes pages; refuse, before anything is tuned, if it lacks what it needs."""
    # pages load scipy.stats, which takes longer than all else: the other commands, and completion, do not wait for it
    from confmax import report as pages
    from confmax.page.writing import check_installed

    check_installed(charts=charts)
    return pages


def check_second(name: str) -> None:
    """Refuse a name of --second that is no metric, or one that needs a table."""
    if name == "linear":
        raise ValueError("a report has no table of costs for --second linear; name another metric")
    get(name)


def check_tune(
    path: Path | None,
    out: Path | None,
    labelled: bool,
    second: str,
    read: Sequence[Path],
    *,
    charts: bool = True,
    in_parts: bool = False,
) -> None:
    """Refuse what `tune --report` cannot do, before anything is read.

    ``read`` are the files that are read, the first of them the table, which may be read ``in_parts``.
    """
    if path is None:
        return
    if in_parts:
        raise ValueError(
            f"{read[0]} is read in parts and a cross-fitted report needs its rows in memory; leave out --report, and "
            f"run confmax report on other rows"
        )
    if not labelled:
        what = "--label, the column of true classes" if charts else "--labels, or --label and --separator"
        raise click.UsageError(f"--report counts labels; give {what}")
    if out is not None and same_place(path, out):
        raise click.UsageError(f"--report and -o both name {path}; choose another name for one of them")
    check_place(path)
    refuse_same(path, *read, option="--report")
    check_second(second)
    installed_pages(charts=charts)


def check_page(rows: FileRows, second: str, metric: Metric, *, abstains: bool) -> None:
    """Refuse rows, and a ``metric`` to tune for, that no page can show, before anything is tuned."""
    # the module of pages, which `check_tune` has loaded
    from confmax.page.writing import check_metrics, check_order, table_of

    table = table_of(rows.proba, rows.labels, rows.weight, rows.classes, None)
    other = aligned(get(second), table.classes)
    if not rows.order_known:
        check_order((other,), table)
    K = table.n_classes
    check_metrics((metric, other), K, K + 1 if abstains else metric.n_decisions(K), abstains=abstains)


def write_cross_fitted_page(
    path: Path, solution: Solution, rows: FileRows, *, second: str, settings: Mapping[str, Any]
) -> None:
    """Write the page of a rule that was tuned on a file's rows, its figures cross-fitted in five folds."""
    with writing(path):
        installed_pages().write_cross_fitted(
            path,
            solution.metric,
            **rows.arguments,
            classes=rows.classes,
            folds=FOLDS,
            solution=solution,
            order_known=rows.order_known,
            **_about(rows, second),
            **settings,
        )


def write_label_page(path: Path, solution: LabelSolution, rows: FileRows, settings: Mapping[str, Any]) -> None:
    """Write the page of a rule of several labels that was tuned on a file's rows, cross-fitted in five folds."""
    with writing(path):
        installed_pages(charts=False).write_cross_fitted(
            path,
            solution.metric,
            rows.proba,
            rows.labels,
            sample_weight=rows.weight,
            classes=rows.classes,
            folds=FOLDS,
            solution=solution,
            decisions=solution.rule.decisions,
            source=rows.path.name,
            again=app.command_line(click.get_current_context()),
            **settings,
        )


def _about(rows: FileRows, second: str) -> dict[str, Any]:
    """Return what both kinds of pages say about the rows and how they were made."""
    again = app.command_line(click.get_current_context())
    return {"second": get(second), "source": rows.path.name, "again": again}
