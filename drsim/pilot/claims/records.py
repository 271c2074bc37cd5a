"""Figures that somebody reports, as they were printed (schema `drsim.claims/1`).

A claim is one row of a published table: rates, counts, seeds, intervals and tests of one arm. A figure keeps its
digits, since they say how sharp it is: `"38.0"`, `38.0` and `38` are three different claims. Write figures as text
where a program may have dropped a final zero; a dropped digit only makes a check milder.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from drsim.pilot.records import MAX_COUNT, Count

__all__ = ["FIGURES", "FIGURE_LISTS", "Claim", "Claims", "Correction", "Printed", "claim_schema", "domain_of"]

type Printed = Annotated[
    Decimal, Meta(description="A figure with its digits as printed: a number, or text like '38.0'.")
]
type Positive = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
type Name = Annotated[str, Meta(min_length=1)]
type Correction = Literal["none", "bonferroni", "sidak", "holm"]

FIGURES = (
    "p",
    "r",
    "d",
    "delta",
    "p_star",
    "base_success",
    "arm_success",
    "delta_corrected",
    "p_value",
    "alpha",
    "interval_level",
)
"""Fields that hold one printed figure."""

FIGURE_LISTS = ("seeds", "interval", "delta_interval")
"""Fields that hold several."""

DIFFERENCES = ("delta", "delta_corrected", "delta_interval")
"""Figures that may be negative."""

WITHOUT_UNIT = ("p_value", "alpha", "interval_level")
"""Figures that are probabilities whatever the unit of the row."""


def domain_of(name: str, *, is_percent: bool) -> tuple[int, int]:
    """Ends of the domain of a figure, in its unit.

    Parameters
    ----------
    name : str
        One of `FIGURES` or `FIGURE_LISTS`.
    is_percent : bool
        Whether the row is in per cent.

    Returns
    -------
    low, high : int
        Both are allowed.
    """
    high = 100 if is_percent and name not in WITHOUT_UNIT else 1
    return (-high if name in DIFFERENCES else 0), high


class Claim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One reported row; every field is optional, and only what is given is checked."""

    id: Name | None = None
    """Name by which `pools` and `best_of` of other rows mean this one."""
    table: Name | None = None
    """Where it was printed."""
    agent: Name | None = None
    benchmark: Name | None = None
    arm: Name | None = None
    """Rows of equal agent, benchmark and arm report the same thing; `baseline` is the arm without intervention."""
    status: Name | None = None
    """How the figures came here: quoted, second-hand, derived."""
    unit: Literal["probability", "percent"] = "probability"
    """Of all rates and differences of the row; p_value, alpha and interval_level are always probabilities."""
    p: Printed | None = None
    """Failure rate of the baseline."""
    r: Printed | None = None
    """Recovery rate."""
    d: Printed | None = None
    """Disruption rate."""
    gain: Printed | None = field(name="delta", default=None)
    """Δ, success rate of the arm − success rate of the baseline."""
    break_even: Printed | None = field(name="p_star", default=None)
    """p*."""
    base_success: Printed | None = None
    """Success rate of the baseline."""
    arm_success: Printed | None = None
    """Success rate of the arm that the row is about."""
    n: Positive | None = None
    """Runs of each arm, all seeds together, spread evenly over them; the same as pairs."""
    fail_fail: Count | None = field(name="A", default=None)
    success_fail: Count | None = field(name="B", default=None)
    fail_success: Count | None = field(name="C", default=None)
    success_success: Count | None = field(name="D", default=None)
    fails: Count | None = field(name="F", default=None)
    """Baseline runs that failed, A + C."""
    base_successes: Count | None = field(name="S", default=None)
    """Baseline runs that succeeded, B + D."""
    successes: Count | None = None
    """Runs of the arm that succeeded, C + D."""
    seeds: tuple[Printed, ...] = ()
    """Success rate of the arm in each seed."""
    seed_successes: tuple[Count, ...] = ()
    """Successes of the arm in each seed; takes `n`."""
    interval: tuple[Printed, Printed] | None = None
    """Ends of an interval for `arm_success`."""
    delta_interval: tuple[Printed, Printed] | None = None
    """Ends of an interval for `delta`."""
    interval_is: Literal["confidence", "range"] = "confidence"
    """What `interval` is said to be; `range` is the smallest and largest seed."""
    interval_level: Printed | None = None
    """Level of the intervals, 0.95 unless stated."""
    p_value: Printed | None = None
    """Of the test of `delta`, before any correction."""
    alpha: Printed | None = None
    """Error rate that is promised, 0.05 unless stated."""
    one_sided: bool | None = None
    significant: bool | None = None
    """Whether the difference is called significant, or presented as an effect on the strength of its p-value."""
    correction: Correction = "none"
    """What is said to be done about several comparisons."""
    comparisons: Positive | None = None
    """Differences that were compared, this one included."""
    is_best: bool | None = None
    """Whether `delta` is the largest of the differences compared."""
    best_of: tuple[Name, ...] = ()
    """Rows, by id, of which `delta` is the largest difference."""
    delta_corrected: Printed | None = None
    """What remains of `delta` once the choice of the best is accounted for."""
    pools: tuple[Name, ...] = ()
    """Rows, by id, whose runs this row takes together."""

    def __post_init__(self) -> None:
        """Check the rules between fields."""
        if len(self.seeds) == 1 or len(self.seed_successes) == 1:
            raise ValueError("`seeds` and `seed_successes` hold two seeds or more; give a single one as `arm_success`")
        if self.seed_successes and (self.n is None or self.n % len(self.seed_successes)):
            raise ValueError("`seed_successes` takes `n`, the runs of all seeds together, a multiple of their number")
        for name in ("interval", "delta_interval"):
            ends = getattr(self, name)
            if ends is not None and ends[0] > ends[1]:
                raise ValueError(f"`{name}` must hold its lower end first, got {ends[0]} and {ends[1]}")
        self._check_comparisons()

    def _check_comparisons(self) -> None:
        if self.significant and self.p_value is None:
            raise ValueError("`significant` takes the `p_value` on which it rests")
        if (self.is_best or self.best_of) and self.gain is None:
            raise ValueError("`delta` is missing, but `is_best` or `best_of` says that it is the largest")
        if (self.is_best or self.correction != "none") and self.n_comparisons is None:
            raise ValueError("`comparisons` is missing; say how many differences `is_best` or `correction` is about")
        if self.comparisons is not None and self.best_of and self.comparisons != len(self.best_of):
            raise ValueError(
                f"`comparisons` is {self.comparisons}, but `best_of` names {len(self.best_of)} rows; give one of them"
            )

    @property
    def is_percent(self) -> bool:
        """Whether rates and differences are printed in per cent."""
        return self.unit == "percent"

    @property
    def n_comparisons(self) -> int | None:
        """Differences compared, from either field that says so."""
        return len(self.best_of) or self.comparisons

    @property
    def label(self) -> str:
        """Where the row stands in its publication, empty when it does not say."""
        return ", ".join(part for part in (self.table, self.agent, self.benchmark, self.arm) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Checked claims in file order."""

    rows: tuple[Claim, ...]
    places: tuple[str, ...]
    """For each row where it stands, for people."""
    sources: tuple[str, ...]
    """Files, as the user gave them."""


def claim_schema() -> dict[str, Any]:
    """JSON Schema of a row, which lets a figure be a number as well as text; a typed decoder only writes the latter."""
    schema = msgspec.json.schema(Claim)
    _let_figures_be_numbers(schema)
    return schema


def _let_figures_be_numbers(node: object) -> None:
    if isinstance(node, dict):
        if node.get("format") == "decimal":
            del node["format"]
            node["type"] = ["number", "string"]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            _let_figures_be_numbers(item)
