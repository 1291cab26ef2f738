"""Rules that leave rows undecided: `score` and `compare` evaluate them beside rules that decide every row.

A metric of what is decided counts one decision more than there are classes. Rules that decide every row count as rules
that have this decision and never take it, so their coverage is one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from confmax import metrics as catalogue
from confmax.cli.columns import FileRows
from confmax.cli.matching import name_beside, not_applicable
from confmax.cli.show import Document, Page, number
from confmax.constraints import Limits, bind
from confmax.evaluate.evidence import Evidence
from confmax.evaluate.studies import CoverageStudy
from confmax.evaluate.uncertainty import Decided
from confmax.metrics import Metric
from confmax.metrics.decided import of_decided
from confmax.optimize.column_generation import refused_within_limits
from confmax.solution import fit_metric
from confmax.solution.abstaining import abstain_name, with_abstaining
from confmax.tables import MemoryTable
from confmax.tables.groups import Groups

EVERY_ROW = "Metrics are those of the rows that a rule decides; argmax and p/prior decide every row."


def of_what_is_decided(
    metrics: Mapping[str, Metric], table: MemoryTable, rows: FileRows
) -> tuple[dict[str, Metric], list[Document]]:
    """Return coverage and ``metrics`` of what is decided, by name; and which of them have no value here, and why."""
    used = {"coverage": catalogue.resolve("coverage")}
    skipped = []
    for name, metric in metrics.items():
        try:
            with warnings.catch_warnings():
                # which classes have no rows has been said of the table
                warnings.simplefilter("ignore", UserWarning)
                placed = fit_metric(metric, table, explicit=True)
        except ValueError:
            skipped.append(
                {"metric": name, "why": "no row has its class" if metric.one_class else "few classes have rows"}
            )
            continue
        decided = of_decided(placed, table.n_classes)
        why = not_applicable(decided, rows)
        if why:
            skipped.append({"metric": name, "why": why})
        else:
            used[name] = decided
    return used, skipped


def with_one_more(decided: Mapping[str, Decided], table: MemoryTable) -> dict[str, Decided]:
    """Return what rules ``decided`` on a table, each between its K classes and abstaining."""
    M = table.n_classes + 1
    found = {}
    for name, one in decided.items():
        if one.n_decisions > M or (one.n_decisions == M and not one.abstains):
            raise ValueError(
                f"the rule {name} has decisions beyond the classes that are not called abstaining, and other rules "
                f"here abstain; leave it out, or compare it with rules that decide every row"
            )
        found[name] = one._replace(n_decisions=M, abstains=True)
    return found


def areas_of(evidence: Mapping[str, Evidence], limits: Limits | None) -> dict[str, Document]:
    """Return the areas under the risk-coverage curves of rules that abstain, by their names."""
    studies = {name: CoverageStudy(one, limits) for name, one in evidence.items()}
    # without a decided row there is no curve
    return {name: study.areas for name, study in studies.items() if study.coverage > 0.0}


def show_areas(page: Page, rules: Sequence[Document]) -> None:
    """Print the areas under the risk-coverage curves of the rules that have one."""
    cells = []
    for rule in rules:
        area = rule.get("risk_coverage")
        if area is not None:
            over = f"{area['from']:.0%} to {area['to']:.0%}"
            cells.append([rule["rule"], area["metric"], over, number(area["chow"]), number(area["best"])])
    if cells:
        page.say("", "Area under the risk-coverage curve: mean loss over these coverages", style="bold")
        page.table(["rule", "loss of", "coverage", "Chow's rule", "best rules"], cells)
        page.say(
            "Chow's rule decides the most probable class of the rows where its probability is largest. The best rules "
            "are those for each coverage, by the probabilities of the rows."
        )


def rows_undecided(decided: Decided) -> float:
    """Return how many rows are left undecided; of a rule that draws, the expected number."""
    last = decided.n_decisions - 1
    return float(decided.shares @ (decided.decisions == last).sum(axis=1))


def checked_abstain(
    text: str | None,
    chosen: Mapping[str, Metric],
    constraints: Sequence[str],
    table: MemoryTable,
    groups: Groups | None = None,
) -> tuple[Any, Limits | None]:
    """Return the name of abstaining for the classes of a table, None without one, and the limits of rules tuned so.

    Limits may speak of the ``groups`` of the rows. Refuse, before anything is tuned, metrics ``chosen`` that cannot be
    maximised so.
    """
    name = None if text is None else abstain_name(name_beside(text, table.classes), table.classes)
    limits = bind(constraints, table, explicit=True, abstains=name is not None, groups=groups)
    for metric in chosen.values():
        with_abstaining(metric, table, limits, name)
    return name, limits


def refused(metric: Metric, n_classes: int, *, abstains: bool) -> str | None:
    """Return why a metric, placed among ``n_classes``, cannot be maximised within limits; None if it can."""
    return refused_within_limits(of_decided(metric, n_classes) if abstains else metric)
