"""Where, along the probability of being off track, each mechanism is the best choice."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Regions", "regions_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regions:
    """By budget left from 1 to B and by step; NaN where a mechanism is never the best choice.

    For several modes, along beliefs whose modes are mixed as in unaided runs of that step. Where intervening is worth
    no more than the error of the grid beyond waiting, it is accidental on which side a belief falls.

    With one mode, one mechanism and the last intervention the region is an interval: its worth is linear in P(off
    track) and that of waiting convex. It reaches up to 1 wherever intervening pays in a run that is surely off track.
    Beyond that nothing is claimed; extra steps can make it pay to hold up a run that is on track.
    """

    lowest: FloatArray
    """(M, B, T) least P(off track) from which the mechanism is the best choice: b*(t, budget left)."""
    highest: FloatArray
    """(M, B, T) greatest one."""
    first: FloatArray
    """(B, T) least P(off track) at which any mechanism is better than waiting."""
    is_upper: BoolArray
    """(B, T) whether intervening pays from `first` up to 1 without a gap; true where it never pays."""

    @classmethod
    def none(cls, n_mechanisms: int, budget: int, horizon: int) -> "Regions":
        """No mechanism is ever the best choice."""
        size = (n_mechanisms, budget, horizon)
        return cls(
            lowest=np.full(size, np.nan),
            highest=np.full(size, np.nan),
            first=np.full(size[1:], np.nan),
            is_upper=np.ones(size[1:], dtype=np.bool_),
        )


def regions_of(
    off: FloatArray, choices: FloatArray, mechanisms: IntArray, tie: float, t: int, regions: Regions
) -> None:
    """Fill the regions of step t.

    Parameters
    ----------
    off : ndarray
        (n,) increasing P(off track), from 0 to 1.
    choices : ndarray
        (1 + m, B, n) value of waiting and of m mechanisms.
    mechanisms : ndarray
        (m,) their indices.
    tie : float
        An intervention must be worth more than this beyond waiting.
    t : int
        The step.
    regions : Regions
        To fill.
    """
    preferred = choices.copy()
    preferred[1:] -= tie
    best = preferred.argmax(axis=0)
    for b in range(best.shape[0]):
        acting = np.flatnonzero(best[b])
        if not acting.size:
            continue
        regions.first[b, t] = _edge(off, choices[:, b], best[b], acting[0], -1)
        regions.is_upper[b, t] = acting.size == off.size - acting[0]
        for i, m in enumerate(mechanisms, 1):
            found = np.flatnonzero(best[b] == i)
            if found.size:
                regions.lowest[m, b, t] = _edge(off, choices[:, b], best[b], found[0], -1)
                regions.highest[m, b, t] = _edge(off, choices[:, b], best[b], found[-1], 1)


def _edge(off: FloatArray, choices: FloatArray, best: IntArray, inside: int, by: int) -> float:
    """Where the best choice of a point stops being it on the way to the next one: values are linear between both."""
    outside = inside + by
    if not 0 <= outside < off.size:
        return float(off[inside])
    ahead = choices[best[inside]] - choices[best[outside]]
    lead, lag = float(ahead[inside]), min(0.0, float(ahead[outside]))
    share = lead / (lead - lag) if lead > lag else 0.0
    return float(off[inside] + share * (off[outside] - off[inside]))
