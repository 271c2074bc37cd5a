"""What an examination of a pilot finds: a value, made in `doctor` and shown by the report."""

from dataclasses import dataclass

from drsim.pilot.cell import PairedBy, Tally, Unpaired
from drsim.pilot.retries import Retries

__all__ = ["ArmSummary", "Carried", "CellSummary", "Diagnosis", "Estimand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Share of an arm's runs that carry each optional part of a record, in [0, 1]."""

    n_steps: float
    steps: float
    scores: float
    """At least one step with a critic's score."""
    rewards: float
    """At least one step with a reward."""
    costs: float
    """Tokens or usd."""
    interventions: float
    """At least one trigger, acted on or withheld."""
    propensities: float
    """At least one trigger with its propensity."""
    forks: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """One arm of one agent and benchmark."""

    agent: str
    benchmark: str
    arm: str
    is_baseline: bool
    tasks: int
    runs: int
    trials: tuple[int, int] | None
    """Fewest and most runs of one task; None where the file does not say."""
    tally: Tally
    step_cap: int | None = None
    """Steps at which runs were stopped; None when they do not show it."""
    carried: Carried | None = None
    """None for counts and marginals, which carry outcomes only."""
    retries: Retries | None = None
    """Why later trials are taken for retries; None when they are repeats."""

    @property
    def place(self) -> tuple[str, str]:
        """Agent and benchmark."""
        return self.agent, self.benchmark

    @property
    def success_rate(self) -> float:
        """Successes among judged runs; NaN when none is judged."""
        return self.tally.success / self.tally.judged if self.tally.judged else float("nan")

    @property
    def success_bounds(self) -> tuple[float, float]:
        """Success rate if every run set aside had failed, and if every one had succeeded."""
        return self.tally.success_bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """One intervened arm against the baseline."""

    agent: str
    benchmark: str
    arm: str
    pairing: PairedBy
    pairs: int
    tasks: int
    """Tasks that hold a pair."""
    baseline_failures: float
    """Denominator of r, in pairs; a fraction where task means were compared."""
    baseline_successes: float
    """Denominator of d."""
    flips: float
    """B + C, the pairs that the gain and p* rest on."""
    failure_tasks: int
    """Tasks behind the denominator of r."""
    success_tasks: int
    """Tasks behind the denominator of d."""
    baseline_only_tasks: int = 0
    """Tasks that the intervened arm never ran."""
    arm_only_tasks: int = 0
    """Tasks that the baseline never ran."""
    unpaired: tuple[Unpaired, ...] = ()
    gain_bounds: tuple[float, float] | None = None
    """Gain when every run set aside counts against, then for, the intervention; None when none was set aside."""

    @property
    def name(self) -> str:
        """The cell in words."""
        return f"{self.agent} on {self.benchmark}, {self.arm}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimand:
    """One thing that a pilot may answer."""

    name: str
    answerable: bool
    """Whether at least one cell answers it."""
    why: str
    """Where it is answered and on what, and where it is not and for which reason."""
    fix: str | None
    """Cheapest remedy for the cells that do not answer it; None when all of them do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a file can and cannot answer."""

    form: str
    """`runs`, `counts` or `marginals`."""
    baseline: str
    arms: tuple[ArmSummary, ...]
    """In order of agent, benchmark, arm; the baseline first."""
    cells: tuple[CellSummary, ...]
    estimands: tuple[Estimand, ...]
    warnings: tuple[str, ...]

    def estimand(self, name: str) -> Estimand:
        """The estimand of that name."""
        return next(item for item in self.estimands if item.name == name)
