"""Simulated run-steps per second: two NumPy loops, the compiled engine on one thread and on two, and plain C.

All ways simulate one model and policy, and are held against the exact recursion; C and the engines must agree in every
total. NumPy is measured on fewer runs and scaled. A run-step is an act that was made: a loop that also carries runs
that have ended does more work than is counted. C is left out where there is no compiler `cc`.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numba
import numpy as np

from drsim.engine import numba as compiled
from drsim.engine import reference
from drsim.engine.estimates import Moments
from drsim.engine.law import Law, law_of
from drsim.engine.runs import Ending, SimulatedRuns, empty_runs
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.toml import read_model

HERE = Path(__file__).parent
MODEL, POLICY = HERE.parent / "models" / "example.toml", "late"
SEED = 7
CHUNK = 2**14
"""Runs that tuned NumPy takes at a time: their arrays fit a second-level cache."""

MAX_Z = 5.0
PLAIN, TUNED, ONE, TWO, C = "NumPy, plain loop", "NumPy, tuned", "numba, 1 thread", "numba, 2 threads", "C"
REQUIRED = ((PLAIN, ONE, 20.0), (TUNED, ONE, 8.0), (C, ONE, 0.9), (ONE, TWO, 1.6))
"""(slower, faster, smallest ratio of their rates)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One way of simulating."""

    n: int
    acts: int
    seconds: float

    @property
    def rate(self) -> float:
        """Run-steps per second."""
        return self.acts / self.seconds


def plain_loop(model: CompiledModel, policy: CompiledPolicy, n: int, seed: int) -> SimulatedRuns:
    """The step process as one would write it first: all runs in every step, uniform draws and normal scores."""
    rng = np.random.Generator(np.random.Philox(seed))
    horizon, n_states = model.transitions.shape[:2]
    runs = empty_runs(law_of(model, policy), n)
    acts_until = model.transitions.cumsum(axis=-1)
    moves_until = model.kernels[policy.mechanism].cumsum(axis=-1)
    state = (rng.random((n, 1)) >= model.start.cumsum()[:-1]).sum(axis=1)
    next_act, fires_from = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for t in range(horizon):
        is_acting = (state < n_states) & (next_act == t)
        before = np.minimum(state, n_states - 1)
        after = (rng.random((n, 1)) >= acts_until[t, before, :-1]).sum(axis=1)
        state = np.where(is_acting, after, state)
        is_live = is_acting & (state < n_states)
        runs.acts[:] += is_acting
        runs.tokens[:] += is_acting * model.tokens[t] + is_live * model.critic_tokens[t]
        at = np.minimum(state, n_states - 1)
        score = rng.normal(model.score_mean[at], model.score_sd[at])
        is_ready = is_live & (runs.interventions < policy.budget) & (fires_from <= t)
        is_fired = is_ready & (score > policy.logit_threshold[t])
        moved = (rng.random((n, 1)) >= moves_until[t, at, :-1]).sum(axis=1)
        state = np.where(is_fired, moved, state)
        runs.interventions[:] += is_fired
        runs.tokens[:] += is_fired * model.mechanism_tokens[policy.mechanism]
        next_act = np.where(is_acting, t + 1 + is_fired * model.extra_steps[policy.mechanism], next_act)
        fires_from = np.where(is_fired, t + 1 + policy.cooldown, fires_from)
    runs.ending[state == n_states] = Ending.SUCCESS
    runs.ending[state == n_states + 1] = Ending.FAIL
    return runs


def tuned_loop(law: Law, n: int, seed: int) -> SimulatedRuns:
    """The reference engine, whose steps touch only the runs that act in them, in chunks."""
    parts = [reference.run_law(law, n=min(CHUNK, n - first), seed=seed, first=first) for first in range(0, n, CHUNK)]
    return SimulatedRuns(
        ending=np.concatenate([part.ending for part in parts]),
        acts=np.concatenate([part.acts for part in parts]),
        interventions=np.concatenate([part.interventions for part in parts]),
        fired_at=np.concatenate([part.fired_at for part in parts]),
        tokens=np.concatenate([part.tokens for part in parts]),
    )


def totals(runs: SimulatedRuns) -> tuple[int, int, int, int, int, float]:
    """Successes, capped runs, acts, interventions, the sum of their steps, tokens."""
    return (
        int((runs.ending == Ending.SUCCESS).sum()),
        int((runs.ending == Ending.CAPPED).sum()),
        int(runs.acts.sum()),
        int(runs.interventions.sum()),
        int(runs.fired_at[runs.fired_at >= 0].sum()),
        float(runs.tokens.sum()),
    )


def worst_z(model: CompiledModel, policy: CompiledPolicy, runs: SimulatedRuns) -> float:
    """Largest distance, in standard errors, between simulated means and the exact recursion."""
    exact = evaluate(model, policy)
    pairs = (
        (runs.ending == Ending.SUCCESS, exact.success),
        (runs.ending == Ending.CAPPED, exact.capped),
        (runs.acts, exact.steps),
        (runs.interventions, exact.interventions),
        (runs.tokens, exact.tokens),
    )
    worst = 0.0
    for values, expected in pairs:
        moments = Moments()
        moments.add(values)
        worst = max(worst, abs(moments.estimate().z(expected)))
    return worst


def build_c(folder: Path) -> Path | None:
    """The C program, compiled; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    program = folder / "reference"
    command = [compiler, "-O3", "-march=native", "-o", str(program), str(HERE / "reference.c")]
    subprocess.run(command, check=True)
    return program


def write_law(law: Law, path: Path) -> None:
    """The law as `reference.c` reads it."""
    assert not law.has_shift, "reference.c knows no run-level shift"
    horizon, n_states = law.fire.shape
    with path.open("wb") as file:
        np.array([horizon, n_states, law.budget, law.cooldown, law.extra_steps], dtype=np.int64).tofile(file)
        for numbers in (np.array([law.mechanism_tokens]), law.tokens, law.critic_tokens):
            numbers.astype(np.float64).tofile(file)
        for thresholds in (law.start, law.act, law.intervene, law.fire):
            np.ascontiguousarray(thresholds).tofile(file)


def run_c(program: Path, law: Path, n: int) -> tuple[tuple[int, int, int, int, int, float], float]:
    """Totals and seconds of one run of the C program."""
    command = [str(program), str(law), str(n), str(SEED), "1"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    success, capped, acts, interventions, steps = (int(number) for number in printed[:5])
    return (success, capped, acts, interventions, steps, float(printed[5])), float(printed[6])


def timed(call: Callable[[], SimulatedRuns]) -> tuple[SimulatedRuns, float]:
    start = time.perf_counter()
    runs = call()
    return runs, time.perf_counter() - start


def measure(
    model: CompiledModel, policy: CompiledPolicy, sizes: dict[str, int], repeats: int, folder: Path
) -> dict[str, Measured]:
    """Shortest of `repeats` times of each way; the ways take turns, so that a busy machine slows all of them."""
    law = law_of(model, policy)
    compiled.run_law(law, n=1, seed=SEED)
    calls: dict[str, Callable[[int], SimulatedRuns]] = {
        PLAIN: lambda n: plain_loop(model, policy, n, SEED),
        TUNED: lambda n: tuned_loop(law, n, SEED),
        ONE: lambda n: compiled.run_law(law, n=n, seed=SEED, threads=1),
        TWO: lambda n: compiled.run_law(law, n=n, seed=SEED, threads=2),
    }
    if numba.config.NUMBA_NUM_THREADS < 2:  # type: ignore[attr-defined] # set when Numba reads the environment
        del calls[TWO]
    program, law_file = build_c(folder), folder / "law.bin"
    write_law(law, law_file)
    seconds: dict[str, list[float]] = {name: [] for name in (*calls, C)}
    acts: dict[str, int] = {}
    for _ in range(repeats):
        for name, call in calls.items():
            runs, took = timed(lambda call=call, name=name: call(sizes[name]))  # type: ignore[misc] # bound at once
            seconds[name].append(took)
            acts[name] = int(runs.acts.sum())
            z = worst_z(model, policy, runs)
            assert z <= MAX_Z, f"{name}: z = {z:.1f}"
            if name == TUNED:
                assert totals(runs) == totals(compiled.run_law(law, n=sizes[name], seed=SEED)), "engines disagree"
            if name == ONE and program is not None:
                found, took = run_c(program, law_file, sizes[C])
                assert found == totals(runs), f"C and numba disagree: {found}, {totals(runs)}"
                seconds[C].append(took)
                acts[C] = found[2]
    return {
        name: Measured(n=sizes[name], acts=acts[name], seconds=min(times)) for name, times in seconds.items() if times
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--numpy-runs", type=int, default=100_000, help="runs of the two NumPy loops")
    parser.add_argument("--steps", type=int, default=30, help="horizon T")
    parser.add_argument("--finish", type=float, default=0.05, help="P(success) of a step on track; less: longer runs")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    spec = read_model(MODEL)
    rule = replace(spec.policies[POLICY], last_step=None)
    agent = replace(spec.agent, finish=options.finish)
    spec = replace(spec, horizon=options.steps, agent=agent, policies={POLICY: rule})
    sizes = {PLAIN: options.numpy_runs, TUNED: options.numpy_runs, ONE: options.runs, TWO: options.runs}
    sizes[C] = options.runs
    with tempfile.TemporaryDirectory() as folder:
        found = measure(compile_model(spec), compile_policy(spec, POLICY), sizes, options.repeats, Path(folder))
    one = found[ONE]
    print(
        f"T = {options.steps}, {one.acts / one.n:.1f} acts a run; answers equal, |z| <= {MAX_Z:g} against the recursion"
    )
    print(f"{'':20}{'runs':>12}{'M run-steps/s':>15}{'s for ' + format(options.runs, ','):>18}")
    for name, it in found.items():
        print(f"{name:20}{it.n:12,}{it.rate / 1e6:15.2f}{it.seconds * options.runs / it.n:18.4f}")
    for slow, fast, least in REQUIRED:
        if slow in found and fast in found:
            ratio = found[fast].rate / found[slow].rate
            print(f"{fast} / {slow}: {ratio:.2f} (required {least:g}{'' if ratio >= least else ', missed'})")


if __name__ == "__main__":
    main()
