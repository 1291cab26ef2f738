"""A verdict in a few words, for headings and lines."""

from __future__ import annotations

from collections.abc import Sequence

from confmax.evaluate.verdict import Rival, Verdict


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names in a sentence, the later ones left out."""
    shown = list(names[:most])
    if len(names) > most:
        return ", ".join(shown) + f" and {len(names) - most} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + f" and {shown[-1]}"


def in_brief(verdict: Verdict, rule: str = "the tuned rule") -> str:
    """Return what a verdict says of a ``rule``, without numbers; nothing where it is unknown."""
    of = verdict.of
    named = {kind: [one.name for one in verdict.competing if one.kind == kind] for kind in ("worse", "better")}
    if verdict.kind == "misses":
        return f"{rule} misses {listed(verdict.missed)} on these rows"
    if verdict.kind == "alone":
        return f"{rule} keeps its limits on these rows, and {listed([one.name for one in verdict.rivals])} miss" + (
            "es one" if len(verdict.rivals) == 1 else " one each"
        )
    if verdict.kind == "same":
        return f"{rule} decides as {of} does"
    if verdict.kind == "as good":
        good = next(one.good for one in verdict.rivals if one.name == of)
        return f"{of} is {good} as {rule}"
    if verdict.kind in named:
        return f"{rule} is {verdict.kind} than {listed(named[verdict.kind])}"
    if verdict.kind == "unclear":
        unclear = listed([one.name for one in verdict.competing if one.kind == "unclear"])
        better = f"{rule} is better than {listed(named['better'])}; " if named["better"] else ""
        return f"{better}too few rows to say whether {'it' if better else rule} beats {unclear}"
    return ""


def in_words(verdict: Verdict, rule: str) -> str:
    """Return what a verdict says of a ``rule``, with the limits that rivals miss; nothing where it is unknown."""
    lost: dict[tuple[str, ...], list[Rival]] = {}
    for one in verdict.rivals:
        lost.setdefault(one.missed, []).append(one)
    lost.pop((), None)
    said = in_brief(verdict, rule)
    if not said or not lost or verdict.kind == "misses":
        return said
    if verdict.kind == "alone":
        said = f"{rule} keeps its limits on these rows"
    parts = [
        f"{listed([one.name for one in some])} miss{'es' if len(some) == 1 else ''} {listed(missed)}"
        for missed, some in lost.items()
    ]
    whose = "its value does" if sum(map(len, lost.values())) == 1 else "their values do"
    return f"{said}; {listed(parts)}, so {whose} not compare"
