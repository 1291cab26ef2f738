"""The commands as the shell sees them, with their help. Their work is imported when one of them runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from confmax.cli.app import confmax, solver_names
from confmax.cli.options import (
    ABSTAIN,
    AS_JSON,
    COLUMNS,
    DECISIONS,
    FILE,
    GROUP,
    IN_PARTS,
    LABELS,
    LEVEL,
    NORMALIZE,
    OUT,
    PARAM,
    PATH,
    REPLICATES,
    RULE,
    SCORE,
    SECOND,
    SEED,
    SEP,
    SEPARATOR,
    SUBJECT_TO,
    between_names,
    bootstrap_options,
    choice,
    class_shares,
    column,
    levels,
    list_option,
    metric_name,
    numbers,
    only_one,
    rows_by_name,
    rule_file,
    rule_output,
    table_options,
)
from confmax.cli.texts import EXPORTS, EXTENSIONS, SHARE


def _command(module: str) -> Callable[[Callable[[], None]], click.Command]:
    """Return a decorator that adds a command, whose work is the function of its name in a module."""

    def add(declared: Callable[[], None]) -> click.Command:
        @wraps(declared)
        def run(**given: Any) -> Any:
            # only now: help, completion and other commands do not wait for NumPy, pyarrow and the rest
            return getattr(import_module(module), declared.__name__)(**given)

        return confmax.command()(run)

    return add


@_command("confmax.cli.apply")
@RULE
@FILE
@click.option(
    "-o",
    "--out",
    type=OUT,
    required=True,
    help=f"Where the decisions go: {', '.join(EXTENSIONS)}; - for standard output. Pipes and devices take CSV. "
    "What is read in parts goes to Parquet or CSV, or to a folder: a name without an extension, which gets a Parquet "
    "file for each that is read.",
)
@COLUMNS
@SCORE
@click.option("--positive", metavar="NAME", help="The class whose probability --score holds.")
@SEP
@NORMALIZE
@column(
    "--key",
    "Column of identifiers. A rule that decides at random draws by them, so that a row keeps its decision. They order "
    "rows of equal margins under --at-most.",
)
@GROUP
@click.option(
    "--separator",
    callback=between_names,
    metavar="MARK",
    help="For a rule of several labels: write one column of the decided names, with this mark between them, in place "
    "of a column of 0 and 1 for each label.",
)
@click.option(
    "--at-most",
    multiple=True,
    callback=rows_by_name,
    metavar="NAME=N",
    help="At most N rows of FILE are decided as NAME, those with the largest margins; the others get their next best "
    "decision. May be repeated if FILE is read whole.",
)
@choice(
    "--in-parts",
    "auto yes no",
    f"Whether FILE is read part by part; auto: if it takes more than {SHARE:.0%} of the memory. FILE is then Parquet "
    "(a file, a directory, a pattern or an address such as s3://..., in quotes) or one .npy file; with yes also one "
    "CSV or Feather file.",
)
@AS_JSON
def apply() -> None:
    """Decide every row of FILE by RULE.

    Writes the columns of FILE and a column 'decision', in the format that the name of the output says; CSV keeps the
    separator of FILE, and .tsv has tabs. A rule of several labels writes a column 'decision_NAME' of 0 and 1 for each.
    Columns are matched to the rule's classes by name. FILE may be '-' for CSV on standard input.

    \b
    Example:
      confmax apply rule.json new.csv -o decided.parquet
      confmax apply rule.json new.csv -o decided.csv --score p --positive yes
      confmax apply rule.json new.csv -o decided.csv --at-most VF=100
      confmax apply rule.json 'new/*.parquet' -o decided/
      confmax apply rule.json - -o -
    """


@_command("confmax.cli.export")
@RULE
@click.option("--to", "language", type=click.Choice(EXPORTS), required=True, help="What to write.")
@click.option(
    "--dialect",
    metavar="NAME",
    help="For SQL: standard, which DuckDB, PostgreSQL and SQLite read; duckdb, which keeps the order of the rows "
    "there, or sqlite; or with the extra confmax[sql] others, such as mysql.  [default: standard]",
)
@list_option(
    "--columns",
    "For SQL: columns of probabilities, matched to the classes by name, else in class order. Default: those that the "
    "rule was tuned on, else those named like the classes.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    help="For ONNX: type of the probabilities.  [default: float32]",
)
@click.option(
    "--opset", type=int, metavar="N", help="For ONNX: version of the operator set, 13 or newer.  [default: 18]"
)
@click.option("--name", metavar="NAME", help="For Python: name of the function.  [default: decide]")
@click.option("--labels", is_flag=True, default=None, help="Return class names instead of the index.")
@click.option(
    "--group", metavar="COL", help="For SQL: the column of groups, of a rule that decides by groups.  [default: group]"
)
@click.option(
    "-o", "--out", type=OUT, help="Where it goes, - for standard output. Without -o, SQL and Python are printed."
)
@AS_JSON
def export() -> None:
    """Write RULE as an SQL expression, an ONNX model or a Python function.

    The result takes one probability per class and decides like 'confmax apply': it returns the index of the class, or
    with --labels its name. A rule of several labels gives 0 or 1 for each; as SQL these are columns. A rule that
    decides at random cannot be exported.

    \b
    Example:
      confmax export rule.json --to sql --columns p_no,p_yes
      confmax export rule.json --to onnx -o rule.onnx
      confmax export rule.json --to python -o rule.py
    """


@_command("confmax.cli.metrics")
@AS_JSON
def metrics() -> None:
    """List the metrics: names, structure, parameters.

    \b
    Example:
      confmax metrics
    """


@_command("confmax.cli.score")
@FILE
@column("--label", "Column of true classes.")
@LABELS
@SEPARATOR
@rule_file("--rule", "A rule file to score beside argmax and p/prior.", multiple=True, callback=only_one)
@column(
    "--group",
    "Column of groups: values are shown for every group too. Rules that decide by groups need it, and their "
    "limits are judged by the values of the groups.",
)
@metric_name("--metric", "names", "Only this metric; may be repeated.", multiple=True)
@PARAM
@table_options
@bootstrap_options
@IN_PARTS
@AS_JSON
def score() -> None:
    """Score argmax, p/prior and a rule on the labels of FILE.

    Without --metric, by every metric that applies. The intervals show how uncertain the values are for the population
    that the rows come from; intervals of differences compare rules on the same rows. FILE should hold rows that the
    rule was not tuned on.

    \b
    Example:
      confmax score held_out.csv --label truth --rule rule.json
      confmax score held_out.csv --label truth --rule rule.json --metric g_mean --replicates 10000
      confmax score held_out.csv --label truth --rule rule.json --group sex
      confmax score held_out.csv --labels a,b,c --rule rule.json
    """


@_command("confmax.cli.compare")
@FILE
@column("--label", "Column of true classes.")
@DECISIONS
@LABELS
@SEPARATOR
@metric_name(
    "--metric",
    "names",
    "Tune for this metric and evaluate by it; may be repeated. Default: five that suit the classes.",
    multiple=True,
)
@PARAM
@rule_file("--rule", "rules", "A rule file to compare with the tuned rules; may be repeated.", multiple=True)
@SUBJECT_TO
@ABSTAIN
@column(
    "--group",
    "Column of groups: values are shown for every group too. Limits that speak of groups, and rules that decide "
    "by groups, need it.",
)
@table_options
@bootstrap_options
@IN_PARTS
@AS_JSON
def compare() -> None:
    """Tune for several metrics and evaluate every rule by each of them.

    The rows of FILE are split into five folds. Each fold is decided by a rule tuned on the other four, so no rule is
    evaluated on rows that it was tuned on. These rules are called 'for NAME'. Rules given with --rule are applied as
    they are, so FILE should hold other rows than those they were tuned on.

    \b
    Example:
      confmax compare validation.csv --label truth
      confmax compare validation.csv --label truth --metric macro_f1 --metric min_recall
      confmax compare validation.csv --label truth --subject-to 'recall[yes] >= 0.9'
      confmax compare validation.csv --label truth --abstain ask --subject-to 'coverage >= 0.8'
      confmax compare validation.csv --label truth --group sex --subject-to 'min(recall[yes] | group) >= 0.7'
      confmax compare validation.csv --label truth --metric g_mean --rule rule.json --json
      confmax compare tags.csv --decisions any --labels a,b,c --metric macro_f1 --metric micro_f1
    """


@_command("confmax.cli.tune")
@FILE
@column("--label", "Column of true classes. Without it, only the probabilities are used.")
@metric_name(
    "--metric",
    "What to maximise; 'confmax metrics' lists the names. Without it, tune asks in a terminal.",
)
@PARAM
@click.option(
    "--costs",
    type=PATH,
    metavar="FILE.csv",
    help="Table of costs for the metric linear: one row per true class, one column per decision. A first row or "
    "column of names is matched to the classes; without names the order is that of --classes. Further "
    "columns are further decisions, such as abstaining.",
)
@SUBJECT_TO
@ABSTAIN
@GROUP
@DECISIONS
@LABELS
@SEPARATOR
@choice(
    "--shrinkage",
    "auto yes no",
    "Of several labels: whether the thresholds of those with few true rows are drawn towards ones that few rows cannot "
    "move; auto: unless --confusion names an estimate.",
)
@choice(
    "--on-infeasible",
    "raise closest",
    "If no rule keeps all limits: an error (exit code 3), or the rule that misses them least.",
)
@click.option(
    "--confidence",
    type=float,
    metavar="LEVEL",
    help="How surely the limits hold on new rows, such as 0.9: about half of the rows tune, the others test. A "
    "question about one class is tested on all rows. For limits on shares of rows, such as recall, "
    "precision, rate, accuracy and coverage; exit code 3 if one is not assured.",
)
@table_options
@choice(
    "--confusion",
    "auto model labels blend",
    "Estimate of the confusion matrix: expected from the probabilities (model, with an optimality guarantee), "
    "counted on the labels, or a blend of both; auto: a blend if there are labels.",
)
@choice(
    "--calibration",
    "auto none temperature vector matrix",
    "How the probabilities are corrected first, using the labels; auto: the kind that cross-validated log loss "
    "favours. The rule applies it.",
)
@click.option(
    "--solver",
    default="auto",
    metavar="NAME",
    shell_complete=solver_names,
    help="Algorithm; auto chooses by the metric.",
)
@choice(
    "--randomized",
    "auto yes no",
    "Whether the rule may decide at random; auto: only if that gains more than 0.001, within limits more than one row, "
    "and not with --confidence.",
)
@click.option("--tol", type=float, metavar="X", default=1e-6, help="Stop when the gap is at most this.")
@click.option("--max-passes", type=int, metavar="N", help="Most passes over the table.  [default: the solver's budget]")
@click.option("--seed", "random_state", type=int, metavar="N", default=0, help="Seed of random numbers.")
@IN_PARTS
@rule_output
@click.option(
    "--report",
    type=OUT,
    metavar="PAGE.html",
    help="Also write an HTML page that evaluates the rule by cross-fitting: every row is decided by a rule that "
    "was tuned without its fold, one of five.",
)
@SECOND
@AS_JSON
def tune() -> None:
    """Find the rule that maximises a metric on the rows of FILE.

    FILE is a table (CSV, Parquet, NPZ, or '-' for CSV on standard input) with one row per case and one column of
    probabilities per class, or for two classes a single one (--score). Tables larger than memory are read in parts. The
    rule is printed; -o also writes it.

    \b
    Example:
      confmax tune scores.csv --label truth --metric g_mean -o rule.json
      confmax tune scores.csv --label truth --metric f1 --positive yes
      confmax tune scores.csv --label truth --metric f1 --score p --positive yes
      confmax tune scores.csv --label truth --metric linear --costs costs.csv
      confmax tune scores.csv --label truth --metric accuracy --subject-to 'recall[yes] >= 0.9'
      confmax tune scores.csv --label truth --metric f1 --subject-to 'recall[yes] >= 0.9' --confidence 0.9
      confmax tune scores.csv --label truth --metric accuracy --abstain ask --subject-to 'coverage >= 0.8'
      confmax tune 'scores/*.parquet' --label truth --metric macro_f1
      confmax tune tags.csv --decisions any --labels a,b,c --metric macro_f1 -o rule.json
      confmax tune tags.csv --decisions at-most:3 --label tags --separator ';' --metric macro_f1
      confmax tune scores.csv --label truth --metric g_mean --report report.html
    """


@_command("confmax.cli.frontier")
@FILE
@column("--label", "Column of true classes. Without it, only the probabilities are used.")
@metric_name("--metric", "What to maximise; 'confmax metrics' lists the names.", required=True)
@PARAM
@click.option(
    "--over",
    required=True,
    metavar="LIMIT",
    help="The quantity that is limited, with the direction: 'precision[yes] >=' or 'rate[yes] <='. With a number, "
    "'precision[yes] >= 0.9', this is one more level.",
)
@click.option(
    "--levels",
    callback=levels,
    metavar="N or X,X,...",
    default="20",
    help="How many levels of the limit, evenly spaced, or the levels themselves.",
)
@SUBJECT_TO
@DECISIONS
@LABELS
@SEPARATOR
@ABSTAIN
@GROUP
@table_options
@choice(
    "--confusion",
    "auto model labels blend",
    "Estimate of the confusion matrix, as for tune; with model every value has a bound that no rule exceeds.",
)
@choice("--calibration", "auto none temperature vector matrix", "How the probabilities are corrected first.")
@click.option(
    "--seed", "random_state", type=click.IntRange(min=0), metavar="N", default=0, help="Seed of random numbers."
)
@click.option("--plot", type=OUT, metavar="FILE", help="Also draw it: .png, .svg or .pdf (extra plot).")
@AS_JSON
def frontier() -> None:
    """Show the best value of a metric at every level of a limit.

    At every level a rule is tuned on the rows of FILE. What its limit costs is the way along the table.

    \b
    Example:
      confmax frontier scores.csv --label truth --metric 'recall[yes]' --over 'precision[yes] >='
      confmax frontier scores.csv --label truth --metric macro_f1 --over 'rate[yes] <=' --plot frontier.png
      confmax frontier scores.csv --label truth --metric accuracy --over 'coverage >=' --abstain ask --json
      confmax frontier tags.csv --decisions any --labels a,b,c --metric macro_f1 --over 'labels_per_row <='
    """


@_command("confmax.cli.explain")
@RULE
@click.option(
    "--proba",
    callback=numbers,
    metavar="P,P,...",
    help="Decide this row of probabilities, given in class order, and show every step.",
)
@click.option("--group", metavar="NAME", help="The group to explain, of a rule that decides by groups.  [default: all]")
@AS_JSON
def explain() -> None:
    """Show how RULE decides, and why it decides a row as it does.

    A rule computes a score for every class from its probability, and decides the class with the largest score; ties go
    to the last class.

    \b
    Example:
      confmax explain rule.json
      confmax explain rule.json --proba 0.2,0.5,0.3
      confmax explain rule.json --json
    """


@_command("confmax.cli.shift")
@RULE
@click.argument("file", type=PATH, required=False)
@click.option(
    "--check",
    is_flag=True,
    help="Only test whether anything has changed: the class shares, how often the rule makes each decision, and its "
    "limits on rates and the coverage. Exit code 3 if so.",
)
@click.option(
    "--false-alarms",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    metavar="X",
    help="For --check: how often it says that something has changed where nothing has.  [default: 0.05]",
)
@column("--group", "Column of groups, for --check of a rule that decides by groups.")
@click.option(
    "--priors",
    callback=class_shares,
    metavar="NAME=X,NAME=X,...",
    help="The new class shares, where they are known (of two classes one is enough), or balanced. Default: estimated "
    "from the rows of FILE.",
)
@column("--label", "Column of true classes, where some are known; its empty cells are unknown.")
@click.option(
    "--tuned-on",
    type=PATH,
    metavar="TABLE",
    help="The table that the rule was tuned on. The new rule is tuned on it again, its classes weighted to the new "
    "shares, which keeps what labels have shown. Rules that were made by hand need it.",
)
@click.option("--tuned-label", metavar="COL", help="Column of true classes in --tuned-on.")
@click.option("--tuned-weight", metavar="COL", help="Column of sample weights in --tuned-on.")
@click.option(
    "--proba-shifted", is_flag=True, help="The probabilities of FILE were corrected for the shares of --priors already."
)
@table_options
@IN_PARTS
@rule_output
@AS_JSON
def shift() -> None:
    """Adapt RULE to rows whose class shares have changed.

    The rows of FILE need no labels. Their class shares are estimated from their probabilities and held against those of
    the rows that RULE was tuned on. Where they show no change, the rule stays as it is. This assumes that rows of a
    class look as before. With --check nothing is adapted, and the exit code says whether anything has changed. Where
    --priors says the new shares, FILE may be left out if --tuned-on is given, or the metric needs no rows.

    \b
    Example:
      confmax shift rule.json month.csv --check
      confmax shift rule.json month.csv -o new.json
      confmax shift rule.json month.csv --tuned-on scores.csv --tuned-label truth -o new.json
      confmax shift rule.json --priors yes=0.2,no=0.8 --tuned-on scores.csv --tuned-label truth -o new.json
    """


@_command("confmax.cli.report")
@RULE
@FILE
@column("--label", "Column of true classes.")
@LABELS
@SEPARATOR
@metric_name("--metric", "The metric to evaluate.  [default: what the rule was tuned for]")
@PARAM
@SECOND
@column("--group", "Column of groups: the page shows every metric by group. Rules that decide by groups need it.")
@table_options
@REPLICATES
@LEVEL
@SEED
@IN_PARTS
@click.option("-o", "--out", type=OUT, default=Path("report.html"), help="Where to write the page.")
@AS_JSON
def report() -> None:
    """Write an HTML page that evaluates RULE on the rows of FILE.

    FILE must not hold the rows that the rule was tuned on. The page needs no network. It shows metrics with intervals
    and paired differences, the rule in words, confusion matrices, calibration, trade-off and warnings.

    \b
    Example:
      confmax report rule.json held_out.csv --label truth -o report.html
      confmax report rule.json held_out.csv --label truth --second macro_f1
      confmax report rule.json held_out.csv --label truth --group sex
      confmax report rule.json held_out.csv --labels a,b,c
    """


@_command("confmax.cli.demo")
@rule_output
@AS_JSON
def demo() -> None:
    """Compare rules for four metrics on held-out rows.

    Uses published predictions that come with confmax. Compares argmax, p/prior and tuned rules on rows that the rules
    were not tuned on, and prints the rule for the G-mean; -o also writes it.

    \b
    Example:
      confmax demo
      confmax demo -o rule.json
    """


@_command("confmax.cli.completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion() -> None:
    """Print the script that completes confmax's commands in a shell.

    It completes commands, options, and the names of metrics and solvers. SHELL is bash, zsh or fish. Append the script
    to ~/.bashrc or ~/.zshrc, or write it to the folder from which fish loads such scripts.

    \b
    Example:
      confmax completion bash
      confmax completion fish > ~/.config/fish/completions/confmax.fish
    """
