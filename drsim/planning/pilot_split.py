"""Which split into tasks and trials is cheapest, and what forking saves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drsim.planning.pilot_rules import PilotRule
from drsim.planning.pilot_size import tasks_needed
from drsim.planning.pilot_world import PairingPlan, PilotPlan, PilotWorld, Prices

__all__ = ["DEFAULT_TRIALS", "PUBLISHED_EFFECTS", "PublishedEffect", "Split", "cheapest", "splits"]

DEFAULT_TRIALS = (1, 2, 3, 5, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A plan that has the wanted power, or cannot have it."""

    pairing: PairingPlan
    n_trials: int
    n_tasks: int | None
    """None where no number of tasks has it."""
    n_pairs: int | None
    usd: float | None


def splits(
    world: PilotWorld,
    rule: PilotRule,
    gain: float,
    *,
    power: float,
    prices: Prices,
    seed: int,
    trials: Sequence[int] = DEFAULT_TRIALS,
    n_arms: int = 1,
    max_tasks: int = 100_000,
) -> tuple[Split, ...]:
    """Plans of equal power.

    Parameters
    ----------
    world : PilotWorld
        With the clustering that makes further trials say less than further tasks.
    rule : PilotRule
        How the pilot will be read.
    gain : float
        True gain.
    power : float
        Probability of the right decision, in (0, 1).
    prices : Prices
        Of a run and of a task.
    seed : int
        Seed of what is simulated.
    trials : sequence of int
        Trials of each task to compare.
    n_arms : int
        Intervened arms that share the baseline.
    max_tasks : int
        Largest number of tasks.

    Returns
    -------
    tuple of Split
        For both pairings and every number of trials; forks only where not every run fires.

    Raises
    ------
    ParameterError
        As `tasks_needed`.
    """
    pairings = [PairingPlan.RERUN]
    if abs(gain) <= world.fires < 1:
        pairings.append(PairingPlan.FORK)
    found = []
    for pairing in pairings:
        for n_trials in trials:
            plan = PilotPlan(n_tasks=1, n_trials=n_trials, n_arms=n_arms, pairing=pairing)
            n_tasks = tasks_needed(world, plan, rule, gain, power=power, seed=seed, max_tasks=max_tasks)
            sized = None if n_tasks is None else replace(plan, n_tasks=n_tasks)
            found.append(
                Split(
                    pairing=pairing,
                    n_trials=n_trials,
                    n_tasks=n_tasks,
                    n_pairs=None if n_tasks is None else n_tasks * n_trials,
                    usd=None if sized is None else prices.usd(sized, world),
                )
            )
    return tuple(found)


def cheapest(found: Sequence[Split], pairing: PairingPlan | None = None) -> Split | None:
    """The plan of the lowest price, of one pairing or of any; None where none has the power."""
    possible = [it for it in found if it.usd is not None and pairing in (None, it.pairing)]
    return min(possible, key=lambda it: (it.usd or 0.0, it.n_tasks or 0), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEffect:
    """An effect that somebody reports, with the share of pairs that flip."""

    name: str
    source: str
    gain: float
    discordance: float
    is_assumed: bool
    """Whether the discordance is assumed, since no count of flips is printed with the effect."""


_PAPER = "arXiv:2602.03338"

PUBLISHED_EFFECTS = (
    PublishedEffect(
        name="Qwen-3-8B, ALFWorld, best arm",
        source=f"{_PAPER}, table 4",
        gain=0.028,
        discordance=0.25,
        is_assumed=True,
    ),
    PublishedEffect(
        name="Qwen-3-8B, ALFWorld, pilot",
        source=f"{_PAPER}, pilot: C = 16, B = 9 of 150",
        gain=7 / 150,
        discordance=25 / 150,
        is_assumed=False,
    ),
    PublishedEffect(
        name="GLM-4.7, HotPotQA, rollback",
        source=f"{_PAPER}, table 10: C = 14, B = 19 of 300",
        gain=-5 / 300,
        discordance=33 / 300,
        is_assumed=False,
    ),
    PublishedEffect(
        name="Qwen-3-8B, HotPotQA, rollback",
        source=f"{_PAPER}, table 10: C = 23, B = 30 of 300",
        gain=-7 / 300,
        discordance=53 / 300,
        is_assumed=False,
    ),
    PublishedEffect(
        name="MiniMax-M2.1, HotPotQA, rollback",
        source=f"{_PAPER}, table 4; table 10 counts 12 + 90 flips of 300",
        gain=-0.255,
        discordance=0.35,
        is_assumed=True,
    ),
)
"""Effects for which `drsim design` says what pilots of some sizes would have found."""
