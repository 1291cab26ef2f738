"""The colours of reports and of matplotlib's displays, in one place.

Better is blue and worse is orange wherever a difference is shown: the two that all common forms of colour blindness
keep apart. Every name has a colour for light backgrounds and one for dark ones.
"""

from __future__ import annotations

STEPS = 9  # of the scales "share" and "change"

LIGHT = {
    "page": "#f6f7f9", "card": "#ffffff", "ink": "#16202b", "soft": "#51606f", "line": "#dde3e9",
    "line-strong": "#8b99a7", "accent": "#1261c4", "quiet": "#75828f", "second": "#b7690b", "good": "#1261c4",
    "bad": "#b8470c", "note": "#fff6e3", "note-line": "#d59a2a", "on-weak": "#16202b", "on-strong": "#ffffff",
    "share-0": "#f4f7fb", "share-1": "#dde9f6", "share-2": "#c3d9ef", "share-3": "#a2c4e5", "share-4": "#7daad8",
    "share-5": "#5990c9", "share-6": "#3b75b6", "share-7": "#245b9c", "share-8": "#12427d",
    "change-0": "#a2420a", "change-1": "#c9722f", "change-2": "#e3a56d", "change-3": "#f3d5b7", "change-4": "#f3f4f5",
    "change-5": "#c5daee", "change-6": "#8bb4da", "change-7": "#4b87c0", "change-8": "#12529b",
}  # fmt: skip
DARK = {
    "page": "#10151b", "card": "#18202a", "ink": "#e6ebf0", "soft": "#a3b0bd", "line": "#2c3844",
    "line-strong": "#76869a", "accent": "#6db0ff", "quiet": "#9aa8b5", "second": "#f0ad4e", "good": "#6db0ff",
    "bad": "#ff9660", "note": "#2b2414", "note-line": "#b98a2e", "on-weak": "#e6ebf0", "on-strong": "#0b1016",
    "share-0": "#1c2631", "share-1": "#1d3348", "share-2": "#1f4162", "share-3": "#23517e", "share-4": "#2b659d",
    "share-5": "#3c7dbd", "share-6": "#5a97d4", "share-7": "#80b3e6", "share-8": "#acd0f5",
    "change-0": "#ffb184", "change-1": "#d9824c", "change-2": "#a1592b", "change-3": "#5d3a24", "change-4": "#232c36",
    "change-5": "#234060", "change-6": "#2d639c", "change-7": "#5594d6", "change-8": "#9fcbff",
}  # fmt: skip
# Okabe and Ito's, for classes: which of them is better is not what they say
CLASSES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f")


def style_variables() -> str:
    """Return the colours as CSS variables, the dark ones for readers who prefer them; paper is always light."""
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in each.items()) for each in (LIGHT, DARK))
    return f":root{{color-scheme:light dark;{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def scale(colours: dict[str, str], kind: str) -> list[str]:
    """Return of `LIGHT` or `DARK` those of the scale ``kind``, "share" or "change", from its lowest value on."""
    return [colours[f"{kind}-{k}"] for k in range(STEPS)]
