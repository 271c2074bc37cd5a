"""Quantiles of a distribution that is known by its distribution function.

Brent's method of scipy.optimize would serve, but importing it costs more than everything else that `drsim fit` does.
"""

import math
from collections.abc import Callable

from drsim.errors import ConvergenceError

__all__ = ["quantile"]

TOLERANCE = 1e-12
MAX_STEPS = 200


def quantile(
    cdf: Callable[[float], float], level: float, *, guess: float, spread: float, low: float, high: float
) -> float:
    """Argument at which a distribution function takes a level.

    Parameters
    ----------
    cdf : callable
        Continuous, rising from 0 at `low` to 1 at `high`.
    level : float
        In (0, 1).
    guess, spread : float
        Where to look first, and how far the first step goes, ≥ 0.
    low, high : float
        Ends of the support.

    Returns
    -------
    float
        To 1e-12.

    Raises
    ------
    ConvergenceError
        `cdf` is not a number somewhere, or does not cross the level within 200 steps.
    """
    left, right, f_left, f_right = _bracket(cdf, level, min(max(guess, low), high), spread, low, high)
    last = 0.0
    for _ in range(MAX_STEPS):
        if right - left <= TOLERANCE or f_left == 0 or f_right == 0:
            return left if abs(f_left) < abs(f_right) else right
        x = (left * f_right - right * f_left) / (f_right - f_left)
        if not left < x < right:
            x = (left + right) / 2
        f = cdf(x) - level
        if math.isnan(f):
            break
        # Illinois: an end that stays put twice is worth half, or regula falsi would crawl along a convex stretch.
        stays = 0.5 if f * last > 0 else 1.0
        if f < 0:
            left, f_left, f_right = x, f, f_right * stays
        else:
            right, f_right, f_left = x, f, f_left * stays
        last = f
    raise ConvergenceError(f"the distribution function gave no quantile at level {level:g}")


def _bracket(
    cdf: Callable[[float], float], level: float, guess: float, spread: float, low: float, high: float
) -> tuple[float, float, float, float]:
    """Arguments left and right of the quantile, by doubling steps away from the guess, and `cdf` − level at both."""
    near, f_near = guess, cdf(guess) - level
    end, direction = (high, 1.0) if f_near < 0 else (low, -1.0)
    step = max(spread, TOLERANCE)
    far, f_far = near, f_near
    while far != end and (f_far < 0) == (f_near < 0):
        near, f_near = far, f_far
        far = min(max(far + direction * step, low), high)
        f_far = cdf(far) - level
        step *= 2
    return (near, far, f_near, f_far) if near <= far else (far, near, f_far, f_near)
