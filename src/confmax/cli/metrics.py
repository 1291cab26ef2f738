"""`confmax metrics`, `confmax score` and `confmax compare`: the catalogue, and rules judged on the labels of a file.

`score` takes a rule as it is, so the rows should be others than those that it was tuned on. `compare` tunes a rule for
each of several metrics and evaluates it on rows that it was not tuned on: five folds by the content of the rows, each
decided by the rule tuned on the other four. So every row has one decision per metric, all are counted on the same rows,
and the bootstrap compares them in pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax import metrics as catalogue
from confmax.calibration.column_order import doubt_of_order
from confmax.cli import app
from confmax.cli.columns import TABLE_OPTIONS, FileRows, TableOptions, joined, read_rows
from confmax.cli.show import Bar, Document, Page, between, key_of, number, print_document, show_source, source_document
from confmax.cli.tables import read_frame
from confmax.confusion import MAX_MATRIX_CLASSES
from confmax.evaluate import Score
from confmax.evaluate.applicable import named
from confmax.evaluate.evidence import pooled
from confmax.evaluate.uncertainty import compare, doubts, plain_rules
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned, or_its_name
from confmax.rule import DecisionRule
from confmax.solution import maximize
from confmax.tables import MemoryTable, make_table
from confmax.tables.draws import cross_fit, folds_to_judge, masks, quietly

N_FOLDS = 5
SEVERAL = ("macro_f1", "balanced_accuracy", "g_mean", "min_recall", "cohen_kappa")
OF_TWO = ("f1", "balanced_accuracy", "g_mean", "mcc", "cohen_kappa")


@app.confmax.command()
@app.AS_JSON
def metrics(as_json: bool) -> None:
    """List the metrics: names, structure, parameters.

    \b
    Example:
      confmax metrics
    """
    print_document(every_metric(), as_json, _show_catalogue)


def every_metric() -> Document:
    """Return the metrics with what there is to know of each."""
    entries = []
    for name in catalogue.names():
        metric = catalogue.get("linear", cost=np.zeros((2, 2))) if name == "linear" else catalogue.get(name)
        free = {key: value for key, value in metric.params if key not in metric.fixed}
        entries.append(
            {
                "name": name,
                "aliases": sorted(alias for alias, target in catalogue.aliases().items() if target == name),
                "structure": metric.structure.name,
                "parameters": free,
                "two_classes": metric.binary,
                "one_class": metric.one_class is not None,
                "needs_order": metric.ordered,
                "description": metric.description,
            }
        )
    return {"metrics": entries}


def _show_catalogue(page: Page, document: Document) -> None:
    """Print the catalogue."""
    body = []
    for entry in document["metrics"]:
        description = entry["description"]
        if entry["parameters"]:
            description += "; takes " + ", ".join(f"{key}={value}" for key, value in entry["parameters"].items())
        if entry["aliases"]:
            description += "; also called " + ", ".join(entry["aliases"])
        needs = "two classes" if entry["two_classes"] else ("class order" if entry["needs_order"] else "")
        needs += ", or [NAME]" if entry["one_class"] else ""
        body.append([entry["name"], entry["structure"], needs, description])
    page.table(["name", "structure", "needs", "what it is"], body, right=False)
    page.say(
        "",
        "linear, ratio and concave metrics come with an optimality guarantee (confmax tune --confusion model). 'needs' "
        "shows what else to give: --positive or --classes. A metric of one class takes its name in brackets, as in "
        "'recall[yes]'. Set parameters with --param; linear takes --costs.",
    )


# --- which metric applies --------------------------------------------------------------------------------------------


def not_applicable(metric: Metric, rows: FileRows) -> str:
    """Return why a metric has no value on these rows, nothing if it has."""
    K = len(rows.classes)
    if metric.binary and K != 2:
        of_one = f"; for one class write {metric.name}[NAME]" if metric.one_class else ""
        return f"for two classes; the file has {K}{of_one}"
    if metric.statistics == "matrix" and K > MAX_MATRIX_CLASSES:
        return f"the confusion matrix of {K} classes is too large"
    if rows.order_known or not metric.ordered:
        return ""
    positive = ", or name the positive class with --positive" if K == 2 else ""
    return f"the order of the classes is not known; give it with --classes{positive}"


def check_applies(metric: Metric, rows: FileRows) -> None:
    """Refuse a metric that was asked for by name and has no value on these rows."""
    K = len(rows.classes)
    if metric.binary:
        metric.check_table(K, K)  # with more classes no order helps
    why = not_applicable(metric, rows)
    if why and "order" in why:
        positive = " (the negative first), or the positive one with --positive" if K == 2 else ""
        raise ValueError(
            f"{metric.name} depends on the order of the classes, and the order of {joined(rows.classes)} is not known; "
            f"give the order with --classes{positive}{or_its_name(metric, rows.classes)}"
        )
    if why:
        raise ValueError(f"{metric.name} does not apply: {why}")


def rows_for(rule: DecisionRule | None, file: Path, options: TableOptions) -> FileRows:
    """Return the rows of a file, matched to the classes of a rule if there is one; the notes on them are printed."""
    # whose probability a single column of scores is may be known from what the rule was tuned for
    known = () if rule is None else (rule.class_names[: rule.n_classes], positive_of(rule))
    rows = read_rows(read_frame(file, options.sep), options, *known)
    app.warn(*rows.notes)
    return rows


def judged_table(rows: FileRows) -> MemoryTable:
    """Return labelled rows as a table; classes without rows, and columns that seem to be in another order, are told."""
    table = make_table(rows.proba, rows.labels, rows.weight, rows.classes).in_memory()
    absent = [name for name, weight in zip(rows.classes, table.label_weight(), strict=True) if not weight]
    if absent:
        app.warn(f"no row has the label {joined(absent)}: metrics that divide by class sizes leave it out")
    doubt = doubt_of_order(table, calibrated=0.0)
    if doubt:
        app.warn(doubt)
    return table


def over(rule: DecisionRule, classes: tuple[Any, ...]) -> DecisionRule:
    """Return the rule with its classes in this order, further decisions behind them."""
    return rule.reordered((*classes, *rule.class_names[rule.n_classes :]))


def positive_of(rule: DecisionRule) -> Any:
    """Return the positive class of a rule of two classes, None where its metric has none.

    Of a metric that names its class, such as ``f1[yes]``, it is this class.
    """
    own = rule.class_names[: rule.n_classes]
    metric = tuned_metric(rule, own)
    # without places the last of two classes is the positive one, as for scikit-learn
    if metric is None or len(own) != 2 or not (metric.binary or metric.one_class):
        return None
    return own[(metric.classes or (0, 1))[-1]]


def tuned_metric(rule: DecisionRule, classes: Sequence[Any]) -> Metric | None:
    """Return the metric that a rule was tuned for, over its classes in this order; None where its file does not say."""
    own = rule.class_names[: rule.n_classes]
    # a rule file holds its metric as text; one by a function of the user's own is not known here
    metric = named(rule.metric)
    try:
        metric = metric and aligned(metric, own)
    except ValueError:  # a rule whose classes were renamed
        return None
    if metric is None or metric.classes is None:
        return metric
    # text of a file may name places that the rule does not have
    if max(metric.classes) >= len(own):
        return None
    places = tuple(list(classes).index(own[k]) for k in metric.classes)
    in_order = metric.label is None and places == tuple(range(len(own)))
    return replace(metric, classes=None if in_order else places)


# --- rules as they are -----------------------------------------------------------------------------------------------


@app.confmax.command()
@click.argument("file", type=app.PATH)
@app.LABEL
@click.option("--rule", type=app.PATH, metavar="RULE", shell_complete=app.rule_files,
              help="A rule file to score beside argmax and p/prior.")  # fmt: skip
@click.option("--metric", "names", multiple=True, metavar="NAME", shell_complete=app.metric_names,
              help="Only this metric; may be repeated.")  # fmt: skip
@app.PARAM
@app.table_options
@app.bootstrap_options
@app.AS_JSON
def score(file: Path, rule: Path | None, as_json: bool, **more: Any) -> None:
    """Score argmax, p/prior and a rule on the labels of FILE.

    Without --metric, by every metric that applies. The intervals show how uncertain the values are for the population
    that the rows come from; intervals of differences compare rules on the same rows. FILE should hold rows that the
    rule was not tuned on.

    \b
    Example:
      confmax score held_out.csv --label truth --rule rule.json
      confmax score held_out.csv --label truth --rule rule.json --metric g_mean --replicates 10000
    """
    chosen, settings = app.metrics_and_bootstrap(more)
    loaded = None if rule is None else app.load_rule(rule)
    rows = rows_for(loaded, file, TableOptions(**more))
    print_document(score_rows(rows, chosen, loaded, **settings), as_json, _show)


def score_rows(rows: FileRows, wanted: Sequence[Metric], rule: DecisionRule | None, **settings: Any) -> Document:
    """Return the ``wanted`` metrics, else all that apply, of argmax, p/prior and a rule on a file's labels.

    ``settings`` are those of the bootstrap, as `uncertainty.compare` takes them.
    """
    rules, tuned_for = {}, None
    if rule is not None:
        positive = positive_of(rule)
        if positive is not None and not rows.options.classes and not rows.options.positive:
            # metrics of two classes take the last one as the positive one
            rows = rows.in_order(tuple(sorted(rows.classes, key=lambda name: name == positive)))
        tuned_for = tuned_metric(rule, rows.classes)
        # who tuned a rule for a metric of ordered classes has said what the order is
        ordered = positive is not None or (tuned_for is not None and tuned_for.ordered)
        rows = replace(rows, order_known=rows.order_known or ordered)
        rules["rule"] = over(rule, rows.classes)
    used, skipped = _aligned(wanted, rows), []
    if not wanted:
        # with their default beta f_beta and macro_f_beta are f1 and macro_f1
        every = [catalogue.get(name) for name in catalogue.names() if name not in ("linear", "f_beta", "macro_f_beta")]
        if tuned_for is not None:
            every = [tuned_for, *(metric for metric in every if not is_same(metric, tuned_for, len(rows.classes)))]
        skipped = [{"metric": metric.name, "why": why} for metric in every if (why := not_applicable(metric, rows))]
        used = {repr(metric): metric for metric in every if not not_applicable(metric, rows)}
    scores = _scores(judged_table(rows), used, rules, **settings)
    return {
        **source_document(rows),
        "tuned_for": rule and rule.metric,
        "values": [_scored(scores, name) for name in scores.metrics],
        "skipped": skipped,
        "intervals": bootstrap_document(scores),
    }


def _aligned(wanted: Sequence[Metric], rows: FileRows) -> dict[str, Metric]:
    """Return the metrics that were asked for, by name, for the classes of a file; refuse those that do not apply."""
    found = [aligned(metric, rows.classes) for metric in wanted]
    for metric in found:
        check_applies(metric, rows)
    return {repr(metric): metric for metric in found}


def _scores(table: MemoryTable, used: Mapping[str, Metric], rules: Mapping[str, Any], **settings: Any) -> Score:
    """Return values of argmax, p/prior and further rules; what makes them doubtful is printed."""
    scores = compare(table, used, {**plain_rules(table), **rules}, **settings)
    app.warn(*doubts(scores, used, undefined=False))
    return scores


def is_same(metric: Metric, tuned_for: Metric, n_classes: int) -> bool:
    """Return whether a metric of the catalogue is the one that a rule was tuned for, which may name its class."""
    of_last = tuned_for.classes is None or (n_classes == 2 and tuned_for.classes[-1] == 1)
    same = (metric.name, metric.params, metric.structure) == (tuned_for.name, tuned_for.params, tuned_for.structure)
    return same and of_last


def _scored(scores: Score, metric: str) -> Document:
    """Return a metric's value for every rule; with replicates also intervals, and differences between rules."""
    document: Document = {"metric": metric}
    intervals, differences = {}, {}
    for name, entry in scores.to_dict()["metrics"][metric].items():
        document[key_of(name)] = entry["value"]
        intervals[key_of(name)] = [entry["low"], entry["high"]]
        differences[key_of(name)] = {key_of(base): minus for base, minus in entry["minus"].items()}
    return {**document, "intervals": intervals, "differences": differences} if scores.n_replicates else document


def bootstrap_document(scores: Score) -> Document | None:
    """Return what the intervals are."""
    if not scores.n_replicates:
        return None
    return {
        "method": scores.method,
        "level": scores.level,
        "replicates": scores.n_replicates,
        "stratified": scores.stratified,
        "absent": {str(name): share for name, share in scores.absent.items()},
    }


def _show(page: Page, document: Document) -> None:
    """Print the metrics of every rule."""
    show_source(page, document)
    if document["tuned_for"] is not None:
        page.items({"rule": f"tuned for {document['tuned_for'] or 'an unnamed metric'}"})
    page.say()
    names = ["argmax", "p/prior", *(["rule"] if document["tuned_for"] is not None else [])]
    keys = [key_of(name) for name in names]
    body = [[row["metric"], *(number(row[key]) for key in keys)] for row in document["values"]]
    about = document["intervals"]
    heads = ["metric", *names]
    if about is not None:
        for line, row in zip(body, document["values"], strict=True):
            line[1:] = [between(row[key], *row["intervals"][key]) for key in keys]
            minus = row["differences"][keys[-1]]["argmax"]
            line.append(between(minus["value"], minus["low"], minus["high"], sign="+"))
            line.append("-" if minus["better"] is None else f"{minus['better']:.0%}")
        heads += [f"{names[-1]} - argmax", "better"]
    page.table(heads, body, best=3)
    page.say("", "p/prior uses the class sizes of these rows.")
    if about is not None:
        page.say(
            f"In brackets: {about['method']}, the same resamples for all rules.",
            "better: share of the replicates in which the difference is positive.",
        )
    if any("-" in row for row in body):
        page.say("-: not finite, or undefined for a rule with more decisions than classes.")
    reasons: dict[str, list[str]] = {}
    for entry in document["skipped"]:
        # reasons that differ in the metric's name only are one
        reasons.setdefault(entry["why"].replace(f"{entry['metric']}[", "["), []).append(entry["metric"])
    for why, left_out in reasons.items():
        page.say(f"Left out: {', '.join(left_out)} ({why.replace('[', f'{left_out[0]}[')}).")


# --- rules that are tuned on the other folds -------------------------------------------------------------------------


@app.confmax.command("compare")
@click.argument("file", type=app.PATH)
@app.LABEL
@click.option("--metric", "names", multiple=True, metavar="NAME", shell_complete=app.metric_names,
              help="Tune for this metric and evaluate by it; may be repeated. Default: five that suit the "
                   "classes.")  # fmt: skip
@app.PARAM
@click.option("--rule", "rules", type=app.PATH, multiple=True, metavar="RULE", shell_complete=app.rule_files,
              help="A rule file to compare with the tuned rules; may be repeated.")  # fmt: skip
@app.table_options
@app.bootstrap_options
@app.AS_JSON
def compare_rules(file: Path, as_json: bool, **more: Any) -> None:
    """Tune for several metrics and evaluate every rule by each of them.

    The rows of FILE are split into five folds. Each fold is decided by a rule tuned on the other four, so no rule is
    evaluated on rows that it was tuned on. These rules are called 'for NAME'. Rules given with --rule are applied as
    they are, so FILE should hold other rows than those they were tuned on.

    \b
    Example:
      confmax compare validation.csv --label truth
      confmax compare validation.csv --label truth --metric macro_f1 --metric min_recall
      confmax compare validation.csv --label truth --metric g_mean --rule rule.json --json
    """
    wanted, settings = app.metrics_and_bootstrap(more)
    paths = more.pop("rules")
    if len(set(paths)) < len(paths):
        raise click.UsageError("--rule names a file twice; name each rule once")
    rules = {str(path): app.load_rule(path) for path in paths}
    rows = rows_for(next(iter(rules.values()), None), file, TableOptions(**more))
    with Bar("comparing", "rules") as bar:
        document = comparison(rows, wanted, rules, bar.update, **settings)
    print_document(document, as_json, _show_comparison)


def comparison(
    rows: FileRows,
    wanted: Sequence[Metric],
    rules: Mapping[str, DecisionRule],
    progress: Callable[[int, int], Any],
    **settings: Any,
) -> Document:
    """Return every rule's value by every metric, on rows that it was not tuned on.

    Parameters
    ----------
    rows : FileRows
        The labelled rows.
    wanted : sequence of Metric
        Metrics to tune for; none for those that suit the classes.
    rules : mapping
        Further rules, by the names of their files.
    progress : callable
        Takes the number of rules that were tuned, and of all.
    **settings
        Of the bootstrap, as `uncertainty.compare` takes them.
    """
    chosen = _chosen(wanted, rows)
    evaluated = _applicable((*chosen.values(), *map(catalogue.get, ("precision", "recall", "accuracy"))), rows)
    table = judged_table(rows)  # every rule is tuned on calibrated probabilities
    counts = np.bincount(np.asarray(table.labels), minlength=table.n_classes)
    rare = [f"{name} ({count})" for name, count in zip(table.classes, counts, strict=True) if 0 < count < 2 * N_FOLDS]
    if rare:
        app.warn(f"few rows have the label {joined(rare)}: rules tuned without one fold have seen hardly any of them")
    cross_fitted = _cross_fitted(table, rows, chosen, settings["seed"], progress)
    tuned_for = {name: name.removeprefix("for ") for name in cross_fitted}
    given = {}
    for path, rule in rules.items():
        own = rule.class_names[: rule.n_classes]
        if set(own) != set(rows.classes):
            raise ValueError(
                f"the rule {path} decides between {joined(own)} and the classes here are {joined(rows.classes)}; "
                f"compare rules of the same classes"
            )
        given[path], tuned_for[path] = over(rule, rows.classes), rule.metric
    scores = _scores(table, evaluated, {**cross_fitted, **given}, **settings)
    return {
        **source_document(rows),
        "folds": N_FOLDS,
        "metrics": list(scores.metrics),
        "rules": [
            {
                "rule": name,
                "tuned_for": tuned_for.get(name),
                "cross_fitted": name in cross_fitted,
                **_values_of_rule(scores, name),
            }
            for name in scores.rules
        ],
        "best": _best(scores),
        "intervals": bootstrap_document(scores),
    }


def _applicable(chosen: Iterable[Metric], rows: FileRows) -> dict[str, Metric]:
    return {repr(metric): metric for metric in chosen if not not_applicable(metric, rows)}


def _chosen(wanted: Sequence[Metric], rows: FileRows) -> dict[str, Metric]:
    """Return the metrics to tune for."""
    if not wanted:
        return _applicable(map(catalogue.get, OF_TWO if len(rows.classes) == 2 else SEVERAL), rows)
    chosen = _aligned(wanted, rows)
    if len(chosen) < len(wanted):
        raise ValueError("--metric names a metric twice; name each once")
    return chosen


def _cross_fitted(
    table: MemoryTable, rows: FileRows, chosen: Mapping[str, Metric], seed: int, progress: Callable[[int, int], Any]
) -> dict[str, Any]:
    """Return what the rules tuned for every metric decide on rows that they have not seen; of draws the expectation."""
    folds, labels = folds_to_judge(table, N_FOLDS, seed), rows.labels
    assert labels is not None
    decided: dict[str, Any] = {}
    done = itertools.count()
    for name, metric in chosen.items():

        def fit(part: Any, metric: Metric = metric) -> DecisionRule:
            progress(next(done), N_FOLDS * len(chosen))
            weight = None if rows.weight is None else rows.weight[~part]
            return maximize(
                metric, rows.proba[~part], labels[~part], sample_weight=weight, classes=rows.classes,
                random_state=seed,
            ).rule  # fmt: skip

        try:
            rules = [rule for _, rule in cross_fit(quietly(fit), masks(folds))]
        except ValueError as error:
            raise ValueError(
                f"no rule for {name} can be tuned without one of the folds ({error}); add rows of rare classes"
            ) from None
        decided[f"for {name}"] = pooled(rules, table, folds)
    return decided


def _values_of_rule(scores: Score, rule: str) -> Document:
    """Return one rule's values by metric, with replicates also intervals, and differences to argmax."""
    entries = {metric: rules[rule] for metric, rules in scores.to_dict()["metrics"].items()}
    document: Document = {"values": {metric: entry["value"] for metric, entry in entries.items()}}
    if scores.n_replicates:
        document["intervals"] = {metric: [entry["low"], entry["high"]] for metric, entry in entries.items()}
    if rule != "argmax":
        document["minus_argmax"] = {metric: entry["minus"]["argmax"] for metric, entry in entries.items()}
    return document


def _best(scores: Score) -> dict[str, list[str]]:
    """Return the rules with the largest value, by metric."""
    best = {}
    for metric, values in zip(scores.metrics, scores.values, strict=True):
        # nothing equals NaN: where no value is finite, no rule is the best
        top = max(values[np.isfinite(values)], default=np.nan)
        best[metric] = [rule for rule, value in zip(scores.rules, values, strict=True) if value == top]
    return best


def _show_comparison(page: Page, document: Document) -> None:
    show_source(page, document)
    names = document["metrics"]
    page.say("", "Values; * is the best of its column", style="bold")
    page.table(["rule", *names], [[row["rule"], *_values(row, document["best"])] for row in document["rules"]])
    intervals = document["intervals"]
    if intervals is not None:
        page.say("", "Difference to argmax, with its interval", style="bold")
        others = [row for row in document["rules"] if "minus_argmax" in row]
        page.table(["rule", *names], [[row["rule"], *_differences(row)] for row in others])
    page.say(
        "",
        f"'for NAME': tuned for that metric on {document['folds'] - 1} of {document['folds']} folds and evaluated on "
        f"the remaining one, {document['folds']} times. p/prior takes the class sizes from the same rows.",
    )
    if any(not row["cross_fitted"] and row["tuned_for"] is not None for row in document["rules"]):
        page.say(
            "Rules given with --rule are applied as they are: if they were tuned on these rows, their values are "
            "optimistic."
        )
    if any(value is None for row in document["rules"] for value in row["values"].values()):
        page.say("-: not finite, or not defined for a rule of more decisions than classes.")
    if intervals is not None:
        page.say(f"In brackets: {intervals['method']}. A difference whose interval excludes 0 is hardly due to chance.")
    again = app.command_line(click.get_current_context(), "confmax tune", ("file", *TABLE_OPTIONS))
    page.say(f"To tune a rule on all rows: {again} --metric NAME -o rule.json")


def _values(row: Document, best: Mapping[str, Sequence[str]]) -> list[str]:
    return [number(value) + ("*" if row["rule"] in best[metric] else " ") for metric, value in row["values"].items()]


def _differences(row: Document) -> list[str]:
    return [
        "-" if minus["value"] is None else f"{minus['value']:+.3f} [{minus['low']:+.3f}, {minus['high']:+.3f}]"
        for minus in row["minus_argmax"].values()
    ]
