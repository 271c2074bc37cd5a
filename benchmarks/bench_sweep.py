"""How many cells × draws a sweep works out in a second, and how its memory grows with the number of cells.

Each sweep runs in a process of its own, whose peak resident memory is read at its end; an unstored sweep of one block
runs first in each, so that compiling is not counted. The larger sweep may not need more than `MOST_RATIO` times the
memory of the one with a tenth of its cells, and must find a winner whose gain the plain recursion confirms.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from drsim.planning.axes import Axes
from drsim.planning.axes_text import axes_of
from drsim.planning.sweep import run_sweep, with_threads
from drsim.planning.sweep_cells import SweepInputs
from drsim.process.compile import compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.shipped import find_model
from drsim.process.stacks import ModelDraws, stack_draws

MODEL = "ip_alfworld_qwen3_8b"
MOST_RATIO = 1.2
"""Of peak memory: blocks are alike, but the list of blocks and what the allocator keeps are not quite."""
AGREEMENT = 1e-12
SPREAD = 0.3
"""Standard deviation over draws of the log of recovery rates."""


def sweep_of(n_cells: int, n_draws: int) -> SweepInputs:
    """A sweep of about so many cells: windows, budgets, and as many thresholds as it takes."""
    spec = find_model(MODEL)
    others = len(spec.mechanisms) * spec.horizon * (spec.horizon + 1) // 2 * 5
    n_thresholds = max(1, round(n_cells / others))
    thresholds = np.linspace(0.3, 0.95, n_thresholds)
    axes = axes_of(spec, timing="window", budget="1:5", threshold=",".join(f"{it:.12g}" for it in thresholds))
    return SweepInputs(model=spec, draws=draws_of(n_draws), axes=axes, seed=1, n_runs=2, source=MODEL)


def draws_of(n_draws: int) -> ModelDraws:
    """Draws that differ in how well mechanisms recover."""
    draws = stack_draws([compile_model(find_model(MODEL))] * n_draws)
    noise = np.exp(SPREAD * np.random.default_rng(1).standard_normal((n_draws, draws.kernels.shape[1], 1)))
    back = np.minimum(1.0, draws.kernels[..., 1, 0] * noise)
    draws.kernels[..., 1, 0], draws.kernels[..., 1, 1] = back, 1.0 - back
    return draws


def confirm(inputs: SweepInputs, cell: int, gain: float) -> None:
    """The mean gain of a cell by the plain recursion, draw by draw."""
    spec, axes = inputs.model, inputs.axes
    (policy,) = axes.policies(axes.cells(np.array([cell])))
    compiled = compile_policy(replace(spec, policies={"p": policy}), "p")
    point = compile_model(spec)
    gains = [evaluate(replace(point, kernels=kernels), compiled).gain for kernels in inputs.draws.kernels]
    assert abs(np.mean(gains) - gain) < AGREEMENT, "the recursions disagree"


def measure(n_cells: int, n_draws: int, n_threads: int | None) -> None:
    """One sweep in this process; its figures on stdout."""
    runner = with_threads(n_threads)
    inputs = sweep_of(n_cells, n_draws)
    small = Axes(
        base=inputs.axes.base,
        timing=inputs.axes.timing,
        mechanisms=inputs.axes.mechanisms,
        thresholds=(0.5,),
        budgets=(1,),
        cooldowns=(0,),
    )
    with run_sweep(replace(inputs, axes=small), runner=runner):
        pass
    with tempfile.TemporaryDirectory() as folder:
        start, worked = time.perf_counter(), time.process_time()
        with run_sweep(inputs, folder=Path(folder) / "store", runner=runner) as sweep:
            seconds, worked = time.perf_counter() - start, time.process_time() - worked
            winner = sweep.winner
    # kilobytes on Linux
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    confirm(inputs, winner.cell, float(winner.gain.mean()))
    print(json.dumps({"cells": len(inputs.axes), "seconds": seconds, "worked": worked, "peak": peak}))


def in_a_process(n_cells: int, n_draws: int, n_threads: int | None) -> dict[str, float]:
    """Figures of one sweep in a fresh process."""
    command = [sys.executable, __file__, "--one", "--cells", str(n_cells), "--draws", str(n_draws)]
    command += [] if n_threads is None else ["--threads", str(n_threads)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--threads", type=int, default=None, help="default: one for each core")
    parser.add_argument("--one", action="store_true", help="measure one sweep in this process, as JSON")
    asked = parser.parse_args()
    if asked.one:
        measure(asked.cells, asked.draws, asked.threads)
        return
    print(f"{'cells':>10}{'draws':>7}{'seconds':>10}{'M cells x draws / s':>21}{'/ core-s':>10}{'peak, MiB':>11}")
    peaks = []
    for n_cells in (asked.cells // 10, asked.cells):
        it = in_a_process(n_cells, asked.draws, asked.threads)
        pace = it["cells"] * asked.draws / it["seconds"] / 1e6
        of_core = it["cells"] * asked.draws / it["worked"] / 1e6
        line = f"{it['cells']:>10,}{asked.draws:>7}{it['seconds']:>10.2f}"
        print(line + f"{pace:>21.2f}{of_core:>10.2f}{it['peak']:>11.0f}")
        peaks.append(it["peak"])
    ratio = peaks[1] / peaks[0]
    print(f"peak memory of ten times the cells: {ratio:.2f} times; required: < {MOST_RATIO:g}")
    assert ratio < MOST_RATIO, "memory grows with the cells"


if __name__ == "__main__":
    main()
