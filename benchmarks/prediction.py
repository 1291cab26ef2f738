"""What prediction costs: a rule beside one scan of the oracle, and randomised beside deterministic prediction.

python -m benchmarks.prediction          (or python -m benchmarks.speed prediction)
"""

import numpy as np

from benchmarks._speed_tables import SEED, Recipe
from benchmarks._speed_tools import alternate, milliseconds, ratio, shown, two_threads, verdict
from benchmarks.results import write_section
from confmax import DecisionRule
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

SIZES = ((1_000_000, 10), (200_000, 50), (100_000, 100))
ATOMS = (2, 3, 5)
REPEATS = 7
BOUND = 2.0
SCAN_BOUND = 1.5  # "about one pass"


def measure(quick=False):
    """Return one row per table and number of atoms: times of a scan and of predictions."""
    rows = []
    for n, K in SIZES:
        recipe = Recipe(n // 100 if quick else n, K)
        P, _ = recipe.draw()
        rng, keys = np.random.default_rng(SEED), np.arange(recipe.n)
        oracle = make_oracle(make_table(P))
        for A in ATOMS:
            gains = Gains.reduced(rng.random((A, K)) + 0.5, 0.1 * rng.random((A, K)))
            single = DecisionRule(gains[0], np.ones(1), tuple(range(K)))
            mixture = DecisionRule(gains, rng.dirichlet(np.ones(A)), tuple(range(K)))
            calls = {
                "scan": lambda oracle=oracle, gain=gains[0]: oracle.maximize(gain),
                "deterministic": lambda rule=single, P=P: rule.predict(P),
                "rows": lambda rule=mixture, P=P: rule.predict(P),
                "keys": lambda rule=mixture, P=P, keys=keys: rule.predict(P, keys=keys),
            }
            times = alternate(calls, 1 if quick else REPEATS)
            rows.append({"n": recipe.n, "K": K, "size": recipe.size, "atoms": A, "seconds": times})
    return {"seed": SEED, "rows": rows}


def report(data):
    lines = [
        "`python -m benchmarks.prediction`: `rule.predict` of one gain, validation included, beside one scan of the "
        "oracle (which also counts), and of a mixture beside that of one of its atoms, drawn by row or by given keys; "
        f"cold caches, float32, median (range) of {len(data['rows'][0]['seconds']['scan'])} alternating calls. "
        f"Required: about one scan (taken as at most {SCAN_BOUND}), and at most {BOUND:g} times for a mixture.",
        "",
        "table | atoms | scan, ms | predict, ms | predict / scan | target | by row / predict | by key / predict | "
        "target",
        "---|---:|---:|---:|---:|---|---:|---:|---",
    ]
    for row in data["rows"]:
        t = row["seconds"]
        base = ratio(t["deterministic"], t["scan"])
        drawn = [ratio(t[how], t["deterministic"]) for how in ("rows", "keys")]
        lines.append(
            f"{row['size']} | {row['atoms']} | {milliseconds(t['scan'])} | {milliseconds(t['deterministic'])} | "
            f"{shown(base)} | {verdict(base[0], SCAN_BOUND)} | {shown(drawn[0])} | {shown(drawn[1])} | "
            f"{verdict(max(part[0] for part in drawn), BOUND)}"
        )
    return "\n".join(lines)


def main():
    with two_threads():
        text = report(measure())
    write_section("prediction", text)
    print(text)


if __name__ == "__main__":
    main()
