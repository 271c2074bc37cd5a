"""A source in sentences: what its data do not carry and where that came from, what they carry, and what is off."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.pilot.cell import PairedBy
from drsim.pilot.records import Run
from drsim.planning.base_model import Base
from drsim.planning.cell_rates import CellRates
from drsim.planning.observed import Told
from drsim.planning.placing import Placed
from drsim.process.spec import Model

__all__ = ["Facts", "carried_by", "taken_on", "warnings_of"]

SAME = 0.005
"""Moves that differ by less print alike."""
NO_RUNS = "the data hold no runs"
FAR_OFF = 3.0
"""Standard errors between the share of runs that fire in the pilot and in the model, beyond which they disagree."""
INSIDE = 0.995
"""Share that prints as all."""
MANY = 0.05
"""Share of draws out of reach beyond which they can show in an interval of 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the sentences are made of."""

    rates: CellRates
    base: Base
    model: Model
    """The base model with what the runs say of it, before it is moved."""
    policy: str | None
    policy_why: str
    told: tuple[Told, ...]
    prob_inside: float | None
    """Share of the first interventions at steps whose r(t) and d(t) some levels give; None where none is by step."""
    placed: Placed
    runs: tuple[Run, ...]
    """Judged runs of the arm."""

    @property
    def mechanism(self) -> str | None:
        """The one that was moved."""
        return None if self.policy is None else self.model.policies[self.policy].mechanism


def carried_by(facts: Facts) -> tuple[str, ...]:
    """What was taken from the data besides how runs end."""
    found = [f"{it.subject}: {it.why}" for it in facts.told if it.is_used]
    steps = _steps(facts)
    if steps is not None and facts.rates.paired_by is PairedBy.FORK:
        found.append(
            f"timing profile: recover and disrupt follow from r(t) and d(t), step by step; seen in steps {steps}"
        )
    elif steps is not None and facts.rates.first is not None:
        found.append(
            "timing profile: recover and disrupt move at each step until runs that are first intervened in there "
            f"succeed as often as in the data; seen in steps {steps}"
        )
    return tuple(found)


def taken_on(facts: Facts) -> tuple[str, ...]:
    """What the data do not carry, with where it came from."""
    return tuple(_taken_on(facts))


def _taken_on(facts: Facts) -> Iterator[str]:
    name, model = facts.base.model.name, facts.model
    yield f"base model: {name}, since {facts.base.why}; what follows without another origin is its own"
    yield from _from_runs(facts)
    yield (
        f"finish profile: that of {name}; finish, slips and the share that starts off track move together on the logit "
        f"scale ({_moves(facts, facts.placed.ease)}, finish up and the others down) until unaided runs fail as often "
        "as the data say"
    )
    yield f"self-recovery and abandoning: those of {name} at every step"
    agent = model.agent
    if agent.finish_task_sd == agent.slip_task_sd == 0.0:
        yield f"tasks: all alike, as in {name}; the posterior's tasks differ, which shows in its intervals alone"
    else:
        yield f"tasks: they differ as much as in {name}"
    yield from _of_mechanism(facts)
    yield from facts.rates.notes
    yield from _of_timing(facts)
    yield from _of_draws(facts)


def _from_runs(facts: Facts) -> Iterator[str]:
    told = {it.subject: it for it in facts.told}
    model = facts.base.model
    values = {
        "horizon": f"{facts.model.horizon} steps, those of {model.name}",
        "critic scores": f"their distribution on and off track is that of {model.name}",
        "costs": f"those of {model.name}",
    }
    for subject, value in values.items():
        it = told.get(subject)
        if it is None:
            yield f"{subject}: {value}, since {NO_RUNS if not told else 'the runs do not fix them'}"
        elif not it.is_used:
            yield f"{subject}: {value}, since {it.why}" if "from the runs" not in it.why else f"{subject}: {it.why}"


def _of_mechanism(facts: Facts) -> Iterator[str]:
    model, name = facts.model, facts.base.model.name
    if facts.policy is None or facts.mechanism is None:
        if model.mechanisms:
            yield f"mechanisms: {', '.join(model.mechanisms)} of {name}, since the data hold no intervened arm"
        return
    policy, mechanism = model.policies[facts.policy], model.mechanisms[facts.mechanism]
    yield (
        f"policy: the arm {facts.rates.arm} is taken for {name}'s policy {facts.policy} (budget {policy.budget}, first "
        f"step {policy.first_step}), since {facts.policy_why}"
    )
    yield (
        f"effect: every recover of {facts.mechanism} moves by e + c on the logit scale, every disrupt by c - e "
        f"(e {_moves(facts, facts.placed.effect)}, c {_moves(facts, facts.placed.intensity)}), from {name}'s levels"
    )
    yield (
        f"extra steps: an intervention by {facts.mechanism} uses up {mechanism.extra_steps} of the horizon, as in "
        f"{name}"
    )
    others = [it for it in model.mechanisms if it != facts.mechanism]
    if others:
        yield f"other mechanisms: {', '.join(others)} as in {name}, since the data say nothing of them"


def _of_timing(facts: Facts) -> Iterator[str]:
    name, observed = facts.base.model.name, _observed(facts)
    if facts.policy is None:
        return
    if observed is None:
        yield f"timing profile: recover and disrupt change with the step as in {name}, since no step is known"
        return
    if facts.rates.timing is not None and facts.rates.paired_by is not PairedBy.FORK:
        yield (
            f"timing profile: recover and disrupt change with the step as in {name}; the fit's pairs are independent "
            "runs, so its r(t) and d(t) give the gain, but hold chance and the critic's choice of runs that go badly"
        )
        return
    if facts.rates.paired_by is not PairedBy.FORK:
        yield (
            f"timing profile: how success splits into recover and disrupt at a step is {name}'s, and so is how often a "
            "run would succeed there unaided; forked pairs would measure both"
        )
    if facts.prob_inside is not None and facts.prob_inside < INSIDE:
        yield (
            f"timing profile: {100 * (1 - facts.prob_inside):.0f} % of the first interventions come at steps and in "
            f"draws whose rates no levels of {name} give; they are put at the nearest end"
        )
    missing = [t for t in range(facts.model.horizon) if t >= len(observed) or not observed[t]]
    if missing:
        share = float(facts.placed.flips.first_firing[:, missing].sum(axis=1).mean())
        goes_on = "the fit's walk" if facts.rates.timing is not None else f"{name}'s profile"
        yield (
            f"timing profile: no run fired first in steps {_ranges(missing)}; there {goes_on} goes on from the steps "
            f"that are seen, where {100 * share:.0f} % of the model's runs first fire"
        )


def _observed(facts: Facts) -> BoolArray | None:
    """(H,) whether a first intervention was seen in each step; None where no step is known."""
    if facts.rates.timing is not None:
        return facts.rates.timing.is_observed
    return None if facts.rates.first is None else facts.rates.first.is_observed


def _steps(facts: Facts) -> str | None:
    """Steps in which first interventions were seen."""
    observed = _observed(facts)
    return None if observed is None else _ranges(np.flatnonzero(observed).tolist())


def _of_draws(facts: Facts) -> Iterator[str]:
    placed, n = facts.placed, facts.rates.n_draws
    name = facts.base.model.name
    if placed.prob_bound is not None:
        prob = f"in {100 * placed.prob_bound:.0f} % of the draws {name}'s split disrupts less than that"
        verdict = "which contradicts it; it was raised there" if placed.n_raised else "so it stands"
        yield f"disruption: {prob}, {verdict}"
    for reason, count in _unreached(placed.n_unreached):
        yield (
            f"draws out of reach: {count} of {n} have a {reason} that no move of {name} reaches, and are put as "
            "near as it comes"
        )


def _unreached(n_unreached: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    reasons = {"p": "failure rate", "gain": "gain under the policy", "d": "disruption rate at that gain"}
    yield from ((reasons[name], count) for name, count in n_unreached.items())


def warnings_of(facts: Facts) -> tuple[str, ...]:
    """What a reader should not miss."""
    return (*facts.rates.warnings, *_warnings(facts))


def _warnings(facts: Facts) -> Iterator[str]:
    placed, n, name = facts.placed, facts.rates.n_draws, facts.base.model.name
    if facts.base.is_made_up:
        yield f"{facts.rates.name} is placed in the model {name}: {facts.base.why}"
    for reason, count in _unreached(placed.n_unreached):
        yield (
            f"{count} of {n} posterior draws have a {reason} that {name} cannot reach, and are put as near as it comes"
            + ("; intervals are narrower than the data's for it" if count > MANY * n else "")
        )
    timing = facts.rates.timing
    if timing is not None and facts.rates.paired_by is PairedBy.FORK and facts.model.horizon > len(timing.is_observed):
        yield f"r(t) and d(t) are held level after step {len(timing.is_observed) - 1}, the last of the fit"
    yield from _firing_warning(facts)


def _firing_warning(facts: Facts) -> Iterator[str]:
    """The model's policy fires in other steps, or in another share of the runs, than the pilot's did."""
    if facts.policy is None or not any(run.interventions for run in facts.runs):
        return
    observed = _observed(facts)
    if observed is not None:
        closed = facts.placed.flips.first_firing.sum(axis=0) <= 0.0
        never = [t for t in np.flatnonzero(observed).tolist() if t >= closed.size or closed[t]]
        if never:
            yield (
                f"the policy {facts.policy} of {facts.base.model.name} cannot intervene first in steps "
                f"{_ranges(never)}, where the arm {facts.rates.arm} did; name the policy or the base model that fits"
            )
    n = len(facts.runs)
    seen = float(np.mean([bool(run.acted_steps) for run in facts.runs]))
    share = float(facts.placed.flips.first_firing.sum(axis=1).mean())
    # at a share of 0 or 1 one run more or less must not be a contradiction
    spread = max(share * (1.0 - share), 1.0 / n)
    if abs(seen - share) > FAR_OFF * (spread / n) ** 0.5:
        yield (
            f"the policy {facts.policy} of {facts.base.model.name} intervenes in {100 * share:.0f} % of the runs, that "
            f"of the pilot's arm {facts.rates.arm} in {100 * seen:.0f} %; name the policy or the base model that fits"
        )


def _moves(facts: Facts, moves: FloatArray) -> str:
    """Median and range over the draws that are reached."""
    reached = moves[facts.placed.is_reached]
    low, middle, high = np.quantile(reached, [0.0, 0.5, 1.0])
    return f"{middle:+.2f}" if high - low < SAME else f"{middle:+.2f}, {low:+.2f} to {high:+.2f} over the draws"


def _ranges(steps: list[int]) -> str:
    """Steps as 0-3, 5."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
