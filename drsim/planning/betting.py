r"""Evidence on a gain that may be looked at after every task: tests by betting, mixed over the size of the bet.

Tasks are drawn one after the other; x_i ∈ [−1, 1] is a task's intervened minus baseline success, the mean of its pairs.
Whoever bets a share c ∈ (0, 1) of his capital on Δ > δ holds after n tasks

.. math:: K_n(c) = \prod_{i \le n} \Bigl(1 + c\,\frac{x_i - δ}{1 + δ}\Bigr), \qquad K_n = \sum_k w_k K_n(c_k),

and can expect no growth where Δ ≤ δ, so that P(K_n ≥ 1/α for any n) ≤ α there (Ville). With one pair a task and δ = 0
the factor is 1 + c for a pair of C, 1 − c for one of B and 1 for all others: the likelihood ratio of
P(C | discordant) = (1 + c)/2 against 1/2, mixed over c. The mixture is finite, so that the bound holds as it is
computed.

The order of the tasks does not enter K_n, only that tasks are alike before they are run. Several pairs of one task are
not: they count as the one x_i of that task, once it is complete.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from drsim.arrays import FloatArray, IntArray

__all__ = ["BENEFIT", "HARM", "N_BETS", "Bets", "confidence_bounds", "factors", "log_capital", "running_bounds", "walk"]

N_BETS = 32
"""Doubling them moves the pairs until a stop by under 1 %."""

BISECTIONS = 40
"""Halvings of [−1, 1]: the limits are exact to 2e-12."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bets:
    """Shares of the capital that are bet, with equal weights."""

    sizes: FloatArray
    """(N_BETS,) c in (0, 1)."""

    @classmethod
    def of_power(cls, power: float) -> "Bets":
        """Mid-points of equal parts of [0, 1] to a power: density of c proportional to c^(1/power − 1)."""
        return cls(sizes=((np.arange(N_BETS) + 0.5) / N_BETS) ** power)


BENEFIT = Bets.of_power(2.0)
"""Mostly small bets: gains of interventions are small, and a pilot goes on for them."""

HARM = Bets.of_power(0.5)
"""Mostly large bets: what a pilot has to be stopped for early is a collapse."""


def factors(gains: FloatArray, margin: float, bets: Bets) -> FloatArray:
    """Growth of the capital on Δ > margin.

    Parameters
    ----------
    gains : FloatArray
        (n_values,) gains of a task, in [−1, 1]; negated, as is `margin`, for bets on Δ < margin.
    margin : float
        δ, in (−1, 1).
    bets : Bets
        Shares.

    Returns
    -------
    ndarray
        (n_values, N_BETS), positive.

    References
    ----------
    THEORY section 8; I. Waudby-Smith, A. Ramdas, Journal of the Royal Statistical Society B 86 (2024) 1–27.
    """
    grown: FloatArray = 1.0 + bets.sizes * ((gains[:, None] - margin) / (1.0 + margin))
    return grown


def log_capital(counts: FloatArray, gains: FloatArray, margin: float, bets: Bets) -> FloatArray:
    """Logarithm of the capital on Δ > margin, which starts at 1.

    Parameters
    ----------
    counts : FloatArray
        (…, n_values) tasks with each gain.
    gains, margin, bets
        As for `factors`.

    Returns
    -------
    ndarray
        (…,) log K; 1/K bounds the chance of such a capital at any time where Δ ≤ margin.
    """
    logs = np.einsum("...v,vk->...k", counts, np.log(factors(gains, margin, bets)), optimize=False)
    most = logs.max(axis=-1)
    total: FloatArray = most + np.log(np.exp(logs - most[..., None]).mean(axis=-1))
    return total


def confidence_bounds(counts: FloatArray, gains: FloatArray, alpha: float, bets: Bets = BENEFIT) -> tuple[float, float]:
    """Limits of Δ that hold at all times together with probability 1 − alpha.

    Parameters
    ----------
    counts : FloatArray
        (n_values,) tasks with each gain.
    gains : FloatArray
        (n_values,) in [−1, 1].
    alpha : float
        Half of it for each limit, in (0, 1).
    bets : Bets
        Shares.

    Returns
    -------
    tuple of float
        Lower and upper limit: margins on whose sides less than 2/alpha was won.
    """
    limit = float(np.log(2.0 / alpha))
    return _limit(counts, gains, limit, bets), -_limit(counts, -gains, limit, bets)


def _limit(counts: FloatArray, gains: FloatArray, limit: float, bets: Bets) -> float:
    """The largest margin that is ruled out from below; capital falls with the margin."""
    low, high = -1.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if log_capital(counts, gains, middle, bets) >= limit:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def walk(
    kinds: IntArray,
    up: FloatArray,
    down: FloatArray,
    start: FloatArray,
    limits: FloatArray,
    stops: IntArray,
    sides: IntArray,
) -> None:
    """Fill when each of P sequences of tasks stops, and on which side.

    Parameters
    ----------
    kinds : IntArray
        (P, n) kind of each task.
    up, down : FloatArray
        (n_kinds, N_BETS) growth of the capital on benefit and on harm.
    start : FloatArray
        (2, N_BETS) capital at the start on benefit and on harm, bet by bet.
    limits : FloatArray
        (2,) capital that stops, for benefit and for harm.
    stops : IntArray
        (P,) out: tasks until the stop, n without one.
    sides : IntArray
        (P,) out: 1 benefit, −1 harm, 0 none.
    """
    n_bets = up.shape[1]
    winning, losing = np.empty(n_bets), np.empty(n_bets)
    for path in range(len(kinds)):
        winning[:] = start[0]
        losing[:] = start[1]
        stops[path] = kinds.shape[1]
        sides[path] = 0
        for i in range(kinds.shape[1]):
            kind = kinds[path, i]
            won = lost = 0.0
            for k in range(n_bets):
                winning[k] *= up[kind, k]
                losing[k] *= down[kind, k]
                won += winning[k]
                lost += losing[k]
            if won >= limits[0] or lost >= limits[1]:
                stops[path] = i + 1
                sides[path] = 1 if won >= limits[0] else -1
                break


@njit(cache=True)
def _margin_limit(counts: FloatArray, gains: FloatArray, sizes: FloatArray, limit: float, low: float) -> float:
    """`_limit`, from a margin that is ruled out already."""
    high = 1.0
    logs = np.empty(len(sizes))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        logs[:] = 0.0
        for v in range(len(gains)):
            if counts[v] > 0.0:
                for k in range(len(sizes)):
                    logs[k] += counts[v] * np.log(1.0 + sizes[k] * (gains[v] - middle) / (1.0 + middle))
        most = logs.max()
        if most + np.log(np.exp(logs - most).mean()) >= limit:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def running_bounds(kinds: IntArray, gains: FloatArray, alpha: float, sizes: FloatArray, out: FloatArray) -> None:
    """Fill the limits of `confidence_bounds` after every task, each the sharpest so far.

    Parameters
    ----------
    kinds : IntArray
        (n,) kind of each task.
    gains : FloatArray
        (n_kinds,) gain of each kind.
    alpha : float
        As there.
    sizes : FloatArray
        (N_BETS,) bets.
    out : FloatArray
        (n, 2) lower and upper limits.
    """
    counts = np.zeros(len(gains))
    limit = np.log(2.0 / alpha)
    low, high = -1.0, 1.0
    for i in range(len(kinds)):
        counts[kinds[i]] += 1.0
        low = _margin_limit(counts, gains, sizes, limit, low)
        high = -_margin_limit(counts, -gains, sizes, limit, -high)
        out[i, 0], out[i, 1] = low, high
