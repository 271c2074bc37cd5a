"""The best threshold policy when the parameters are not known: the mean over draws is raised, not the value at a point.

Three policies are compared on the same draws: the one that is best for their mean, the one that is best at a point
estimate, and for each draw the one that is best there, which nobody can follow who does not know the parameters. The
second loses the regret of taking an estimate for the truth; the third gains what perfect knowledge would be worth.
All are threshold curves, whose values are exact, so that all three differences are too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.planning.net_values import net_values
from drsim.planning.threshold_policies import best_constant, best_curve
from drsim.process.belief_execution import run_in_worlds
from drsim.process.belief_programme import N_POINTS, belief_programme
from drsim.process.compile import CompiledModel, CompiledPolicy
from drsim.process.stacks import ModelDraws, stack_draws
from drsim.process.terms import Terms
from drsim.process.threshold_ascent import ascend, worlds_of

__all__ = ["Robust", "mean_draw", "robust"]

MOST_WORLDS = 1000
"""Draws times classes of tasks in which a belief policy is run: each takes some hundredths of a second."""
FEW_POINTS = 201
"""For one mode a policy on them is within 1e-5 of the best."""
N_STARTS = 3
"""Policies of each mechanism from which an ascent begins."""
VARYING = {
    "start": "where runs start",
    "transitions": "how runs go unaided",
    "kernels": "r and d",
    "score_mean": "scores",
    "score_sd": "scores",
    "run_sd": "scores",
}
"""What a field of the draws is about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Robust:
    """What knowing the parameters only by draws costs."""

    policy: CompiledPolicy | None
    """Best for the mean over draws; None: never to intervene."""
    gain: FloatArray
    """(D,) its gain in each draw, net of prices."""
    point_policy: CompiledPolicy | None
    """Best at the point estimate; None: never to intervene."""
    point_gain: FloatArray
    """(D,) its gain in each draw."""
    perfect_gain: FloatArray
    """(D,) gain in each draw of the policy that is best there."""
    varying: tuple[str, ...]
    """What differs between draws, and so what perfect knowledge would be knowledge of."""
    belief_gain: FloatArray | None = None
    """(D,) gain in each draw of the belief policy that is best at the point estimate, whose filter takes that for the
    truth; None where it was not asked for, or draws have a run-level shift or too many tasks."""

    @property
    def mean(self) -> float:
        """Mean gain of the robust policy."""
        return float(self.gain.mean())

    @property
    def regret(self) -> float:
        """What taking the point estimate for the truth loses, ≥ 0."""
        return self.mean - float(self.point_gain.mean())

    @property
    def perfect_knowledge(self) -> float:
        """What knowing the parameters exactly before the first run would be worth, ≥ 0."""
        return float(self.perfect_gain.mean()) - self.mean

    @property
    def prob_gain(self) -> float:
        """P(the robust policy gains)."""
        return float((self.gain > 0.0).mean())


def mean_draw(draws: ModelDraws) -> ModelDraws:
    """One draw with the mean parameters: start, transitions, kernels and scores.

    Parameters
    ----------
    draws : ModelDraws
        D draws.

    Returns
    -------
    ModelDraws
        D = 1.
    """
    return replace(draws, **{name: getattr(draws, name).mean(axis=0, keepdims=True) for name in VARYING})


def robust(
    draws: ModelDraws | Sequence[CompiledModel],
    terms: Terms,
    *,
    point: CompiledModel | None = None,
    starts: Sequence[CompiledPolicy] = (),
    runs_belief: bool = False,
) -> Robust:
    """Maximise the mean over draws, and say what knowing the parameters would be worth.

    Parameters
    ----------
    draws : ModelDraws or sequence of CompiledModel
        At least two draws of equal weight; run-level shift and tasks that differ are allowed.
    terms : Terms
        Of the same model.
    point : CompiledModel, optional
        The point estimate; the mean of the draws' arrays when not given.
    starts : sequence of CompiledPolicy
        Further policies to begin with, that keep the terms and fire on the score of a step.
    runs_belief : bool
        Also run in each draw the belief policy that is best at `point`, which must be given then.

    Returns
    -------
    Robust

    Raises
    ------
    ParameterError
        There are fewer than two draws, or they do not fit together; or a belief policy is asked for, and `point` has a
        run-level shift or tasks that differ.

    References
    ----------
    THEORY sections 5 and 7.
    """
    stacked = draws if isinstance(draws, ModelDraws) else stack_draws(draws)
    n_draws = len(stacked.start)
    if n_draws < 2:
        raise ParameterError(f"draws must be at least two to be robust against, got {n_draws}; give a posterior")
    at_point = _best_policies(mean_draw(stacked) if point is None else stack_draws([point]), terms, starts)
    found = _best_policies(stacked, terms, [*starts, *at_point])
    alone = net_values(stacked, [_never(stacked)], terms)[0]
    gains = net_values(stacked, found, terms) - alone if found else np.zeros((1, n_draws))
    best = int(gains.mean(axis=1).argmax())
    is_worth_it = bool(found) and float(gains[best].mean()) > 0.0
    point_policy, point_gain = _at_point(stacked, terms, point, at_point, alone)
    gain = gains[best] if is_worth_it else np.zeros(n_draws)
    return Robust(
        policy=found[best] if is_worth_it else None,
        gain=gain,
        point_policy=point_policy,
        point_gain=point_gain,
        perfect_gain=np.maximum(np.maximum(0.0, gains.max(axis=0)), _perfect(stacked, terms, found) - alone),
        varying=_varying(stacked),
        belief_gain=_belief_gain(stacked, point, terms, alone) if runs_belief and point is not None else None,
    )


def _never(draws: ModelDraws) -> CompiledPolicy:
    horizon = draws.transitions.shape[2]
    return CompiledPolicy(mechanism=-1, logit_threshold=np.full(horizon, np.inf), budget=0, cooldown=0)


def _best_policies(draws: ModelDraws, terms: Terms, starts: Sequence[CompiledPolicy]) -> list[CompiledPolicy]:
    """Curves that an ascent finds, best first, and of each mechanism at most a few."""
    constants = best_constant(draws, terms)
    begun = list(starts)
    for m in sorted({it.policy.mechanism for it in constants}):
        begun += [it.policy for it in constants if it.policy.mechanism == m][:N_STARTS]
    curves = best_curve(draws, terms, begun)
    kept: list[CompiledPolicy] = []
    for it in curves:
        if sum(other.mechanism == it.policy.mechanism for other in kept) < N_STARTS:
            kept.append(it.policy)
    return kept


def _at_point(
    draws: ModelDraws,
    terms: Terms,
    point: CompiledModel | None,
    found: Sequence[CompiledPolicy],
    alone: FloatArray,
) -> tuple[CompiledPolicy | None, FloatArray]:
    """The policy that is best at the point estimate, and its gain in each draw (D,)."""
    if not found:
        return None, np.zeros(len(alone))
    at = mean_draw(draws) if point is None else stack_draws([point])
    values = net_values(at, [_never(draws), found[0]], terms)[:, 0]
    if values[1] <= values[0]:
        return None, np.zeros(len(alone))
    gain: FloatArray = net_values(draws, found[:1], terms)[0] - alone
    return found[0], gain


def _perfect(draws: ModelDraws, terms: Terms, starts: Sequence[CompiledPolicy]) -> FloatArray:
    """(D,) value in each draw of the best curve there, by ascent from what is best for all."""
    best = np.full(len(draws.start), -np.inf)
    for d in range(len(best)):
        worlds = worlds_of(_one(draws, d))
        best[d] = max((ascend(worlds, it, terms).value for it in _one_each(starts)), default=-np.inf)
    return best


def _belief_gain(draws: ModelDraws, point: CompiledModel, terms: Terms, alone: FloatArray) -> FloatArray | None:
    """(D,) gain of the belief policy that is best at a point; None where that would take too long."""
    if np.any(draws.run_sd > 0.0) or len(alone) * len(draws.task_weights) > MOST_WORLDS:
        return None
    programme = belief_programme(point, terms, n_points=FEW_POINTS if len(point.start) == 2 else N_POINTS)
    values = run_in_worlds(point, programme, worlds_of(draws)).reshape(len(alone), -1)
    gain: FloatArray = values @ draws.task_weights - alone
    return gain


def _one_each(policies: Sequence[CompiledPolicy]) -> list[CompiledPolicy]:
    """The first policy of each mechanism."""
    return list({it.mechanism: it for it in reversed(policies)}.values())


def _one(draws: ModelDraws, d: int) -> ModelDraws:
    return replace(draws, **{name: getattr(draws, name)[d : d + 1] for name in VARYING})


def _varying(draws: ModelDraws) -> tuple[str, ...]:
    known = {field.name for field in fields(draws)}
    found = [text for name, text in VARYING.items() if name in known and np.ptp(getattr(draws, name), axis=0).any()]
    return tuple(dict.fromkeys(found))
