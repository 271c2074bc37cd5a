r"""Draws of (p, r, d) placed in a step process, so that the process reproduces them.

A pilot says how often runs fail alone (p), how often they succeed under the policy that it ran (1 − p + Δ), and how
many end otherwise than their twins. A step process with that policy has far more parameters than that. So the base
model keeps its shape, and three numbers move it, each on the logit scale:

1. ease v of a run (`drsim.process.shifts`), solved from P(unaided run fails) = p;
2. effect e of the mechanism: every recover + e, every disrupt − e, solved from Δ;
3. intensity c: every recover + c, every disrupt + c, solved from d, with e solved anew at each c so that Δ holds. r
   follows, since Δ = p·r − (1−p)·d.

Each is a root of a function that rises (success in v, success in e, flips in c). The root nearest the base model is
taken, by bracketing outwards from it.

**What d is.** Δ does not depend on how runs are paired; d does (THEORY sections 2 and 4). In forked pairs it is that of
the coupling `shared_prefix`, and is matched. Pairs of independent runs share their task only, and part of their flips
is chance. What is left of d after the flips of reruns are taken off, d − d₀ = E[s(s−s')]/E[s], is a lower bound: since
s ≤ 1 it is at most E[(s−s')⁺]/E[s], the least that any pairing of a task's two runs allows, and that is at most
the least that any pairing of runs with one prefix allows. Where tasks are alike the bound says nothing but Δ, and
reading it as the whole effect would make an intervention that harms as often as it helps look harmless. So it is kept
as a bound, and as one that is known up to the draws: the base model's own split (c = 0) stands unless the draws
contradict it, in that it disrupts less than the bound in at least 97.5 % of them. Then c goes up until the bound is
met. Raising it in single draws whatever the others say would turn the noise of the bound into disruption.

A draw that no v, e, c reach is put where they come nearest, its sign of Δ with it, and counted. To leave it out would
be to let the base model overrule the data: where an accurate critic hardly ever fires on a run that goes well, say, the
draws left out would be those in which intervening harms.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import elementwise
from scipy.special import expit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.process.compile import CompiledModel, CompiledPolicy, never
from drsim.process.flips import Flips, PrefixCoupling, flips_many
from drsim.process.shifts import moved_draws
from drsim.process.stacks import ModelDraws, stack_policies
from drsim.process.success_many import success_many

__all__ = ["FARTHEST", "Mechanic", "Placed", "Targets", "place"]

FARTHEST = 15.0
"""Logits that ease and intensity may move; a middling probability is then within 1e-6 of 0 or 1. The effect, which
makes up for an intensity, may move twice as far."""
CONTRADICTED = 0.975
"""Share of draws on one side of a bound from which on they contradict what lies on the other."""
ROUNDING = 1e-12
"""Of a probability: a target that an end of the range misses by less is met there."""
STEP = 0.25
"""First half-width of a bracket, in logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What D draws of a posterior say; fields (D,)."""

    failure_rate: FloatArray | None
    """p in (0, 1); None: the base model's own."""
    gain: FloatArray | None
    """Δ; None: nothing is said of the mechanism."""
    disruption: FloatArray | None
    """d under `coupling`; None: nothing is said of it beyond Δ."""
    coupling: PrefixCoupling
    is_bound: bool
    """Whether `disruption` is only the least that d can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanic:
    """The policy that the pilot ran, and its mechanism's levels before they are moved."""

    policy: CompiledPolicy
    recover_logit: FloatArray
    """(D, K, T), or (1, K, T) for all draws."""
    disrupt_logit: FloatArray
    """(D, T) or (1, T)."""

    def rows(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Levels of some draws."""
        if len(self.disrupt_logit) == 1:
            index = np.zeros_like(index)
        return self.recover_logit[index], self.disrupt_logit[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Moves of D draws."""

    ease: FloatArray
    """(D,) v."""
    effect: FloatArray
    """(D,) e."""
    intensity: FloatArray
    """(D,) c; 0 where the base model's split stands."""
    recover: FloatArray
    """(D, K, T) of the moved mechanism."""
    disrupt: FloatArray
    """(D, T)."""
    draws: ModelDraws
    flips: Flips
    """Of the pilot's policy under them; without an intervention where there is none."""
    is_reached: BoolArray
    """(D,) whether all targets are met; elsewhere the moves come as near as they can."""
    n_unreached: dict[str, int]
    """Draws by the first number that could not be reached: `p`, `gain`, `d`; zeros left out."""
    prob_bound: float | None
    """Share of the draws in which the base model's split disrupts less than a bound; None where there is no bound."""
    n_raised: int
    """Draws whose d was moved to a bound."""


def place(base: CompiledModel, mechanic: Mechanic | None, targets: Targets, n_draws: int) -> Placed:
    """Move a base model to every draw.

    Parameters
    ----------
    base : CompiledModel
        T steps, K modes.
    mechanic : Mechanic or None
        None where the targets say nothing of a mechanism.
    targets : Targets
        D draws each.
    n_draws : int
        D ≥ 1.

    Returns
    -------
    Placed
        The targets of a draw that is reached are met to rounding, but for bounds that the draws do not insist on.

    References
    ----------
    THEORY sections 2 and 4.
    """
    return _Placing(base, mechanic, targets, n_draws).run()


class _Placing:
    """One calibration: what does not change while roots are sought."""

    def __init__(self, base: CompiledModel, mechanic: Mechanic | None, targets: Targets, n_draws: int) -> None:
        self.base = base
        self.mechanic = mechanic
        self.targets = targets
        self.ease = np.zeros(n_draws)
        self.effect = np.zeros(n_draws)
        self.intensity = np.zeros(n_draws)
        self.n_unreached: dict[str, int] = {}
        self.prob_bound: float | None = None
        self.n_raised = 0
        self.n_nodes = 1
        if mechanic is not None:
            one = moved_draws(base, ease=np.zeros(1), mechanism=-1, recover=np.zeros((1, 0, 0)), disrupt=np.zeros(1))
            self.n_nodes = success_many(one, stack_policies([mechanic.policy])).n_nodes

    def run(self) -> Placed:
        """All three roots in turn."""
        left: IntArray = np.arange(self.ease.size)
        if self.targets.failure_rate is not None:
            left = self.keep("p", left, self.solve_ease(left))
        if self.mechanic is not None and self.targets.gain is not None:
            left = self.keep("gain", left, self.solve_effect(left))
            if self.targets.disruption is not None:
                left = self.keep("d", left, self.solve_intensity(left))
        everyone: IntArray = np.arange(self.ease.size)
        draws, (recover, disrupt) = self.moved(everyone, self.effect, self.intensity)
        return Placed(
            ease=self.ease,
            effect=self.effect,
            intensity=self.intensity,
            recover=recover,
            disrupt=disrupt,
            draws=draws,
            flips=flips_many(draws, self.policy, n_nodes=self.n_nodes),
            is_reached=np.isin(everyone, left),
            n_unreached=self.n_unreached,
            prob_bound=self.prob_bound,
            n_raised=self.n_raised,
        )

    @property
    def policy(self) -> CompiledPolicy:
        """The pilot's, or none at all."""
        return never(self.base) if self.mechanic is None else self.mechanic.policy

    def keep(self, name: str, left: IntArray, reached: BoolArray) -> IntArray:
        """Those of the draws that were reached; count the others."""
        n_lost = int(np.sum(~reached))
        if n_lost:
            self.n_unreached[name] = n_lost
        return left[reached]

    def moved(
        self, index: IntArray, effect: FloatArray, intensity: FloatArray
    ) -> tuple[ModelDraws, tuple[FloatArray, FloatArray]]:
        """Draws `index` at these moves, with their levels."""
        n_modes, horizon = self.base.start.size - 1, len(self.base.tokens)
        levels = np.zeros((index.size, n_modes, horizon)), np.zeros((index.size, horizon))
        if self.mechanic is not None:
            recover, disrupt = self.mechanic.rows(index)
            levels = (
                expit(recover + (intensity + effect)[:, None, None]),
                expit(disrupt + (intensity - effect)[:, None]),
            )
        draws = moved_draws(
            self.base,
            ease=self.ease[index],
            mechanism=self.policy.mechanism,
            recover=levels[0],
            disrupt=levels[1],
        )
        return draws, levels

    def flips(self, index: IntArray, effect: FloatArray, intensity: FloatArray) -> Flips:
        """Flips of draws `index` at these moves."""
        return flips_many(self.moved(index, effect, intensity)[0], self.policy, n_nodes=self.n_nodes)

    def solve_ease(self, left: IntArray) -> BoolArray:
        """Ease from p; whether each draw has one."""
        failure_rate = _given(self.targets.failure_rate)
        alone = never(self.base)

        def excess(ease: FloatArray, index: IntArray) -> FloatArray:
            nothing = np.zeros((ease.size, 0, 1))
            moved = moved_draws(self.base, ease=ease, mechanism=-1, recover=nothing, disrupt=nothing[:, :, 0])
            return flips_many(moved, alone).baseline - (1.0 - failure_rate[index])

        self.ease[left], reached = _root(excess, left, np.zeros(left.size), farthest=FARTHEST)
        return reached

    def solve_effect(self, left: IntArray) -> BoolArray:
        """Effect from Δ at the base model's split; whether each draw has one."""
        self.effect[left], reached = self.effect_at(left, self.intensity[left])
        return reached

    def effect_at(self, index: IntArray, intensity: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Effect that gives Δ at an intensity, the nearest where none does; whether it does."""
        gain = _given(self.targets.gain)

        def excess(effect: FloatArray, draw: IntArray, at: FloatArray) -> FloatArray:
            return self.flips(draw, effect, at).gain - gain[draw]

        return _root(excess, index, self.effect[index], intensity, farthest=2.0 * FARTHEST)

    def solve_intensity(self, left: IntArray) -> BoolArray:
        """Intensity, with its effect, from d; whether each draw has one."""
        disruption = _given(self.targets.disruption)
        reached = np.ones(left.size, dtype=np.bool_)

        def excess(intensity: FloatArray, index: IntArray) -> FloatArray:
            effect, has_gain = self.effect_at(index, intensity)
            found = self.flips(index, effect, intensity).disruption(self.targets.coupling) - disruption[index]
            return np.where(has_gain, found, np.nan)

        off = excess(self.intensity[left], left)
        moves: BoolArray = np.abs(off) > ROUNDING
        lowest = -FARTHEST
        if self.targets.is_bound:
            moves, lowest = off < -ROUNDING, 0.0
            self.prob_bound = float(moves.mean()) if left.size else 0.0
            if self.prob_bound < CONTRADICTED:
                return reached
            self.n_raised = int(moves.sum())
        chosen = left[moves]
        self.intensity[chosen], reached[moves] = _root(
            excess, chosen, self.intensity[chosen], farthest=FARTHEST, lowest=lowest
        )
        self.effect[chosen], _ = self.effect_at(chosen, self.intensity[chosen])
        return reached


def _given(values: FloatArray | None) -> FloatArray:
    """Targets that the caller has seen to be there."""
    return np.empty(0) if values is None else values


def _root(
    function: Callable[..., FloatArray],
    index: IntArray,
    start: FloatArray,
    *args: FloatArray,
    farthest: float,
    lowest: float | None = None,
) -> tuple[FloatArray, BoolArray]:
    """The root nearest `start` of a function of (x, index, *args), element by element, and whether there is one.

    The function is taken to rise: where its ends have one sign there is none, and the end nearer to 0 is given.
    """
    least = -farthest if lowest is None else lowest
    if index.size == 0:
        return np.zeros(0), np.zeros(0, dtype=np.bool_)
    low, high = (function(np.full(index.size, end), index, *args) for end in (least, farthest))
    # what an end misses by rounding is met there: towards it the function may be level
    is_crossed = (low < -ROUNDING) & (high > ROUNDING)
    root = np.where(low >= -ROUNDING, least, farthest)
    reached: BoolArray = is_crossed | (np.minimum(np.abs(low), np.abs(high)) <= ROUNDING)
    # an end at which even Δ is out of reach says nothing
    root = np.where(np.isfinite(low) & np.isfinite(high), root, start)
    (has,) = np.nonzero(is_crossed)
    if has.size == 0:
        return root, reached
    near, rest = start[has], (index[has], *(it[has] for it in args))
    bracket = elementwise.bracket_root(
        function, np.maximum(near - STEP, least), near + STEP, xmin=least, xmax=farthest, args=rest
    )
    known = np.asarray(bracket.success)
    if known.any():
        low, high = bracket.bracket
        found = elementwise.find_root(function, (low[known], high[known]), args=tuple(it[known] for it in rest))
        root[has[known]] = np.where(found.success, found.x, near[known])
        reached[has[known]] = found.success
    root[has[~known]] = near[~known]
    reached[has[~known]] = False
    return root, reached
