"""The document that `drsim next --json` prints."""

from typing import Literal

from msgspec import Struct

from drsim import __version__
from drsim.planning.allocation import Allocation, NetBenefit

__all__ = ["NextRunsDocument", "next_document"]


class ArmStandDocument(Struct, frozen=True, kw_only=True):
    """One arm, the baseline among them; its gain is the posterior's mean and sd."""

    arm: str
    tasks: int
    runs: int
    gain: float
    sd: float
    prob_best: float
    usd_per_run: float | None
    """Null where no run has a price."""


class RunDocument(Struct, frozen=True, kw_only=True):
    """A run to make; a null task is any that was not run yet."""

    task_id: str | None
    arm: str
    trial: int
    usd: float | None
    kind: str
    why: str


class NextRunsDocument(Struct, frozen=True, kw_only=True):
    """`drsim next --json`."""

    schema: Literal["drsim.next/1"] = "drsim.next/1"
    version: str
    seed: int
    agent: str
    benchmark: str
    objective: Literal["best-arm", "net-benefit"]
    volume: float | None
    value_per_success: float | None
    budget: float
    """In dollars; in runs where none has a price."""
    confidence: float
    arms: list[ArmStandDocument]
    is_decided: bool
    runs: list[RunDocument]
    usd: float | None
    stopped: str
    """Why the list ends."""
    sample_value: float | None
    """Expected value of the best first sample in dollars."""
    sample_usd: float | None
    """What it costs."""
    rho: float
    rho_source: Literal["measured", "assumed"]
    noise_share: float
    """Share of the variance between the two likeliest arms that repeats on the same tasks could take away."""


def next_document(
    found: Allocation,
    prices: dict[str, float],
    benefit: NetBenefit | None,
    *,
    is_priced: bool,
    budget: float,
    confidence: float,
    seed: int,
) -> NextRunsDocument:
    """The document that `drsim next --json` prints."""
    evidence = found.evidence
    return NextRunsDocument(
        version=__version__,
        seed=seed,
        agent=evidence.agent,
        benchmark=evidence.benchmark,
        objective="best-arm" if benefit is None else "net-benefit",
        volume=None if benefit is None else benefit.volume,
        value_per_success=None if benefit is None else benefit.value,
        budget=budget,
        confidence=confidence,
        arms=[
            ArmStandDocument(
                arm=name,
                tasks=int((evidence.runs[:, i] > 0).sum()),
                runs=int(evidence.runs[:, i].sum()),
                gain=float(evidence.mean[i - 1]) if i else 0.0,
                sd=float(evidence.cov[i - 1, i - 1] ** 0.5) if i else 0.0,
                prob_best=found.prob_best[name],
                usd_per_run=prices[name] if is_priced else None,
            )
            for i, name in enumerate(evidence.arms)
        ],
        is_decided=found.is_decided,
        runs=[
            RunDocument(
                task_id=it.task_id,
                arm=it.arm,
                trial=it.trial,
                usd=it.usd if is_priced else None,
                kind=it.kind,
                why=it.why,
            )
            for it in found.runs
        ],
        usd=found.usd if is_priced else None,
        stopped=found.stopped,
        sample_value=None if found.sample is None else found.sample.value,
        sample_usd=None if found.sample is None else found.sample.usd,
        rho=evidence.rho,
        rho_source="measured" if evidence.is_rho_measured else "assumed",
        noise_share=found.limit_share,
    )
