"""What became of limits, as `confmax tune` prints it and writes it to JSON."""

from __future__ import annotations

from confmax.cli.show import Document, finite, number
from confmax.constraints import ConstraintOutcome
from confmax.constraints.outcomes import MOST_ROWS, NONE_DECIDED


def constraint_document(one: ConstraintOutcome) -> Document:
    """Return what became of a constraint."""
    document: Document = {
        "text": one.text,
        "value": finite(one.value),
        "slack": finite(one.slack),
        "on_labels": finite(one.label_value),
        "price": finite(one.price),
        "kept": one.kept,
        "refuted_by": list(one.refuted_by),
        "vacuous": one.vacuous,
        "decided": finite(one.decided),
    }
    if one.by_group:
        document["by_group"] = {
            str(part.group): {
                "value": finite(part.value),
                "on_labels": finite(part.label_value),
                "vacuous": part.vacuous,
            }
            for part in one.by_group
        }
    if one.assured is None:
        return document
    return {**document, "rows_tested": one.all_label_rows, "assured": one.assured, "rows_needed": one.rows_needed}


def constraint_lines(one: Document, n_tested: int) -> list[list[str]]:
    """Return the cells of a constraint, and below it those of every group; ``n_tested`` columns are of its test."""
    rest = [""] * n_tested
    lines = []
    for name, part in one.get("by_group", {}).items():
        values = [number(part["value"]), number(part["on_labels"]), "", ""]
        lines.append([f"  {name}", *(["-", "-", "", NONE_DECIDED] if part["vacuous"] else values), *rest])
    return [_line(one), *lines]


def _line(one: Document) -> list[str]:
    """Return the cells of a constraint."""
    kept = "yes" if one["kept"] else "refuted" if one["refuted_by"] and (one["slack"] or 0.0) >= 0.0 else "no"
    kept = NONE_DECIDED if one["kept"] and one["vacuous"] else kept
    cells = [one["text"], number(one["value"]), number(one["on_labels"]), number(one["price"]), kept]
    if "assured" not in one:
        return cells
    needed = one["rows_needed"]
    more = "-" if one["assured"] else "more" if needed is None and (one["slack"] or 0.0) > 0.0 else "loosen it"
    if needed is not None and needed <= MOST_ROWS:
        # of limits of groups it is the number of one group, which the guarantee names
        more = "see below" if one.get("by_group") else f"{needed:,}"
    return [*cells, f"{one['rows_tested']:,}", "yes" if one["assured"] else "no", more]
