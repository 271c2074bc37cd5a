"""The JSON documents that commands print; their types are the source of `drsim schema`."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from drsim.inference.posterior import Uncertain

__all__ = [
    "ArmDocument",
    "AuditDocument",
    "CarriedDocument",
    "CellDocument",
    "CorrectedDocument",
    "CountsDocument",
    "CurveDocument",
    "DoctorCellDocument",
    "DoctorDocument",
    "EstimandDocument",
    "FindingDocument",
    "FitDocument",
    "HierarchicalDocument",
    "InputDocument",
    "NextDocument",
    "Number",
    "PooledCellDocument",
    "PooledDocument",
    "RepeatedDocument",
    "RetriesDocument",
    "TimingCellDocument",
    "TimingDocument",
    "TriggerCellDocument",
    "encode",
]


class Number(Struct, frozen=True, kw_only=True):
    """An uncertain number: a posterior's mean, sd and quantiles."""

    mean: float | None
    sd: float | None
    q2_5: float | None = msgspec.field(name="q2.5")
    q50: float | None
    q97_5: float | None = msgspec.field(name="q97.5")

    @classmethod
    def of(cls, number: Uncertain) -> "Number":
        """From a posterior's summary; what is undefined is null."""
        mean, sd, low, middle, high = number.to_dict().values()
        return cls(mean=mean, sd=sd, q2_5=low, q50=middle, q97_5=high)


class CountsDocument(Struct, frozen=True, kw_only=True):
    """A paired 2×2 table; fractions where task means were compared."""

    a: float = msgspec.field(name="A")
    b: float = msgspec.field(name="B")
    c: float = msgspec.field(name="C")
    d: float = msgspec.field(name="D")


class InputDocument(Struct, frozen=True, kw_only=True):
    """What was read."""

    runs: int
    tasks: int
    set_aside: dict[str, int]


class NextDocument(Struct, frozen=True, kw_only=True):
    """The pilot that would probably decide: pairs in all, further pairs, and their price."""

    pairs: int
    more_pairs: int
    usd: float | None


class RepeatedDocument(Struct, frozen=True, kw_only=True):
    """The gain if the trials of each task always end alike."""

    n_tasks: int
    gain: Number
    prob_gain: float


class PlugInDocument(Struct, frozen=True, kw_only=True):
    """What the counts say without a prior."""

    p: float | None
    r: float | None
    d: float | None
    gain: float | None
    break_even: float | None


class BandDocument(Struct, frozen=True, kw_only=True):
    """Mean excess rates at one assumed ρ."""

    rho: float
    excess_r: float
    excess_d: float


class UnpairedDocument(Struct, frozen=True, kw_only=True):
    """Judged runs in no pair."""

    arm: str
    reason: str
    runs: int


class CellDocument(Struct, frozen=True, kw_only=True):
    """One cell; null is what the evidence cannot answer."""

    agent: str
    benchmark: str
    arm: str
    n_tasks: int
    n_pairs: int
    pairing: str
    method: Literal["exact", "draws"]
    counts: CountsDocument | None
    plug_in: PlugInDocument
    p: Number
    r: Number | None
    d: Number | None
    r_bounds: tuple[float | None, float | None] | None
    d_bounds: tuple[float | None, float | None] | None
    gain: Number | None
    break_even: Number | None
    prob_gain: float | None
    repeated: RepeatedDocument | None
    churn: Number
    rho: Number | None
    rho_source: Literal["measured", "assumed"]
    rho_prior: str | None
    rerun_r: Number
    rerun_d: Number
    excess_r: Number | None
    excess_d: Number | None
    prob_coupled: float | None
    excess_band: list[BandDocument]
    outcomes: dict[str, dict[str, int]]
    unpaired: list[UnpairedDocument]
    gain_bounds: tuple[float, float] | None
    frequentist: dict[str, Any] | None
    decision: str | None
    why: str
    next: NextDocument | None


class PooledDocument(Struct, frozen=True, kw_only=True):
    """One agent and arm over its benchmarks."""

    agent: str
    arm: str
    benchmarks: list[str]
    n_tasks: int
    gain: Number | None
    prob_gain: float | None
    decision: str | None
    why: str


class PooledCellDocument(Struct, frozen=True, kw_only=True):
    """One cell, fitted with all others; `quantities` by symbol."""

    agent: str
    benchmark: str
    arm: str
    quantities: dict[str, Number]
    prob_gain: float
    static_gain: Number | None
    decision: str
    why: str
    next: NextDocument | None
    sensitivity: dict[str, float] | None
    """Change of the mean gain where prior scales are halved or doubled."""


class HierarchicalDocument(Struct, frozen=True, kw_only=True):
    """All cells together."""

    route: str
    n_draws: int
    is_reliable: bool
    diagnostics: dict[str, Any]
    priors: dict[str, float]
    prior_predictive: dict[str, Number]
    """What the priors alone say of p and gain in a cell."""
    scales: dict[str, Number]
    correlations: dict[str, Number]
    """Between effects on the baseline and on the gain, by factor."""
    cells: list[PooledCellDocument]


class CurveDocument(Struct, frozen=True, kw_only=True):
    """A rate by step: posterior mean, 95 % interval of each step, band that holds the whole curve with P = .95."""

    mean: list[float]
    low: list[float]
    high: list[float]
    band_low: list[float]
    band_high: list[float]
    flips: list[int]
    pairs: list[int]


class TimingCellDocument(Struct, frozen=True, kw_only=True):
    """One cell; lists by step from 0. `first_safe_step` is null where intervening is safe from no step on."""

    agent: str
    benchmark: str
    arm: str
    pairing: str
    n_pairs: int
    n_never: int
    r: CurveDocument
    d: CurveDocument
    is_observed: list[bool]
    prob_safe: list[float | None]
    first_safe_step: int | None
    early_share: list[float | None]


class TriggerCellDocument(Struct, frozen=True, kw_only=True):
    """One arm whose triggers were acted on by chance; lists by step. `effect` is of acting on the first trigger."""

    agent: str
    benchmark: str
    arm: str
    n_runs: int
    acted: CurveDocument
    withheld: CurveDocument
    effect: list[float]
    low: list[float]
    high: list[float]
    prob_helps: list[float]
    is_observed: list[bool]
    overall: tuple[float, float, float]


class TimingDocument(Struct, frozen=True, kw_only=True):
    """All cells, fitted together."""

    n_draws: int
    is_reliable: bool
    effective: tuple[float, float]
    pareto_k: tuple[float, float]
    priors: dict[str, float]
    confidence: float
    cells: list[TimingCellDocument]
    triggers: list[TriggerCellDocument]
    """Arms whose triggers were acted on by chance."""


class CorrectedDocument(Struct, frozen=True, kw_only=True):
    """The best of several arms: its gain as picked, read on other tasks than picked on, and shrunk."""

    agent: str
    benchmark: str
    arms: list[str]
    winner: str
    n_tasks: int
    gain: float
    gain_nested: float
    gain_nested_se: float
    gain_shrunk: float | None
    luck: float
    """Share of the spread between arms that luck explains; above 1 where they differ less than by luck."""


class FitDocument(Struct, frozen=True, kw_only=True):
    """`drsim fit --json`."""

    schema: Literal["drsim.fit/1"] = "drsim.fit/1"
    version: str
    model: Literal["static", "hierarchical", "timing"]
    """Which model decides; the cells are those of the static one in any case."""
    model_why: str
    seed: int
    rule: dict[str, float]
    input: InputDocument
    cells: list[CellDocument]
    pooled: list[PooledDocument]
    hierarchical: HierarchicalDocument | None = None
    timing: TimingDocument | None = None
    corrected: list[CorrectedDocument] | None = None
    """Where it was asked for."""
    warnings: list[str]
    diagnostics: dict[str, Any]


class CarriedDocument(Struct, frozen=True, kw_only=True):
    """Share of an arm's runs that carry each optional part of a record."""

    n_steps: float
    steps: float
    scores: float
    rewards: float
    costs: float
    interventions: float
    propensities: float
    forks: float


class RetriesDocument(Struct, frozen=True, kw_only=True):
    """Why later trials are taken for retries: the trials before them, how many ended badly, and the chance of that."""

    after: Literal["failure", "infra"]
    followed: int
    followed_bad: int
    chance: float


class ArmDocument(Struct, frozen=True, kw_only=True):
    """One arm of one agent and benchmark, as the doctor sees it."""

    agent: str
    benchmark: str
    arm: str
    is_baseline: bool
    tasks: int
    runs: int
    trials: tuple[int, int] | None
    """Fewest and most runs of one task."""
    outcomes: dict[str, int]
    success: float | None
    success_bounds: tuple[float, float] | None
    """If every run set aside had failed, and if every one had succeeded."""
    step_cap: int | None
    carried: CarriedDocument | None
    retries: RetriesDocument | None


class DoctorCellDocument(Struct, frozen=True, kw_only=True):
    """One intervened arm against the baseline, as the doctor sees it."""

    agent: str
    benchmark: str
    arm: str
    pairing: str
    n_pairs: int
    n_tasks: int
    baseline_failures: float
    baseline_successes: float
    flips: float
    failure_tasks: int
    success_tasks: int
    baseline_only_tasks: int
    arm_only_tasks: int
    unpaired: list[UnpairedDocument]
    gain_bounds: tuple[float, float] | None


class EstimandDocument(Struct, frozen=True, kw_only=True):
    """One thing that the file may answer; the fix is null where every cell answers it."""

    name: str
    answerable: bool
    why: str
    fix: str | None


class DoctorDocument(Struct, frozen=True, kw_only=True):
    """`drsim doctor --json`."""

    schema: Literal["drsim.doctor/1"] = "drsim.doctor/1"
    version: str
    form: Literal["runs", "counts", "marginals"]
    baseline: str
    arms: list[ArmDocument]
    cells: list[DoctorCellDocument]
    estimands: list[EstimandDocument]
    warnings: list[str]


class FindingDocument(Struct, frozen=True, kw_only=True):
    """A contradiction; figures are probabilities or counts, and two numbers are the ends of an interval."""

    code: str
    where: str
    message: str
    reported: float | tuple[float, float]
    implied: float | tuple[float, float] | None


class AuditDocument(Struct, frozen=True, kw_only=True):
    """`drsim audit --json`."""

    schema: Literal["drsim.audit/1"] = "drsim.audit/1"
    version: str
    sources: list[str]
    rows: int
    findings: list[FindingDocument]
    checked: int
    """Comparisons made."""


def encode(document: Struct | dict[str, Any]) -> str:
    """The document as one indented JSON text, without a final newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
