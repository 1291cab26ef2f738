"""What kind of thing holds the probabilities is asked in `tables/` and nowhere else; a kind is added in one file."""

import ast
from pathlib import Path

import confmax

ROOT = Path(confmax.__file__).parent
QUESTIONS = {"is_tensor", "is_sparse", "is_dask", "is_spark", "is_source", "on_host", "kind_for", "recognises"}
CLASSES = {
    "Table", "ArrayTable", "SparseTable", "TorchTable", "PartedTable", "MemoryTable", "PartitionedTable", "Storage",
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


def test_a_question_would_be_seen():
    text = """
if is_tensor(proba) or tables.is_dask(y) or table.backend == "sparse" or isinstance(oracle.table, (str, MemoryTable)):
    values = np.asarray(on_host(values))
match values:
    case torch.Tensor():
        device = getattr(raw, "device", None)
if found.kind == "none" or values.dtype.kind in "iu" or isinstance(rule, DecisionRule) or getattr(solver, "mixes", 1):
    kind = table.kind == "dense"
"""
    assert len(list(questions(ast.parse(text)))) == 8
