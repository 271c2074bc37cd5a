"""What is assumed of the pairs of a pilot that is still to be run, and what the plan of it says."""

from dataclasses import dataclass
from enum import StrEnum
from math import comb

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.theory.domain import check_probability

__all__ = ["PairingPlan", "PilotPlan", "PilotWorld", "Prices", "table_probabilities"]

LARGEST_STEP = 1e-6
"""Resolution of the largest gain possible."""
MOST_TRIALS = 64
MOST_TASKS = 10_000_000


class PairingPlan(StrEnum):
    """How the two runs of a pair are joined."""

    RERUN = "rerun"
    """Two whole runs of one task."""
    FORK = "fork"
    """One run up to the first firing; pairs whose run never fires cannot flip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotPlan:
    """Size and form of a pilot."""

    n_tasks: int
    """Tasks, ≥ 1."""
    n_trials: int = 1
    """Pairs of each task and arm, 1 to 64."""
    n_arms: int = 1
    """Intervened arms, which share the baseline runs."""
    pairing: PairingPlan = PairingPlan.RERUN

    def __post_init__(self) -> None:
        """Check the domains."""
        for name, most in (("n_tasks", MOST_TASKS), ("n_trials", MOST_TRIALS), ("n_arms", 1000)):
            if not 1 <= getattr(self, name) <= most:
                raise ParameterError(f"{name} must be a whole number from 1 to {most:,}, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotWorld:
    """How pairs flip, for any gain."""

    failure_rate: float | None = None
    """p, in [0, 1]; needed where the discordance is not given."""
    rho: float = 0.5
    """Intraclass correlation ρ of a task's runs, in [0, 1]."""
    clustering: float | None = None
    """Intraclass correlation of a task's pairs, in [0, 1]: 0 where the gain is the same in all tasks. None: ρ, which is
    the cautious end."""
    discordance: float | None = None
    """Share q of rerun pairs that flip, in (0, 1]; None: what reruns of such tasks show."""
    fires: float = 1.0
    """Share of runs in which the policy fires, in (0, 1]: in forked pairs no other can flip."""

    def __post_init__(self) -> None:
        """Check the domains."""
        check_probability("rho", self.rho)
        check_probability("clustering", self.pair_correlation)
        if self.failure_rate is not None:
            check_probability("failure_rate", self.failure_rate)
        if self.discordance is None and self.failure_rate is None:
            raise ParameterError("the discordance or the failure rate must be given, got neither; give one of them")
        if self.discordance is not None and not 0 < self.discordance <= 1:
            raise ParameterError(f"discordance must lie in (0, 1], got {self.discordance}; give a share of pairs")
        if not 0 < self.fires <= 1:
            raise ParameterError(f"fires must lie in (0, 1], got {self.fires}; give a share of runs")

    @property
    def pair_correlation(self) -> float:
        """Intraclass correlation of a task's pairs, stated or ρ."""
        return self.rho if self.clustering is None else self.clustering

    def discordance_at(self, gain: float, pairing: PairingPlan = PairingPlan.RERUN) -> float:
        r"""Share of pairs that flip where the gain is Δ.

        Where it is not given it is that of two runs with success rates s₀ = 1 − p and s₁ = s₀ + Δ whose task means have
        correlation one and the intraclass correlation ρ,

        .. math:: q = s_0(1 - s_1) + s_1(1 - s_0) - 2ρ\sqrt{s_0(1 - s_0)s_1(1 - s_1)},

        at Δ = 0 the churn 2p(1−p)(1−ρ), and in any case at least |Δ|.

        Parameters
        ----------
        gain : float
            Δ.
        pairing : PairingPlan
            Of forked pairs the share `fires` can flip, and again at least |Δ|.

        Returns
        -------
        float
            In [|Δ|, 1].

        Raises
        ------
        ParameterError
            No such gain is possible.
        """
        q = self._rerun_discordance(gain)
        if pairing is PairingPlan.FORK:
            q = max(self.fires * q, abs(gain))
            if abs(gain) > self.fires:
                raise ParameterError(
                    f"gain must not exceed the share of runs that fire, {self.fires:g}, got {gain:+g}; name another"
                )
        return q

    def largest_gain(self, pairing: PairingPlan, sign: int) -> float:
        """Size of the largest gain (sign 1) or loss (−1) that is possible."""
        limits = [1.0]
        if self.failure_rate is not None:
            limits.append(self.failure_rate if sign > 0 else 1 - self.failure_rate)
        if self.discordance is not None:
            limits.append(self.discordance)
        if pairing is PairingPlan.FORK:
            limits.append(self.fires)
        return min(limits)

    def _rerun_discordance(self, gain: float) -> float:
        sign = 1 if gain >= 0 else -1
        # the same numbers may come back a rounding larger
        if not abs(gain) <= self.largest_gain(PairingPlan.RERUN, sign) + LARGEST_STEP**2:
            largest = self.largest_gain(PairingPlan.RERUN, sign)
            raise ParameterError(
                f"gain must lie within the {sign * largest:+g} that these pairs can show, got {gain:+g}; "
                "name a smaller one, or a larger discordance"
            )
        if self.discordance is not None:
            return self.discordance
        s0 = 1 - (self.failure_rate or 0.0)
        s1 = min(max(s0 + gain, 0.0), 1.0)
        shared = 2 * self.rho * np.sqrt(s0 * (1 - s0) * s1 * (1 - s1))
        return float(max(s0 * (1 - s1) + s1 * (1 - s0) - shared, abs(gain)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a pilot costs, in dollars."""

    run: float = 1.0
    """One run, ≥ 0."""
    task: float = 0.0
    """One further task (set-up, judging), ≥ 0."""

    def __post_init__(self) -> None:
        """Check the domains."""
        for name in ("run", "task"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ParameterError(f"the price of a {name} must be a finite number ≥ 0, got {getattr(self, name)}")

    def usd(self, plan: PilotPlan, world: PilotWorld, n_tasks: float | None = None) -> float:
        """Price of a plan; a forked arm is run only where the policy fires, as a whole run."""
        arm_runs = plan.n_arms * (world.fires if plan.pairing is PairingPlan.FORK else 1.0)
        tasks = plan.n_tasks if n_tasks is None else n_tasks
        return tasks * (self.task + plan.n_trials * (1 + arm_runs) * self.run)


def table_probabilities(gain: float, discordance: float, rho: float, n_trials: int) -> tuple[IntArray, FloatArray]:
    r"""Tables that a task of K pairs can show, and how probable each is.

    .. math:: P(n) = \frac{K!}{\prod_j n_j!} \frac{\prod_j \prod_{i<n_j} (π_j(1-ρ) + iρ)}{\prod_{i<K}(1 - ρ + iρ)}

    Parameters
    ----------
    gain, discordance, rho : float
        Δ, q ≥ |Δ|, ρ.
    n_trials : int
        K.

    Returns
    -------
    flips : ndarray
        (n_tables, 2) pairs of kind B and of kind C.
    chances : ndarray
        (n_tables,) summing to 1.
    """
    base = np.array([(discordance - gain) / 2, (discordance + gain) / 2, 1 - discordance])
    base = np.clip(base, 0.0, 1.0)
    flips, chances = [], []
    for down in range(n_trials + 1):
        for up in range(n_trials + 1 - down):
            numbers = (down, up, n_trials - down - up)
            flips.append((down, up))
            chances.append(comb(n_trials, down) * comb(n_trials - down, up) * _order_chance(base, rho, numbers))
    total = np.array(chances)
    return np.array(flips), total / total.sum()


def _order_chance(base: FloatArray, rho: float, numbers: tuple[int, ...]) -> float:
    """Probability of one order of draws; a factor 1 − ρ above and below is cancelled, so that ρ = 1 is no 0/0."""
    kinds = [j for j, number in enumerate(numbers) if number]
    chance = (1 - rho) ** (len(kinds) - 1)
    for j in kinds:
        chance *= base[j] * np.prod([base[j] * (1 - rho) + i * rho for i in range(1, numbers[j])])
    return float(chance / np.prod([1 - rho + i * rho for i in range(1, sum(numbers))]))
