"""What an oracle is."""

from __future__ import annotations

from typing import Protocol

from confmax.confusion import Array, Confusion, Gains
from confmax.tables.table import Table


class Oracle(Protocol):
    """Maximises linear functions of the confusion matrix over all rules, on one table (paper, Section 2).

    ``exact`` tells whether the answers are true maximisers (model confusion) or plug-in ones (labels, blend).
    ``model_share`` is the part of the model in the confusion: 1 the model, 0 the labels, between them a blend.
    """

    @property
    def rows(self) -> Array:
        """Row sums of every confusion (K,): the class priors, fractions of all weight."""

    @property
    def model_share(self) -> float:
        """Part of the model in the confusion estimate, from 0 to 1."""

    @property
    def exact(self) -> bool:
        """Whether the decisions maximise the gain over all rules."""

    @property
    def table(self) -> Table:
        """The table that the oracle reads."""

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return, for each of ``gains``, the confusion of ``argmax_j score_j``, its ``matrix`` if asked; one scan."""
