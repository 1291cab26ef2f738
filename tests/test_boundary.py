"""What kind of thing holds the probabilities is asked in `tables/` and nowhere else; a kind is added in one file."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.oracle import make_table
from confmax.tables.kinds import REGISTRY, Converted, register
from tests.count_rows import DRAWS, CountRows, Counts
from tests.helpers import labels_drawn

ROOT = Path(confmax.__file__).parent
QUESTIONS = {"is_tensor", "is_sparse", "is_dask", "is_spark", "is_source", "on_host", "kind_for", "recognises"}
CLASSES = {
    "Table", "ArrayTable", "SparseTable", "TorchTable", "PartedTable", "Part", "PartitionedTable", "Storage",
    "Kind", "MemoryKind", "Arrays", "Tensors", "SparseRows", "Tensor", "csr_array", "csr_matrix", "spmatrix", "sparray",
    "FileSource", "DaskSource", "SparkSource",
}  # fmt: skip
TABLES = {"table", "raw", "rows", "sample", "judged", "proba", "P"}  # what tables and probabilities are called
COSTS = {
    "index",
    "columns",
    "column_names",
}  # what a table of costs, which is no such table, is asked in metrics/catalogue.py


def last(node):
    """Return the last name of an expression such as ``oracle.table``, None for others."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)


def questions(tree):
    """Yield the line and the text of every question after the kind of a table, or of probabilities.

    ``.kind`` is an attribute of calibrations and of NumPy's types as well, so it counts only behind a table's name; so
    do `getattr` and `hasattr`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = last(node.func)
            asks = name in QUESTIONS
            if name in ("isinstance", "issubclass") and len(node.args) == 2:
                asks = any(last(part) in CLASSES for part in ast.walk(node.args[1]))
            if name in ("getattr", "hasattr"):
                asks = last(node.args[0]) in TABLES and ast.literal_eval(node.args[1]) not in COSTS
        elif isinstance(node, ast.Compare):
            sides = [part for part in (node.left, *node.comparators) if isinstance(part, ast.Attribute)]
            asks = any(
                part.attr == "backend" or (part.attr in ("kind", "storage") and last(part.value) in TABLES)
                for part in sides
            )
        else:
            asks = isinstance(node, ast.MatchClass) and last(node.cls) in CLASSES
        if asks:
            yield node.lineno if hasattr(node, "lineno") else node.cls.lineno, ast.unparse(node)


def counted(root, boundary):
    """Return the questions of all files but those of the ``boundary``, as texts."""
    return [
        f"{path.relative_to(root)}:{line}: {text}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in boundary
        for line, text in questions(ast.parse(path.read_text()))
    ]


def test_nobody_else_asks_what_kind_a_table_is():
    assert not counted(ROOT, {"tables"})


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    """The registry is as it was before the test afterwards."""
    monkeypatch.setattr("confmax.tables.kinds.REGISTRY", list(REGISTRY))


def register_counts(load):
    register("counts", lambda values: isinstance(values, Counts), load)


def drawn(n, K):
    """Return rows of the kind, the same rows as an array, labels and weights."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(DRAWS, rng.dirichlet(np.ones(K), n)).astype(np.uint8)
    y = labels_drawn(counts / DRAWS, rng)
    return Counts(counts), (counts / DRAWS).astype(np.float32), y, rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize(
    ("metric", "settings"),
    [
        ("macro_f1", {}),
        ("g_mean", {"confusion": "model", "calibration": None, "randomized": True}),
        ("quadratic_kappa", {}),
    ],
)
def test_a_kind_is_one_file(metric, settings):
    """Rows of bytes, their storage and their oracle answer as the same rows in float32."""
    register_counts(CountRows)
    counts, P, y, weight = drawn(700, 4)
    found, expected = (confmax.maximize(metric, rows, y, sample_weight=weight, **settings) for rows in (counts, P))
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.n_passes == expected.n_passes
    rule = found.rule
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of duplicates
        np.testing.assert_array_equal(rule.predict(counts), rule.predict(P))
    np.testing.assert_array_equal(rule.decision_probabilities(counts), rule.decision_probabilities(P))
    scores = [confmax.score(metric, rows, y, rule, n_replicates=0).estimate("rule").value for rows in (counts, P)]
    assert scores[0] == scores[1]


def test_a_kind_refuses_in_its_own_words():
    register_counts(CountRows)
    counts, _, y, _ = drawn(50, 3)
    counts.values[7, 0] += 1
    for use in (lambda: confmax.maximize("macro_f1", counts, y),
                lambda: confmax.DecisionRule.from_weights([1, 2, 3]).predict(counts)):  # fmt: skip
        with pytest.raises(ValueError, match="row 7 of proba does not hold 128 draws"):
            use()


def test_values_may_be_converted():
    """A kind that is only another way to write an array needs no storage."""
    register_counts(lambda: Converted(Counts.wide))
    counts, P, y, _ = drawn(300, 3)
    solution = confmax.maximize("macro_f1", counts, y)
    assert solution.value == confmax.maximize("macro_f1", P, y).value
    np.testing.assert_array_equal(solution.rule.predict(counts), solution.rule.predict(P))


def test_the_latest_kind_is_tried_first():
    register("lists", lambda values: isinstance(values, list), lambda: Converted(lambda rows: np.array(rows)[::-1]))
    assert make_table([[0.75, 0.25], [0.5, 0.5]]).head.proba.tolist() == [[0.5, 0.5], [0.75, 0.25]]
