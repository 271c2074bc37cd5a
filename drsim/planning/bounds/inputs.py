"""What the bounds are computed from: questions, rates, and named sweeps over what nobody knows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior
from drsim.inference.static import DEFAULT_DRAWS, MIN_DRAWS
from drsim.planning.bounds.winner_map import MappedRates
from drsim.theory.critic import check_auroc
from drsim.theory.domain import check_probability

__all__ = [
    "DEFAULT_AUROCS",
    "DEFAULT_MARGIN",
    "SWEPT_DISRUPTION",
    "SWEPT_FAILURE_RATES",
    "SWEPT_RECOVERY",
    "Assumption",
    "Given",
    "Observed",
    "Question",
    "Rates",
    "Reruns",
    "Setting",
    "assumption",
    "held_constant",
    "rate_grid",
    "setting_of_numbers",
    "swept",
]

DEFAULT_AUROCS = (0.6, 0.7, 0.8, 0.9, 0.95)
DEFAULT_MARGIN = 0.01
"""Half-width of the region in which a fit calls gains none at all."""

SWEPT_RECOVERY = SWEPT_DISRUPTION = (0.1, 0.3, 0.5)
"""Arms of arXiv:2602.03338 recover 0.11 to 0.18 and disrupt 0.09 to 0.56, those of public pilots vary more widely: a
span to read between, not a limit."""
SWEPT_FAILURE_RATES = (0.1, 0.3, 0.5, 0.7, 0.9)

LARGEST_N = 64

type Source = Literal["measured", "given", "assumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """Where one input comes from."""

    name: str
    source: Source
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of every setting."""

    aurocs: tuple[float, ...] = DEFAULT_AUROCS
    """Critics to bound, each in [½, 1]."""
    margin: float = DEFAULT_MARGIN
    """Gain that pays, in [0, 1]."""
    n_max: int = 8
    """Most attempts, from 2 to 64."""
    required: float | None = None
    """Gain that must be possible, in [0, 1]; the margin where none is stated."""

    def __post_init__(self) -> None:
        """Check the domains."""
        check_auroc(self.aurocs)
        check_probability("margin", self.margin)
        if self.required is not None:
            check_probability("require_possible", self.required)
        if not 2 <= self.n_max <= LARGEST_N:
            raise ParameterError(f"n_max must be a whole number from 2 to {LARGEST_N}, got {self.n_max}")

    @property
    def mapped_auroc(self) -> float:
        """The critic that the map shows: the first one stated, or the middle one of the default."""
        return 0.8 if self.aurocs == DEFAULT_AUROCS else self.aurocs[0]

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Where AUROC and margin come from."""
        is_swept, is_default = self.aurocs == DEFAULT_AUROCS, self.margin == DEFAULT_MARGIN
        return (
            Assumption(
                name="auroc",
                source="assumed" if is_swept else "given",
                text=("swept: " if is_swept else "") + _listed(self.aurocs),
            ),
            Assumption(name="margin", source="assumed" if is_default else "given", text=f"{self.margin:g}"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Numbers that a caller states; None is not stated."""

    failure_rate: float | None = None
    """p, in [0, 1]."""
    recovery: float | None = None
    """ρ_m given that the mechanism fires, in [0, 1]."""
    disruption: float | None = None
    """δ_m given that it fires, in [0, 1]."""
    rho: RhoPrior | None = None
    """ρ, a number or a prior."""

    def __post_init__(self) -> None:
        """Check the domains."""
        for name in ("failure_rate", "recovery", "disruption"):
            value = getattr(self, name)
            if value is not None:
                check_probability(name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """One combination of rates; each is one number, shape (), or (n_draws,) draws."""

    failure_rate: FloatArray
    recovery: FloatArray
    disruption: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Reruns:
    """What a second attempt can do; each is one number, shape (), or (n_draws,) draws."""

    cell_failure_rate: FloatArray
    """p of all tasks."""
    failure_rate: FloatArray
    """p of the tasks that ρ is about."""
    rho: FloatArray
    within_variance: FloatArray
    """E[s(1−s)]."""

    @property
    def shown(self) -> FloatArray:
        """E[s(1−s)] as far as the tasks' p allows it: an unbiased estimate may exceed p(1−p), and r₀ then 1."""
        p = self.cell_failure_rate
        return np.minimum(self.within_variance, p * (1.0 - p))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the counts say without a prior or a model."""

    oracle_intervention: float | None = None
    """C/n."""
    best_of: dict[int, float] = field(default_factory=dict)
    """Gain of an oracle over N of a task's runs, by N, where every repeated task has at least N runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One agent on one benchmark with one arm, or the numbers of a caller."""

    agent: str | None
    benchmark: str | None
    arm: str | None
    evidence: str
    """What was read, in words."""
    assumptions: tuple[Assumption, ...]
    cases: tuple[Rates, ...]
    """One where nothing is swept."""
    reruns: tuple[Reruns, ...]
    """One, or one for each swept failure rate."""
    perfect_ceiling: FloatArray
    """Largest p·ρ_m that the evidence allows: ρ_m as measured or given, else 1."""
    oracle: tuple[FloatArray, ...]
    """C/n; its two ends where the arms are not paired; empty without an arm."""
    oracle_excess: tuple[FloatArray, ...]
    """C/n − χ/2 of pairs that are independent given the task, else empty."""
    observed: Observed
    mapped: MappedRates

    @property
    def name(self) -> str:
        """The setting in words."""
        if self.agent is None:
            return "numbers as given"
        return f"{self.agent} on {self.benchmark}" + (f", {self.arm}" if self.arm is not None else "")


def setting_of_numbers(given: Given, *, seed: int, n_draws: int = DEFAULT_DRAWS) -> Setting:
    """The setting of a caller who has numbers but no runs.

    Parameters
    ----------
    given : Given
        What is known; the rest is swept.
    seed : int
        Seed of the draws of ρ, ≥ 0.
    n_draws : int
        Draws where ρ is a prior.

    Returns
    -------
    Setting

    Raises
    ------
    ParameterError
        `n_draws` is too small.
    """
    if n_draws < MIN_DRAWS:
        raise ParameterError(f"n_draws must be at least {MIN_DRAWS}, got {n_draws}")
    prior = given.rho or DEFAULT_RHO_PRIOR
    is_exact = prior.value is not None
    rho = np.asarray(prior.value) if is_exact else prior.draw(n_draws, np.random.default_rng(seed))
    failure_rates = swept(given.failure_rate, SWEPT_FAILURE_RATES)
    recoveries = swept(given.recovery, SWEPT_RECOVERY)
    disruptions = swept(given.disruption, SWEPT_DISRUPTION)
    return Setting(
        agent=None,
        benchmark=None,
        arm=None,
        evidence="no runs",
        assumptions=(
            assumption("failure_rate", given.failure_rate, SWEPT_FAILURE_RATES),
            Assumption(name="rho", source="assumed" if given.rho is None else "given", text=str(prior)),
            assumption("recovery", given.recovery, SWEPT_RECOVERY),
            assumption("disruption", given.disruption, SWEPT_DISRUPTION),
        ),
        cases=rate_grid(failure_rates, recoveries, disruptions),
        reruns=tuple(
            Reruns(cell_failure_rate=p, failure_rate=p, rho=rho, within_variance=(1.0 - rho) * p * (1.0 - p))
            for p in failure_rates
        ),
        perfect_ceiling=failure_rates[-1] * (1.0 if given.recovery is None else given.recovery),
        oracle=(),
        oracle_excess=(),
        observed=Observed(),
        mapped=held_constant(recoveries, disruptions),
    )


def assumption(name: str, value: float | None, values: tuple[float, ...]) -> Assumption:
    """A rate as given, or as swept over `values` where it is None."""
    if value is not None:
        return Assumption(name=name, source="given", text=f"{value:g}")
    return Assumption(name=name, source="assumed", text=f"swept: {_listed(values)}")


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def swept(value: float | None, values: tuple[float, ...]) -> list[FloatArray]:
    """The given value alone, or `values` where it is None; each of shape ()."""
    return [np.asarray(x, dtype=np.float64) for x in (values if value is None else (value,))]


def rate_grid(
    failure_rates: Sequence[FloatArray], recoveries: Sequence[FloatArray], disruptions: Sequence[FloatArray]
) -> tuple[Rates, ...]:
    """Every combination of rates, the last argument changing fastest."""
    return tuple(
        Rates(failure_rate=p, recovery=r, disruption=d) for p in failure_rates for r in recoveries for d in disruptions
    )


def held_constant(recoveries: Sequence[FloatArray], disruptions: Sequence[FloatArray]) -> MappedRates:
    """The middle of what is swept, held constant over the map."""
    recovery, disruption = (float(np.median([x.mean() for x in values])) for values in (recoveries, disruptions))
    return MappedRates(recovery=recovery, disruption=disruption, is_excess=False)
