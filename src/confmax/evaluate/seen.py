"""Whether rules are judged on the rows that they were tuned on, where their values are too good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confmax.tables import Table


def was_tuned_on(rule: Any, table: Table) -> bool | None:
    """Return whether a rule was tuned on the labelled rows of a table, None where the rule or the table cannot say."""
    known = getattr(rule, "tuned_on", None)
    if known is None or not table.has_labels:
        return None
    # the hash of all rows is a pass over them
    return known.n_rows == table.n_rows and table.has_fingerprint(known)


def seen_by_tuning(n_rows: int, rules: str = "the rule was") -> str:
    """Return the warning that ``rules`` are evaluated on the ``n_rows`` rows that they were tuned on."""
    return f"these are the {n_rows:,} rows that {rules} tuned on: figures on new rows are lower"


def doubt_of_rows(rules: Mapping[str, Any], table: Table) -> str:
    """Return a warning that names those of the ``rules`` that were tuned on the rows of a table; empty for none.

    A rule alone is not named.
    """
    seen = [name for name, rule in rules.items() if was_tuned_on(rule, table)]
    if not seen:
        return ""
    if len(rules) == 1:
        return seen_by_tuning(table.n_rows)
    *firsts, last = seen
    named = f"the rules {', '.join(firsts)} and {last} were" if firsts else f"the rule {last} was"
    return seen_by_tuning(table.n_rows, named)
