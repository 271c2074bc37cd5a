"""How numbers read in text."""

import math

from drsim.inference.posterior import Uncertain

__all__ = ["count", "counted", "interval", "points", "points_interval", "rate", "uncertain_rate"]


def rate(value: float) -> str:
    """A probability with three decimals, or four where the fourth is an exact 5; `–` when it is undefined."""
    if not math.isfinite(value):
        return "–"
    is_tie = abs(value * 10_000 - round(value * 10_000)) < 1e-9 and round(value * 10_000) % 10 == 5
    return f"{value:.4f}" if is_tie else f"{value:.3f}"


def points(value: float, digits: int = 1) -> str:
    """A gain in percentage points, with its sign; `–` when it is undefined."""
    return f"{100 * value:+.{digits}f}" if math.isfinite(value) else "–"


def counted(number: float, one: str, many: str | None = None) -> str:
    """`1 pair`, `150 pairs`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def count(number: float) -> str:
    """A whole number whole; fractions, which task means make, with one decimal."""
    return f"{number:.0f}" if float(number).is_integer() else f"{number:.1f}"


def interval(low: float, high: float) -> str:
    """Two probabilities in brackets."""
    return f"[{rate(low)}, {rate(high)}]"


def points_interval(low: float, high: float, digits: int = 1) -> str:
    """Two gains in brackets."""
    return f"[{points(low, digits)}, {points(high, digits)}]"


def uncertain_rate(number: Uncertain) -> str:
    """Posterior mean and 95 % interval of a probability."""
    return f"{rate(number.mean)} {interval(number.q2_5, number.q97_5)}"
