"""The catalogue of metrics, and the ways to get a metric.

The rows stand beside the formulas, in `confmax.metrics.recalls`, `confmax.metrics.shares` and
`confmax.metrics.scores`; they can be held against Table 1 of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from confmax.confusion import Array
from confmax.errors import InputError
from confmax.metrics import elsewhere, recalls, scores, shares
from confmax.metrics.decided import COVERAGE, COVERAGE_OF_CLASS
from confmax.metrics.limited import refusal
from confmax.metrics.metric import STATISTICS, Metric
from confmax.metrics.rates import LABELS_PER_ROW
from confmax.metrics.structure import BY_WORD, Linear, MinOfLinear, Structure
from confmax.metrics.user import UserFormula
from confmax.tables.frames import frame_columns

P = ParamSpec("P")
R = TypeVar("R")
_PARAMETERS = ("cost", "gain", "beta", "rho", "smoothing", "b_reg", "b_min")
# what may be maximised or limited, and what may be maximised
_QUANTITIES = {metric.name: metric for metric in (*recalls.METRICS, *shares.METRICS, *scores.METRICS, COVERAGE)}
_CATALOGUE = {name: metric for name, metric in _QUANTITIES.items() if metric.use == "maximised"}
_ALIASES = {alias: name for name, metric in _CATALOGUE.items() for alias in metric.aliases}
# similar spellings would lead these astray
_SYNONYMS = {word: name for name, metric in _QUANTITIES.items() for word in metric.synonyms}


def names() -> list[str]:
    """Return the names of the catalogue, sorted.

    Examples
    --------
    >>> import confmax
    >>> "macro_f1" in confmax.metrics.names()
    True
    """
    return sorted(_CATALOGUE)


def plain_names() -> list[str]:
    """Return the names of the catalogue whose metrics are of all classes and have no parameters, sorted."""
    return [
        name
        for name in names()
        if _CATALOGUE[name].one_class is None
        and name != "linear"
        and all(key in _CATALOGUE[name].fixed for key, _ in _CATALOGUE[name].params)
    ]


def title_of(name: str) -> str | None:
    """Return the name in prose of a metric of the catalogue, None for other texts."""
    return _QUANTITIES[name].title if name in _QUANTITIES else None


def aliases() -> dict[str, str]:
    """Return scikit-learn's scorer names, each with the name in the catalogue.

    Examples
    --------
    >>> import confmax
    >>> confmax.metrics.aliases()["f1_macro"]
    'macro_f1'
    """
    return dict(_ALIASES)


def get(name: str, **params: Any) -> Metric:
    """Return a metric by its name.

    Parameters
    ----------
    name : str
        One of `names`, or scikit-learn's scorer name for it. Metrics of one class, such as ``recall``,
        ``precision`` and ``f1``, take the name of the class in brackets: ``"recall[VF]"``.
        Without it they are of the positive one of two classes, the second.
    **params
        ``label``, for metrics of one class: the name of the class, as in brackets, or its number where classes have no
        names. ``beta`` (``f_beta``, ``macro_f_beta``). ``rho`` and ``smoothing`` ("relative" to each class's prior, or
        "additive", as in the paper's Table 2) of ``g_mean``, ``h_mean``, ``q_mean``; ``rho`` of ``min_recall``.
        ``b_reg`` of ``ams`` is added to the background, ``b_min`` is the least background. ``gain`` or ``cost`` of
        ``linear`` is a (K, M) matrix. If it is a data frame, the names of its rows (true classes) and columns
        (decisions) are matched to the classes of the table that the metric is used on, so their order is not needed;
        further columns are further decisions. If only one axis has names, the other one has the same order.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, or a value is out of range.

    Examples
    --------
    >>> import confmax
    >>> confmax.metrics.get("f_beta", beta=2)
    f_beta(beta=2.0)
    >>> confmax.metrics.get("recall[2]").value([[5, 0, 0], [1, 4, 0], [0, 1, 3]])
    0.75
    """
    return _named(name, params, _CATALOGUE)


def quantity(name: str, **params: Any) -> Metric:
    """Return a metric as `get` does, or what may be limited: ``rate`` and ``fpr`` of a class, and ``coverage``."""
    return _named(name, params, _QUANTITIES)


def limited_names() -> tuple[list[str], list[str]]:
    """Return the names of what can be limited: of one class, and of all."""
    found = [
        metric for metric in _QUANTITIES.values() if refusal(metric, True, "0") is None and metric.name != "linear"
    ]
    of_one = [metric.name for metric in found if metric.one_class is not None or metric is COVERAGE]
    return sorted(of_one), sorted(metric.name for metric in found if metric.one_class is None)


def shares_of_rows() -> list[str]:
    """Return the names of what is a share of rows, or the smallest of several, so that exact tests hold for it."""
    formulas = {name: metric.formula for name, metric in _QUANTITIES.items()}
    return sorted(name for name, formula in formulas.items() if formula.is_share or formula.smallest_of is not None)


def _named(name: str, params: dict[str, Any], among: Mapping[str, Metric]) -> Metric:
    """Return the metric of this name, as `get` does."""
    if not isinstance(name, str):
        raise ValueError(f"a metric's name is a string; got {type(name).__name__}")
    if "[" in name or "]" in name:
        name, label = _of_one_class(name)
        if "label" in params:
            raise ValueError(f"{name}[{label}] names its class already; leave label= out")
        params["label"] = label
    metric = among.get(_ALIASES.get(name, name))
    if metric is COVERAGE and "label" in params:
        metric = COVERAGE_OF_CLASS
    if metric is None:
        raise _unknown(name, str(params.get("label", "")), among)
    if metric.name == "linear":
        return _linear(metric, params)
    free = [key for key, _ in metric.params if key not in metric.fixed] + ["label"] * (metric.one_class is not None)
    if "label" in params and metric.one_class is None:
        fitting = ", ".join(each for each in sorted(among) if among[each].one_class)
        raise ValueError(f"{name} is not a metric of one class, so it takes no class; those that do are {fitting}")
    for key in params:
        if key not in free:
            accepted = f"it takes {', '.join(free)}" if free else "it takes none"
            raise ValueError(f"{name} has no parameter {key!r}; {accepted}")
    label = params.pop("label", None)
    label = label.item() if isinstance(label, np.generic) else label
    if label is not None:
        if not isinstance(label, (str, int, float)) or label == "":
            raise ValueError(f"label of {name} is the name of one class, a string or a number; got {label!r:.60}")
        told = metric.described(str(label))
        metric = replace(metric, label=label, binary=False, ordered=False, description=told)
    return metric.with_params({key: _checked(metric.name, key, value) for key, value in params.items()})


def resolve(metric: str | Metric | Callable[[Array], float]) -> Metric:
    """Return a `Metric` from a name, a metric or a function of C.

    Parameters
    ----------
    metric : str, Metric or callable
        A name as for `get`, such as "macro_f1" or "recall[VF]", or a function of C (K, M) as for `from_function`.

    Raises
    ------
    ValueError
        If it is none of these, or the name is unknown.

    Examples
    --------
    >>> import confmax
    >>> confmax.metrics.resolve("f1_macro")
    macro_f1
    """
    if isinstance(metric, Metric):
        return metric
    scored: Any = getattr(metric, "_score_func", None)  # what scikit-learn's make_scorer was given
    if scored is not None or str(getattr(metric, "__module__", "")).startswith("sklearn.metrics"):
        of = getattr(scored, "__name__", "a function")
        what = f"a scikit-learn scorer of {of}" if scored else "a function of labels"
        raise ValueError(
            f"metric is {what}, not of a confusion matrix; pass the name of the metric, such as 'f1_macro', or a "
            f"function of the confusion matrix C"
        )
    if callable(metric):
        return from_function(metric)
    if _is_table(metric):
        raise InputError(
            "`metric` is a table, which does not say whether its numbers are costs or gains",
            "pass `metric=confmax.metrics.get('linear', cost=table)`, or gain=table; if these are probabilities, the "
            "metric comes before them",
        )
    if not isinstance(metric, str):
        raise ValueError(
            f"metric is a name such as 'macro_f1', a Metric or a function of the confusion matrix; got "
            f"{type(metric).__name__}: the metric comes first, then proba, then y"
        )
    known = _QUANTITIES.get(metric.partition("[")[0].strip())
    within_limits = known is not None and known.use == "within limits"
    return _named(metric, {}, _QUANTITIES) if within_limits else get(metric)


def _is_table(given: Any) -> bool:
    """Return whether an argument has the shape of a table of costs; one of probabilities has more rows as a rule."""
    try:
        shape = np.shape(given)
    except ValueError:
        return False
    return len(shape) == 2 and 2 <= shape[0] <= shape[1]


def named(text: str) -> Metric | None:
    """Return the metric that a rule's file names, None for tables of costs, functions and what is not understood."""
    parts = re.fullmatch(r"(\w+)(\[.*\])?(\(.*\))?", text, re.DOTALL)  # the name of a class may have parentheses
    if parts is None or parts[1] == "linear" or parts[1] not in (*names(), COVERAGE.name):
        return None
    params: dict[str, Any] = dict(re.findall(r"(\w+)=(\([\d, ]*\)|[^,()]+)", parts[3] or ""))
    classes = params.pop("classes", None)
    try:
        # numbers have digits and words have none; whether a value fits its parameter is checked by the catalogue
        numbers = {key: float(value) for key, value in params.items() if not value.isalpha()}
        metric = quantity(parts[1] + (parts[2] or ""), **{**params, **numbers})
        return metric if classes is None else metric.over([int(k) for k in re.findall(r"\d+", classes)])
    except ValueError:
        return None


def metric_of(rule: Any) -> Metric | None:
    """Return the metric that a ``rule`` was tuned for; None where the rule does not hold it, as `named` says."""
    # a rule of a class that is not confmax's need not have one
    table = getattr(rule, "cost_table", None)
    if table is None:
        return named(rule.metric)
    metric = get("linear", **{"cost" if table.of == "costs" else "gain": table.rows})
    own = rule.class_names[: rule.n_classes]
    if own == tuple(range(rule.n_classes)):
        return metric
    return replace(metric, names=(own, rule.class_names), ordered=False)


def refusing_parameters(function: Callable[P, R]) -> Callable[P, R]:
    """Return a ``function`` that takes a metric, which refuses a parameter of the metric and says where it belongs."""

    @wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        for name in [name for name in given if name in _PARAMETERS]:
            metric = next((one for one in (given.get("metric"), *args[:1]) if isinstance(one, str)), "linear")
            raise InputError(
                f"{name} is a parameter of the metric, and {function.__name__} does not take it",
                f"pass `metric=confmax.metrics.get({metric!r}, {name}=...)`",
            )
        return function(*args, **given)

    return checked


def refuse_without_limits(metric: Metric) -> None:
    """Refuse, by a ValueError, a metric that a rule without use makes largest where nothing is limited."""
    if metric.formula == shares.RATE:
        name = "NAME" if metric.label is None else metric.label
        raise ValueError(
            f"rate[{name}] is largest if every row is decided as {name}; limit it, such as by precision[{name}] >= 0.8"
        )


def in_our_words(name: str) -> str:
    """Return the name here of a metric that others call ``name``; of other words the word alone, in small letters.

    >>> in_our_words("TPR"), in_our_words("f1-score"), in_our_words("zzz")
    ('recall', 'f1', 'zzz')
    """
    word = elsewhere.plain_word(name)
    return _SYNONYMS.get(word, _ALIASES.get(word, word))


def _unknown(name: str, label: str, among: Mapping[str, Metric]) -> ValueError:
    """Return the refusal of a ``name``, with the ``label`` of a class if it has one, that is not ``among`` metrics."""
    of_class = f"[{label}]" if label else ""
    same = in_our_words(name)
    if same in _QUANTITIES and same not in among:
        limited = f"{same}[{label or 'NAME'}]" if same != COVERAGE.name else same
        sense = "<= 0.1" if same != COVERAGE.name else ">= 0.8"
        what = limited if name == same else f"{name}, which is {limited},"
        return ValueError(f"{what} is limited, not maximised; pass a constraint, such as '{limited} {sense}'")
    known = elsewhere.refused(name, among, of_class) if same not in among else None
    if known is not None:
        return InputError(*known, "metric")
    is_limited = len(among) > len(_CATALOGUE)
    spellings = [*among, *_ALIASES, *([LABELS_PER_ROW.name] if is_limited else [])]
    import difflib

    near = _with_brackets(name, among) or difflib.get_close_matches(same, spellings, 3)
    near = [same + of_class * (among[same].one_class is not None)] if same in among else near
    *firsts, final = sorted(_QUANTITIES.keys() - _CATALOGUE.keys())
    beside = f", and {', '.join(firsts)} and {final} can be limited, of several labels also {LABELS_PER_ROW.name}"
    listed = "`confmax.metrics.names()` lists them" + (beside if is_limited else "")
    hint = f"did you mean {' or '.join(near)}?" if near else listed
    return InputError(f"there is no metric {name!r}", hint, "metric")


def _with_brackets(name: str, among: Mapping[str, Metric]) -> list[str]:
    """Return ``recall[VF]`` for ``recall_VF``, nothing where no metric of one class stands before a name."""
    bases = [each for each, metric in among.items() if metric.one_class and name.lower().startswith(f"{each}_")]
    base = max(bases, key=len, default="")
    label = name[len(base) + 1 :]
    import difflib

    if difflib.get_close_matches(name.lower(), {*among, *_ALIASES} - {base}, 1, 0.8):
        return []  # misspelt
    return [f"{base}[{label}]"] if base and label not in ("", "score") and not label.startswith("at_") else []


def _of_one_class(text: str) -> tuple[str, str]:
    """Return metric and class of ``NAME[CLASS]``."""
    name, _, rest = text.strip().partition("[")
    label = rest.removesuffix("]").strip()
    if not name or not label or not rest.endswith("]"):
        raise ValueError(f"{text!r} is not a metric of one class; write NAME[CLASS], such as recall[yes]")
    if "[" in label or "]" in label:
        raise ValueError(
            f"{text!r} holds more than one pair of brackets; for a class whose name has brackets write "
            f"metrics.get({name!r}, label={label!r})"
        )
    return name.strip(), label


def _checked(name: str, key: str, value: Any) -> Any:
    """Return the parameter's value if it is in range."""
    if key == "smoothing":
        if value not in ("relative", "additive"):
            raise ValueError(f"smoothing of {name} is 'relative' or 'additive'; got {value!r}")
        return value
    # booleans are integers to Python
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{key} of {name} is a number; got {value!r}")
    if not np.isfinite(value) or value < 0 or (key == "beta" and value == 0):
        needed = "positive" if key == "beta" else "zero or positive"
        raise ValueError(f"{key} of {name} must be finite and {needed}; got {value!r}")
    return float(value)


def _linear(metric: Metric, params: Mapping[str, Any]) -> Metric:
    """Return the linear metric of a gain or cost matrix."""
    if len(params) != 1 or next(iter(params)) not in ("gain", "cost"):
        raise ValueError("linear needs its table: get('linear', gain=G) or get('linear', cost=costs), a (K, M) matrix")
    key, table = next(iter(params.items()))
    try:
        # masked entries become NaN, which is refused with the other numbers that are not finite
        G = np.array(np.ma.asarray(table, dtype=np.float64).filled(np.nan))
    except (TypeError, ValueError):
        raise ValueError(f"the {key} matrix of linear must hold numbers, one row per true class") from None
    if G.ndim != 2 or G.shape[0] < 2 or G.shape[1] < G.shape[0] or not np.isfinite(G).all():
        raise ValueError(
            f"the {key} matrix of linear is (K, M): finite, K >= 2 true classes, M >= K decisions; got shape {G.shape}"
        )
    signed = -G if key == "cost" else G
    rows = _axis(getattr(table, "index", None))
    columns = _axis(frame_columns(table))
    if rows is not None and columns is not None:
        own = {str(name): k for k, name in enumerate(columns)}
        if len(own) < len(columns) or len(set(rows)) < len(rows) or not set(map(str, rows)) <= set(own):
            raise ValueError(
                f"the {key} matrix of linear has the rows {', '.join(map(str, rows))} and the columns "
                f"{', '.join(map(str, columns))}; name every true class once in both, and decisions beyond them once"
            )
        # a table in an order of its own is read in that of its rows
        inner = [own[str(name)] for name in rows]
        places = [*inner, *sorted(set(range(len(columns))) - set(inner))]
        signed = signed[:, places]
        columns = tuple(columns[k] for k in places)
    own_names = None if rows is None and columns is None else (rows, columns)
    structure = Linear(tuple(map(tuple, signed.tolist())), key == "cost", fractions=metric.structure.fractions)
    return replace(metric, structure=structure, names=own_names, ordered=own_names is None)


def _axis(names: Any) -> tuple[Any, ...] | None:
    """Return the names along an axis, None where there are none or they only count."""
    if names is None or callable(names):
        return None
    found = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
    return None if found == tuple(range(len(found))) else found


# --- a user's own function ------------------------------------------------------------------------------------------


def from_function(
    psi: Callable[[Array], float],
    *,
    gradient: Callable[[Array], Array] | None = None,
    structure: str | Structure = "general",
    name: str | None = None,
    n_classes: int | None = None,
) -> Metric:
    """Return the metric of a function of the confusion matrix.

    Functions in plain NumPy and Python arithmetic are differentiated automatically, so their gradient is exact; a kink
    (``np.min``, ``abs``) gets a subgradient. Functions that cannot be traced (SciPy, scikit-learn, ``float(C[0, 0])``,
    assignment into an array) are differentiated numerically, with a warning.

    Parameters
    ----------
    psi : callable
        Maps C (K, M), fractions that sum to one, to the number to maximise. It is also called with matrices whose
        entries do not quite sum to one. confmax exchanges classes to find out whether the function depends on their
        order. If it does, named classes need a stated order, as for ``f1``. A rule for which it is NaN counts as worse
        than all others; `maximize` refuses a function that is infinite for the best rule.
    gradient : callable or None
        Maps C to the (K, M) partial derivatives, correct up to a constant in each row.
    structure : {"linear", "ratio", "concave", "quasiconvex", "general"} or Structure
        The shape of the function over confusion matrices with the same row sums, if you know it. Bounds rely on it. The
        solver of "concave" metrics uses second derivatives, so functions with kinks get valid but wide bounds. The
        smallest of linear functions is declared by these (`confmax.metrics.structure.MinOfLinear`), and a linear
        program maximises it. Of other structures as objects, only the name is used.
    name : str or None
        Name in reports; by default the name of the function.
    n_classes : int or None
        The number of classes that ``psi`` is meant for. Without it, the function is checked for two and three classes
        here, and for other numbers when it is first used on such a table.

    Raises
    ------
    ValueError
        If ``psi`` is not callable or does not return a finite number, ``gradient`` disagrees with differences of
        ``psi``, the structure is unknown, or random segments of confusion matrices refute it.

    Warns
    -----
    UserWarning
        If ``psi`` cannot be differentiated automatically and ``gradient`` is not given.

    Examples
    --------
    >>> import numpy as np, confmax
    >>> worst = confmax.metrics.from_function(lambda C: np.min(np.diag(C) / C.sum(axis=1)), structure="concave")
    >>> worst.value([[40, 10], [20, 30]])
    0.6
    >>> worst.gradient([[40, 10], [20, 30]])
    array([[ 0. ,  0. ],
           [-1.2,  0.8]])
    """
    if not callable(psi):
        raise ValueError(
            f"a metric is a name, a Metric or a function of the confusion matrix; got {type(psi).__name__}"
        )
    if not isinstance(structure, Structure) and structure not in BY_WORD:
        raise ValueError(f"structure is one of {', '.join(BY_WORD)}; got {structure!r}")
    if n_classes is not None and (not isinstance(n_classes, (int, np.integer)) or n_classes < 2):
        raise ValueError(f"n_classes is the number of classes that the function is meant for, >= 2; got {n_classes!r}")
    label: str = name or str(getattr(psi, "__name__", type(psi).__name__))
    of_linear = replace(structure, smoother="rho") if isinstance(structure, MinOfLinear) else None
    formula = UserFormula(psi, gradient, "user function" if label == "<lambda>" else label, str(structure), of_linear)
    sizes = (2, 3) if n_classes is None else (n_classes,)
    # without a number, a function that two or three classes do not suit is checked on its first table
    if n_classes is None:
        formula.probe(sizes)
    else:
        formula.admit(n_classes, n_classes)
    if of_linear is None:
        return Metric(formula.name, formula, BY_WORD[str(structure)], "matrix")
    reads = {of_linear.at(np.full(K, 1 / K)).statistics for K in sizes}
    most = max(reads, key=STATISTICS.index)
    return Metric(formula.name, formula, of_linear, most, (("rho", 0.0),))
