"""Effective draws per second of the hierarchical model: Laplace with importance weights against NUTS (nutpie, PyMC).

Pilots are drawn from the model: agents × benchmarks with one arm, so many tasks each. Both routes must agree on every
cell's gain: means within .05 posterior sd or five Monte Carlo errors, sds within 5 % or their errors. Times are of
whole fits: NUTS compiles each model before it samples, Laplace's kernels are compiled once and kept.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from drsim.inference.hierarchical.fit import HierarchicalFit, fit_hierarchical
from drsim.inference.hierarchical.pymc_model import fit_nuts
from drsim.pilot.cell import Cell
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Pilot
from drsim.pilot.records import Outcome, Run

SEED = 3


def cells(n_agents: int, n_benchmarks: int, n_tasks: int) -> tuple[Cell, ...]:
    """One run of each task and arm."""
    rng = np.random.default_rng(SEED)
    runs = []
    for agent in range(n_agents):
        for benchmark in range(n_benchmarks):
            level, shift = rng.normal(0.0, 1.0), rng.normal(0.3, 0.5)
            for task in range(n_tasks):
                logit = level + rng.normal(0.0, 2.0)
                for arm, chance in (("baseline", expit(logit)), ("arm", expit(logit + shift))):
                    outcome = Outcome.SUCCESS if rng.random() < chance else Outcome.FAIL
                    runs.append(
                        Run(task_id=f"t{task}", arm=arm, outcome=outcome, agent=f"a{agent}", benchmark=f"b{benchmark}")
                    )
    index = np.arange(len(runs), dtype=np.int64)
    return cells_of(Pilot(runs=runs, sources=("s",), source_of=0 * index, line_of=index + 1)).cells


def timed(call: Callable[[], HierarchicalFit]) -> tuple[HierarchicalFit, float]:
    start = time.perf_counter()
    fit = call()
    return fit, time.perf_counter() - start


def check(fast: HierarchicalFit, slow: HierarchicalFit) -> tuple[float, float]:
    """Largest difference of means in sds and of sds in per cent; both within what sampling explains."""
    worst_mean = worst_sd = 0.0
    for a, b in zip(fast.cells, slow.cells, strict=True):
        sd = float(b.draws.gain.std())
        ess = min(fast.diagnostics.ess, slow.diagnostics.ess)
        apart = abs(float(a.draws.gain.mean() - b.draws.gain.mean())) / sd
        ratio = abs(float(a.draws.gain.std()) / sd - 1.0)
        assert apart <= max(0.05, 5.0 * np.sqrt(2.0 / ess)), f"{a.key.name}: means {apart:.3f} sd apart"
        assert ratio <= max(0.05, 5.0 / np.sqrt(ess)), f"{a.key.name}: sds {ratio:.1%} apart"
        worst_mean, worst_sd = max(worst_mean, apart), max(worst_sd, ratio)
    return worst_mean, worst_sd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--shapes", default="1x1,2x3", help="agents x benchmarks, comma separated")
    options = parser.parse_args()
    print(f"{'cells':>6}{'route':>10}{'s':>9}{'ESS':>8}{'ESS/s':>9}{'k or R-hat':>12}   means, sds apart")
    for shape in options.shapes.split(","):
        n_agents, n_benchmarks = (int(it) for it in shape.split("x"))
        given = cells(n_agents, n_benchmarks, options.tasks)
        fit_hierarchical(given, seed=1)
        fast, seconds = timed(lambda given=given: fit_hierarchical(given, seed=1, draws=4_000))  # type: ignore[misc] # bound at once
        first = fast.diagnostics.ess / seconds
        print(
            f"{len(given):6}{'laplace':>10}{seconds:9.3f}{fast.diagnostics.ess:8.0f}{first:9.0f}"
            f"{fast.diagnostics.pareto_k:12.2f}"
        )
        slow, seconds = timed(lambda given=given: fit_nuts(given, seed=1))  # type: ignore[misc] # bound at once
        second = slow.diagnostics.ess / seconds
        means, sds = check(fast, slow)
        print(
            f"{len(given):6}{'nutpie':>10}{seconds:9.3f}{slow.diagnostics.ess:8.0f}{second:9.0f}"
            f"{slow.diagnostics.rhat:12.3f}   {means:.3f} sd, {sds:.1%}"
        )
        print(f"laplace / nutpie: {first / second:.0f}")


if __name__ == "__main__":
    main()
