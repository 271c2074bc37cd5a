"""The one public door to the Monte Carlo engines: policies on a model, with their errors.

Policies are simulated on the same draws, run by run: their difference from the baseline is then known better than from
as many independent runs, and its own standard error says how much. Runs come in parts of a fixed size, so that memory
does not grow with their number and the result does not depend on threads.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from drsim.engine import reference
from drsim.engine.estimates import Estimate, Moments
from drsim.engine.law import Law, law_of
from drsim.engine.runs import Ending, SimulatedRuns
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy, never

__all__ = ["Engine", "PolicyEstimates", "Simulation", "run_engine", "simulate"]

RUNS_AT_ONCE = 2**18
"""Runs of one part: some 20 MiB for each policy."""


class Engine(StrEnum):
    """Which code runs; all give the same runs to the bit."""

    NUMBA = "numba"
    JAX = "jax"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEstimates:
    """What a policy did, in means per run."""

    success: Estimate
    capped: Estimate
    steps: Estimate
    """Acts."""
    interventions: Estimate
    tokens: Estimate
    usd: Estimate
    seconds: Estimate
    gain: Estimate
    """Success less that of the baseline, on shared draws; 0 without error for the baseline itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A finished simulation, which can be rerun."""

    seed: int
    engine: Engine
    n: int
    """Runs of each policy; fewer than were asked for when it was interrupted."""
    baseline: PolicyEstimates
    policies: dict[str, PolicyEstimates]


def simulate(
    model: CompiledModel,
    policies: Mapping[str, CompiledPolicy],
    *,
    n: int,
    seed: int,
    engine: Engine = Engine.NUMBA,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Simulate the baseline and policies on shared draws.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policies : mapping of str to CompiledPolicy
        Compiled for the same model.
    n : int
        Runs of each, ≥ 1.
    seed : int
        In [0, 2⁶⁴).
    engine : Engine
        Same runs whichever is taken.
    progress : callable, optional
        Told the number of runs done after each part.

    Returns
    -------
    Simulation
        After an interrupt (Ctrl-C), of the parts that were done, if there was one.

    Raises
    ------
    ParameterError
        `n` or `seed` is outside its domain.
    """
    if n < 1:
        raise ParameterError(f"n must be at least 1, got {n}; give a number of runs")
    laws = {name: law_of(model, policy) for name, policy in policies.items()}
    tallies = {name: _Tally() for name in laws}
    alone = law_of(model, never(model))
    baseline = _Tally()
    done = 0
    for first, size in _parts(n):
        try:
            unaided = run_engine(alone, engine, n=size, seed=seed, first=first)
            parts = {name: run_engine(law, engine, n=size, seed=seed, first=first) for name, law in laws.items()}
        except KeyboardInterrupt:
            if not done:
                raise
            break
        baseline.add(unaided, unaided)
        for name, runs in parts.items():
            tallies[name].add(runs, unaided)
        done += size
        if progress is not None:
            progress(done)
    return Simulation(
        seed=seed,
        engine=engine,
        n=done,
        baseline=baseline.estimates(model),
        policies={name: tally.estimates(model) for name, tally in tallies.items()},
    )


def run_engine(law: Law, engine: Engine, *, n: int, seed: int, first: int = 0) -> SimulatedRuns:
    """Runs `first` … `first + n − 1` of a seed by the engine asked for."""
    if engine is Engine.REFERENCE:
        return reference.run_law(law, n=n, seed=seed, first=first)
    if engine is Engine.JAX:
        from drsim.engine import jax  # slow to load, and an extra

        return jax.run_law(law, n=n, seed=seed, first=first)
    from drsim.engine import numba  # loads a compiler, which the reference engine does without

    return numba.run_law(law, n=n, seed=seed, first=first)


def _parts(n: int) -> Iterator[tuple[int, int]]:
    for first in range(0, n, RUNS_AT_ONCE):
        yield first, min(RUNS_AT_ONCE, n - first)


@dataclass(slots=True)
class _Tally:
    """Running sums of one policy."""

    success: Moments = field(default_factory=Moments)
    capped: Moments = field(default_factory=Moments)
    steps: Moments = field(default_factory=Moments)
    interventions: Moments = field(default_factory=Moments)
    tokens: Moments = field(default_factory=Moments)
    gain: Moments = field(default_factory=Moments)

    def add(self, runs: SimulatedRuns, unaided: SimulatedRuns) -> None:
        success = runs.ending == Ending.SUCCESS
        self.success.add(success)
        self.capped.add(runs.ending == Ending.CAPPED)
        self.steps.add(runs.acts)
        self.interventions.add(runs.interventions)
        self.tokens.add(runs.tokens)
        self.gain.add(success.astype(np.int8) - (unaided.ending == Ending.SUCCESS))

    def estimates(self, model: CompiledModel) -> PolicyEstimates:
        tokens, steps = self.tokens.estimate(), self.steps.estimate()
        return PolicyEstimates(
            success=self.success.estimate(),
            capped=self.capped.estimate(),
            steps=steps,
            interventions=self.interventions.estimate(),
            tokens=tokens,
            usd=_scaled(tokens, model.usd_per_token),
            seconds=_scaled(steps, model.seconds_per_step),
            gain=self.gain.estimate(),
        )


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(value=factor * estimate.value, se=factor * estimate.se, n=estimate.n)
