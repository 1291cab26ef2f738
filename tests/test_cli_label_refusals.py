"""Commands on rows with several labels: what cannot be meant is refused in one sentence."""

from pathlib import Path

import numpy as np
import pytest

import confmax
from tests.cli_helpers import refusal
from tests.label_files import ANY, NAMES, rows, table, tuned

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("inside")

REFUSED = {
    "an option of one class": (
        ("export", "r.json", "--to", "sql", "--group", "g"),
        "--group has no meaning with --to sql for a rule of several labels",
    ),
    "half a table": (
        ("tune", "t.csv", *ANY, "--labels", "sea,sun", "--columns", "p_sea", "--metric", "macro_f1"),
        "there are 2 labels (sea, sun) and 1 columns of probabilities (p_sea)",
    ),
    "no probabilities": (
        ("tune", "t.csv", *ANY, "--labels", "id", "--metric", "macro_f1"),
        "row 0 of label column 'id' of t.csv holds 'k0'",
    ),
    "labels that are probabilities": (
        ("tune", "t.csv", *ANY, "--labels", "sea,p_sun", "--metric", "macro_f1"),
        "columns of --labels hold 0 or 1",
    ),
    "names without a mark": (
        ("tune", "t.csv", *ANY, "--label", "tags", "--metric", "macro_f1"),
        "give the mark between its labels",
    ),
    "another mark": (
        ("tune", "t.csv", *ANY, "--label", "tags", "--separator", ";", "--metric", "macro_f1"),
        "named like classes and some are not",
    ),
    "an empty mark": (
        ("tune", "t.csv", *ANY, "--label", "tags", "--separator", " ", "--metric", "macro_f1"),
        "' ' is no mark between names",
    ),
    "a label that is not named": (
        ("tune", "t.csv", *ANY, "--label", "tags", "--separator", "|", "--classes", "sea,sun", "--metric", "macro_f1"),
        "has 'rain', which is none of the 2 labels (sea, sun); name all labels with --classes",
    ),
    "several names in cells": (
        ("tune", "t.csv", "--label", "tags", "--metric", "macro_f1"),
        "is empty; drop such rows, or leave the option out (cells of 'tags' hold '|'; for several labels per row give "
        "--decisions any --separator '|')",
    ),
    "both": (
        ("tune", "t.csv", *ANY, "--labels", "sea,sun", "--label", "tags", "--metric", "macro_f1"),
        "leave one of them out",
    ),
    "a limit on the labels per row beside so many labels": (
        (
            *("tune", "t.csv", "--decisions", "3", "--labels", "sea,sun", "--metric", "macro_f1"),
            *("--subject-to", "labels_per_row <= 1"),
        ),
        "--decisions 3 gives every row so many labels: labels_per_row cannot be limited; pass --decisions at-most:3",
    ),
    "a metric of one class": (
        ("tune", "t.csv", *ANY, "--labels", "sea", "--metric", "min_recall"),
        "there is no metric 'min_recall' of several labels",
    ),
    "a parameter": (
        ("tune", "t.csv", *ANY, "--labels", "sea", "--metric", "hamming", "--param", "beta=2"),
        "hamming has no parameter beta",
    ),
    "a parameter that is no number": (
        ("tune", "t.csv", *ANY, "--labels", "sea", "--metric", "macro_f_beta", "--param", "beta=two"),
        "beta of macro_f_beta is positive and finite; got 'two'",
    ),
    "no metric": (
        ("tune", "t.csv", *ANY, "--labels", "sea,sun,rain"),
        "give --metric NAME; those of several labels are",
    ),
    "no decisions": (
        ("tune", "t.csv", "--labels", "sea,sun", "--metric", "macro_f1"),
        "--labels is for several labels per row; give --decisions any, or a number of labels",
    ),
    "decisions": (("tune", "t.csv", "--decisions", "0", "--metric", "macro_f1"), "'0' is none of one, any"),
    "a matrix": (
        ("tune", "t.csv", *ANY, "--labels", "sea,sun,rain", "--metric", "macro_f1", "--calibration", "matrix"),
        "--calibration matrix is of one class for every row; each label has its own map; pass --calibration auto, "
        "or --calibration none",
    ),
    "shrinkage of a number of labels": (
        ("tune", "t.csv", "--decisions", "2", "--labels", "sea,sun", "--metric", "macro_f1", "--shrinkage", "yes"),
        "--shrinkage draws thresholds of single labels together, and --decisions 2 has none; leave it out",
    ),
    "at most": (
        ("apply", "r.json", "t.csv", "-o", "o.csv", "--at-most", "sun=3"),
        "several labels per row, which --at-most is not for",
    ),
    "a mark in a name": (("apply", "r.json", "t.csv", "-o", "o.csv", "--separator", "u"), "stands in the label 'sun'"),
    "compare": (
        ("compare", "t.csv", "--label", "tags", "--rule", "r.json"),
        "and confmax compare compares rules of one class for every row; give --decisions any",
    ),
    "compare with a rule of one class": (
        ("compare", "t.csv", *ANY, "--label", "tags", "--separator", "|", "--rule", "one.json"),
        "one.json decides one class for every row, and --decisions means several labels",
    ),
    "compare without labels": (("compare", "t.csv", *ANY), "give the true labels"),
    "compare with an option of one class": (
        ("compare", "t.csv", *ANY, "--label", "tags", "--abstain", "x"),
        "--decisions means several labels per row, which --abstain is not for",
    ),
    "compare by a metric twice": (
        ("compare", "t.csv", *ANY, "--label", "tags", "--metric", "macro_f1", "--metric", "f1_macro"),
        "--metric names a metric twice",
    ),
    "compare with labels per row and a number": (
        ("compare", "t.csv", "--decisions", "2", "--labels", "sea,sun", "--subject-to", "labels_per_row <= 1"),
        "--decisions 2 gives every row so many labels",
    ),
    "report without labels": (("report", "r.json", "t.csv"), "give the true labels"),
    "report of a trade-off": (
        ("report", "r.json", "t.csv", "--labels", "sea,sun,rain", "--second", "hamming"),
        "r.json decides several labels per row, which --second is not for",
    ),
    "score without labels": (("score", "t.csv", "--rule", "r.json"), "give the true labels"),
    "score of other labels": (
        ("score", "t.csv", "--labels", "sea,sun", "--rule", "r.json"),
        "no column is named like the class 'rain'",
    ),
    "two rules": (
        ("score", "t.csv", "--labels", "sea,sun,rain", "--rule", "r.json", "--rule", "o.json"),
        "--rule is given 2 times, and score takes one rule; confmax compare takes several",
    ),
    "explain beyond 1": (
        ("explain", "r.json", "--proba", "0.5,1.5,0"),
        "outside 0 to 1; give the probability of every",
    ),
    "explain": (("explain", "r.json", "--proba", "0.5,0.5"), "gives 2 probabilities and the rule has 3 labels"),
    "explain a group": (("explain", "r.json", "--group", "a"), "--group is not for"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_sentence(name):
    args, sentence = REFUSED[name]
    if name.startswith("report"):
        pytest.importorskip("jinja2")
    table()
    tuned().rule.save("r.json")
    confmax.DecisionRule.from_weights([1.0, 2.0], classes=["a", "b"]).save("one.json")
    assert sentence in refusal(*args)
    assert not Path("o.csv").exists()


def further_files():
    """Write files whose columns and arrays do not go together, beside those that do."""
    P, Y = rows()
    columns = dict(zip(NAMES, P.T, strict=True))
    wrong = Y.copy()
    wrong[1, 2] = 7
    np.savez("two.npz", P=P, Q=P, Y=Y)
    np.savez("t.npz", P=P, Y=Y, wrong=wrong, few=Y[:, :2], w=np.ones(119))
    np.savez("ragged.npz", p_a=P[:, 0], p_b=P[:119, 1], a=Y[:, 0], b=Y[:119, 1], c=Y[:, 2])
    pq.write_table(pa.table({**columns, "tags": [["sea"]] * 120, "none": [[]] * 120}), "lists.parquet")
    pq.write_table(pa.table({"sea": Y[:, 0], "sun": Y[:, 1], "x": P[:, 0], "y": P[:, 1]}), "other.parquet")
    pq.write_table(pa.table({"tags": ["sea|sun"] * 120}), "tags.parquet")


APART = {
    "weights of other rows": (
        "t.npz --label Y --columns P --weight w",
        "--weight names 119 rows of t.npz and there are",
    ),
    "labels of other rows": (
        "ragged.npz --labels a,b",
        "the columns of --labels differ in length in ragged.npz; choose",
    ),
    "probabilities of other rows": (
        "ragged.npz --labels a,c --columns p_a,p_b",
        "the columns p_a, p_b of ragged.npz differ in length; choose others",
    ),
    "a mark and no column": ("t.csv --separator |", "--separator is the mark between the labels in a column; name"),
    "no labels": (
        "lists.parquet --label none",
        "no row of label column 'none' of lists.parquet has a label; name another with --label",
    ),
    "an array of other numbers": (
        "t.npz --label wrong --columns P",
        "row 1, column 2 of the array 'wrong' of t.npz holds 7, and labels are 0 or 1; name another array with --label",
    ),
    "a mark between lists": (
        "lists.parquet --label tags --separator |",
        "column 'tags' of lists.parquet holds lists; leave --separator out",
    ),
    "fewer labels than probabilities": (
        "t.npz --label few --columns P",
        "the array 'few' of t.npz has 2 labels and there are 3 columns of probabilities; name their table with",
    ),
    "labels by other names": (
        "t.csv --labels sea,sun,rain --classes a,b,c --columns p_sea,p_sun,p_rain",
        "--labels names sea, sun, rain and the labels are a, b, c; name these columns",
    ),
    "two tables": ("two.npz --label Y", "two.npz holds several tables (P, Q); choose with --columns NAME"),
    "probabilities by other names": (
        "other.parquet --labels sea,sun",
        "no columns of probabilities that are named like the labels sea, sun (its other numeric columns: x, y); name",
    ),
    "no order": (
        "other.csv --label tags --separator | --columns x,y,z",
        "no column of --columns is called like a label (rain, sea, sun), so their order is not known; give the "
        "labels in the same order with --classes",
    ),
    "no numbers": ("tags.parquet", "tags.parquet has no column of probabilities; name them with --columns"),
}


@pytest.mark.parametrize("name", APART)
def test_what_does_not_go_together_is_refused_in_one_sentence(name):
    further_files()
    table()
    table("other.csv", truth=None)
    text = Path("other.csv").read_text()
    Path("other.csv").write_text(text.replace("p_rain", "x", 1).replace("p_sea", "y", 1).replace("p_sun", "z", 1))
    args, sentence = APART[name]
    assert sentence in refusal("tune", *args.split(), *ANY, "--metric", "macro_f1")
