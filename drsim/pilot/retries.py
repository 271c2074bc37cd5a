"""Trials that a harness started because of how the one before ended: retries, not repeats.

Whether a task gets a trial k + 1 must not depend on how its trial k ended; else the later trials are those of hard
tasks and of bad luck, and every rate over them is biased. Of the tasks with a trial of some number let n be all, g
those where it ended well, m those that have a later trial, and x those of both. If later trials were planned without a
look at the ends, x is hypergeometric (m drawn from n, g of them good), however unlike the tasks are and whatever
happened before. An arm's later trials are taken for retries when both hold:

- *unlikely*: P(X ≤ x), combined over trial numbers by Fisher's method, is below `chance`. Each is valid given all
  earlier trials, so -2 Σ ln P(X ≤ x) is at most chi-squared with two degrees of freedom a number.
- *almost only*: a good end was followed at no more than 1/20 of the rate of a bad one. Chance alone would, in a large
  pilot, also catch a second pass over the harder half of the tasks, which is a sample of tasks and no retry.

Good is asked twice: not infra among all trials, then success among judged ones.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from drsim.pilot.records import Outcome, Run

__all__ = ["Retried", "Retries", "find_retries"]

CHANCE = 1e-3
"""One arm in a thousand whose repeats were planned may be called retried."""

ALMOST_ONLY = 1 / 20
"""A harness that judges for itself may disagree with the file about a few ends, so the rate after good ends need not
be 0; no difference in difficulty between repeated and other tasks comes near 1/20."""


class Retried(StrEnum):
    """The end that brought about another trial."""

    FAILURE = "failure"
    INFRA = "infra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Why an arm's later trials are taken for retries."""

    after: Retried
    followed: int
    """Trials that another one follows, where the task could as well have stopped."""
    followed_bad: int
    """Those of them that ended in the way that is retried."""
    chance: float
    """Probability of so few good ends among them, had later trials been planned without a look at the ends."""


def find_retries(tasks: Mapping[str, list[Run]], *, chance: float = CHANCE) -> Retries | None:
    """Tell retries from repeats in one arm.

    Parameters
    ----------
    tasks : mapping of str to list of Run
        The arm's runs by task.
    chance : float
        Probability of a false alarm that is accepted, in (0, 1).

    Returns
    -------
    Retries or None
        None when the arm's trials look planned, or cannot tell.
    """
    if len({len(runs) for runs in tasks.values()}) < 2:
        return None
    trials = [sorted(runs, key=lambda run: run.trial) for runs in tasks.values()]
    return _judge(Retried.INFRA, _levels(trials, _is_not_infra), chance) or _judge(
        Retried.FAILURE, _levels(trials, _is_success), chance
    )


def _is_not_infra(run: Run) -> bool:
    return run.outcome is not Outcome.INFRA


def _is_success(run: Run) -> bool | None:
    return run.outcome is Outcome.SUCCESS if run.outcome.is_judged else None


@dataclass(slots=True)
class _Level:
    """Trials of one number: how many, how many good, and the same for those that another trial follows."""

    n: int = 0
    good: int = 0
    followed: int = 0
    good_followed: int = 0

    def add(self, *, is_good: bool, is_followed: bool) -> None:
        self.n += 1
        self.good += is_good
        self.followed += is_followed
        self.good_followed += is_good and is_followed

    @property
    def can_tell(self) -> bool:
        return 0 < self.good < self.n and 0 < self.followed < self.n

    def log_chance(self) -> float:
        """Logarithm of P(X ≤ x) for the hypergeometric law of the module's docstring."""
        lowest = max(0, self.followed - (self.n - self.good))
        terms = [
            _log_choose(self.good, x)
            + _log_choose(self.n - self.good, self.followed - x)
            - _log_choose(self.n, self.followed)
            for x in range(lowest, self.good_followed + 1)
        ]
        largest = max(terms)
        return min(0.0, largest + math.log(math.fsum(math.exp(term - largest) for term in terms)))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _levels(trials: list[list[Run]], is_good: Callable[[Run], bool | None]) -> list[_Level]:
    """Levels that can tell; a run whose goodness is None belongs to none."""
    levels: dict[int, _Level] = defaultdict(_Level)
    for runs in trials:
        for k, run in enumerate(runs):
            good = is_good(run)
            if good is not None:
                levels[k].add(is_good=good, is_followed=k + 1 < len(runs))
    return [level for level in levels.values() if level.can_tell]


def _judge(after: Retried, levels: list[_Level], chance: float) -> Retries | None:
    if not levels:
        return None
    good, good_followed = sum(level.good for level in levels), sum(level.good_followed for level in levels)
    bad = sum(level.n for level in levels) - good
    bad_followed = sum(level.followed for level in levels) - good_followed
    if good_followed * bad > ALMOST_ONLY * bad_followed * good:
        return None
    combined = _fisher([level.log_chance() for level in levels])
    if combined >= chance:
        return None
    return Retries(after=after, followed=good_followed + bad_followed, followed_bad=bad_followed, chance=combined)


def _fisher(log_chances: list[float]) -> float:
    """Fisher's combination: the chi-squared tail with an even number of degrees of freedom, in closed form."""
    half = -math.fsum(log_chances)
    if half <= 0:
        return 1.0
    terms = (i * math.log(half) - math.lgamma(i + 1) - half for i in range(len(log_chances)))
    return min(1.0, math.fsum(map(math.exp, terms)))
