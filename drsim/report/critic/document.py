"""The JSON document of `drsim critic`; its types are the source of `drsim schema critic`."""

from typing import Literal

from msgspec import Struct

from drsim.report.documents import CountsDocument, InputDocument, Number

__all__ = [
    "AurocContrastDocument",
    "BinDocument",
    "CalibratedDocument",
    "CriticDocument",
    "CriticPlaceDocument",
    "GranularityDocument",
    "HeldOutDocument",
    "MetricsDocument",
    "OperatingPointDocument",
    "PlainMetricsDocument",
    "RatesDocument",
    "ScoredArmDocument",
    "TemperatureDocument",
]

type Status = Literal["failed", "converged", "flat", "lower end", "upper end"]


class PlainMetricsDocument(Struct, frozen=True, kw_only=True):
    """Figures of the sample as they stand; null where they are undefined or infinite."""

    auroc: float | None
    brier: float
    nll: float | None


class BinDocument(Struct, frozen=True, kw_only=True):
    """One line of the reliability table."""

    mean_score: float
    share_failed: float
    posterior: Number
    n: int


class HeldOutDocument(Struct, frozen=True, kw_only=True):
    """Every item scaled by the temperature of the half of the tasks that it is not in."""

    temperatures: tuple[float, float]
    statuses: tuple[Status, Status]
    nll_before: float | None
    nll_after: float
    brier_before: float
    brier_after: float
    ece_before: float
    ece_after: float


class TemperatureDocument(Struct, frozen=True, kw_only=True):
    """Temperature scaling: the value to use, fitted on all tasks, and how it does on unseen ones."""

    value: float
    status: Status
    held_out: HeldOutDocument | None


class MetricsDocument(Struct, frozen=True, kw_only=True):
    """Metrics of scored runs or of scored steps, with intervals over tasks."""

    n: int
    failed: int
    plain: PlainMetricsDocument
    auroc: Number | None
    auroc_within: Number | None
    """Over pairs of one agent and benchmark only; null where there is one."""
    brier: Number
    nll: Number | None
    impossible: int
    """Scores of exactly 0 or 1 that were wrong: the reason why `nll` is null."""
    ece: float
    ece_floor: float
    """What chance alone makes of `ece`, tasks being the units."""
    temperature: TemperatureDocument
    reliability: list[BinDocument]


class OperatingPointDocument(Struct, frozen=True, kw_only=True):
    """A threshold: fires when a score exceeds it. −1 always fires, 1 never; null: chosen anew on half of the tasks."""

    trigger_rate: float
    threshold: float | None
    tpr: Number
    fpr: Number
    gain: Number | None
    prob_gain: float | None
    """P(gain > margin)."""


class RatesDocument(Struct, frozen=True, kw_only=True):
    """Recovery and disruption given that the critic fires, and where they are known from."""

    source: Literal["given", "acted-pairs", "all-pairs"]
    assumption: str
    arm: str | None
    pairing: list[str]
    forked: bool | None
    """Whether all pairs share a prefix; if not, reruns alone flip some of them."""
    churn: Literal["measured", "assumed"] | None
    """How that was known and taken off; null for forked pairs and stated rates."""
    counts: CountsDocument | None
    """A, B, C, D among the pairs in which the critic fired, nothing taken off."""
    recovery: Number
    disruption: Number


class CalibratedDocument(Struct, frozen=True, kw_only=True):
    """The rule `intervene above η*` for scores that the temperature calibrates, and its point on raw scores."""

    eta: float
    eta_posterior: Number
    temperature: float
    trustworthy: bool
    """Whether the scaled scores come near to probabilities on unseen tasks."""
    point: OperatingPointDocument


class AurocContrastDocument(Struct, frozen=True, kw_only=True):
    """Gains that one AUROC is compatible with."""

    auroc: float
    binormal: float | None
    perfect: float
    random: float
    disrupted_per_recovered: float | None


class GranularityDocument(Struct, frozen=True, kw_only=True):
    """How finely run scores are graded."""

    distinct: int
    largest_tie: float
    coarse: bool
    reachable_trigger_rates: list[float] | None
    """All of them where scores are coarse and there are few, else null."""


class CriticPlaceDocument(Struct, frozen=True, kw_only=True):
    """One agent and benchmark of the arm."""

    agent: str
    benchmark: str
    arm: str
    n_tasks: int
    n_runs: int
    failed: int
    plain_auroc: float | None
    auroc: Number | None
    at_best: OperatingPointDocument | None
    """The arm's best threshold, with this place's own failure rate, ROC and pairs."""


class ScoredArmDocument(Struct, frozen=True, kw_only=True):
    """The critic's scores in one arm."""

    scored_arm: str
    contaminated: bool
    """Whether the arm intervenes, so that its ends are not those that the scores predicted."""
    n_tasks: int
    length_auroc: float | None
    """AUROC of the number of scored steps alone: the highest of many scores is high, so length tells ends too."""
    unscored: int
    set_aside: dict[str, int]
    runs: MetricsDocument
    steps: MetricsDocument
    granularity: GranularityDocument
    failure_rate: Number | None
    failure_rate_of: str | None
    rates: RatesDocument | None
    operating_points: list[OperatingPointDocument]
    best: OperatingPointDocument | None
    """Picked from `n_thresholds` for its gain, hence biased upwards."""
    n_thresholds: int | None
    cross_fitted: OperatingPointDocument | None
    """Every run met with the best threshold of the half of the tasks that it is not in: free of that bias."""
    calibrated: CalibratedDocument | None
    contrast: AurocContrastDocument | None
    as_run: Number | None
    """Gain over all pairs of the arm behind the rates."""
    places: list[CriticPlaceDocument]


class CriticDocument(Struct, frozen=True, kw_only=True):
    """`drsim critic --json`.

    The figures beside `critics` are those of the only arm, null or empty where several are judged: AUROC of runs, which
    is what a threshold sees; Brier, NLL, ECE and temperature of steps, which is what the critic scored.
    """

    schema: Literal["drsim.critic/1"] = "drsim.critic/1"
    version: str
    seed: int
    rule: dict[str, float]
    input: InputDocument
    scored_arm: str | None
    contaminated: bool
    """Whether any judged arm intervenes."""
    auroc: Number | None
    brier: Number | None
    nll: Number | None
    ece: float | None
    temperature: float | None
    operating_points: list[OperatingPointDocument]
    critics: list[ScoredArmDocument]
    warnings: list[str]
    diagnostics: dict[str, int]
