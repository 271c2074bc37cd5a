"""A simulation, or its exact answer, as a document and as text for a terminal of 80 columns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from drsim import __version__
from drsim.engine.estimates import Estimate, Histogram
from drsim.engine.simulate import PolicyEstimates, Simulation
from drsim.engine.tally import Couplings
from drsim.process.coupling import Joint
from drsim.process.exact import Exact
from drsim.process.spec import Model
from drsim.report.numbers import points, rate
from drsim.report.text import columns, paragraph

__all__ = ["Answer", "SimulateDocument", "simulate_document", "simulate_text"]

BASELINE = "baseline"
LEVELS = (0.1, 0.5, 0.9)
"""Quantiles shown of how runs spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's policies, exactly where that is possible and, where they were simulated, by Monte Carlo."""

    model: Model
    exact: Mapping[str, Exact | None]
    """By policy, the baseline first; None for a policy that looks back on a run's history, which was simulated then."""
    simulation: Simulation | None

    @property
    def baseline(self) -> Exact:
        """Of unaided runs."""
        return self.known(BASELINE)

    def known(self, name: str) -> Exact:
        """The exact values of a policy that has them."""
        exact = self.exact[name]
        if exact is None:
            raise KeyError(name)
        return exact

    def found(self, name: str) -> PolicyEstimates | None:
        """The estimates of the baseline or of a policy, where there was a simulation."""
        if self.simulation is None:
            return None
        return self.simulation.baseline if name == BASELINE else self.simulation.policies[name]


class EstimateDocument(Struct, frozen=True, kw_only=True):
    """A Monte Carlo number; `se` is null where it is not known."""

    value: float
    se: float | None
    n: int


type Figure = float | EstimateDocument
"""Exact, or by Monte Carlo."""


class BaselineDocument(Struct, frozen=True, kw_only=True):
    """The runs that nobody intervenes in; `rho` is the intraclass correlation of runs of one task."""

    success: Figure
    exact: float
    rho: float | None


class CouplingsDocument(Struct, frozen=True, kw_only=True):
    """A rate under both ways of coupling baseline and intervened run; exact where that is possible."""

    shared_prefix: Figure | None
    independent: Figure | None


type Table = tuple[tuple[float, float], tuple[float, float]]


class JointDocument(Struct, frozen=True, kw_only=True):
    """P(baseline ends, intervened ends); rows: baseline fails, succeeds; columns: intervened fails, succeeds."""

    shared_prefix: Table
    independent: Table


class HistogramDocument(Struct, frozen=True, kw_only=True):
    """Runs by bin; a bin holds its lower edge."""

    edges: list[float]
    counts: list[int]


class HistogramsDocument(Struct, frozen=True, kw_only=True):
    """How simulated runs spread."""

    steps: HistogramDocument
    tokens: HistogramDocument


class PolicyDocument(Struct, frozen=True, kw_only=True):
    """One policy; `exact`, `exact_gain` and `joint` are null where it looks back on a run's history."""

    name: str
    mechanism: str
    success: Figure
    exact: float | None
    z: float | None
    gain: Figure
    exact_gain: float | None
    r: CouplingsDocument
    d: CouplingsDocument
    joint: JointDocument | None
    steps: Figure
    interventions: Figure
    capped: Figure
    tokens: Figure
    usd: Figure
    seconds: Figure
    histograms: HistogramsDocument | None


class SimulateDocument(Struct, frozen=True, kw_only=True):
    """`drsim simulate --json`."""

    schema: Literal["drsim.simulate/1"] = "drsim.simulate/1"
    version: str
    model: str
    source: str
    engine: Literal["exact", "numba", "jax", "reference", "counts"]
    seed: int | None
    n: int | None
    baseline: BaselineDocument
    policies: list[PolicyDocument]


def simulate_document(answer: Answer) -> SimulateDocument:
    """The document that `drsim simulate --json` prints."""
    simulation = answer.simulation
    baseline = answer.baseline
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
            rho=_finite(baseline.rho),
        ),
        policies=[_policy_document(answer, name) for name in answer.exact if name != BASELINE],
    )


def _policy_document(answer: Answer, name: str) -> PolicyDocument:
    exact, found = answer.exact[name], answer.found(name)

    def figure(field: str) -> Figure:
        if found is not None:
            return _estimate(getattr(found, field))
        value: float = getattr(exact, field)
        return value

    recovery, disruption = _rates_documents(exact, found)
    return PolicyDocument(
        name=name,
        mechanism=answer.model.policies[name].mechanism,
        success=figure("success"),
        exact=None if exact is None else exact.success,
        z=None if found is None or exact is None else _finite(found.success.z(exact.success)),
        gain=figure("gain"),
        exact_gain=None if exact is None else exact.gain,
        r=recovery,
        d=disruption,
        joint=None
        if exact is None
        else JointDocument(shared_prefix=exact.shared_prefix.table, independent=exact.independent.table),
        **{field: figure(field) for field in ("steps", "interventions", "capped", "tokens", "usd", "seconds")},
        histograms=None if found is None else _histograms(found),
    )


def _rates_documents(exact: Exact | None, found: PolicyEstimates | None) -> tuple[CouplingsDocument, CouplingsDocument]:
    """Recovery and disruption rate, exact where that is possible."""
    if exact is not None:
        shared, independent = exact.shared_prefix, exact.independent
        return (
            CouplingsDocument(shared_prefix=_finite(shared.recovery), independent=_finite(independent.recovery)),
            CouplingsDocument(shared_prefix=_finite(shared.disruption), independent=_finite(independent.disruption)),
        )
    couplings = None if found is None else found.couplings
    if couplings is None:
        nothing = CouplingsDocument(shared_prefix=None, independent=None)
        return nothing, nothing
    return (
        CouplingsDocument(
            shared_prefix=_defined(couplings.recovery_shared_prefix),
            independent=_defined(couplings.recovery_independent),
        ),
        CouplingsDocument(
            shared_prefix=_defined(couplings.disruption_shared_prefix),
            independent=_defined(couplings.disruption_independent),
        ),
    )


def _histograms(found: PolicyEstimates) -> HistogramsDocument | None:
    if found.histograms is None:
        return None
    return HistogramsDocument(steps=_histogram(found.histograms.steps), tokens=_histogram(found.histograms.tokens))


def _histogram(histogram: Histogram) -> HistogramDocument:
    return HistogramDocument(edges=histogram.edges.tolist(), counts=histogram.counts.tolist())


def _estimate(estimate: Estimate) -> EstimateDocument:
    return EstimateDocument(value=estimate.value, se=_finite(estimate.se), n=estimate.n)


def _defined(estimate: Estimate) -> EstimateDocument | None:
    return _estimate(estimate) if math.isfinite(estimate.value) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def simulate_text(answer: Answer, width: int) -> str:
    """The answer for people.

    Parameters
    ----------
    answer : Answer
        Exact values, and a simulation where one was asked for or needed.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    simulation = answer.simulation
    how = "exact" if simulation is None else f"{simulation.n:,} runs by {simulation.engine}, seed {simulation.seed}"
    heading = f"{answer.model.name}, {answer.model.horizon} steps: {how}"
    if answer.baseline.rho > 0.0:
        heading += f"; tasks differ, ρ of unaided runs {rate(answer.baseline.rho)}"
    parts = [paragraph(heading, width, indent=0), _means(answer)]
    looking_back = [name for name, exact in answer.exact.items() if exact is None]
    if looking_back:
        parts[-1] += "\n" + paragraph("* simulated: its signal looks back on the run, so nothing is exact", width)
    if simulation is not None:
        parts.append(_errors(answer, simulation))
        if simulation.baseline.histograms is not None:
            parts.append(_spread(answer))
    if len(answer.exact) > 1:
        parts.append(_couplings(answer))
    return "\n\n".join(parts)


def _means(answer: Answer) -> str:
    rows = [("policy", "success", "gain pp", "capped", "steps", "interv.", "tokens", "usd", "seconds")]
    for name, exact in answer.exact.items():
        found = answer.found(name)

        def figure(field: str, exact: Exact | None = exact, found: PolicyEstimates | None = found) -> float:
            value: float = getattr(exact, field) if exact is not None else getattr(found, field).value
            return value

        rows.append(
            (
                name if exact is not None else f"{name} *",
                f"{figure('success'):.5f}",
                "" if name == BASELINE else points(figure("gain"), 2),
                rate(figure("capped")),
                f"{figure('steps'):.2f}",
                f"{figure('interventions'):.3f}",
                f"{figure('tokens'):,.0f}",
                f"{figure('usd'):.3g}",
                f"{figure('seconds'):.1f}",
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
            z = "" if exact is None else f"{gain.z(exact.gain):+.1f}"
            shown = (points(gain.value, 3), f"{100 * gain.se:.3f}", z)
        z = "" if exact is None else f"{success.z(exact.success):+.1f}"
        rows.append((name, f"{success.value:.6f}", f"{success.se:.6f}", z, *shown))
    return columns(rows, right=range(1, 7))


def _spread(answer: Answer) -> str:
    """Quantiles of steps and tokens over runs."""
    shares = [f"{level:.0%}" for level in LEVELS]
    rows = [("spread of runs", f"steps {shares[0]}", *shares[1:], f"tokens {shares[0]}", *shares[1:])]
    for name in answer.exact:
        found = answer.found(name)
        if found is not None and found.histograms is not None:
            # a bin of steps holds one number, its lower edge
            steps = [f"{found.histograms.steps.quantile(level) - 1:.0f}" for level in LEVELS]
            tokens = [f"{found.histograms.tokens.quantile(level):,.0f}" for level in LEVELS]
            rows.append((name, *steps, *tokens))
    return columns(rows, right=range(1, 7))


def _couplings(answer: Answer) -> str:
    rows = [("policy", "r, d of runs that share their prefix", "r, d of independent runs")]
    for name, exact in answer.exact.items():
        if exact is not None and name != BASELINE:
            rows.append((name, _rates(exact.shared_prefix), _rates(exact.independent)))
        elif exact is None:
            found = answer.found(name)
            rows.append((f"{name} *", *_simulated_rates(None if found is None else found.couplings)))
    return columns(rows)


def _rates(joint: Joint) -> str:
    return f"{rate(joint.recovery)}, {rate(joint.disruption)}"


def _simulated_rates(couplings: Couplings | None) -> tuple[str, str]:
    if couplings is None:
        return "", ""
    shared = (couplings.recovery_shared_prefix, couplings.disruption_shared_prefix)
    apart = (couplings.recovery_independent, couplings.disruption_independent)
    return ", ".join(rate(it.value) for it in shared), ", ".join(rate(it.value) for it in apart)
