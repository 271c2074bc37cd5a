"""Simulated run-steps per second: two NumPy loops, the compiled engine on one thread and on two, JAX, and plain C.

All ways simulate one model and policy. They are held against the exact recursion, and all but the two loops, which
draw from NumPy's own generators, must agree in every total. Below them the compiled engine on one thread with a policy
that holds beliefs, whose runs must be those of the reference engine, and with 32 policies at once and one by one. NumPy
is measured on fewer runs and scaled. A run-step is an act that was made under one policy: a loop that also carries runs
that have ended does more work than is counted. JAX takes all cores. C is left out where there is no compiler `cc`, JAX
where it is not installed.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

from drsim.engine import numba as compiled
from drsim.engine import reference
from drsim.engine.estimates import Moments
from drsim.engine.law import Law, law_of
from drsim.engine.random import WordArray
from drsim.engine.runs import Ending, SimulatedRuns, empty_runs, join_runs, spend
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.spec import Model, Signal
from drsim.process.toml import read_model

HERE = Path(__file__).parent
MODEL, POLICY, BELIEF_POLICY = HERE.parent / "models" / "example.toml", "late", "belief"
SEED = 7
CHUNK = 2**14
"""Runs that tuned NumPy takes at a time: their arrays fit a second-level cache."""
FEW_RUNS = 20_000
"""Runs compared with the reference engine, run by run."""
N_POLICIES = 32

MAX_Z = 5.0
PLAIN, TUNED, REFERENCE, ONE, TWO, C, JAX = (
    "NumPy, plain loop",
    "NumPy, tuned",
    "reference engine",
    "numba, 1 thread",
    "numba, 2 threads",
    "C",
    "jax, all cores",
)
BELIEF, PASS, PASSES = "belief policy", f"{N_POLICIES} policies, 1 pass", f"{N_POLICIES} policies, {N_POLICIES} passes"
REQUIRED = (
    (PLAIN, ONE, 20.0),
    (TUNED, ONE, 8.0),
    (C, ONE, 0.9),
    (ONE, TWO, 1.6),
    (ONE, JAX, 0.1),
    (ONE, BELIEF, 0.4),
    (PASSES, PASS, 1 / 0.8),
)
"""(measured against, measured, smallest ratio of their rates)."""

type Totals = tuple[int, int, int, int, int, int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of simulating, found correct."""

    n: int
    acts: int
    """Of all runs under all policies."""
    seconds: Callable[[], float]
    """Simulate once more, and say how long it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How fast a way is."""

    n: int
    acts: int
    seconds: float

    @property
    def rate(self) -> float:
        """Run-steps per second."""
        return self.acts / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Runs of each row."""

    compiled: int
    numpy: int
    policies: int
    """Under each of the 32."""


def plain_loop(model: CompiledModel, policy: CompiledPolicy, n: int, seed: int) -> SimulatedRuns:
    """The step process as one would write it first: all runs in every step, uniform draws and normal scores."""
    rng = np.random.Generator(np.random.Philox(seed))
    horizon, n_states = model.transitions.shape[:2]
    runs = empty_runs(law_of(model, [policy]), 0, n)
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
        fires_from = np.where(is_fired, next_act + policy.cooldown, fires_from)
    runs.ending[state == n_states] = Ending.SUCCESS
    runs.ending[state == n_states + 1] = Ending.FAIL
    return runs


def tuned_loop(law: Law, n: int, seed: int) -> list[SimulatedRuns]:
    """Chunks in cache, integer thresholds, NumPy's fastest generator, and work only on runs that act."""
    generator = np.random.SFC64(seed)
    parts = [tuned_chunk(law, min(CHUNK, n - first), generator) for first in range(0, n, CHUNK)]
    return [join_runs(parts)]


def tuned_words(generator: np.random.SFC64, n: int) -> WordArray:
    """Draws, two to each word of the generator."""
    words: WordArray = generator.random_raw((n + 1) // 2).view(np.uint32)[:n]
    return words


def tuned_outcome(words: WordArray, by_state: WordArray, state: NDArray[np.intp]) -> NDArray[np.intp]:
    """Outcome by thresholds (outcomes − 1, S), a column for each state."""
    reached = np.zeros(len(state), dtype=np.intp)
    for thresholds in by_state:
        reached += thresholds.take(state) <= words
    return reached


def tuned_chunk(law: Law, n: int, generator: np.random.SFC64) -> SimulatedRuns:
    runs = empty_runs(law, 0, n)
    n_states, horizon = law.n_states, law.horizon
    act, move = (np.ascontiguousarray(np.swapaxes(it, 1, 2)) for it in (law.act[0], law.intervene[0]))
    last = np.full(n, horizon, dtype=np.int32)
    state = tuned_outcome(tuned_words(generator, n), law.start[:, None], np.zeros(n, dtype=np.intp))
    acts_next, fires_from = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    live = np.arange(n)
    for t in range(horizon):
        is_acting = acts_next.take(live) <= t
        acting = live[is_acting]
        after = tuned_outcome(tuned_words(generator, len(acting)), act[t], state.take(acting))
        state[acting] = after
        is_over = after >= n_states
        last[acting[is_over]] = t
        if is_over.any():
            live = live[state.take(live) < n_states]
        if not law.is_open[0, t]:
            continue
        watched = acting[~is_over]
        is_fired = tuned_words(generator, len(watched)) < law.fire[0, t].take(state.take(watched))
        fired = watched[is_fired & (fires_from.take(watched) <= t)]
        before, count = state[fired], runs.interventions[fired]
        runs.first_state[fired] = np.where(count == 0, before, runs.first_state[fired])
        state[fired] = tuned_outcome(tuned_words(generator, len(fired)), move[t], before)
        runs.fired_at[fired, count] = t
        runs.interventions[fired] = count + 1
        acts_next[fired] = t + 1 + law.extra_steps[0]
        fires_from[fired] = np.where(count + 1 < law.budget[0], t + 1 + law.cooldown[0], horizon)
    runs.ending[state == n_states] = Ending.SUCCESS
    runs.ending[state > n_states] = Ending.FAIL
    spend(law, 0, runs, last)
    return runs


def reference_chunks(law: Law, n: int, seed: int) -> list[SimulatedRuns]:
    """The package's reference engine, in chunks."""
    parts = [reference.run_law(law, n=min(CHUNK, n - first), seed=seed, first=first) for first in range(0, n, CHUNK)]
    return [join_runs([part[0] for part in parts])]


def totals(runs: SimulatedRuns) -> Totals:
    """Successes, capped runs, acts, interventions, the sums of their steps and of first states, tokens."""
    return (
        int((runs.ending == Ending.SUCCESS).sum()),
        int((runs.ending == Ending.CAPPED).sum()),
        int(runs.acts.sum()),
        int(runs.interventions.sum()),
        int(runs.fired_at[runs.fired_at >= 0].sum()),
        int(runs.first_state.sum()),
        float(runs.tokens.sum()),
    )


def check_exact(model: CompiledModel, policy: CompiledPolicy, runs: SimulatedRuns, name: str) -> None:
    """Simulated means lie within a few standard errors of the exact recursion."""
    exact = evaluate(model, policy)
    pairs = (
        (runs.ending == Ending.SUCCESS, exact.success),
        (runs.ending == Ending.CAPPED, exact.capped),
        (runs.acts, exact.steps),
        (runs.interventions, exact.interventions),
        (runs.tokens, exact.tokens),
    )
    for values, expected in pairs:
        moments = Moments()
        moments.add(values)
        z = moments.estimate().z(expected)
        assert abs(z) <= MAX_Z, f"{name}: z = {z:.1f}"


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
    """The law of one policy as `reference.c` reads it."""
    assert law.n_policies == 1, "reference.c takes one policy"
    assert not law.signals.reads_levels.any(), "reference.c reads no scores"
    assert not law.withholds.any(), "reference.c tosses no coin of the policy"
    sizes = [law.horizon, law.n_states, len(law.act), law.budget[0], law.cooldown[0], law.extra_steps[0]]
    with path.open("wb") as file:
        np.array(sizes, dtype=np.int64).tofile(file)
        for numbers in (law.tokens_to_end[0], law.tokens_of_firing[0]):
            numbers.astype(np.float64).tofile(file)
        for thresholds in (law.start, law.task, law.act, law.intervene[0], law.fire[0]):
            np.ascontiguousarray(thresholds, dtype=np.uint32).tofile(file)


def run_c(program: Path, law: Path, n: int) -> tuple[Totals, float]:
    """Totals and seconds of one run of the C program."""
    command = [str(program), str(law), str(n), str(SEED), "1"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    success, capped, acts, interventions, steps, states = (int(number) for number in printed[:6])
    return (success, capped, acts, interventions, steps, states, float(printed[6])), float(printed[7])


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def way(call: Callable[[], list[SimulatedRuns]], found: list[SimulatedRuns]) -> Way:
    return Way(n=found[0].n, acts=sum(int(runs.acts.sum()) for runs in found), seconds=partial(timed, call))


def single_ways(model: CompiledModel, policy: CompiledPolicy, sizes: Sizes, folder: Path) -> dict[str, Way]:
    """Every way with one policy that reads the score of a step alone, each checked."""
    law = law_of(model, [policy])
    calls: dict[str, Callable[[], list[SimulatedRuns]]] = {
        PLAIN: lambda: [plain_loop(model, policy, sizes.numpy, SEED)],
        TUNED: lambda: tuned_loop(law, sizes.numpy, SEED),
        REFERENCE: lambda: reference_chunks(law, sizes.numpy, SEED),
        ONE: lambda: compiled.run_law(law, n=sizes.compiled, seed=SEED, threads=1),
    }
    if numba.config.NUMBA_NUM_THREADS > 1:  # type: ignore[attr-defined] # set when Numba reads the environment
        calls[TWO] = lambda: compiled.run_law(law, n=sizes.compiled, seed=SEED, threads=2)
    if find_spec("jax") is not None:
        from drsim.engine import jax

        calls[JAX] = lambda: jax.run_law(law, n=sizes.compiled, seed=SEED)
    expected = {n: totals(compiled.run_law(law, n=n, seed=SEED)[0]) for n in (sizes.compiled, sizes.numpy)}
    ways = {}
    for name, call in calls.items():
        found = call()
        check_exact(model, policy, found[0], name)
        assert name in (PLAIN, TUNED) or totals(found[0]) == expected[found[0].n], f"{name} disagrees with numba"
        ways[name] = way(call, found)
    program, law_file = build_c(folder), folder / "law.bin"
    if program is not None:
        write_law(law, law_file)
        in_c, _ = run_c(program, law_file, sizes.compiled)
        assert in_c == expected[sizes.compiled], f"C and numba disagree: {in_c}, {expected[sizes.compiled]}"
        seconds = partial(c_seconds, program, law_file, sizes.compiled)
        ways[C] = Way(n=sizes.compiled, acts=in_c[2], seconds=seconds)
    return ways


def c_seconds(program: Path, law: Path, n: int) -> float:
    return run_c(program, law, n)[1]


def belief_way(model: CompiledModel, policy: CompiledPolicy, n: int) -> Way:
    """A policy that holds beliefs, its first runs equal to those of the reference engine."""
    law = law_of(model, [policy])
    expected = reference.run_law(law, n=FEW_RUNS, seed=SEED)[0]
    found = compiled.run_law(law, n=FEW_RUNS, seed=SEED, threads=1)[0]
    assert found.is_equal(expected), "belief: numba and the reference engine disagree"
    assert found.interventions.any(), "belief: the policy never fires"

    def call() -> list[SimulatedRuns]:
        return compiled.run_law(law, n=n, seed=SEED, threads=1)

    return way(call, call())


def many_ways(model: CompiledModel, policy: CompiledPolicy, n: int) -> dict[str, Way]:
    """Many thresholds in one pass and one by one, with equal runs."""
    cuts = np.linspace(-1.0, 2.0, N_POLICIES)
    policies = [
        replace(policy, logit_threshold=np.where(np.isfinite(policy.logit_threshold), cut, np.inf)) for cut in cuts
    ]
    together, alone = law_of(model, policies), [law_of(model, [it]) for it in policies]

    def one_pass() -> list[SimulatedRuns]:
        return compiled.run_law(together, n=n, seed=SEED, threads=1)

    def passes() -> list[SimulatedRuns]:
        return [compiled.run_law(law, n=n, seed=SEED, threads=1)[0] for law in alone]

    found = one_pass()
    for runs, expected, it in zip(found, passes(), policies, strict=True):
        assert runs.is_equal(expected), "a policy's runs depend on the others in the pass"
        check_exact(model, it, runs, PASS)
    return {PASS: way(one_pass, found), PASSES: way(passes, found)}


def measure(ways: dict[str, Way], repeats: int) -> dict[str, Measured]:
    """Shortest of `repeats` times of each way; the ways take turns, so that a busy machine slows all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, it in ways.items():
            seconds[name].append(it.seconds())
    return {name: Measured(n=it.n, acts=it.acts, seconds=min(seconds[name])) for name, it in ways.items()}


def report(found: dict[str, Measured], n: int) -> None:
    one = found[ONE]
    print(f"{one.acts / one.n:.1f} acts a run; answers equal, |z| <= {MAX_Z:g} against the recursion")
    print(f"{'':24}{'runs':>12}{'M run-steps/s':>15}{'s for ' + format(n, ','):>18}")
    for name, it in found.items():
        print(f"{name:24}{it.n:12,}{it.rate / 1e6:15.2f}{it.seconds * n / it.n:18.4f}")
    for base, name, least in REQUIRED:
        if base in found and name in found:
            ratio = found[name].rate / found[base].rate
            print(f"{name} / {base}: {ratio:.2f} (required {least:g}{'' if ratio >= least else ', missed'})")


def example(steps: int, finish: float) -> Model:
    """The shipped example with another horizon, and its policy open to the end, by score and by belief."""
    spec = read_model(MODEL)
    rule = replace(spec.policies[POLICY], last_step=None)
    policies = {POLICY: rule, BELIEF_POLICY: replace(rule, signal=Signal.BELIEF, threshold=0.5)}
    return replace(spec, horizon=steps, agent=replace(spec.agent, finish=finish), policies=policies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--numpy-runs", type=int, default=100_000, help="runs of the two NumPy loops")
    parser.add_argument("--policy-runs", type=int, default=40_000, help=f"runs under each of {N_POLICIES} policies")
    parser.add_argument("--steps", type=int, default=30, help="horizon T")
    parser.add_argument("--finish", type=float, default=0.05, help="P(success) of a step on track; less: longer runs")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    spec = example(options.steps, options.finish)
    model, policy, belief = compile_model(spec), compile_policy(spec, POLICY), compile_policy(spec, BELIEF_POLICY)
    sizes = Sizes(compiled=options.runs, numpy=options.numpy_runs, policies=options.policy_runs)
    with tempfile.TemporaryDirectory() as folder:
        ways = single_ways(model, policy, sizes, Path(folder))
        ways[BELIEF] = belief_way(model, belief, sizes.compiled)
        ways |= many_ways(model, policy, sizes.policies)
        found = measure(ways, options.repeats)
    print(f"T = {options.steps}, ", end="")
    report(found, options.runs)


if __name__ == "__main__":
    main()
