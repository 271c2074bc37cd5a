"""A simulation, or its exact answer, as a document and as text for a terminal of 80 columns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from drsim import __version__
from drsim.engine.estimates import Estimate
from drsim.engine.simulate import PolicyEstimates, Simulation
from drsim.process.coupling import Joint
from drsim.process.exact import Exact
from drsim.process.spec import Model
from drsim.report.numbers import points, rate
from drsim.report.text import columns, paragraph

__all__ = ["Answer", "SimulateDocument", "simulate_document", "simulate_text"]

BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's policies, exactly and, where they were simulated, by Monte Carlo."""

    model: Model
    exact: Mapping[str, Exact]
    """By policy, the baseline first."""
    simulation: Simulation | None


class EstimateDocument(Struct, frozen=True, kw_only=True):
    """A Monte Carlo number."""

    value: float
    se: float
    n: int


type Figure = float | EstimateDocument
"""Exact, or by Monte Carlo."""


class BaselineDocument(Struct, frozen=True, kw_only=True):
    """The runs that nobody intervenes in."""

    success: Figure
    exact: float


class CouplingsDocument(Struct, frozen=True, kw_only=True):
    """A rate under both ways of coupling baseline and intervened run."""

    shared_prefix: float | None
    independent: float | None


type Table = tuple[tuple[float, float], tuple[float, float]]


class JointDocument(Struct, frozen=True, kw_only=True):
    """P(baseline ends, intervened ends); rows: baseline fails, succeeds; columns: intervened fails, succeeds."""

    shared_prefix: Table
    independent: Table


class PolicyDocument(Struct, frozen=True, kw_only=True):
    """One policy; r, d and the joint tables are exact always."""

    name: str
    mechanism: str
    success: Figure
    exact: float
    z: float | None
    gain: Figure
    exact_gain: float
    r: CouplingsDocument
    d: CouplingsDocument
    joint: JointDocument
    steps: Figure
    interventions: Figure
    capped: Figure
    tokens: Figure
    usd: Figure
    seconds: Figure


class SimulateDocument(Struct, frozen=True, kw_only=True):
    """`drsim simulate --json`."""

    schema: Literal["drsim.simulate/1"] = "drsim.simulate/1"
    version: str
    model: str
    source: str
    engine: Literal["exact", "numba", "jax", "reference"]
    seed: int | None
    n: int | None
    baseline: BaselineDocument
    policies: list[PolicyDocument]


def simulate_document(answer: Answer) -> SimulateDocument:
    """The document that `drsim simulate --json` prints."""
    simulation = answer.simulation
    baseline = answer.exact[BASELINE]
    return SimulateDocument(
        version=__version__,
        model=answer.model.name,
        source=answer.model.source,
        engine="exact" if simulation is None else simulation.engine.value,
        seed=None if simulation is None else simulation.seed,
        n=None if simulation is None else simulation.n,
        baseline=BaselineDocument(
            success=baseline.success if simulation is None else _estimate(simulation.baseline.success),
            exact=baseline.success,
        ),
        policies=[_policy_document(answer, name) for name in answer.exact if name != BASELINE],
    )


def _policy_document(answer: Answer, name: str) -> PolicyDocument:
    exact = answer.exact[name]
    found = None if answer.simulation is None else answer.simulation.policies[name]
    shared, independent = exact.shared_prefix, exact.independent

    def figure(field: str) -> Figure:
        value: float = getattr(exact, field)
        return value if found is None else _estimate(getattr(found, field))

    return PolicyDocument(
        name=name,
        mechanism=answer.model.policies[name].mechanism,
        success=figure("success"),
        exact=exact.success,
        z=None if found is None else _finite(found.success.z(exact.success)),
        gain=figure("gain"),
        exact_gain=exact.gain,
        r=CouplingsDocument(shared_prefix=_finite(shared.recovery), independent=_finite(independent.recovery)),
        d=CouplingsDocument(shared_prefix=_finite(shared.disruption), independent=_finite(independent.disruption)),
        joint=JointDocument(shared_prefix=shared.table, independent=independent.table),
        **{field: figure(field) for field in ("steps", "interventions", "capped", "tokens", "usd", "seconds")},
    )


def _estimate(estimate: Estimate) -> EstimateDocument:
    return EstimateDocument(value=estimate.value, se=estimate.se, n=estimate.n)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def simulate_text(answer: Answer, width: int) -> str:
    """The answer for people.

    Parameters
    ----------
    answer : Answer
        Exact values, and a simulation where one was asked for.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    simulation = answer.simulation
    how = "exact" if simulation is None else f"{simulation.n:,} runs by {simulation.engine}, seed {simulation.seed}"
    parts = [paragraph(f"{answer.model.name}, {answer.model.horizon} steps: {how}", width, indent=0), _means(answer)]
    if simulation is not None:
        parts.append(_errors(answer, simulation))
    names = [name for name in answer.exact if name != BASELINE]
    if names:
        parts.append(_couplings({name: answer.exact[name] for name in names}))
    return "\n\n".join(parts)


def _means(answer: Answer) -> str:
    rows = [("policy", "success", "gain pp", "capped", "steps", "interv.", "tokens", "usd", "seconds")]
    for name, exact in answer.exact.items():
        rows.append(
            (
                name,
                f"{exact.success:.5f}",
                "" if name == BASELINE else points(exact.gain, 2),
                rate(exact.capped),
                f"{exact.steps:.2f}",
                f"{exact.interventions:.3f}",
                f"{exact.tokens:,.0f}",
                f"{exact.usd:.3g}",
                f"{exact.seconds:.1f}",
            )
        )
    return columns(rows, right=range(1, 9))


def _errors(answer: Answer, simulation: Simulation) -> str:
    rows = [("simulated", "success", "± se", "z", "gain pp", "± se", "z")]
    found: dict[str, PolicyEstimates] = {BASELINE: simulation.baseline, **simulation.policies}
    for name, exact in answer.exact.items():
        success, gain = found[name].success, found[name].gain
        shown = ("", "", "")
        if name != BASELINE:
            shown = (points(gain.value, 3), f"{100 * gain.se:.3f}", f"{gain.z(exact.gain):+.1f}")
        rows.append((name, f"{success.value:.6f}", f"{success.se:.6f}", f"{success.z(exact.success):+.1f}", *shown))
    return columns(rows, right=range(1, 7))


def _couplings(exact: Mapping[str, Exact]) -> str:
    rows = [("policy", "r, d of runs that share their prefix", "r, d of independent runs")]
    rows += [(name, _rates(found.shared_prefix), _rates(found.independent)) for name, found in exact.items()]
    return columns(rows)


def _rates(joint: Joint) -> str:
    return f"{rate(joint.recovery)}, {rate(joint.disruption)}"
