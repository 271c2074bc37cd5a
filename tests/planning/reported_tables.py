"""Random tables of reported figures that are consistent: counts first, every figure derived from them, rounded once."""

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from drsim.theory.consistency import holm_rejects, usual_intervals

type Row = dict[str, Any]

KEPT = ("id", "agent", "benchmark", "unit", "n", "interval_is", "interval_level")
"""Fields that say how to read others; a range whose name was dropped would be a false claim."""


class Printer:
    """Rounds to a table's digits, halves up or to even."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.is_percent = bool(rng.random() < 0.5)
        self.digits = int(rng.integers(0, 4)) + (0 if self.is_percent else 1)
        self.rounding = ROUND_HALF_UP if rng.random() < 0.5 else ROUND_HALF_EVEN

    def __call__(self, value: Fraction | float, *, is_rate: bool = True) -> str:
        exact = Fraction(value) * (100 if self.is_percent and is_rate else 1)
        with localcontext() as context:
            context.prec = 60
            number = Decimal(exact.numerator) / Decimal(exact.denominator)
            return str(number.quantize(Decimal(1).scaleb(-self.digits), rounding=self.rounding))


def random_table(rng: np.random.Generator, *, keep: float = 0.7) -> list[Row]:
    """Rows of one agent and benchmark: a baseline, its arms, the best of them, a pool, and some rows printed again.

    Parameters
    ----------
    rng : Generator
        Source of the counts and of the layout.
    keep : float
        Share of figures that are given.

    Returns
    -------
    list of dict
        Rows of `drsim.claims/1`.
    """
    printer = Printer(rng)
    n_seeds, per_seed = int(rng.integers(2, 6)), int(rng.integers(5, 300))
    n = n_seeds * per_seed
    n_arms = int(rng.integers(1, 5))
    base = [int(k) for k in rng.binomial(per_seed, rng.beta(1, 1), n_seeds)]
    unit = "percent" if printer.is_percent else "probability"
    cell: Row = {"agent": "agent", "benchmark": "benchmark", "unit": unit, "n": n}
    baseline = {"arm": "baseline", "arm_success": printer(Fraction(sum(base), n))}
    rows = [cell | baseline | _seeds(rng, base, per_seed, printer)]
    arms = [_flips(rng, base, per_seed) for _ in range(n_arms)]
    for i, (disrupted, recovered) in enumerate(arms):
        row = cell | {"id": f"arm {i}", "arm": f"arm {i}", "table": "one"}
        row |= _rates(printer, n, sum(base), sum(disrupted), sum(recovered))
        if rng.random() < keep:
            row |= _counts(n, sum(base), sum(disrupted), sum(recovered))
        seeds = [s - b + c for s, b, c in zip(base, disrupted, recovered, strict=True)]
        row |= _seeds(rng, seeds, per_seed, printer)
        rows.append({name: value for name, value in row.items() if name in KEPT or rng.random() < keep})
    rows.append(_best(rng, printer, cell, n, arms))
    rows.append(_pool(printer, n, sum(base), arms) | {"unit": unit})
    _add_tests(rng, rows[1 : 1 + n_arms])
    return rows


def _flips(rng: np.random.Generator, base: Sequence[int], per_seed: int) -> tuple[list[int], list[int]]:
    disruption, recovery = rng.beta(1, 2), rng.beta(1, 2)
    disrupted = [int(rng.binomial(s, disruption)) for s in base]
    recovered = [int(rng.binomial(per_seed - s, recovery)) for s in base]
    return disrupted, recovered


def _rates(printer: Printer, n: int, s: int, b: int, c: int) -> Row:
    f = n - s
    row = {
        "p": printer(Fraction(f, n)),
        "delta": printer(Fraction(c - b, n)),
        "base_success": printer(Fraction(s, n)),
        "arm_success": printer(Fraction(s - b + c, n)),
    }
    if f:
        row["r"] = printer(Fraction(c, f))
    if s:
        row["d"] = printer(Fraction(b, s))
    if f and s and b + c:
        r, d = Fraction(c, f), Fraction(b, s)
        row["p_star"] = printer(d / (r + d))
    return row


def _counts(n: int, s: int, b: int, c: int) -> Row:
    return {"A": n - s - c, "B": b, "C": c, "D": s - b, "F": n - s, "S": s, "successes": s - b + c}


def _seeds(rng: np.random.Generator, successes: Sequence[int], per_seed: int, printer: Printer) -> Row:
    rates = [Fraction(k, per_seed) for k in successes]
    as_rates, as_counts = {"seeds": [printer(rate) for rate in rates]}, {"seed_successes": list(successes)}
    row: Row = as_rates if rng.random() < 0.7 else as_counts
    if rng.random() < 0.3:
        return row | {"interval": [printer(min(rates)), printer(max(rates))], "interval_is": "range"}
    level = 0.9 if rng.random() < 0.3 else 0.95
    n = per_seed * len(rates)
    usual = usual_intervals(float(sum(successes) / n), n, [float(rate) for rate in rates], level)
    low, high = usual[int(rng.integers(len(usual)))]
    return row | {"interval": [printer(low), printer(high)], "interval_level": str(level)}


def _best(
    rng: np.random.Generator, printer: Printer, cell: Row, n: int, arms: Sequence[tuple[list[int], list[int]]]
) -> Row:
    gain = max(Fraction(sum(c) - sum(b), n) for b, c in arms)
    shrunk = printer(gain * Fraction(int(rng.integers(0, 101)), 100))
    names = [f"arm {i}" for i in range(len(arms))]
    return cell | {"arm": "best", "delta": printer(gain), "delta_corrected": shrunk, "best_of": names}


def _pool(printer: Printer, n: int, s: int, arms: Sequence[tuple[list[int], list[int]]]) -> Row:
    m = len(arms)
    b, c = sum(sum(arm[0]) for arm in arms), sum(sum(arm[1]) for arm in arms)
    row = _rates(printer, n * m, s * m, b, c) | _counts(n * m, s * m, b, c) | {"n": n * m}
    return row | {"pools": [f"arm {i}" for i in range(m)], "agent": "agent", "benchmark": "benchmark", "arm": "all"}


def _add_tests(rng: np.random.Generator, rows: Sequence[Row]) -> None:
    correction = str(rng.choice(["none", "bonferroni", "sidak", "holm"]))
    m = len(rows)
    p_values = [Fraction(str(round(float(rng.beta(0.3, 3)), 3))) for _ in rows]
    alpha = Fraction(1, 20)
    passes = {
        "none": [p <= alpha for p in p_values],
        "bonferroni": [p * m <= alpha for p in p_values],
        "sidak": [float(p) <= 1 - 0.95 ** (1 / m) for p in p_values],
        "holm": holm_rejects(p_values, alpha),
    }[correction]
    for row, p, is_significant in zip(rows, p_values, passes, strict=True):
        test = {"p_value": f"{float(p):.3f}", "significant": is_significant, "correction": correction}
        row.update(test, comparisons=m, one_sided=bool(rng.random() < 0.5), alpha="0.05")
