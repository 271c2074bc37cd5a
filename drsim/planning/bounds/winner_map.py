"""Where intervening could win: a map over failure rate and intraclass correlation."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.theory.churn import rerun_rates
from drsim.theory.critic import best_operating_point

__all__ = ["WINNERS", "MappedRates", "WinnerMap", "winner_map"]

WINNERS = {
    "C": "intervening on a critic with the AUROC",
    "P": "intervening on a perfect critic only",
    "B": "Best-of-2 with an oracle",
    ".": "nothing",
}
"""Letters of the map. C: the critic reaches the margin and gains no less than Best-of-2; P: only a better one does;
B: Best-of-2 gains more than any critic; '.': nothing reaches the margin."""

N_COLUMNS, N_ROWS = 61, 11
"""What 80 columns and half a screen hold, with whole steps on the full range."""

AROUND = 0.15
"""The axes go this far beyond the 95 % interval, and at least twice as far from an exact number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedRates:
    """A mechanism's recovery and disruption over the map."""

    recovery: float
    disruption: float
    is_excess: bool
    """Whether they come on top of what reruns alone show at each (p, ρ): r and d of independent pairs are not
    constants of an agent, what they exceed r₀ and d₀ by comes nearer to it (THEORY section 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WinnerMap:
    """Who gains most at each (p, ρ)."""

    failure_rate: FloatArray
    """(n_columns,) p, rising."""
    rho: FloatArray
    """(n_rows,) ρ, falling, as the rows are printed."""
    rows: tuple[str, ...]
    """(n_rows,) one letter of `WINNERS` a column."""
    mark: tuple[int, int] | None
    """Row and column nearest to the posterior mean; None where p is swept."""
    auroc: float
    rates: MappedRates


def winner_map(
    rates: MappedRates,
    *,
    failure_rate: tuple[float, float, float] | None,
    rho: tuple[float, float, float],
    auroc: float,
    margin: float,
) -> WinnerMap:
    """Map around a posterior.

    Parameters
    ----------
    rates : MappedRates
        The mechanism.
    failure_rate, rho : tuple of float
        Lower end, middle and upper end of p and ρ; without those of p the map covers all of it.
    auroc : float
        Of the critic, in [½, 1].
    margin : float
        Gain below which nothing counts.

    Returns
    -------
    WinnerMap

    References
    ----------
    THEORY sections 2, 3 and 5.
    """
    columns = np.linspace(0.0, 1.0, N_COLUMNS) if failure_rate is None else _axis(failure_rate, N_COLUMNS)
    levels = _axis(rho, N_ROWS)[::-1]
    p, between = np.meshgrid(columns, levels)
    rerun = rerun_rates(p, between)
    r0, d0 = (rerun.recovery, rerun.disruption) if rates.is_excess else (0.0, 0.0)
    recovery, disruption = np.clip(rates.recovery + r0, 0.0, 1.0), np.clip(rates.disruption + d0, 0.0, 1.0)
    perfect = p * recovery
    critic = best_operating_point(p, recovery, disruption, auroc).gain
    again = 0.5 * rerun.churn
    letters = np.select(
        [np.maximum(perfect, again) < margin, again > perfect, (critic >= again) & (critic >= margin)],
        [".", "B", "C"],
        "P",
    )
    mark = None
    if failure_rate is not None:
        mark = int(np.argmin(np.abs(levels - rho[1]))), int(np.argmin(np.abs(columns - failure_rate[1])))
    return WinnerMap(
        failure_rate=columns,
        rho=levels,
        rows=tuple("".join(row) for row in letters.tolist()),
        mark=mark,
        auroc=auroc,
        rates=rates,
    )


def _axis(around: tuple[float, float, float], n: int) -> FloatArray:
    low, middle, high = around
    return np.linspace(
        max(0.0, min(low - AROUND, middle - 2 * AROUND)), min(1.0, max(high + AROUND, middle + 2 * AROUND)), n
    )
