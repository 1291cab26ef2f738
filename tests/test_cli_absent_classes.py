"""Columns of classes that no row of the truth has, on the command line."""

import numpy as np
import pandas as pd
import pytest

from tests.cli_helpers import document, refusal, run

NAMES = ["flu", "sepsis", "healthy", "cold"]
KNOWN = ["flu", "healthy", "cold"]
rng = np.random.default_rng(5)
N = 400
EXACT = pd.DataFrame(rng.dirichlet([2, 0.1, 3, 2], N), columns=NAMES)
P = EXACT.round(4)
KNOWN_P = EXACT[KNOWN].div(EXACT[KNOWN].sum(axis=1), axis=0)
TRUTH = np.array(KNOWN)[[rng.choice(3, p=row) for row in KNOWN_P.to_numpy()]]
RARE = P.assign(sepsis=np.minimum(P["sepsis"], 0.0008))
TINY = RARE.assign(cold=1 - RARE["flu"] - RARE["sepsis"] - RARE["healthy"]).clip(0, 1)
VOTES = pd.DataFrame([rng.multinomial(25, row) for row in EXACT.to_numpy()], columns=NAMES)
# that are no probabilities of a class
BESIDE = {"age": rng.integers(20, 80, N), "score": rng.random(N).round(3), "year": 2020 + rng.integers(0, 5, N),
          "patient": np.arange(N), "one": 1.0, "rare": (np.arange(N) % 150 == 0) * 1.0}  # fmt: skip

TAKEN = {
    "probabilities": (P, ()),
    "tiny": (TINY, ()),
    "two digits": (EXACT.round(2), ("--normalize",)),
    "votes": (VOTES, ("--normalize",)),
    "percentages": ((100 * EXACT).round(1), ("--normalize",)),
    "float32": (EXACT.astype(np.float32), ()),
}
COMMANDS = {
    "tune": ("--metric", "macro_f1"),
    "score": ("--metric", "macro_f1", "--replicates", "0"),
    "compare": ("--metric", "macro_f1", "--replicates", "0"),
    "frontier": ("--metric", "macro_f1", "--over", "rate[flu] <=", "--levels", "2"),
}


def written(frame, path="t.csv", truth=TRUTH):
    frame = frame.assign(truth=truth)
    if path.endswith(".npz"):
        np.savez(path, **{name: np.array(frame[name].tolist()) for name in frame})
    else:
        (frame.to_parquet if path.endswith(".parquet") else frame.to_csv)(path, index=False)
    return path


def read(frame, *options, command="tune", path="t.csv"):
    """Return the classes of a file, and what was warned of."""
    arguments = (command, written(frame, path), "--label", "truth", *COMMANDS[command], *options)
    return document(*arguments)["classes"], run(*arguments)[1]


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("prefix", ["", "p_"])
def test_a_class_that_no_row_has_is_taken(kind, prefix):
    frame, options = TAKEN[kind]
    # other numbers beside it do not hide it
    classes, said = read(frame.add_prefix(prefix).assign(**BESIDE), *options)
    assert classes == NAMES
    for words in (f"column {prefix}sepsis was taken as a class", "'truth'", "--columns", "--classes"):
        assert words in said
    stated, quiet = read(frame.add_prefix(prefix), *options, "--classes", ",".join(NAMES))
    assert stated == NAMES and "taken as" not in quiet


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("path", ["t.csv", "t.parquet", "t.npz"])
def test_every_command_and_format_takes_it(command, path):
    classes, said = read(P.assign(score=BESIDE["score"]), command=command, path=path)
    assert classes == NAMES and "sepsis was taken" in said


@pytest.mark.usefixtures("inside")
def test_in_parts_with_numbers_and_two_such_classes():
    classes, said = read(P, "--in-parts", "yes", path="t.parquet")
    assert classes == NAMES and "sepsis was taken" in said
    numbers = dict(zip(NAMES, "0123", strict=True))
    truth = pd.Series(TRUTH).map(numbers).astype(int)
    written(P.rename(columns=numbers), truth=truth)
    assert document("tune", "t.csv", "--label", "truth", "--metric", "macro_f1")["classes"] == [0, 1, 2, 3]
    votes = VOTES.assign(sepsis=VOTES["sepsis"] // 2, plague=VOTES["sepsis"] - VOTES["sepsis"] // 2)
    for frame, options in ((EXACT.assign(sepsis=EXACT["sepsis"] / 3, plague=EXACT["sepsis"] * 2 / 3), ()),
                           (votes, ("--normalize",))):  # fmt: skip
        classes, said = read(frame.assign(**BESIDE), *options)
        assert classes == [*NAMES, "plague"] and "columns sepsis, plague were taken" in said


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("kind", ["exact", "rounded", "votes", "scores"])
def test_other_numbers_are_no_class(name, kind):
    frame = {"exact": KNOWN_P, "rounded": KNOWN_P.round(2), "scores": EXACT[KNOWN] * rng.gamma(2, 1, (N, 1)),
             "votes": (25 * KNOWN_P).round()}[kind]  # fmt: skip
    options = () if kind == "exact" else ("--normalize",)
    classes, said = read(frame.assign(**{name: BESIDE[name]}), *options)
    assert classes == KNOWN and "taken as" not in said
    # who divides rows by their sums sees what is left out
    assert (f"left out: {name}" in said) == bool(options)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("frame", [EXACT.round(2), VOTES, P.assign(sepsis=P["sepsis"] / 2)], ids=range(3))
def test_columns_that_are_left_out_are_named_where_rows_do_not_sum_to_one(frame):
    said = refusal("tune", written(frame.assign(age=BESIDE["age"])), "--label", "truth", "--metric", "macro_f1")
    for words in ("row ", "sums to", "left out: sepsis, age", "--columns", "--classes"):
        assert words in said


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("prefix", ["", "p_"])
def test_a_label_that_no_row_has_is_not_left_out_in_silence(prefix):
    """No sum of rows says whether it is one."""
    tags = [";".join(name for name in KNOWN if row[name] > 0.3) for _, row in P.iterrows()]
    written(P.add_prefix(prefix).assign(**BESIDE, text=["0.5", *["n/a"] * (N - 1)]), truth=tags)
    arguments = ("tune", "t.csv", "--decisions", "any", "--label", "truth", "--separator", ";", "--metric", "macro_f1")
    said = run(*arguments)[1]
    for words in (f"{prefix}sepsis", "left out", "no row", "--classes"):
        assert words in said
    assert "age" not in said and "year" not in said and "text" not in said
    assert "left out" not in run(*arguments, "--classes", ",".join(NAMES))[1]
