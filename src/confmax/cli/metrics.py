"""`confmax metrics`: the catalogue."""

from __future__ import annotations

import numpy as np

from confmax import metrics as catalogue
from confmax.cli.show import Document, Page, print_document


def metrics(as_json: bool) -> None:
    """Run `confmax metrics`."""
    print_document(every_metric(), as_json, _show_catalogue)


def every_metric() -> Document:
    """Return the metrics with what there is to know of each."""
    entries = []
    for name in catalogue.names():
        metric = catalogue.get("linear", cost=np.zeros((2, 2))) if name == "linear" else catalogue.get(name)
        free = {key: value for key, value in metric.params if key not in metric.fixed}
        entries.append(
            {
                "name": name,
                "aliases": sorted(alias for alias, target in catalogue.aliases().items() if target == name),
                "structure": metric.structure.name,
                "parameters": free,
                "two_classes": metric.binary,
                "one_class": metric.one_class is not None,
                "needs_order": metric.ordered,
                "description": metric.description,
            }
        )
    return {"metrics": entries}


def _show_catalogue(page: Page, document: Document) -> None:
    """Print the catalogue."""
    body = []
    for entry in document["metrics"]:
        description = entry["description"]
        if entry["parameters"]:
            description += "; takes " + ", ".join(f"{key}={value}" for key, value in entry["parameters"].items())
        if entry["aliases"]:
            description += "; also called " + ", ".join(entry["aliases"])
        needs = "two classes" if entry["two_classes"] else ("class order" if entry["needs_order"] else "")
        needs += ", or [NAME]" if entry["one_class"] else ""
        body.append([entry["name"], entry["structure"], needs, description])
    page.table(["name", "structure", "needs", "what it is"], body, right=False)
    page.say(
        "",
        "linear, ratio and concave metrics come with an optimality guarantee (confmax tune --confusion model). 'needs' "
        "shows what else to give: --positive or --classes. A metric of one class takes its name in brackets, as in "
        "'recall[yes]'. Set parameters with --param; linear takes --costs.",
    )
