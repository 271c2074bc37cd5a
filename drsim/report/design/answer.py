"""What `drsim design` found, and what both its forms say of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drsim.planning.pilot_assurance import Assurance, assurance
from drsim.planning.pilot_rules import PilotRule, RuleKind
from drsim.planning.pilot_size import (
    OperatingPoint,
    detectable_gain,
    operating_points,
    tasks_needed,
)
from drsim.planning.pilot_split import PUBLISHED_EFFECTS, PublishedEffect, Split, splits
from drsim.planning.pilot_world import PilotPlan, PilotWorld, Prices

__all__ = ["PUBLISHED_SIZES", "Answer", "Found", "answer_design", "default_gains"]

PUBLISHED_SIZES = (50, 150, 500)
"""Pairs of the pilots in the table of published effects."""

STEPS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Sizes of gains for which a plan is read where none are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A published effect under McNemar's mid-p test: power at some sizes, and pairs for the wanted one."""

    effect: PublishedEffect
    power: tuple[float, ...]
    n_needed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What `drsim design` found."""

    world: PilotWorld
    plan: PilotPlan
    rule: PilotRule
    prices: Prices
    is_priced: bool
    """Whether prices are in dollars; otherwise they count runs."""
    power: float
    points: tuple[OperatingPoint, ...]
    needed: dict[float, int | None]
    """Tasks by gain, where they were asked for."""
    detectable: tuple[float | None, float | None]
    """Smallest loss and smallest gain that the plan finds."""
    splits: tuple[Split, ...]
    split_gain: float | None
    assurance: Assurance | None
    prior: tuple[float, float] | None
    published: tuple[Found, ...]
    seed: int

    @property
    def price(self) -> float:
        """Price of the plan, if it is run to its end: in runs where they have no other price."""
        return self.prices.usd(self.plan, self.world)


def default_gains(world: PilotWorld, plan: PilotPlan, margin: float) -> tuple[float, ...]:
    """Gains about the margin at which the plan is read, as far as they are possible; no gain where none of them is."""
    low, high = -world.largest_gain(plan.pairing, -1), world.largest_gain(plan.pairing, 1)
    around = [margin + sign * step for sign in (-1, 1) for step in (0.0, *STEPS)]
    possible = {round(gain, 12) for gain in around if low <= gain <= high}
    return tuple(sorted(possible or {0.0}))


def answer_design(
    world: PilotWorld,
    plan: PilotPlan,
    rule: PilotRule,
    *,
    prices: Prices,
    is_priced: bool,
    power: float,
    gains: Sequence[float],
    wanted: Sequence[float],
    trials: Sequence[int],
    prior: tuple[float, float] | None,
    max_tasks: int,
    with_published: bool,
    seed: int,
) -> Answer:
    """All that a plan is asked.

    Parameters
    ----------
    world, plan, rule, prices
        The plan, and what is assumed.
    power : float
        Probability of the right decision, in (0, 1).
    gains : sequence of float
        True gains at which the plan is read.
    wanted : sequence of float
        Gains for which tasks are counted; the splits are for the first of them.
    trials : sequence of int
        Trials of each task that the splits compare.
    prior : tuple of float, optional
        Mean and sd of the gain.
    max_tasks : int
        Largest pilot looked at.
    with_published : bool
        Whether to add the table of published effects.
    seed : int
        Seed of what is simulated.

    Returns
    -------
    Answer

    Raises
    ------
    ParameterError
        As the parts of the answer.
    """
    loss, gain = (detectable_gain(world, plan, rule, power=power, seed=seed, sign=sign) for sign in (-1, 1))
    return Answer(
        world=world,
        plan=plan,
        rule=rule,
        prices=prices,
        is_priced=is_priced,
        power=power,
        points=operating_points(world, plan, rule, gains, seed=seed),
        needed={it: tasks_needed(world, plan, rule, it, power=power, seed=seed, max_tasks=max_tasks) for it in wanted},
        detectable=(loss, gain),
        splits=splits(
            world,
            rule,
            wanted[0],
            power=power,
            prices=prices,
            seed=seed,
            trials=trials,
            n_arms=plan.n_arms,
            max_tasks=max_tasks,
        )
        if wanted
        else (),
        split_gain=wanted[0] if wanted else None,
        assurance=None if prior is None else assurance(world, plan, rule, mean=prior[0], sd=prior[1], seed=seed),
        prior=prior,
        published=_published(power) if with_published else (),
        seed=seed,
    )


def _published(power: float) -> tuple[Found, ...]:
    rule, plan = PilotRule(kind=RuleKind.MCNEMAR), PilotPlan(n_tasks=1)
    rows = []
    for effect in PUBLISHED_EFFECTS:
        world = PilotWorld(discordance=effect.discordance)
        points = [
            operating_points(world, replace(plan, n_tasks=n), rule, [effect.gain], seed=0)[0] for n in PUBLISHED_SIZES
        ]
        n_needed = tasks_needed(world, plan, rule, effect.gain, power=power, seed=0)
        rows.append(Found(effect=effect, power=tuple(it.p_right(0.0) for it in points), n_needed=n_needed))
    return tuple(rows)
