"""Rule files of either kind: one class for every row, or several labels."""

from __future__ import annotations

import os

from confmax.rule import file
from confmax.rule.decision_rule import DecisionRule
from confmax.rule.labels import LabelRule


def read_rule(path: str | os.PathLike[str]) -> DecisionRule | LabelRule:
    """Return the rule in the file ``path``, of the kind that it is; a ValueError, with the reason, if it is none."""
    return file.load(path, _from_json)


def _from_json(text: bytes) -> DecisionRule | LabelRule:
    parts = file.parse(text)
    return LabelRule(**parts) if "decisions" in parts else DecisionRule(**parts)
