r"""What a cell's parameters say of p, r, d, Δ, churn and the least flips, for many draws at once.

With s the success probability of a task alone and s' under the arm, all are averages over u and w:

- runs that are independent given their task: r = E[(1−s)s']/E[1−s], d = E[s(1−s')]/E[s];
- the least that any coupling of the two runs allows: E[(s'−s)⁺]/E[1−s] and E[(s−s')⁺]/E[s]; a fork that shares
  everything but the intervention comes near it;
- the excess over reruns, r − r₀ and d − d₀ with r₀ = E[s(1−s)]/E[1−s], d₀ = E[s(1−s)]/E[s] (THEORY section 2).

(s'−s)⁺ has a kink where δ + τw = 0. The part of the line beyond it, on its shorter side, is integrated by Gauss and
Legendre; the other part follows from E[s'−s].
"""

from dataclasses import dataclass, fields

import numba
import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.kernels import FLATTENING
from drsim.inference.hierarchical.quadrature import (
    EFFECT_REACH,
    TASK_REACH,
    count_nodes,
    effect_nodes,
    fill_rule,
    task_nodes,
)
from drsim.inference.posterior import Uncertain
from drsim.inference.threads import in_threads

__all__ = ["CellDraws", "CellSummary", "cell_draws"]

POINTS_A_THREAD = 100
"""Some 10 µs each, where starting a thread takes about 100."""
REACH = 5.0
"""Beyond it lies 6e-7 of a standard normal."""
HALF_LINE = np.polynomial.legendre.leggauss(24)
"""Enough for 1e-6 of a normal times a logistic curve of slope 5 on an interval no longer than 5."""


@numba.njit(cache=True)
def _chance(x: float) -> float:
    """Expit."""
    if x >= 0:
        return float(1 / (1 + np.exp(-x)))
    tail = np.exp(x)
    return float(tail / (1 + tail))


@numba.njit(cache=True)
def _rule(fewest: int, reach: float, spread: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights."""
    n = count_nodes(fewest, reach, spread)
    nodes, log_weights = np.empty(n), np.empty(n)
    fill_rule(reach, nodes, log_weights)
    return nodes, np.exp(log_weights)


@numba.njit(cache=True, nogil=True)
def _fill_averages(
    parameters: FloatArray,
    fewest_u: int,
    fewest_w: int,
    legendre: FloatArray,
    legendre_weights: FloatArray,
    out: FloatArray,
) -> None:
    """(n, 6): E s, E s(1−s), E s', E (1−s)s', E (s'−s)⁺, E (s−s')⁺ at (n, 4) parameters a, log σ, δ, log τ."""
    n_half = len(legendre)
    places, shares = np.empty(n_half), np.empty(n_half)
    for point in range(len(parameters)):
        sigma = np.exp(parameters[point, 1])
        scale = np.sqrt(1 + FLATTENING * sigma * sigma)
        level, shift = scale * parameters[point, 0], scale * parameters[point, 2]
        tau = scale * np.exp(parameters[point, 3])
        u, weight_u = _rule(fewest_u, TASK_REACH, sigma)
        w, weight_w = _rule(fewest_w, EFFECT_REACH, tau)
        kink = min(max(-shift / tau, -REACH), REACH)
        reach = REACH if kink >= 0 else -REACH
        half = abs(reach - kink) / 2
        for j in range(n_half):
            places[j] = (reach + kink) / 2 + half * legendre[j]
            shares[j] = half * legendre_weights[j] * np.exp(-0.5 * places[j] ** 2) / np.sqrt(2 * np.pi)
        sums = np.zeros(6)
        for i in range(len(u)):
            logit = level + sigma * u[i]
            s = _chance(logit)
            arm = 0.0
            for j in range(len(w)):
                arm += weight_w[j] * _chance(logit + shift + tau * w[j])
            beyond = 0.0
            for j in range(n_half):
                beyond += shares[j] * abs(_chance(logit + shift + tau * places[j]) - s)
            gain = arm - s
            up = beyond if kink >= 0 else beyond + gain
            sums[0] += weight_u[i] * s
            sums[1] += weight_u[i] * s * (1 - s)
            sums[2] += weight_u[i] * arm
            sums[3] += weight_u[i] * (1 - s) * arm
            up = max(up, gain, 0.0)
            sums[4] += weight_u[i] * up
            sums[5] += weight_u[i] * (up - gain)
        out[point] = sums


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """A cell's posterior in five numbers for each quantity; the fields are those of `CellDraws`."""

    failure_rate: Uncertain
    arm_success: Uncertain
    gain: Uncertain
    churn: Uncertain
    rho: Uncertain
    recovery: Uncertain
    disruption: Uncertain
    excess_recovery: Uncertain
    excess_disruption: Uncertain
    least_recovery: Uncertain
    least_disruption: Uncertain
    break_even: Uncertain

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """The fields by name."""
        return {field.name: getattr(self, field.name).to_dict() for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDraws:
    """Posterior draws of one cell, (n_draws,) each."""

    failure_rate: FloatArray
    """p."""
    arm_success: FloatArray
    """Success rate under the arm."""
    gain: FloatArray
    """Δ."""
    churn: FloatArray
    """χ."""
    rho: FloatArray
    """ρ."""
    recovery: FloatArray
    """r of runs that are independent given their task."""
    disruption: FloatArray
    """d of runs that are independent given their task."""
    excess_recovery: FloatArray
    """r − r₀."""
    excess_disruption: FloatArray
    """d − d₀."""
    least_recovery: FloatArray
    """The least r that any coupling of a task's two runs allows."""
    least_disruption: FloatArray
    """The least d that any coupling of a task's two runs allows."""
    break_even: FloatArray
    """p* = d/(r + d) of runs that are independent given their task."""

    def summary(self) -> CellSummary:
        """Each quantity in five numbers."""
        return CellSummary(
            **{field.name: Uncertain.from_draws(getattr(self, field.name)) for field in fields(CellSummary)}
        )

    def prob_gain_above(self, margin: float) -> float:
        """P(Δ > margin)."""
        return float(np.mean(self.gain > margin))


def cell_draws(parameters: FloatArray) -> CellDraws:
    """What (n, 4) parameters a, log σ, δ, log τ of a cell say.

    Parameters
    ----------
    parameters : FloatArray
        (n, 4), as in `priors`.

    Returns
    -------
    CellDraws
    """
    sums = np.empty((len(parameters), 6))
    given = np.ascontiguousarray(parameters)

    def fill(some: slice) -> None:
        _fill_averages(given[some], task_nodes(1), effect_nodes(1), *HALF_LINE, sums[some])

    in_threads(len(given), fill, fewest=POINTS_A_THREAD)
    success, within, arm, up_alone, up, down = sums.T
    failure = 1 - success
    recovery, disruption = up_alone / failure, (success - arm + up_alone) / success
    return CellDraws(
        failure_rate=failure,
        arm_success=arm.copy(),
        gain=arm - success,
        churn=2 * within,
        rho=1 - within / (success * failure),
        recovery=recovery,
        disruption=disruption,
        excess_recovery=recovery - within / failure,
        excess_disruption=disruption - within / success,
        least_recovery=up / failure,
        least_disruption=down / success,
        break_even=disruption / (recovery + disruption),
    )
