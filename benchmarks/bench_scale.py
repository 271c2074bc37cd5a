"""How cost grows: seconds by runs, by steps taken and by policies; seconds of counted runs; memory of a simulation.

Lines are fitted by least squares to the shortest times on one thread. A policy's slope is given in the time of one
policy simulated alone: what a further policy costs, on draws that are there already. Memory is the peak of a fresh
process that simulates a baseline and a policy with `drsim.engine.simulate.simulate`, code and compiler included; its
means are held against the exact recursion. `--plot` draws the three lines.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from drsim.arrays import FloatArray
from drsim.engine import numba as compiled
from drsim.engine.counts import count_runs
from drsim.engine.law import law_of
from drsim.engine.simulate import simulate
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.toml import read_model

MODEL, POLICY = Path(__file__).parent.parent / "models" / "example.toml", "late"
SEED = 7
STEPS, FINISH = 30, 0.05
RUNS = [100_000, 200_000, 400_000, 700_000, 1_000_000]
HORIZONS = [5, 10, 20, 30, 45, 60]
POLICIES = [1, 2, 4, 8, 16, 24, 32]
RUNS_OF_HORIZON, RUNS_OF_POLICIES = 200_000, 40_000
COUNTED = [10**4, 10**6, 10**8, 10**10]
FEWEST_SIMULATED = 10**6
MAX_Z = 5.0

LEAST_R2 = 0.98
MOST_OF_A_POLICY = 0.8
"""Required of a further policy's slope, in the time of one alone."""
MOST_COUNT_SECONDS, MOST_COUNT_RATIO = 0.02, 1.5
MOST_MEGABYTES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is timed."""

    size: float
    """Runs, run-steps or policies."""
    call: Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Seconds by size."""

    sizes: FloatArray
    seconds: FloatArray
    intercept: float
    slope: float
    r2: float


def example(steps: int, finish: float) -> tuple[CompiledModel, CompiledPolicy]:
    """The shipped example with another horizon, and its policy open to the end."""
    spec = read_model(MODEL)
    rule = replace(spec.policies[POLICY], last_step=None)
    agent = replace(spec.agent, finish=finish)
    spec = replace(spec, horizon=steps, agent=agent, policies={POLICY: rule})
    return compile_model(spec), compile_policy(spec, POLICY)


def simulating(model: CompiledModel, policies: list[CompiledPolicy], n: int) -> Callable[[], list[object]]:
    law = law_of(model, policies)
    return lambda: list(compiled.run_law(law, n=n, seed=SEED, threads=1))


def by_runs() -> list[Point]:
    model, policy = example(STEPS, FINISH)
    return [Point(size=n, call=simulating(model, [policy], n)) for n in RUNS]


def by_acts() -> list[Point]:
    """Longer horizons; the size is the number of acts, exactly expected."""
    points = []
    for horizon in HORIZONS:
        model, policy = example(horizon, FINISH)
        acts = RUNS_OF_HORIZON * evaluate(model, policy).steps
        points.append(Point(size=acts, call=simulating(model, [policy], RUNS_OF_HORIZON)))
    return points


def by_policies() -> list[Point]:
    """Policies of thresholds that differ, spread alike whatever their number."""
    model, policy = example(STEPS, FINISH)
    many = [replace(policy, logit_threshold=policy.logit_threshold + by) for by in np.linspace(-1.5, 1.5, POLICIES[-1])]
    points = []
    for k in POLICIES:
        chosen = [many[(2 * i + 1) * len(many) // (2 * k)] for i in range(k)]
        points.append(Point(size=k, call=simulating(model, chosen, RUNS_OF_POLICIES)))
    return points


def shortest(calls: list[Callable[[], object]], repeats: int) -> FloatArray:
    """Shortest of `repeats` times of each, taken in turns, after a first one."""
    seconds = np.full((repeats + 1, len(calls)), np.inf)
    for i in range(repeats + 1):
        for j, call in enumerate(calls):
            start = time.perf_counter()
            call()
            seconds[i, j] = time.perf_counter() - start
    best: FloatArray = seconds[1:].min(axis=0)
    return best


def fitted(points: list[Point], repeats: int) -> Line:
    sizes, seconds = np.array([it.size for it in points]), shortest([it.call for it in points], repeats)
    slope, intercept = np.polyfit(sizes, seconds, 1)
    left = seconds - intercept - slope * sizes
    r2 = 1.0 - float((left**2).sum() / ((seconds - seconds.mean()) ** 2).sum())
    return Line(sizes=sizes, seconds=seconds, intercept=float(intercept), slope=float(slope), r2=r2)


def verdict(is_met: bool) -> str:
    return "" if is_met else ", missed"


def report_lines(lines: dict[str, Line]) -> None:
    print(f"{'seconds by':16}{'slope':>14}{'at size 0':>12}{'R2':>9}   (required R2 {LEAST_R2:g})")
    for name, line in lines.items():
        missed = verdict(line.r2 >= LEAST_R2)
        print(f"{name:16}{line.slope * 1e9:11.2f} ns{line.intercept * 1e3:9.2f} ms{line.r2:9.5f}{missed}")
    line = lines["policies"]
    share = line.slope / line.seconds[0]
    print(
        f"a further policy / one alone: {share:.2f} (required at most {MOST_OF_A_POLICY:g}"
        f"{verdict(share <= MOST_OF_A_POLICY)})"
    )


def report_counts(repeats: int) -> None:
    model, policy = example(STEPS, FINISH)
    calls: list[Callable[[], object]] = [partial(count_runs, model, policy, n=n, seed=SEED) for n in COUNTED]
    seconds = shortest(calls, repeats)
    for n, took in zip(COUNTED, seconds, strict=True):
        print(f"counts, {n:15,} runs: {took * 1e3:8.2f} ms")
    ratio, most = float(seconds.max() / seconds.min()), float(seconds[COUNTED.index(10**8)])
    is_met = ratio <= MOST_COUNT_RATIO and most <= MOST_COUNT_SECONDS
    print(
        f"longest / shortest: {ratio:.2f} (required at most {MOST_COUNT_RATIO:g},"
        f" and {MOST_COUNT_SECONDS * 1e3:g} ms for 100,000,000{verdict(is_met)})"
    )


def peak_megabytes() -> float:
    """Of this process so far."""
    per_megabyte = 1e6 if sys.platform == "darwin" else 1e6 / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_megabyte


def simulate_alone(n: int) -> None:
    """Simulate in this process, and print its peak of memory and the seconds."""
    model, policy = example(STEPS, FINISH)
    simulate(model, {POLICY: policy}, n=1, seed=SEED)
    start = time.perf_counter()
    found = simulate(model, {POLICY: policy}, n=n, seed=SEED).policies[POLICY]
    seconds = time.perf_counter() - start
    exact = evaluate(model, policy)
    for name in ("success", "capped", "steps", "interventions", "tokens"):
        z = getattr(found, name).z(getattr(exact, name))
        assert abs(z) <= MAX_Z, f"{name}: z = {z:.1f}"
    print(peak_megabytes(), seconds)


def report_memory(n: int) -> None:
    """Peak memory of fresh processes; before this one grows, since a child may inherit its parent's peak."""
    for size in sorted({FEWEST_SIMULATED, n}):
        command = [sys.executable, __file__, "--alone", str(size)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        megabytes, seconds = (float(number) for number in printed.split())
        missed = verdict(megabytes < MOST_MEGABYTES)
        print(
            f"simulate, {size:13,} runs: {megabytes:6.0f} MB (required below {MOST_MEGABYTES}{missed}), {seconds:.2f} s"
        )


def draw(lines: dict[str, Line], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(lines), figsize=(4 * len(lines), 3.2), layout="constrained")
    for panel, (name, line) in zip(panels, lines.items(), strict=True):
        ends = np.array([0.0, line.sizes[-1]])
        panel.plot(ends, 1e3 * (line.intercept + line.slope * ends), color="0.6")
        panel.plot(line.sizes, 1e3 * line.seconds, "o", color="C0")
        panel.set(xlabel=name, ylabel="ms, one thread", title=f"$R^2$ = {line.r2:.4f}", xlim=(0, None), ylim=(0, None))
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4 * FEWEST_SIMULATED, help="simulated for the peak of memory")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="where to draw the lines, .svg or .png")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone is not None:
        simulate_alone(options.alone)
        return
    report_memory(options.runs)
    report_counts(options.repeats)
    kinds = {"runs": by_runs, "run-steps": by_acts, "policies": by_policies}
    lines = {name: fitted(points(), options.repeats) for name, points in kinds.items()}
    report_lines(lines)
    if options.plot is not None:
        draw(lines, options.plot)


if __name__ == "__main__":
    main()
