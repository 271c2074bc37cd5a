r"""Recovery and disruption given firing, from pairs whose two runs share nothing but their task.

A task succeeds with probability s; a run of it that would fail fires with probability t and is then recovered with ρ_m,
one that would succeed fires with f and is then disrupted with δ_m, the same on every task. The intervened run of a pair
is not the baseline run continued, so that with v = E[s(1−s)]

.. math:: P(\text{fired}, F) &= (p - v)\,t + v f, & P(\text{fired}, S) &= v t + (1 - p - v) f, \\
          C/n - v &= (p - v)\,t\rho_m - v f\delta_m, & B/n - v &= (1 - p - v) f\delta_m - v t\rho_m .

Both systems have the determinant p(1−p)ρ, ρ the intraclass correlation: two equations in t and f, two in tρ_m and fδ_m,
unless runs of a task are no more alike than others. At the thresholds with which the arm ran p t ρ_m − (1−p) f δ_m is
(C − B)/n whatever v is; what v settles is how that splits, hence what other thresholds gain.

Shares of the acted pairs, C'/F' and B'/S', do for forked pairs. Here they would count what reruns alone flip, and an
intervention that does nothing would seem to gain at thresholds stricter than its own.
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.theory.domain import ratio

__all__ = ["Flows", "causal_rates", "largest_within"]

FULL = 1.0 - 1e-9
"""Share of p(1−p) up to which v is let: at 1 the systems have no solution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """Shares of all pairs; (n_draws,) each."""

    recovered: FloatArray
    """C/n."""
    disrupted: FloatArray
    """B/n."""
    failed: FloatArray
    """F/n = p."""
    fired_failed: FloatArray
    """Pairs whose intervened run was acted on and whose baseline run failed."""
    fired_succeeded: FloatArray
    """Pairs whose intervened run was acted on and whose baseline run succeeded."""


def largest_within(flows: Flows) -> FloatArray:
    """The largest v = E[s(1−s)] with which no rate is negative.

    Parameters
    ----------
    flows : Flows
        Shares of all pairs.

    Returns
    -------
    FloatArray
        (n_draws,) in [0, p(1−p)).
    """
    p, c, b = flows.failed, flows.recovered, flows.disrupted
    success = 1.0 - p + c - b
    fired = flows.fired_failed + flows.fired_succeeded
    limits = (
        ratio((1.0 - p) * c, success),
        ratio(p * b, 1.0 - success),
        ratio((1.0 - p) * flows.fired_failed, fired),
        ratio(p * flows.fired_succeeded, fired),
        FULL * p * (1.0 - p),
    )
    largest: FloatArray = np.fmax(np.fmin.reduce(limits), 0.0)
    return largest


def causal_rates(flows: Flows, within: FloatArray) -> tuple[FloatArray, FloatArray]:
    """ρ_m and δ_m of the module's two systems.

    Parameters
    ----------
    flows : Flows
        Shares of all pairs.
    within : FloatArray
        (n_draws,) v; what exceeds `largest_within` is cut, since reruns cannot flip more pairs than were flipped.

    Returns
    -------
    recovery, disruption : FloatArray
        (n_draws,) in [0, 1].
    """
    p = flows.failed
    v = np.minimum(within, largest_within(flows))
    up, down = flows.recovered - v, flows.disrupted - v
    recovered = (1.0 - p - v) * up + v * down
    disrupted = (p - v) * down + v * up
    fired_failing = (1.0 - p - v) * flows.fired_failed - v * flows.fired_succeeded
    fired_succeeding = (p - v) * flows.fired_succeeded - v * flows.fired_failed
    return _rate(recovered, fired_failing), _rate(disrupted, fired_succeeding)


def _rate(part: FloatArray, whole: FloatArray) -> FloatArray:
    """`part` / `whole` in [0, 1]; 0 where nothing is left to divide by, since nothing then fires on such runs."""
    return np.clip(np.nan_to_num(ratio(part, whole)), 0.0, 1.0)
