"""The best threshold policies: one threshold for all steps, and one for every step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.planning.net_values import net_values
from drsim.process.belief_grid import off_points, posterior
from drsim.process.belief_programme import Programme, mode_mix
from drsim.process.compile import CompiledModel, CompiledPolicy
from drsim.process.stacks import ModelDraws
from drsim.process.terms import Terms
from drsim.process.threshold_ascent import ascend, candidates, worlds_of

__all__ = ["Valued", "best_constant", "best_curve", "is_constant", "is_start", "is_within", "translated"]

N_LEVELS = 33
"""Thresholds tried before the best are refined."""
MOST_STEPS = 40
"""First steps tried; of a longer horizon as many, evenly spread."""
N_BEST = 8
"""Policies of each mechanism that are refined further."""
IMPROVED = 1e-12
MOST_ROUNDS = 50
N_FINER = 17
N_REFINEMENTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Valued:
    """A policy and what it is worth."""

    policy: CompiledPolicy
    value: float
    """P(success) less prices, mean over draws."""


def is_within(policy: CompiledPolicy, terms: Terms, n_mechanisms: int) -> bool:
    """Whether a policy keeps terms: budget, cooldown, mechanism, and open steps."""
    allowed = range(n_mechanisms) if terms.mechanisms is None else terms.mechanisms
    fires = policy.logit_threshold < np.inf
    if policy.mechanism < 0 or policy.budget == 0 or not fires.any():
        return True
    is_spaced = policy.cooldown >= terms.cooldown or policy.budget == 1
    is_in_time = terms.is_open is None or not np.any(fires & ~terms.is_open)
    return policy.mechanism in allowed and policy.budget <= terms.budget and is_spaced and is_in_time


def is_start(policy: CompiledPolicy, terms: Terms, n_mechanisms: int) -> bool:
    """Whether a policy keeps terms, reads the score of a step and fires: what is raised from it keeps them as well.

    One that never fires keeps any terms, but not once its thresholds are lowered.
    """
    fires = policy.history is None and policy.mechanism >= 0 and policy.budget > 0
    return fires and bool((policy.logit_threshold < np.inf).any()) and is_within(policy, terms, n_mechanisms)


def is_constant(policy: CompiledPolicy) -> bool:
    """Whether a policy fires on the score of a step, on one threshold in all steps that are open, and always acts."""
    if policy.history is not None or np.any(np.asarray(policy.propensity) < 1.0):
        return False
    cuts = policy.logit_threshold[policy.logit_threshold < np.inf]
    return cuts.size == 0 or bool(np.all(cuts == cuts[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """What all searches share."""

    draws: ModelDraws
    terms: Terms
    is_open: BoolArray
    levels: FloatArray
    """Finite thresholds, increasing."""

    def values(self, policies: Sequence[CompiledPolicy]) -> FloatArray:
        """(P,) mean over draws."""
        return net_values(self.draws, policies, self.terms).mean(axis=1)

    def best(self, policies: Sequence[CompiledPolicy]) -> Valued:
        """The best of some policies, the first among equals."""
        values = self.values(policies)
        best = int(values.argmax())
        return Valued(policy=policies[best], value=float(values[best]))


def _search(draws: ModelDraws, terms: Terms) -> _Search:
    horizon = draws.transitions.shape[2]
    return _Search(
        draws=draws,
        terms=terms,
        is_open=np.ones(horizon, dtype=np.bool_) if terms.is_open is None else terms.is_open,
        levels=candidates(worlds_of(draws))[1:-1],
    )


def best_constant(draws: ModelDraws, terms: Terms, starts: Sequence[CompiledPolicy] = ()) -> list[Valued]:
    """Policies with one threshold in all steps from a first to a last one.

    The threshold, the mechanism and the first step are tried on a grid; the best are refined in turn in threshold,
    first and last step, and budget, until nothing of these alone improves them.

    Parameters
    ----------
    draws : ModelDraws
        D draws, over which the mean is raised.
    terms : Terms
        Of the same model.
    starts : sequence of CompiledPolicy
        Further policies to refine, that keep the terms and have one threshold.

    Returns
    -------
    list of Valued
        Best first; empty where nothing may fire. The first is no worse than any start.
    """
    search = _search(draws, terms)
    begun = [*_coarse(search), *starts]
    found = [_refined(search, it) for it in begun]
    return sorted(found, key=lambda it: -it.value)


def _coarse(search: _Search) -> Iterator[CompiledPolicy]:
    """The best of each mechanism on a grid of thresholds and first steps."""
    open_steps = np.flatnonzero(search.is_open)
    terms = search.terms
    mechanisms = range(search.draws.kernels.shape[1]) if terms.mechanisms is None else terms.mechanisms
    if not open_steps.size or terms.budget == 0:
        return
    firsts = np.unique(open_steps[np.linspace(0, open_steps.size - 1, MOST_STEPS).astype(int)])
    cuts = [-np.inf, *np.linspace(search.levels[0], search.levels[-1], N_LEVELS)]
    steps = np.arange(search.is_open.size)
    for m in mechanisms:
        tried = [
            CompiledPolicy(
                mechanism=m,
                logit_threshold=np.where(search.is_open & (steps >= first), cut, np.inf),
                budget=terms.budget,
                cooldown=terms.cooldown,
            )
            for first in firsts
            for cut in cuts
        ]
        values = search.values(tried)
        yield from (tried[i] for i in np.argsort(-values, kind="stable")[:N_BEST])


def _refined(search: _Search, policy: CompiledPolicy) -> Valued:
    """A constant threshold policy, improved in turn in each of its numbers."""
    best = search.best([policy])
    for _ in range(MOST_ROUNDS):
        before = best.value
        best = _finer_cut(search, best)
        for moved in (_windows, _budgets):
            found = search.best([best.policy, *moved(search, best.policy)])
            best = found if found.value > best.value else best
        if best.value <= before + IMPROVED:
            break
    return best


def _finer_cut(search: _Search, best: Valued) -> Valued:
    """The best common threshold near that of a policy."""
    fires = best.policy.logit_threshold < np.inf
    if not fires.any():
        return best
    cut = float(best.policy.logit_threshold[fires][0])
    width = float(search.levels[-1] - search.levels[0]) / (N_LEVELS - 1)
    middle = float(search.levels[0]) if cut == -np.inf else cut
    for _ in range(N_REFINEMENTS):
        cuts = np.linspace(middle - width, middle + width, N_FINER)
        tried = [replace(best.policy, logit_threshold=np.where(fires, it, np.inf)) for it in cuts]
        found = search.best([best.policy, *tried])
        if found.value > best.value:
            best = found
            middle = float(best.policy.logit_threshold[fires][0])
        width /= (N_FINER - 1) / 2
    return best


def _windows(search: _Search, policy: CompiledPolicy) -> Iterator[CompiledPolicy]:
    """Other first steps and other last steps, of a policy that fires in all open steps between two."""
    fires = policy.logit_threshold < np.inf
    steps = np.arange(fires.size)
    if not fires.any():
        return
    first, last = int(steps[fires][0]), int(steps[fires][-1])
    if np.any(fires != (search.is_open & (steps >= first) & (steps <= last))):
        return
    cut = policy.logit_threshold[first]
    spread = np.unique(np.linspace(0, fires.size - 1, MOST_STEPS).astype(int))
    near = [step + by for step in (first, last) for by in (-2, -1, 1, 2)]
    for step in sorted({*spread.tolist(), *near}):
        for low, high in ((step, last), (first, step)):
            window = search.is_open & (steps >= low) & (steps <= high)
            if window.any():
                yield replace(policy, logit_threshold=np.where(window, cut, np.inf))


def _budgets(search: _Search, policy: CompiledPolicy) -> Iterator[CompiledPolicy]:
    """Other budgets that the terms allow; more than a handful are tried near the present one only."""
    allowed = range(max(1, policy.budget - 3), min(search.terms.budget, policy.budget + 3) + 1)
    is_spaced = policy.cooldown >= search.terms.cooldown
    yield from (replace(policy, budget=it) for it in allowed if it == 1 or is_spaced)


def best_curve(draws: ModelDraws, terms: Terms, starts: Sequence[CompiledPolicy]) -> list[Valued]:
    """Policies with a threshold for every step, raised by coordinate ascent from each start.

    Parameters
    ----------
    draws : ModelDraws
        D draws, over which the mean is raised.
    terms : Terms
        Of the same model.
    starts : sequence of CompiledPolicy
        Policies with a mechanism that keep the terms and fire on the score of a step.

    Returns
    -------
    list of Valued
        Best first. The first is no worse than any start, and no threshold of it alone can be improved; that it is the
        best of all is not proved.
    """
    worlds = worlds_of(draws)
    found = [ascend(worlds, it, terms).policy for it in starts]
    if not found:
        return []
    values = net_values(draws, found, terms).mean(axis=1)
    return [Valued(policy=found[i], value=float(values[i])) for i in np.argsort(-values, kind="stable")]


def translated(model: CompiledModel, programme: Programme, mechanism: int) -> CompiledPolicy:
    """The score thresholds at which the belief of a run that was never scored crosses the optimal curve.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    programme : Programme
        Of the same model, with room for at least one intervention.
    mechanism : int
        Whose curve.

    Returns
    -------
    CompiledPolicy
        A start for the ascent: it knows neither earlier scores nor how much of the budget is left.
    """
    horizon, n_states = model.transitions.shape[:2]
    curve = programme.regions.lowest[mechanism, programme.budget - 1]
    mix = mode_mix(model)
    spread = 6.0 * model.score_sd.max()
    scores = np.linspace(model.score_mean.min() - spread, model.score_mean.max() + spread, 513)
    cuts = np.full(horizon, np.inf)
    live = model.start
    for t in range(horizon):
        live = live @ model.transitions[t, :, :n_states]
        total = live.sum()
        if np.isnan(curve[t]) or total <= 0.0:
            continue
        before = off_points(np.array([1.0 - live[0] / total]), mix[t])
        off = 1.0 - posterior(before, scores[None], model.score_mean, model.score_sd)[0, :, 0]
        above = np.flatnonzero(off > curve[t])
        cuts[t] = scores[above[0]] if above.size else np.inf
    return CompiledPolicy(
        mechanism=mechanism, logit_threshold=cuts, budget=programme.terms.budget, cooldown=programme.terms.cooldown
    )
