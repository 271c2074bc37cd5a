"""The one public door to the Monte Carlo engines: policies on a model, with their errors.

Policies are simulated on the same draws, run by run, in one pass: their difference from the baseline is then known
better than from as many independent runs, and its own standard error says how much. Runs come in parts, so that memory
does not grow with their number and the result does not depend on threads.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from drsim.arrays import FloatArray
from drsim.engine import reference
from drsim.engine.counts import Totals, count_batches
from drsim.engine.estimates import Estimate, Histogram
from drsim.engine.law import Law, law_of
from drsim.engine.runs import SimulatedRuns
from drsim.engine.tally import PolicyEstimates, Tally, task_classes
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy, never

__all__ = ["Engine", "Histogram", "PolicyEstimates", "Simulation", "run_engine", "simulate"]

RUNS_AT_ONCE = 2**18
"""Most runs of one part."""
FEWEST_AT_ONCE = 2**14
"""Enough for several threads."""
BYTES_AT_ONCE = 2**26
"""Of all policies' runs in one part, about."""
BATCHES = 64
"""Of counted runs: the spread of their means gives standard errors within 9 %."""


class Engine(StrEnum):
    """Which code runs; all but `counts` give the same runs to the bit."""

    NUMBA = "numba"
    JAX = "jax"
    REFERENCE = "reference"
    COUNTS = "counts"
    """Totals of groups of runs, without the runs."""


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
        Runs of each, ≥ 1; each of a task of its own.
    seed : int
        In [0, 2⁶⁴).
    engine : Engine
        Same runs whichever is taken, but for `counts`: equal in distribution, every policy with draws of its own,
        without histograms and without r and d.
    progress : callable, optional
        Told the number of runs done after each part.

    Returns
    -------
    Simulation
        After an interrupt (Ctrl-C), of the parts that were done, if there was one.

    Raises
    ------
    ParameterError
        `n` or `seed` is outside its domain, or `counts` cannot take a policy.
    """
    if n < 1:
        raise ParameterError(f"n must be at least 1, got {n}; give a number of runs")
    if engine is Engine.COUNTS:
        return _counted(model, policies, n=n, seed=seed)
    law = law_of(model, [never(model), *policies.values()])
    tallies = [Tally.empty(model, law, k) for k in range(law.n_policies)]
    done = 0
    for first, size in _parts(law, n):
        try:
            parts = run_engine(law, engine, n=size, seed=seed, first=first)
        except KeyboardInterrupt:
            if not done:
                raise
            break
        classes = task_classes(law, n=size, seed=seed, first=first)
        for tally, runs in zip(tallies, parts, strict=True):
            tally.add(runs, parts[0], classes)
        done += size
        if progress is not None:
            progress(done)
    baseline, *others = (tally.estimates() for tally in tallies)
    return Simulation(
        seed=seed, engine=engine, n=done, baseline=baseline, policies=dict(zip(policies, others, strict=True))
    )


def run_engine(
    law: Law, engine: Engine, *, n: int, seed: int, first: int = 0, first_task: int | None = None
) -> list[SimulatedRuns]:
    """Runs `first` … `first + n − 1` of a seed under every policy, by the engine asked for; not for `counts`."""
    if engine is Engine.REFERENCE:
        return reference.run_law(law, n=n, seed=seed, first=first, first_task=first_task)
    if engine is Engine.JAX:
        from drsim.engine import jax  # slow to load, and an extra

        return jax.run_law(law, n=n, seed=seed, first=first, first_task=first_task)
    from drsim.engine import numba  # loads a compiler, which the reference engine does without

    return numba.run_law(law, n=n, seed=seed, first=first, first_task=first_task)


def _parts(law: Law, n: int) -> Iterator[tuple[int, int]]:
    """First run and size of each part."""
    of_run = 32 * law.n_policies + 4 * int(law.budget.sum()) + law.horizon * int(law.withholds.sum())
    size = min(RUNS_AT_ONCE, max(FEWEST_AT_ONCE, BYTES_AT_ONCE // of_run))
    for first in range(0, n, size):
        yield first, min(size, n - first)


def _counted(model: CompiledModel, policies: Mapping[str, CompiledPolicy], *, n: int, seed: int) -> Simulation:
    """Every policy by batches of counted runs, the k-th with seed + k."""
    batches = min(BATCHES, n)
    sizes = n // batches + (np.arange(batches) < n % batches)
    alone = _batch_estimates(model, count_batches(model, never(model), sizes=sizes, seed=seed), None)
    found = {
        name: _batch_estimates(model, count_batches(model, policy, sizes=sizes, seed=(seed + k) % 2**64), alone.success)
        for k, (name, policy) in enumerate(policies.items(), 1)
    }
    return Simulation(seed=seed, engine=Engine.COUNTS, n=n, baseline=alone, policies=found)


def _batch_estimates(model: CompiledModel, totals: Totals, baseline: Estimate | None) -> PolicyEstimates:
    success, steps, tokens = _share(totals.success, totals), _mean(totals.acts, totals), _mean(totals.tokens, totals)
    gain = Estimate(value=0.0, se=0.0, n=success.n)
    if baseline is not None:
        gain = Estimate(value=success.value - baseline.value, se=math.hypot(success.se, baseline.se), n=success.n)
    return PolicyEstimates(
        success=success,
        capped=_share(totals.capped, totals),
        steps=steps,
        interventions=_mean(totals.interventions, totals),
        triggered=None,
        tokens=tokens,
        usd=tokens.scaled(model.usd_per_token),
        seconds=steps.scaled(model.seconds_per_step),
        gain=gain,
        couplings=None,
        histograms=None,
    )


def _share(counts: FloatArray | np.ndarray, totals: Totals) -> Estimate:
    n = int(totals.n.sum())
    value = float(counts.sum()) / n
    return Estimate(value=value, se=math.sqrt(value * (1.0 - value) / n), n=n)


def _mean(sums: FloatArray | np.ndarray, totals: Totals) -> Estimate:
    """Mean per run, its error from the spread of the batches; infinite where there is only one."""
    n, batches = int(totals.n.sum()), len(totals.n)
    value = float(sums.sum()) / n
    if batches == 1:
        return Estimate(value=value, se=math.inf, n=n)
    squares = float(((sums - totals.n * value) ** 2).sum())
    return Estimate(value=value, se=math.sqrt(squares * batches / (batches - 1)) / n, n=n)
