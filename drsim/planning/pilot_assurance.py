"""What a pilot plan promises before the gain is known: its operating characteristics, averaged over a prior."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from drsim.errors import ParameterError
from drsim.planning.pilot_rules import PilotRule
from drsim.planning.pilot_size import SEARCH_PILOTS, operating_points
from drsim.planning.pilot_world import PilotPlan, PilotWorld

__all__ = ["Assurance", "assurance"]

ASSURANCE_NODES = 41
"""Gauss-Legendre nodes on either side of the margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assurance:
    """What a plan promises before the gain is known."""

    p_deploy: float
    """Averaged over the prior."""
    p_reject: float
    p_wrong: float
    p_right: float
    """P(deploy and Δ > margin) + P(do not deploy and Δ ≤ margin)."""
    value: float
    """Expected gain of acting on the pilot, E[Δ; deploy]: compare with `value_without`."""
    value_without: float
    """Expected gain without a pilot: the mean of the same cut prior where it is above the margin, 0 otherwise."""
    prob_gain: float
    """Prior P(Δ > margin)."""


def assurance(
    world: PilotWorld,
    plan: PilotPlan,
    rule: PilotRule,
    *,
    mean: float,
    sd: float,
    seed: int,
) -> Assurance:
    """Operating characteristics averaged over a normal prior of the gain, cut at the largest gains possible.

    Parameters
    ----------
    world, plan, rule
        As for `operating_points`.
    mean, sd : float
        Of the prior; sd > 0.
    seed : int
        Seed of what is simulated.

    Returns
    -------
    Assurance

    Raises
    ------
    ParameterError
        `sd` is not positive, or the prior lies beyond all possible gains.
    """
    if not 0 < sd < np.inf or not np.isfinite(mean):
        raise ParameterError(f"the prior of the gain needs a finite mean and an sd > 0, got {mean} and {sd}")
    margin = rule.decision.margin
    reach = 6 * sd
    low = max(mean - reach, -world.largest_gain(plan.pairing, -1))
    high = min(mean + reach, world.largest_gain(plan.pairing, 1))
    if low >= high:
        raise ParameterError(f"the prior of the gain, {mean:g} ± {sd:g}, lies beyond what these pairs can show")
    # apart at the margin, where what is right jumps
    nodes, weights = np.polynomial.legendre.leggauss(ASSURANCE_NODES)
    ends = [low, high] if not low < margin < high else [low, margin, high]
    x = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in pairwise(ends)])
    w = np.concatenate([(b - a) / 2 * weights for a, b in pairwise(ends)])
    w *= np.exp(-0.5 * ((x - mean) / sd) ** 2)
    w /= w.sum()
    found = operating_points(world, plan, rule, x.tolist(), seed=seed, n_pilots=SEARCH_PILOTS)
    deploy, reject = (np.array([getattr(it, name) for it in found]) for name in ("p_deploy", "p_reject"))
    wrong = np.array([it.p_wrong for it in found])
    right = np.array([it.p_right(margin) for it in found])
    prior_mean = float(w @ x)
    return Assurance(
        p_deploy=float(w @ deploy),
        p_reject=float(w @ reject),
        p_wrong=float(w @ wrong),
        p_right=float(w @ right),
        value=float(w @ (deploy * x)),
        value_without=prior_mean if prior_mean > margin else 0.0,
        prob_gain=float(w @ (x > margin)),
    )
