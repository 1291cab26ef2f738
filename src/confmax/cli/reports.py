"""The steps of `tune --report` and `report`: pages about the rows of a file."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from confmax import report
from confmax.cli.columns import Asked, Rows, read_rows
from confmax.cli.files import check_output, refuse_same, writing
from confmax.cli.frame import Frame
from confmax.cli.tasks import positive_of
from confmax.metrics import Metric, get
from confmax.places import same_place
from confmax.report.metrics import named
from confmax.rule import DecisionRule
from confmax.solution import Solution
from confmax.tables import refuse_elsewhere

FOLDS = 5


def check_installed() -> None:
    """Refuse before anything is tuned, if pages cannot be written."""
    if find_spec("vl_convert") is None:
        raise ValueError(
            "a report needs vl-convert-python, which holds the charts' library; install it with: pip install "
            "'confmax[report]'"
        )


def metric_of(option: str, name: str, **params: Any) -> Metric:
    """Return the metric that an option names."""
    if name == "linear":
        raise ValueError(f"a report has no table of costs for {option} linear; name another metric")
    return get(name, **params)


def check_tune(path: Path | None, out: Path | None, label: str | None, second: str, read: Sequence[Path]) -> None:
    """Refuse what `tune --report` cannot do, before anything is tuned; ``read`` are the files that are read."""
    if path is None:
        return
    if label is None:
        raise click.UsageError("--report counts labels; give --label, the column of true classes")
    if out is not None and same_place(path, out):
        raise click.UsageError(f"--report and -o both name {path}; choose another name for one of them")
    check_output(path)
    for given in read:
        refuse_same(path, given, "--report")
    metric_of("--second", second)
    check_installed()


def tuned(path: Path, file: Path, solution: Solution, rows: Rows, *, second: str, settings: Mapping[str, Any]) -> None:
    """Write the page of a rule that was tuned on a file's rows, its figures cross-fitted in five folds."""
    refuse_elsewhere(
        rows.proba,
        f"{file} is read in parts and a report needs its rows in memory; leave out --report, and run confmax report "
        f"on a file of other rows",
    )
    assert rows.labels is not None
    more = {key: value for key, value in settings.items() if key != "random_state"}
    with writing(path):
        report.write_cross_fitted(
            path,
            solution.metric,
            rows.proba,
            rows.labels,
            sample_weight=rows.weight,
            classes=rows.classes,
            folds=FOLDS,
            second=get(second),
            random_state=settings["random_state"],
            source=file.name,
            again=command_line(click.get_current_context()),
            order_known=rows.order_known,
            solution=solution,
            **more,
        )


def judged(
    path: Path, rule: DecisionRule, frame: Frame, asked: Asked, metric: Metric | None, second: str, **settings: Any
) -> Rows:
    """Write the page of a rule on a file's rows; return these."""
    rows = read_rows(frame, asked, rule.class_names[: rule.n_classes], positive_of(rule))
    tuned_for = named(rule.metric)
    rule = rule.reordered((*rows.classes, *rule.class_names[rule.n_classes :]))
    with writing(path):
        report.write(
            path,
            rule,
            rows.proba,
            rows.labels if rows.labels is not None else (),
            rows.weight,
            metric=metric,
            second=get(second),
            source=frame.path.name,
            again=command_line(click.get_current_context()),
            order_known=rows.order_known or (tuned_for is not None and tuned_for.ordered),
            **settings,
        )
    return rows


def command_line(context: click.Context) -> str:
    """Return the command line of a context, with the options that were given."""
    words = context.command_path.split()
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params.get(name)
        values = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else [value]
        if isinstance(value, tuple):
            values = list(value) if parameter.multiple else [with_commas(value)]
        option = None
        if isinstance(parameter, click.Option):
            option = parameter.opts[-1]
            if parameter.is_flag:
                words.append(option)
                continue
        for one in values:
            words += [*([] if option is None else [option]), f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join(words)


def with_commas(names: tuple[Any, ...]) -> str:
    """Return names as an option takes them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()
