"""Errors and sentences that mark their arguments: as text, in a pickle, and as the command line says them."""

import ast
import copy
import importlib
import inspect
import pickle
import re
from pathlib import Path

import pytest

import confmax
from confmax.errors import InputError, Sentence, extended

ROOT = Path(confmax.__file__).parent
MARK = re.compile(r"`([\w.]+(?:=[^`]*|\(\))?)`")
PUBLIC = (
    confmax.maximize,
    confmax.score,
    confmax.report.write,
    confmax.report.write_cross_fitted,
    confmax.open_table,
    confmax.DecisionRule.predict,
    confmax.DecisionRule.to_sql,
    confmax.DecisionRule.to_onnx,
    confmax.DecisionRule.to_python,
    confmax.metrics.get,
    confmax.Solution.adapt,
    confmax.DecisionRule.shifted,
    confmax.shift.detect,
    confmax.shift.estimate_priors,
)
ARGUMENTS = {name for function in PUBLIC for name in inspect.signature(function).parameters}
# options of the command line alone, and those by which it calls an argument that has another name
OWN = set(
    "as_json costs file force in_parts install key language levels list names out over params plot positive report "
    "rules score sep label_columns separator check false_alarms tuned_label tuned_weight".split()
)
RENAMED = {"label": "y", "weight": "sample_weight", "seed": "random_state"}


def test_an_error_is_a_value_error_with_its_parts():
    error = InputError("the constraint '`x`' speaks of groups", "pass `group=`, or leave `constraints` out")
    assert isinstance(error, ValueError)
    assert str(error) == "the constraint '`x`' speaks of groups; pass group=, or leave constraints out"
    assert (error.argument, error.problem) == ("group", "the constraint '`x`' speaks of groups")
    assert error.remedy == "pass group=, or leave constraints out"
    said = "the constraint '`x`' speaks of groups; pass <group|group=>, or leave <constraints|constraints> out"
    assert error.sentence.said(lambda argument, words: f"<{argument}|{words}>") == said
    assert InputError("nothing is marked").argument is None
    assert InputError("`tol` is wrong", argument="level").argument == "level"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_and_pickles_are_whole(copied):
    error = InputError("`tol` is wrong", "give another", argument="level")
    again = copied(error)
    assert (type(again), str(again), again.argument) == (InputError, str(error), "level")
    assert again.sentence.marked == error.sentence.marked == "`tol` is wrong; give another"
    sentence = copied(Sentence("pass `group=`"))
    assert (sentence, sentence.marked) == ("pass group=", "pass `group=`")
    P = [[0.9, 0.1], [0.8, 0.2]]
    with pytest.raises(confmax.Infeasible) as refused:
        confmax.maximize("accuracy", P, constraints=["recall[1] >= 0.9", "rate[1] <= 0.1"])
    again = copied(refused.value)
    assert (again.argument, str(again)) == ("constraints", str(refused.value))
    assert again.remedy.marked.startswith("loosen one of them, or pass `on_infeasible='closest'`")
    assert again.closest.value == refused.value.closest.value


def test_words_around_an_error_keep_its_data():
    error = extended(InputError("`tol` is wrong", "give another"), "in part 1: ", " (of 2)")
    assert str(error) == "in part 1: tol is wrong (of 2); give another"
    assert (error.argument, error.remedy) == ("tol", "give another")
    plain = extended(ValueError("row 1 is empty"), "in part 1: ")
    assert (str(plain), plain.argument, plain.remedy) == ("in part 1: row 1 is empty", None, "")


def marks():
    """Yield the arguments that the library's sentences mark, with the file and the words."""
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        if "confmax.errors" not in text:
            continue
        tree = ast.parse(text)
        docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, DOCUMENTED)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docs:
                yield from ((str(path.relative_to(ROOT)), words) for words in MARK.findall(node.value))


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
FUNCTIONS = {"confmax.metrics.names()", "to_sql", "to_onnx", "to_python"}


def test_sentences_mark_arguments_of_public_functions():
    found = list(marks())
    assert len(found) > 30
    assert [(path, words) for path, words in found if words.partition("=")[0] not in ARGUMENTS | FUNCTIONS] == []


def test_every_mark_has_words_on_the_command_line_and_every_option_an_argument():
    pytest.importorskip("click")
    pytest.importorskip("rich")
    app = importlib.import_module("confmax.cli.app")
    importlib.import_module("confmax.cli.commands")

    here = {option.name for command in app.confmax.commands.values() for option in command.params} - {"shell"}
    assert here - ARGUMENTS - OWN - RENAMED.keys() == set()
    # what the library alone takes
    said = {words: Sentence(f"`{words}`").said(app.option_for) for _, words in marks()}
    assert [words for words, option in said.items() if option == words] == []
