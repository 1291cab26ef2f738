"""`confmax compare`: a rule for each of several metrics, judged on rows that it was not tuned on.

There are five folds by the content of the rows, each decided by the rule tuned on the other four. So every row has one
decision per metric, all are counted on the same rows, and the bootstrap compares them in pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from confmax import metrics as catalogue
from confmax.cli import app
from confmax.cli.columns import TABLE_OPTIONS, FileRows, TableOptions
from confmax.cli.comparing import (
    among_kept,
    best_of,
    show_differences,
    show_limits_of_files,
    show_table,
    show_values,
    values_of,
)
from confmax.cli.in_parts import is_read_in_parts
from confmax.cli.judging import (
    AS_MANY,
    BESIDE,
    EVERY_ROW,
    OF_TWO,
    SEVERAL,
    aligned_metrics,
    bootstrap_document,
    checked_table,
    decided_in_groups,
    decisions,
    in_each,
    limit_cells,
    limit_documents,
    metrics_and_bootstrap,
    of_what_is_decided,
    say_verdicts,
    scores_of,
    table_metrics,
    verdict_documents,
)
from confmax.cli.label_compare import compare_labels_of_file
from confmax.cli.label_options import refuse_label_options
from confmax.cli.matching import check_limits, name_beside, not_applicable, over, rows_for, tuned_metric
from confmax.cli.outputs import load_rule
from confmax.cli.show import Document, Page, number, print_document, show_source, source_document
from confmax.cli.texts import joined
from confmax.confusion import Array
from confmax.constraints import Limits, bind
from confmax.evaluate import Score
from confmax.evaluate.decided import Decided
from confmax.evaluate.evidence import Evidence, of_folds, pooled, solutions_of_folds
from confmax.evaluate.judging import plain_rules, rivals_on_as_many
from confmax.evaluate.limits import limit_scores
from confmax.evaluate.lines import Judged, judge
from confmax.evaluate.protocols import Tuned
from confmax.evaluate.rivals import CHOW, names_of, on_as_many
from confmax.evaluate.scores import PLAIN
from confmax.evaluate.seen import doubt_of_rows
from confmax.evaluate.studies import CoverageStudy
from confmax.evaluate.uncertainty import limits_within, verdict_on
from confmax.evaluate.verdict import LimitScore, Verdict
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned
from confmax.metrics.decided import of_decided
from confmax.optimize.column_generation import refused_within_limits
from confmax.progress import Bar
from confmax.rule import DecisionRule
from confmax.solution import Plan, Solution
from confmax.solution.tuning import on_some_rows
from confmax.tables import Part, Table
from confmax.tables.draws import folds_by_content, folds_to_judge

N_FOLDS = 5


def compare(file: Path, as_json: bool, **more: Any) -> None:
    """Run `confmax compare`."""
    if more["decisions"] != "one":
        compare_labels_of_file(file, N_FOLDS, as_json=as_json, **more)
        return
    refuse_label_options("several labels per row", "give --decisions any, or a number of labels, or leave it out")
    if more["label"] is None:
        raise click.UsageError("Missing option '--label'")
    for name in ("decisions", "label_columns", "separator"):
        del more[name]
    paths, constraints, abstain = (more.pop(key) for key in ("rules", "constraints", "abstain"))
    if len(set(paths)) < len(paths):
        raise click.UsageError("--rule names a file twice; name each rule once")
    rules = {str(path): load_rule(path) for path in paths}
    wanted, settings = metrics_and_bootstrap(more, rules)
    # the metric is one of several; the other settings are checked before the file is read
    plan = Plan.checked(
        "accuracy", constraints=constraints, abstain=abstain, on_infeasible="closest", random_state=settings["seed"]
    )
    if more["group"] is None and any(one.of_groups for one in plan.constraints):
        raise click.UsageError("a limit of --subject-to speaks of groups; give --group, the column of these")
    in_parts = more.pop("in_parts")
    with Bar("comparing", "rules") as bar:
        parted = is_read_in_parts(file, in_parts)
        rows = rows_for(rules, file, TableOptions(**more), in_parts=parted, progress=bar.rows)
        check_limits(plan.constraints, rows)
        if abstain is not None:
            plan = plan.but(abstain=name_beside(abstain, rows.classes))
        document = comparison(rows, wanted, rules, bar, plan, **settings)
    print_document(document, as_json, _show)


def comparison(
    rows: FileRows,
    wanted: Sequence[Metric],
    rules: Mapping[str, DecisionRule],
    bar: Bar,
    plan: Plan,
    **settings: Any,
) -> Document:
    """Return every rule's value by every metric, on labelled rows that it was not tuned on.

    Rules are tuned for the ``wanted`` metrics (none: those that suit the classes) by the ``plan``, whose limits judge
    all rules. ``rules`` are further ones, by the names of their files, and ``settings`` those of the bootstrap.
    """
    table = checked_table(rows, rules.values())
    sample = table.head
    chosen = _chosen(wanted, rows, plan, rules)
    # what cannot be maximised so is refused before anything is tuned
    for metric in chosen.values():
        _plan_for(metric, plan, rules).placed(metric, table)
    abstains = plan.abstains or any(rule.abstain is not None for rule in rules.values())
    evaluated = _applicable((*chosen.values(), *map(catalogue.get, BESIDE)), rows)
    if abstains:
        evaluated, _ = of_what_is_decided(evaluated, table, rows)
    limits = bind(plan.constraints, table, explicit=True, abstains=abstains)
    _warn_of_rare(sample)
    given = _of_files(rules, rows)
    app.warn(*filter(None, [doubt_of_rows(given, table)]))
    plans = {name: _plan_for(metric, plan, rules) for name, metric in chosen.items()}
    # rows in parts are decided where they lie, by the rules of folds that their contents tell
    by_content = not table.held
    evidence = _cross_fitted(sample, plans, plan.random_state, bar, by_content=by_content)
    areas = _areas(evidence, limits) if plan.abstains else {}
    tuned_for = {one: one.removeprefix("for ") for one in evidence} | {path: rules[path].metric for path in given}
    judged = _judged(table, evidence, given, plan.random_state, by_content=by_content)
    as_many = _on_as_many(evidence, given, judged)
    beside = {name: one for some in as_many.values() for name, one in some.items()}
    plain = {name: judged.decided[name] for name in PLAIN}
    decided = decisions({**plain, **beside, **judged.decided}, table.n_classes, abstains=abstains)
    by = _judged_by(tuned_for, rules, evaluated, rows, judged.rows, abstains=abstains)
    # a rule of a file is judged by its own limits, beside those that were given
    within = {
        path: limits_within(rule, judged.rows, abstains=abstains) for path, rule in given.items() if rule.constraints
    }
    every = {name: [one for one in (limits, *within.get(name, ())[:1]) if one is not None] for name in by}
    wanted_limits = () if limits is None else limits.constraints
    own_limits = [one for some, _ in within.values() if some is not None for one in some.constraints]
    scores = scores_of(judged.rows, evaluated, (*wanted_limits, *own_limits), decided, settings)
    references = {
        name: {key: names_of(one, table.n_classes, abstains=True, as_many=some) for key, one in evaluated.items()}
        for name, some in as_many.items()
    }
    scores = replace(scores, beside=references)
    # of tables that differ it says whose it is
    units = {name: f"{unit}{name.removeprefix('linear')}" for name in evaluated if (unit := scores.unit_of(name))}

    def verdict_of(name: str) -> Document:
        if name not in by:
            return {}
        made: dict[str, LimitScore] = {}
        for some in every[name]:
            made |= {one.text: one for one in limit_scores(some, scores, name, decided[name], judged.rows)}

        def verdict(metric: str, by_it: Metric) -> Verdict:
            beside_it = as_many.get(name, ())
            limited = tuple(made.values())
            return verdict_on(scores, name, by_it, decided, judged.rows, beside_it, every[name], limited, metric)

        asked = [one for one in chosen if wanted and name in given and one in evaluated]
        return verdict_documents(verdict, by[name], evaluated, asked, units.get, f"'{name}'")

    def own_constraints(name: str) -> Document:
        if name not in within:
            return {}
        own, absent = within[name]
        return {"own_constraints": limit_documents(scores, own, decided[name], judged.rows, name, absent)}

    documents = []
    for name in scores.rules:
        kept = limit_documents(scores, limits, decided[name], judged.rows, name)
        documents.append(
            {
                "rule": name,
                "tuned_for": tuned_for.get(name),
                "cross_fitted": name in evidence,
                **values_of(scores, name, evaluated, further={"chow": next(iter(as_many.get(name, ())), "")}),
                **verdict_of(name),
                **({"risk_coverage": areas[name]} if name in areas else {}),
                **in_each(scores, judged.rows, partial(_values_in, name, evaluated)),
                **({} if limits is None else {"constraints": kept}),
                **own_constraints(name),
            }
        )
    return {
        **source_document(rows),
        "folds": N_FOLDS,
        **({} if sample.n_rows == table.n_rows else {"tuned_on_rows": sample.n_rows}),
        **({"abstain": plan.abstain} if plan.abstains else {}),
        "metrics": list(evaluated),
        "units": units,
        "rules": documents,
        "best": best_of(scores, evaluated, _comparable(documents, evaluated, as_many, table.n_classes)),
        "intervals": bootstrap_document(scores),
    }


def _on_as_many(
    evidence: Mapping[str, Evidence], given: Mapping[str, DecisionRule], judged: Judged
) -> dict[str, dict[str, Decided]]:
    """Return for each rule that abstains what competes with it on as many rows; of rows in parts there is nothing."""
    table = judged.rows
    found = rivals_on_as_many(given, judged.decided, table)
    for name, one in evidence.items():
        if one.decided.abstains:
            whole = one.table.n_rows == table.n_rows and table.copies is None
            found[name] = on_as_many(name, one.decided, table, one.proba) if whole else {}
    return found


def _judged_by(
    tuned_for: Mapping[str, str],
    rules: Mapping[str, DecisionRule],
    evaluated: dict[str, Metric],
    rows: FileRows,
    table: Part,
    *,
    abstains: bool,
) -> dict[str, str]:
    """Return the name of the metric that each rule was tuned for, by the rule's name: else the first one.

    Those of rules of files are added to the metrics that are ``evaluated``. Tables of costs have one name: where they
    differ, each is that of a file. The ``rules`` have their classes in the order of their files: the last of two is the
    positive one there.
    """
    first = next(name for name in evaluated if not abstains or name != "coverage")
    several = len(table_metrics(rules)) > 1
    found = {name: metric if metric in evaluated else first for name, metric in tuned_for.items()}
    for path, rule in rules.items():
        metric = tuned_metric(rule, rows.classes, order_known=rows.order_known)
        if metric is None or not_applicable(metric, rows):
            continue
        name = f"{metric!r} of {path}" if several and metric.cost_table is not None else repr(metric)
        placed = of_what_is_decided({name: metric}, Table.of(table), rows)[0] if abstains else {name: metric}
        if name in placed:
            found[path] = name
            evaluated.setdefault(name, placed[name])
    return found


def _comparable(
    documents: Sequence[Document],
    metrics: Mapping[str, Metric],
    as_many: Mapping[str, Mapping[str, Decided]],
    n_classes: int,
) -> dict[str, list[str]]:
    """Return the rules that keep the limits and compare, by metric: of what is decided those that abstain."""
    kept = among_kept(documents)
    apart = {*as_many, *(name for some in as_many.values() for name in some)}
    leaving = [name for name in kept if name in apart]
    return {
        name: leaving if as_many and of_decided(metric, n_classes).formula.is_of_decided else kept
        for name, metric in metrics.items()
    }


def _judged(
    table: Table, evidence: Mapping[str, Evidence], given: Mapping[str, DecisionRule], seed: int, *, by_content: bool
) -> Judged:
    """Return what plain, cross-fitted and ``given`` rules decide on all rows."""
    sample = table.head
    if by_content:
        folds = {one: [solution.rule for solution in found.solutions] for one, found in evidence.items()}
        return judge(table, partial(_decide_by_folds, folds, given, seed))
    applied = {path: decided_in_groups(rule, sample) for path, rule in given.items()}
    tuned = {one: found.decided for one, found in evidence.items()}
    return Judged(table, sample, {**plain_rules(sample), **tuned, **applied})


def _warn_of_rare(table: Part) -> None:
    """Warn of classes with so few rows that rules without one fold have seen hardly any of them."""
    counts = np.bincount(np.asarray(table.labels), minlength=table.n_classes)
    rare = [f"{name} ({count})" for name, count in zip(table.classes, counts, strict=True) if 0 < count < 2 * N_FOLDS]
    if rare:
        app.warn(f"few rows have the label {joined(rare)}: rules tuned without one fold have seen hardly any of them")


def _of_files(rules: Mapping[str, DecisionRule], rows: FileRows) -> dict[str, DecisionRule]:
    """Return rules, by their files, for the classes of the rows; refuse those of other classes."""
    for path, rule in rules.items():
        own = rule.class_names[: rule.n_classes]
        if set(own) != set(rows.classes):
            raise ValueError(
                f"the rule {path} decides between {joined(own)} and the classes here are {joined(rows.classes)}; "
                f"compare rules of the same classes"
            )
    return {path: over(rule, rows.classes) for path, rule in rules.items()}


def _applicable(chosen: Iterable[Metric], rows: FileRows) -> dict[str, Metric]:
    return {repr(metric): metric for metric in chosen if not not_applicable(metric, rows)}


def _plan_for(metric: Metric, plan: Plan, rules: Mapping[str, DecisionRule]) -> Plan:
    """Return the plan for a metric; a table of costs with one decision more calls it as the ``rules`` do."""
    names = [rule.abstain for rule in rules.values() if rule.abstain is not None and rule.cost_table is not None]
    brings = names and metric.cost_table is not None and not plan.abstains
    return plan.but(metric=metric, **({"abstain": names[0]} if brings else {}))


def _chosen(
    wanted: Sequence[Metric], rows: FileRows, plan: Plan, rules: Mapping[str, DecisionRule]
) -> dict[str, Metric]:
    """Return the metrics to tune for; those that cannot be maximised within limits are left out, or refused."""
    K = len(rows.classes)

    def why_not(metric: Metric) -> str | None:
        if not plan.constraints:
            return None
        return refused_within_limits(of_decided(metric, K) if plan.abstains else metric)

    if not wanted:
        # of what is decided, accuracy needs no other metric beside it
        names = (*(["accuracy"] if plan.abstains else []), *(OF_TWO if K == 2 else SEVERAL))
        tables = list(table_metrics(rules).items())
        if len(tables) > 1:
            app.warn(
                f"the tables of costs differ between {joined([path for path, _ in tables])}: no rule is tuned for one"
            )
        own = [metric for _, metric in tables if len(tables) == 1 and (not plan.abstains or metric.n_decisions(K) > K)]
        every = [*(aligned(metric, rows.classes) for metric in own), *map(catalogue.get, names)]
        return _applicable((metric for metric in every if not why_not(metric)), rows)
    chosen = aligned_metrics(wanted, rows)
    for why in filter(None, map(why_not, chosen.values())):
        raise ValueError(why)
    if len(chosen) < len(wanted):
        raise ValueError("--metric names a metric twice; name each once")
    return chosen


def _decide_by_folds(
    folds: Mapping[str, Sequence[DecisionRule]],
    rules: Mapping[str, DecisionRule],
    seed: int,
    table: Part,
    prior: Array,
) -> dict[str, Decided]:
    """Return what plain rules, rules of ``folds`` and given ``rules`` decide for the rows of a part."""
    fold = folds_by_content(table, N_FOLDS, seed)
    return {
        **plain_rules(table, prior),
        **{name: pooled(several, table, fold) for name, several in folds.items()},
        **{name: decided_in_groups(rule, table) for name, rule in rules.items()},
    }


def _cross_fitted(
    table: Part, plans: Mapping[str, Plan], seed: int, bar: Bar, *, by_content: bool
) -> dict[str, Evidence]:
    """Return what the rules tuned by every plan decide on rows that they have not seen; of draws the expectation.

    Folds ``by_content`` alone are those of further rows, too.
    """
    bar.unit = "rules"  # of which the table that was read before had rows
    folds = (folds_by_content if by_content else folds_to_judge)(table, N_FOLDS, seed)
    total = N_FOLDS * len(plans)
    done = itertools.count()
    evidence = {}
    for name, plan in plans.items():
        found = _without_folds(name, plan, table, folds, lambda: bar.update(next(done), total))
        fitted = of_folds([solution.rule for solution in found], table, plan.metric, folds)
        evidence[f"for {name}"] = replace(fitted, solutions=tuple(found))
    return evidence


def _without_folds(
    name: str, plan: Plan, table: Part, folds: NDArray[np.int64], progress: Callable[[], None]
) -> Sequence[Tuned]:
    """Return what the plan for a metric finds without each of the folds."""
    solve = on_some_rows(plan, Table.of(table))

    def tune(rows: Any, kind: Mapping[str, Any]) -> Solution:
        progress()
        return solve(rows, kind)

    fails = f"no rule for {name} can be tuned without one of the folds"
    found = solutions_of_folds(tune, folds, {}, fails=fails, way_out="add rows of rare classes")
    if missing := sum(not solution.feasible_on_estimate for solution in found):
        app.warn(
            f"for {name}: in {missing} of {len(found)} folds no rule was met that keeps all limits on the other "
            f"folds, and the one that misses them least is used"
        )
    return found


def _areas(evidence: Mapping[str, Evidence], limits: Limits | None) -> dict[str, Document]:
    """Return the areas under the risk-coverage curves of rules that abstain, by their names."""
    studies = {name: CoverageStudy(one, limits) for name, one in evidence.items()}
    # without a decided row there is no curve
    return {name: study.areas for name, study in studies.items() if study.coverage > 0.0}


def _values_in(rule: str, metrics: Iterable[str], scores: Score) -> Document:
    """Return the values alone."""
    values: Document = values_of(scores, rule, metrics)["values"]
    return values


# --- what is printed -------------------------------------------------------------------------------------------------


def _show(page: Page, document: Document) -> None:
    """Print the values of every rule, what it makes of limits, and its differences to argmax."""
    show_source(page, document)
    names = [document["units"].get(name, name) for name in document["metrics"]]
    rules = document["rules"]
    table = partial(show_table, page)
    show_values(page, document)
    limits = rules[0].get("constraints", ())
    by_group = {k: one for k, one in enumerate(limits) if "by_group" in one}
    for k, one in by_group.items():
        parts = {row["rule"]: row["constraints"][k]["by_group"].values() for row in rules}
        cells = {rule: [number(part["value"]) for part in each] for rule, each in parts.items()}
        table(f"{one['text']}, by group", list(one["by_group"]), cells)
    show_limits_of_files(page, rules, limit_cells)
    _show_areas(page, rules)
    for name in rules[0].get("groups", {}):
        cells = {row["rule"]: [number(value) for value in row["groups"][name].values()] for row in rules}
        table(f"Values in group {name}", names, cells)
    intervals = document["intervals"]
    show_differences(page, document, "argmax")
    if any("minus_chow" in row for row in rules):
        show_differences(page, document, CHOW, "chow")
    say_verdicts(page, rules)
    page.say(
        "",
        f"'for NAME': tuned for that metric on {document['folds'] - 1} of {document['folds']} folds and evaluated on "
        f"the remaining one, {document['folds']} times. p/prior takes the class sizes from the same rows.",
    )
    if "tuned_on_rows" in document:
        page.say(
            f"These rules are tuned on the {document['tuned_on_rows']} rows of a sample, chosen by what is in them; "
            f"all rows are judged."
        )
    if any(not row["cross_fitted"] and row["tuned_for"] is not None for row in rules):
        page.say(
            "Rules given with --rule are applied as they are: if they were tuned on these rows, their values are "
            "optimistic."
        )
    if any(value is None for row in rules for value in row["values"].values()):
        page.say("-: not finite, or not defined for a rule of more decisions than classes.")
    if intervals is not None:
        page.say(f"In brackets: {intervals['method']}. A difference whose interval excludes 0 is hardly due to chance.")
    if "coverage" in names:
        page.say(EVERY_ROW, *([AS_MANY] if any("minus_chow" in row for row in rules) else []))
    kept_options = ("file", "constraints", "abstain", *(["group"] if by_group else []), *TABLE_OPTIONS)
    again = app.command_line(click.get_current_context(), "confmax tune", kept_options)
    tuned = [row["tuned_for"] for row in rules if row["cross_fitted"]]
    ways = ["--metric NAME"] if set(tuned) - {"linear"} else []
    # of a table of costs, which the file of a rule brought, `tune` has no other way to know it
    ways += ["--metric linear --costs FILE"] if "linear" in tuned else []
    page.say(*(f"To tune a rule on all rows: {again} {way} -o rule.json" for way in ways))


def _show_areas(page: Page, rules: Sequence[Document]) -> None:
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
