"""What could be done instead of one plain run, each over all draws at once (THEORY section 6).

Every alternative is worked out for each class of tasks, and averaged over tasks last: attempts at a task are
independent given the task, never altogether. What failed attempts spend is spent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Protocol

import numpy as np

from drsim.arrays import FloatArray
from drsim.planning.attempts import Attempt, Attempts, on_fine_nodes
from drsim.process.spent import Kind
from drsim.theory.contests import success_counts, thinned, top_given_counts
from drsim.theory.critic import check_auroc
from drsim.theory.domain import check_positive, check_probability, check_whole

__all__ = [
    "Abort",
    "Alternative",
    "BestOf",
    "Escalate",
    "Family",
    "Halt",
    "Intervene",
    "Item",
    "Nothing",
    "Outcome",
    "Retry",
    "RetryInContext",
    "Selector",
    "Verifier",
    "World",
    "world_of",
]

MOST_ATTEMPTS = 64
"""Best-of-N is tabled for as many; see `World.counts`."""
N_BISECTIONS = 60
SMOOTH = (0.2, 1.0)
"""Factors on the odds whose poles, at s = 1/(1 − c), c², …, leave the few nodes of beta tasks within 10⁻⁶: above 1 they
crowd near s = 0, where the tasks are that no attempt has solved, and success would be wrong in the first digit."""
CHUNK = 512
"""Draws at a time on the finer nodes, 193 of each."""


class Family(StrEnum):
    """Kinds of alternatives."""

    NOTHING = "nothing"
    INTERVENE = "intervene"
    HALT = "halt"
    RESTART = "abort and restart"
    RETRY = "retry until accepted"
    RETRY_IN_CONTEXT = "retry in context"
    BEST_OF = "Best-of-N"
    BEST_OF_INTERVENED = "intervene in Best-of-N"
    ESCALATE = "escalate"


class Item(IntEnum):
    """What has a price; an index."""

    TOKENS = 0
    """Of the agent's acts and of interventions, failed attempts included."""
    CRITIC_CALLS = 1
    INTERVENTIONS = 2
    SELECTOR_CALLS = 3
    VERIFIER_CALLS = 4
    SECOND_RUNS = 5
    """Runs of the second agent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What an alternative earns and spends on a task, (D,) each."""

    success: FloatArray
    """P(success)."""
    items: FloatArray
    """(6, D) expected by `Item`."""
    steps: FloatArray
    """Expected acts of the agent one after another: attempts in parallel count once."""
    attempts: FloatArray
    """Expected attempts started, those of the second agent included."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """What alternatives are worked out from."""

    attempts: Attempts
    counts: Mapping[str | None, FloatArray]
    """(D, M + 1) how many of M attempts at a task succeed, by policy; None: unaided."""
    n_max: int
    """M, the most attempts."""
    growth: float
    """Tokens by which an act costs more for every act before it in the same context."""
    second: FloatArray | None
    """(D, J) success of the second agent in each class of tasks; None: there is none."""

    @property
    def n_draws(self) -> int:
        """D."""
        return len(self.attempts.rho)

    def attempt(self, policy: str | None) -> Attempt:
        """Attempts under a policy; None: unaided."""
        return self.attempts.unaided if policy is None else self.attempts.intervened[policy]


def world_of(attempts: Attempts, *, n_max: int, growth: float, second_success: FloatArray | float | None) -> World:
    """Tables that alternatives share.

    Parameters
    ----------
    attempts : Attempts
        D draws, J classes of tasks.
    n_max : int
        Most attempts, from 1 to 64.
    growth : float
        Tokens by which an act costs more for every act before it, ≥ 0.
    second_success : ndarray, float or None
        (D,) mean success of a second agent, which finds the same tasks hard: its odds of success at every task are
        those of the first times one factor.

    Returns
    -------
    World

    Raises
    ------
    ParameterError
        A number is outside its domain.
    """
    check_whole("n_max", n_max, 1, "give a number of attempts", upper=MOST_ATTEMPTS)
    arms: dict[str | None, Attempt] = {None: attempts.unaided}
    arms.update(attempts.intervened)
    second = None
    if second_success is not None:
        second = _with_mean(attempts.unaided, check_probability("second_success", second_success))
    return World(
        attempts=attempts,
        counts={name: success_counts(it.success, it.weights, n_max) for name, it in arms.items()},
        n_max=n_max,
        growth=growth,
        second=second,
    )


def _with_mean(first: Attempt, mean: FloatArray) -> FloatArray:
    """(D, J) success whose odds are those of another agent times a factor of each draw, found by bisection."""
    low, high = (np.full(len(first.success), end) for end in (-60.0, 60.0))
    for _ in range(N_BISECTIONS):
        middle = 0.5 * (low + high)
        is_high = first.over_tasks(_moved(first.success, np.exp(middle)[:, None])) > mean
        low, high = np.where(is_high, low, middle), np.where(is_high, middle, high)
    return _moved(first.success, np.exp(0.5 * (low + high))[:, None])


def _moved(success: FloatArray, factor: FloatArray | float) -> FloatArray:
    """Success with its odds multiplied; in tasks that always or never succeed nothing moves."""
    moved: FloatArray = factor * success / (1.0 - success + factor * success)
    return moved


class Alternative(Protocol):
    """Something to spend money on."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def family(self) -> Family:
        """What kind it is."""
        ...

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Chooses among attempts by a score."""

    auroc: float
    """P(a success outscores a failure of the same task), in [½, 1]; 1 is a perfect selector."""
    shared: float = 0.0
    """c, share of a score's variance that attempts of equal outcome have in common, in [0, 1]."""

    def __post_init__(self) -> None:
        check_auroc(self.auroc)
        check_probability("shared", self.shared)

    @property
    def is_perfect(self) -> bool:
        """Whether it never errs."""
        return self.auroc == 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Accepts or rejects an attempt."""

    tpr: float
    """P(accepted | the attempt succeeded), in [0, 1]."""
    fpr: float
    """P(accepted | it failed), in [0, 1]."""

    def __post_init__(self) -> None:
        check_probability("verifier_tpr", self.tpr)
        check_probability("verifier_fpr", self.fpr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """One plain run."""

    name: str = "nothing"
    family: Family = Family.NOTHING

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        return _one_run(world.attempts.unaided)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervene:
    """One run under a policy."""

    policy: str
    """Name among `Attempts.intervened`."""
    family: Family = Family.INTERVENE

    @property
    def name(self) -> str:
        """What it is called."""
        return f"intervene: {self.policy}"

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        return _one_run(world.attempts.intervened[self.policy])


def _one_run(attempt: Attempt) -> Outcome:
    spent = attempt.over_tasks(attempt.spent)
    return Outcome(
        success=attempt.mean_success,
        items=_items(spent),
        steps=spent[Kind.STEPS],
        attempts=np.ones(spent.shape[1]),
    )


def _items(spent: FloatArray, **further: FloatArray) -> FloatArray:
    """(6, D) from what attempts spend (4, D), and calls and runs by name."""
    items = np.zeros((len(Item), spent.shape[1]))
    items[Item.TOKENS], items[Item.CRITIC_CALLS] = spent[Kind.TOKENS], spent[Kind.CRITIC_CALLS]
    items[Item.INTERVENTIONS] = spent[Kind.INTERVENTIONS]
    for name, count in further.items():
        items[Item[name]] = count
    return items


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """A critic's firing ends the run, which has failed then: a cheaper failure, where it would have been one."""

    trigger: str
    """Name among `Attempts.watched`."""
    family: Family = Family.HALT

    @property
    def name(self) -> str:
        """What it is called."""
        return f"halt: {self.trigger}"

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        watched, unaided = world.attempts.watched[self.trigger], world.attempts.unaided
        spent = unaided.over_tasks(watched.spent)
        return Outcome(
            success=unaided.over_tasks(watched.kept),
            items=_items(spent),
            steps=spent[Kind.STEPS],
            attempts=np.ones(world.n_draws),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """A critic's firing kills the run and a fresh one starts, up to R times; the run after that is left alone."""

    trigger: str
    """Name among `Attempts.watched`."""
    restarts: int
    """R ≥ 1."""
    family: Family = Family.RESTART

    def __post_init__(self) -> None:
        check_whole("restarts", self.restarts, 1, "give a number of restarts")

    @property
    def name(self) -> str:
        """What it is called."""
        return f"restart ≤ {self.restarts}: {self.trigger}"

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        watched, unaided = world.attempts.watched[self.trigger], world.attempts.unaided
        watched_runs, always = _tries(watched.fired, self.restarts), watched.fired**self.restarts
        spent = unaided.over_tasks(watched_runs * watched.spent + always * unaided.spent)
        return Outcome(
            success=unaided.over_tasks(watched_runs * watched.kept + always * unaided.success),
            items=_items(spent),
            steps=spent[Kind.STEPS],
            attempts=unaided.over_tasks(watched_runs + always),
        )


def _tries(again: FloatArray, most: int) -> FloatArray:
    """Expected tries, at most so many, each followed by another with probability `again`."""
    tries = np.zeros_like(again)
    for _ in range(most):
        tries = 1.0 + again * tries
    return tries


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalate:
    """A critic's firing ends the run, and a second agent starts over."""

    trigger: str
    """Name among `Attempts.watched`."""
    family: Family = Family.ESCALATE

    @property
    def name(self) -> str:
        """What it is called."""
        return f"escalate: {self.trigger}"

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        watched, unaided = world.attempts.watched[self.trigger], world.attempts.unaided
        second = np.zeros_like(unaided.success) if world.second is None else world.second
        spent, fired = unaided.over_tasks(watched.spent), unaided.over_tasks(watched.fired)
        return Outcome(
            success=unaided.over_tasks(watched.kept + watched.fired * second),
            items=_items(spent, SECOND_RUNS=fired),
            steps=spent[Kind.STEPS],
            attempts=1.0 + fired,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Fresh attempts until a verifier accepts one; the last of N is kept whatever it is, and not verified."""

    attempts: int
    """N ≥ 1."""
    verifier: Verifier
    family: Family = Family.RETRY

    def __post_init__(self) -> None:
        check_whole("attempts", self.attempts, 1, "give a number of attempts")

    @property
    def name(self) -> str:
        """What it is called."""
        return f"retry ≤ {self.attempts}"

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        unaided = world.attempts.unaided
        s = unaided.success
        rejected = s * (1.0 - self.verifier.tpr) + (1.0 - s) * (1.0 - self.verifier.fpr)
        verified, last = _tries(rejected, self.attempts - 1), rejected ** (self.attempts - 1)
        made = verified + last
        spent = unaided.over_tasks(made * unaided.spent)
        return Outcome(
            success=unaided.over_tasks(s * (self.verifier.tpr * verified + last)),
            items=_items(spent, VERIFIER_CALLS=unaided.over_tasks(verified)),
            steps=spent[Kind.STEPS],
            attempts=unaided.over_tasks(made),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryInContext:
    """As `Retry`, but every attempt sees those before it: its odds are theirs times a factor, its context longer."""

    attempts: int
    """N ≥ 1."""
    verifier: Verifier
    contamination: float
    """Factor on the odds of success of each next attempt: below 1 earlier failures mislead, above 1 they teach."""
    family: Family = Family.RETRY_IN_CONTEXT

    def __post_init__(self) -> None:
        check_whole("attempts", self.attempts, 1, "give a number of attempts")
        check_positive("contamination", self.contamination, "1 leaves the odds of the next attempt as they were")

    @property
    def name(self) -> str:
        """What it is called."""
        return f"retry in context ≤ {self.attempts}"

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        unaided = world.attempts.unaided
        if unaided.rho is None or SMOOTH[0] <= self.contamination <= SMOOTH[1]:
            return self._over(unaided, world.growth)
        parts = [
            self._over(on_fine_nodes(unaided, slice(start, start + CHUNK)), world.growth)
            for start in range(0, world.n_draws, CHUNK)
        ]
        return Outcome(
            success=np.concatenate([it.success for it in parts]),
            items=np.concatenate([it.items for it in parts], axis=1),
            steps=np.concatenate([it.steps for it in parts]),
            attempts=np.concatenate([it.attempts for it in parts]),
        )

    def _over(self, unaided: Attempt, growth: float) -> Outcome:
        verifier = self.verifier
        good, bad = unaided.spent_succeeding, unaided.spent_failing
        s, going, before = unaided.success, np.ones_like(unaided.success), np.zeros_like(unaided.success)
        success, spent = np.zeros_like(s), np.zeros_like(unaided.spent)
        made, verified = np.zeros_like(s), np.zeros_like(s)
        for j in range(self.attempts):
            is_last = j == self.attempts - 1
            now = s * good + (1.0 - s) * bad
            spent += going * now
            # an act costs more for each act of the attempts before it, which are those of rejected attempts
            spent[Kind.TOKENS] += growth * before * now[Kind.STEPS]
            made += going
            success += going * s * (1.0 if is_last else verifier.tpr)
            if not is_last:
                verified += going
                lost, kept = s * (1.0 - verifier.tpr), (1.0 - s) * (1.0 - verifier.fpr)
                before = before * (lost + kept) + going * (lost * good[Kind.STEPS] + kept * bad[Kind.STEPS])
                going = going * (lost + kept)
                s = _moved(s, self.contamination)
        total = unaided.over_tasks(spent)
        return Outcome(
            success=unaided.over_tasks(success),
            items=_items(total, VERIFIER_CALLS=unaided.over_tasks(verified)),
            steps=total[Kind.STEPS],
            attempts=unaided.over_tasks(made),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BestOf:
    """N attempts, of which a selector keeps one; in sequence a perfect selector stops at the first success."""

    attempts: int
    """N, from 1 to the most attempts of the world."""
    selector: Selector
    policy: str | None = None
    """Intervening inside each attempt; None: unaided."""
    in_sequence: bool = False
    is_named_perfect: bool = False
    """Whether the name says that the selector is perfect, as beside one that is not."""

    def __post_init__(self) -> None:
        check_whole("attempts", self.attempts, 1, "give a number of attempts", upper=MOST_ATTEMPTS)

    @property
    def family(self) -> Family:
        """What kind it is."""
        return Family.BEST_OF if self.policy is None else Family.BEST_OF_INTERVENED

    @property
    def name(self) -> str:
        """What it is called."""
        of = "" if self.policy is None else f" of {self.policy}"
        notes = ["perfect selector"] * self.is_named_perfect + ["in sequence"] * self.in_sequence
        return f"best of {self.attempts}{of}" + (f" ({', '.join(notes)})" if notes else "")

    def evaluate(self, world: World) -> Outcome:
        """What it earns and spends in each draw."""
        attempt, n = world.attempt(self.policy), self.attempts
        table = top_given_counts(n, self.selector.auroc, self.selector.shared)
        # a sum in one order, which matrix products of many threads need not keep
        success = np.einsum("dk,k->d", world.counts[self.policy], thinned(table, world.n_max))
        if self.in_sequence and self.selector.is_perfect:
            made = _tries(1.0 - attempt.success, n)
            spent, runs = attempt.over_tasks(made * attempt.spent), attempt.over_tasks(made)
            steps = spent[Kind.STEPS]
        else:
            one = attempt.over_tasks(attempt.spent)
            spent, runs = n * one, np.full(world.n_draws, float(n))
            steps = spent[Kind.STEPS] if self.in_sequence else one[Kind.STEPS]
        scored = runs if n > 1 else np.zeros(world.n_draws)
        return Outcome(success=success, items=_items(spent, SELECTOR_CALLS=scored), steps=steps, attempts=runs)
