"""The critics of a pilot as judged: the values that a report shows."""

from dataclasses import dataclass

from drsim.errors import ParameterError
from drsim.inference.critic.metrics import CriticMetrics
from drsim.inference.critic.scores import Place, ScoredArm
from drsim.inference.critic.temperature import Temperature
from drsim.inference.posterior import Uncertain
from drsim.planning.critic.gains import CriticGains
from drsim.planning.critic.operating_points import OperatingPoint

__all__ = ["CriticAssessment", "CriticJudgement", "CriticRule", "Granularity", "PlaceRow"]

MIN_DISTINCT = 10
"""Run scores with so few values, or fewer, are coarse."""
MAX_TIE = 0.2
"""A value that more than this share of the runs have makes the scores coarse: no threshold parts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticRule:
    """What a gain must exceed, and how surely."""

    margin: float = 0.0
    """In [−1, 1]."""
    confidence: float = 0.95
    """In (0.5, 1)."""

    def __post_init__(self) -> None:
        """Check the domains."""
        if not -1 <= self.margin <= 1:
            raise ParameterError(
                f"--require-gain must lie in [-1, 1], got {self.margin}; give a difference of success rates"
            )
        if not 0.5 < self.confidence < 1:
            raise ParameterError(
                f"confidence must lie between 0.5 and 1, got {self.confidence}; give a probability, not per cent"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Granularity:
    """How finely run scores are graded."""

    n_distinct: int
    largest_tie: float
    """Share of the runs that have the commonest score."""
    reachable: tuple[float, ...]
    """Every trigger rate that some threshold reaches, from 0 to 1."""

    @property
    def is_coarse(self) -> bool:
        """Whether most trigger rates are out of reach."""
        return self.n_distinct <= MIN_DISTINCT or self.largest_tie > MAX_TIE

    @property
    def is_few(self) -> bool:
        """Whether the reachable trigger rates can be listed."""
        return len(self.reachable) <= MIN_DISTINCT + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRow:
    """One agent and benchmark of an arm."""

    place: Place
    n_tasks: int
    n_runs: int
    n_failed: int
    plain_auroc: float
    auroc: Uncertain | None
    at_best: OperatingPoint | None
    """The arm's best threshold, with this place's own failure rate, ROC and pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticJudgement:
    """The scores of one arm, judged."""

    scored: ScoredArm
    runs: CriticMetrics
    steps: CriticMetrics
    run_temperature: Temperature
    step_temperature: Temperature
    granularity: Granularity
    gains: CriticGains | None
    """None where all runs end alike, so that there is no ROC."""
    places: tuple[PlaceRow, ...]
    """Empty where there is one agent and benchmark only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticAssessment:
    """Every critic of a pilot."""

    critics: tuple[CriticJudgement, ...]
    warnings: tuple[str, ...]
    rule: CriticRule
    baseline: str
    n_runs: int
    n_tasks: int
    set_aside: dict[str, int]
    """Runs of any arm with outcome infra and unjudged."""
    seed: int
    n_draws: int

    @property
    def is_met(self) -> bool:
        """Whether some operating point of some critic gains more than the margin, surely enough."""
        return any(item.gains is not None and item.gains.is_above(self.rule.confidence) for item in self.critics)
