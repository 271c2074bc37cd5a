"""Pilot records as they stand in files (schema `drsim.run/1`) and the two short forms, counts and marginals.

Types, domains and unknown fields are checked while decoding; rules between fields of one record are checked at
construction. Rules between records are in `consistency`.

The message of a rule starts with the field to blame and puts every field that the rule reads in backticks, so that a
list of mistakes can leave out a rule that was broken only by a field which is wrong in itself.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = [
    "BASELINE",
    "Cost",
    "Count",
    "CountsRow",
    "Fork",
    "Intervention",
    "MarginalsRow",
    "Outcome",
    "Record",
    "Run",
    "Step",
    "record_type",
]

BASELINE = "baseline"
"""Arm name reserved for runs without intervention."""

MAX_COUNT = 2**31 - 1
"""Largest step, trial or count: far beyond any real run, and exact in every array type used later."""

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Score = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]
Propensity = Annotated[float, Meta(gt=0, le=1)]


class Outcome(StrEnum):
    """How a run ended."""

    SUCCESS = "success"
    FAIL = "fail"
    INFRA = "infra"
    """The harness broke; says nothing about the agent."""
    CAPPED = "capped"
    """A budget limit stopped it; counts as fail."""
    UNJUDGED = "unjudged"
    """It ended, but nobody said how."""

    @property
    def is_judged(self) -> bool:
        """Whether the run says something about the agent."""
        return self is not Outcome.INFRA and self is not Outcome.UNJUDGED


_OUTCOMES_OF: dict[object, tuple[Outcome, ...]] = {
    True: (Outcome.SUCCESS,),
    False: (Outcome.FAIL, Outcome.INFRA, Outcome.CAPPED),
    None: (Outcome.UNJUDGED, Outcome.INFRA, Outcome.CAPPED),
}
"""Outcomes that agree with a value of `success`; the first is what the value says on its own."""


class Fork(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The run shares another run's steps 0 … t."""

    run_id: Name
    t: Count


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """One step of a run."""

    t: Count
    score: Score | None = None
    """The critic's probability that the run will fail."""
    error: bool | None = None
    kind: str | None = None
    tokens: Amount | None = None
    reward: float | None = None


class Intervention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """One trigger of the policy."""

    t: Count
    mechanism: Name
    score: Score | None = None
    acted: bool = True
    """False: the trigger came up but was withheld."""
    propensity: Propensity | None = None
    """Probability with which the trigger was acted on."""


class Cost(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """Totals of one run."""

    tokens: Amount | None = None
    critic_tokens: Amount | None = None
    usd: Amount | None = None
    critic_usd: Amount | None = None
    seconds: Amount | None = None


class Run(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """One execution of an agent on a task.

    A file may say `success` (true, false, null) instead of `outcome`; the record then holds the outcome only.
    """

    task_id: Name
    arm: Name
    outcome: Outcome = UNSET  # type: ignore[assignment] # never left unset: see __post_init__
    success: bool | UnsetType | None = UNSET
    agent: Name = "agent"
    benchmark: Name = "benchmark"
    trial: Count = 0
    run_id: Name | None = None
    forked_from: Fork | None = None
    n_steps: Count | None = None
    steps: tuple[Step, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    cost: Cost | None = None
    labels: dict[str, str | int | float | bool] = {}

    def __post_init__(self) -> None:
        """Settle the outcome and check the rules between fields."""
        if self.success is not UNSET:
            self._take_success(self.success)
        elif self._lacks_outcome():
            raise ValueError("`outcome` is missing, and so is `success`; give success, fail, infra, capped or unjudged")
        if self.steps:
            self._check_steps()
        if self.interventions and self.arm == BASELINE and any(trigger.acted for trigger in self.interventions):
            raise ValueError("`interventions` must have acted=false in a run of `arm` baseline; name another arm")

    def _lacks_outcome(self) -> bool:
        outcome: object = self.outcome
        return outcome is UNSET

    def _take_success(self, success: bool | UnsetType | None) -> None:
        allowed = _OUTCOMES_OF[success]
        if self._lacks_outcome():
            msgspec.structs.force_setattr(self, "outcome", allowed[0])
        elif self.outcome not in allowed:
            raise ValueError(f"`success` contradicts `outcome` {self.outcome.value!r}; give one of them")
        msgspec.structs.force_setattr(self, "success", UNSET)

    def _check_steps(self) -> None:
        last = -1
        for step in self.steps:
            if step.t <= last:
                raise ValueError(f"`steps` must have increasing t, got {step.t} after {last}")
            last = step.t
        if self.n_steps is not None and last >= self.n_steps:
            raise ValueError(f"`steps` end at t = {last}, but `n_steps` is {self.n_steps}; t counts from 0")

    @property
    def acted_steps(self) -> tuple[int, ...]:
        """Steps at which an intervention was carried out."""
        return tuple(trigger.t for trigger in self.interventions if trigger.acted)


class CountsRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A paired 2×2 table: A fail→fail, B success→fail, C fail→success, D success→success."""

    arm: Name
    a: Count = msgspec.field(name="A")
    b: Count = msgspec.field(name="B")
    c: Count = msgspec.field(name="C")
    d: Count = msgspec.field(name="D")
    agent: Name = "agent"
    benchmark: Name = "benchmark"
    tasks: Annotated[int, Meta(ge=1, le=MAX_COUNT)] | None = None
    """Distinct tasks behind the pairs; fewer than pairs when tasks were repeated."""

    def __post_init__(self) -> None:
        """Check the rules between fields."""
        pairs = self.a + self.b + self.c + self.d
        if self.arm == BASELINE:
            raise ValueError("`arm` of a counts row is the intervened arm, not baseline")
        if pairs == 0:
            raise ValueError("`A`, `B`, `C`, `D` are all 0; a row needs at least one pair")
        if self.tasks is not None and self.tasks > pairs:
            raise ValueError(f"`tasks` must not exceed the {pairs} pairs `A` + `B` + `C` + `D`")


class MarginalsRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Successes of one arm, without pairing."""

    arm: Name
    successes: Count
    n: Annotated[int, Meta(ge=1, le=MAX_COUNT)]
    agent: Name = "agent"
    benchmark: Name = "benchmark"
    trial: Count = 0
    """Repeat of the same n tasks."""

    def __post_init__(self) -> None:
        """Check the rules between fields."""
        if self.successes > self.n:
            raise ValueError(f"`successes` must not exceed `n` = {self.n}")


type Record = Run | CountsRow | MarginalsRow


def record_type(names: Iterable[str]) -> type[Run] | type[CountsRow] | type[MarginalsRow]:
    """Form of a record, told by its field names; one that lacks a field is still of the form it was meant to have."""
    present = set(names)
    if "task_id" not in present:
        if present & {"A", "B", "C", "D"}:
            return CountsRow
        if present & {"successes", "n"}:
            return MarginalsRow
    return Run
