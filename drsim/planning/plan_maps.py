"""Where which kind of alternative wins: over failure rate and r/d, and over the selector's AUROC and N."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.planning.alternatives import Family
from drsim.planning.plan import Plan
from drsim.theory.beta_nodes import beta_nodes
from drsim.theory.contests import success_counts, thinned, top_given_counts
from drsim.theory.retry import retry_until_accepted
from drsim.theory.tradeoff import gain

__all__ = ["RATE_WINNERS", "RateMap", "SelectorMap", "rate_map", "selector_map"]

RATE_WINNERS = (Family.NOTHING, Family.INTERVENE, Family.BEST_OF, Family.RETRY)
"""What is compared at each (p, r/d), at a budget of two runs."""
N_CELLS = 41
MOST_RATIO = 16.0
AUROCS = (0.5, 0.999)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RateMap:
    """Who succeeds most with two runs' money, by p and r/d."""

    failure_rate: FloatArray
    """(X,) p."""
    ratio: FloatArray
    """(Y,) r/d, on a logarithmic scale."""
    winner: IntArray
    """(Y, X) index into `RATE_WINNERS`."""
    flips: float
    """r + d, held constant."""
    rho: float
    """ρ, held constant."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectorMap:
    """Success of Best-of-N less that of the best other alternative for the same money."""

    auroc: FloatArray
    """(X,)."""
    attempts: IntArray
    """(Y,) N from 2."""
    lead: FloatArray
    """(Y, X)."""
    rivals: tuple[str, ...]
    """(Y,) the best other alternative."""


def rate_map(plan: Plan, recovery: float, disruption: float) -> RateMap:
    """The map around a policy's r and d, with the plan's selector, verifier and mean ρ.

    Parameters
    ----------
    plan : Plan
        Of any model.
    recovery, disruption : float
        r and d of a policy, whose sum is held constant.

    Returns
    -------
    RateMap
    """
    p = np.linspace(0.02, 0.98, N_CELLS)
    ratio = np.geomspace(1.0 / MOST_RATIO, MOST_RATIO, N_CELLS)
    flips, rho = recovery + disruption, float(np.nanmean(plan.world.attempts.rho))
    nodes, weights = beta_nodes(1.0 - p, rho)
    selector, verifier = plan.tools.selector, plan.tools.verifier
    twice = success_counts(nodes, weights, 2) @ thinned(top_given_counts(2, selector.auroc, selector.shared), 2)
    again = (retry_until_accepted(nodes, 2, verifier.tpr, verifier.fpr).success * weights).sum(axis=1)
    r = flips * ratio / (1.0 + ratio)
    r, d = np.minimum(r, 1.0), np.minimum(flips - r, 1.0)
    intervened = 1.0 - p + gain(p, r[:, None], d[:, None])
    others = (np.broadcast_to(it, intervened.shape) for it in (1.0 - p, twice, again))
    nothing, best_of_two, retried = others
    winner = np.stack([nothing, intervened, best_of_two, retried]).argmax(axis=0)
    return RateMap(failure_rate=p, ratio=ratio, winner=winner, flips=flips, rho=rho)


def selector_map(plan: Plan) -> SelectorMap:
    """Best-of-N against whatever else its money buys.

    Parameters
    ----------
    plan : Plan
        Of any model.

    Returns
    -------
    SelectorMap
    """
    auroc, attempts = np.linspace(*AUROCS, N_CELLS), np.arange(2, plan.question.n_max + 1)
    counts = plan.world.counts[None].mean(axis=0)
    mean, price = plan.success.mean(axis=1), plan.money.mean(axis=1)
    is_other = plan.is_allowed & np.array([it.family is not Family.BEST_OF for it in plan.alternatives])
    lead, rivals = np.empty((attempts.size, auroc.size)), []
    for y, n in enumerate(attempts.tolist()):
        affordable = np.flatnonzero(is_other & (price <= n * price[0]))
        rival = int(affordable[mean[affordable].argmax()])
        rivals.append(plan.names[rival])
        for x, area in enumerate(auroc.tolist()):
            table = top_given_counts(n, area, plan.tools.selector.shared)
            lead[y, x] = counts @ thinned(table, plan.world.n_max) - mean[rival]
    return SelectorMap(auroc=auroc, attempts=attempts, lead=lead, rivals=tuple(rivals))
