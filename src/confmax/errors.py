"""Errors and other sentences that mark the arguments they speak of.

The library calls an argument ``y``, the command line calls it ``--label``, and a form may call it "the field Label". So
a sentence marks the places where it speaks of an argument, and each program says there what it calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = ["InputError", "Sentence", "extended"]

# not what stands in quotes, such as the name of a class
_MARK = re.compile(r"(?<!['\"])`(([\w.]+)(?:=[^`]*|\(\))?)`")


class Sentence(str):
    """A sentence in the library's words, which another program can say with its own names of arguments.

    Parameters
    ----------
    marked : str
        The sentence with backquotes around what is said of an argument: its name, ``name=`` or ``name=value``. As a
        text the sentence does not have these backquotes.

    Examples
    --------
    >>> from confmax.errors import Sentence
    >>> sentence = Sentence("`tol` must be positive, such as `tol=0.1`")
    >>> print(sentence)
    tol must be positive, such as tol=0.1
    >>> print(sentence.said(lambda argument, words: f"--{argument}"))
    --tol must be positive, such as --tol
    """

    marked: str

    def __new__(cls, marked: str) -> Sentence:
        """Return the sentence; one that is marked already stays as it is."""
        sentence = super().__new__(cls, _MARK.sub(r"\1", marked))
        sentence.marked = marked.marked if isinstance(marked, Sentence) else marked
        return sentence

    def __getnewargs__(self) -> tuple[str]:
        return (self.marked,)

    def said(self, words: Callable[[str, str], str]) -> str:
        """Return the sentence with ``words(argument, library_words)`` wherever it speaks of an argument."""
        return _MARK.sub(lambda found: words(found[2], found[1]), self.marked)


class InputError(ValueError):
    """Input that cannot be used: what is wrong, and the way out.

    Parameters
    ----------
    problem, remedy : str
        Sentences in which arguments are marked, as for `confmax.errors.Sentence`; the remedy may be empty.
    argument : str or None
        The argument that is wrong or missing; by default the first that is marked.

    Attributes
    ----------
    argument : str or None
        The name of the argument, such as "y"; None if the error is about none.
    problem, remedy : Sentence
        What is wrong, and the way out.
    sentence : Sentence
        Both together, which is also the text of the error.

    Examples
    --------
    >>> import confmax
    >>> try:
    ...     confmax.maximize("accuracy", [[0.9, 0.1], [0.2, 0.8]], ["no", None])
    ... except confmax.InputError as error:
    ...     error.argument, error.remedy
    ('y', 'drop such rows, or leave y out')
    """

    def __init__(self, problem: str, remedy: str = "", argument: str | None = None) -> None:
        self.problem = Sentence(problem)
        self.remedy = Sentence(remedy)
        self.sentence = Sentence(f"{self.problem.marked}; {self.remedy.marked}" if remedy else self.problem)
        first = _MARK.search(self.sentence.marked)
        self.argument = argument or (first and first[2])
        super().__init__(self.sentence)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.remedy, self.argument)


def extended(error: Exception, before: str = "", after: str = "") -> InputError:
    """Return an ``error`` with words ``before`` and ``after`` its problem; its argument and its remedy stay."""
    if isinstance(error, InputError):
        return InputError(f"{before}{error.problem.marked}{after}", error.remedy, error.argument)
    return InputError(f"{before}{error}{after}")
