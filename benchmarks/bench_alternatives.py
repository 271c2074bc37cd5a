"""Runs per second of one chain without intervention: drsim, and what one would pick instead.

The chain is the shipped example's agent left alone, `never`; every row is held against the exact success rate. Rows:

- `numba, 1 thread` and `counts`: drsim's engines; the second gives totals, not runs;
- `QuantEcon simulate`: `quantecon.MarkovChain.simulate_indices`, one path for each run, all in one call, on the chain
  of live and absorbing states; left out where `quantecon` is not installed;
- `paths, as QuantEcon`: stands for it where it is not: rows of cumulative sums, one uniform a step and a binary
  search, compiled by Numba, paths of full length also after a run has ended, as that function does it;
- `SimPy`: a process for each run that waits one unit of time for every step and picks the next state by
  `random.choices`; left out where `simpy` is not installed;
- `Python generators`: stands for it where it is not: the same process as a bare generator, resumed step by step; a
  discrete-event library adds its event queue to this, so it can only be slower;
- `NumPy loop`: all runs in every step, the next state by cumulative sums.

QuantEcon and the rows without a package know homogeneous chains only, so that the example's rates, which no step
changes for an agent left alone, suit all of them. Slow rows are measured on fewer runs.
"""

import argparse
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.engine import numba as compiled
from drsim.engine.counts import count_runs
from drsim.engine.law import law_of
from drsim.engine.runs import Ending
from drsim.process.compile import CompiledModel, compile_model, never
from drsim.process.exact import evaluate
from drsim.process.toml import read_model

MODEL = Path(__file__).parent.parent / "models" / "example.toml"
SEED = 7
MAX_Z = 5.0
ONE = "numba, 1 thread"

type Paths = Callable[[FloatArray, IntArray, FloatArray, IntArray], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of simulating."""

    n: int
    successes: Callable[[int], int]
    """Number of n runs that succeed."""


def absorbing(model: CompiledModel) -> FloatArray:
    """(S + 2, S + 2) the chain with success and fail, which it never leaves; alike in all steps."""
    acts = model.transitions
    assert np.array_equal(acts, np.broadcast_to(acts[0], acts.shape)), "the chain changes from step to step"
    chain = np.eye(acts.shape[2])
    chain[: acts.shape[1]] = acts[0]
    return chain


@numba.njit(nogil=True)
def _paths(rows: FloatArray, start: IntArray, draws: FloatArray, out: IntArray) -> None:
    n, n_steps = draws.shape
    for i in range(n):
        out[i, 0] = start[i]
        for t in range(n_steps):
            out[i, t + 1] = np.searchsorted(rows[out[i, t]], draws[i, t], side="right")


def paths_as_quantecon(chain: FloatArray, horizon: int, n: int) -> int:
    """All paths, kept whole."""
    rows = np.cumsum(chain, axis=1)
    rows[:, -1] = 1.0
    out = np.empty((n, horizon + 1), dtype=np.int64)
    draws = np.random.default_rng(SEED).random((n, horizon))
    cast("Paths", _paths)(rows, np.zeros(n, dtype=np.int64), draws, out)
    return int((out[:, -1] == len(chain) - 2).sum())


def quantecon(chain: FloatArray, horizon: int, n: int) -> int:
    library: Any = import_module("quantecon")
    start = np.zeros(n, dtype=np.int64)
    paths = library.MarkovChain(chain).simulate_indices(horizon + 1, init=start, random_state=SEED)
    return int((np.asarray(paths)[:, -1] == len(chain) - 2).sum())


def numpy_loop(chain: FloatArray, horizon: int, n: int) -> int:
    rng, state = np.random.default_rng(SEED), np.zeros(n, dtype=np.int64)
    rows = np.cumsum(chain, axis=1)[:, :-1]
    for _ in range(horizon):
        state = (rng.random((n, 1)) >= rows[state]).sum(axis=1)
    return int((state == len(chain) - 2).sum())


def process(rows: list[list[float]], horizon: int, draw: random.Random, ends: list[int]) -> Generator[None]:
    """One run: a step, a wait, until the run is over."""
    states, n_live, state = range(len(rows)), len(rows) - 2, 0
    for _ in range(horizon):
        state = draw.choices(states, cum_weights=rows[state])[0]
        if state >= n_live:
            break
        yield
    ends.append(state)


def cumulative_rows(chain: FloatArray) -> list[list[float]]:
    return [list(accumulate(row)) for row in chain.tolist()]


def python_generators(chain: FloatArray, horizon: int, n: int) -> int:
    rows, ends = cumulative_rows(chain), list[int]()
    draw = random.Random(SEED)  # noqa: S311 # a simulation, no secret
    for _ in range(n):
        for _ in process(rows, horizon, draw, ends):
            pass
    return ends.count(len(chain) - 2)


def simpy(chain: FloatArray, horizon: int, n: int) -> int:
    library: Any = import_module("simpy")
    rows, ends, environment = cumulative_rows(chain), list[int](), library.Environment()
    draw = random.Random(SEED)  # noqa: S311 # a simulation, no secret

    def waiting() -> Generator[Any]:
        for _ in process(rows, horizon, draw, ends):
            yield environment.timeout(1)

    for _ in range(n):
        environment.process(waiting())
    environment.run()
    return ends.count(len(chain) - 2)


def ways_of(model: CompiledModel, n: int, n_slow: int) -> dict[str, Way]:
    policy, horizon, chain = never(model), len(model.transitions), absorbing(model)
    law = law_of(model, [policy])

    def by_numba(size: int) -> int:
        return int((compiled.run_law(law, n=size, seed=SEED, threads=1)[0].ending == Ending.SUCCESS).sum())

    def on_chain(call: Callable[[FloatArray, int, int], int], size: int) -> Way:
        return Way(n=size, successes=lambda k: call(chain, horizon, k))

    ways = {
        ONE: Way(n=n, successes=by_numba),
        "counts": Way(n=n, successes=lambda k: int(count_runs(model, policy, n=k, seed=SEED).success[0])),
        "paths, as QuantEcon": on_chain(paths_as_quantecon, n),
        "NumPy loop": on_chain(numpy_loop, n),
        "Python generators": on_chain(python_generators, n_slow),
    }
    for name, package, call, size in (
        ("QuantEcon simulate", "quantecon", quantecon, n),
        ("SimPy", "simpy", simpy, n_slow),
    ):
        if find_spec(package) is None:
            print(f"{name}: left out, {package} is not installed")
        else:
            ways[name] = on_chain(call, size)
    return ways


def check(ways: dict[str, Way], success: float) -> None:
    """Success rates against the exact one; compiles what is to be compiled."""
    for name, way in ways.items():
        z = (way.successes(way.n) - way.n * success) / np.sqrt(way.n * success * (1.0 - success))
        assert abs(z) <= MAX_Z, f"{name}: z = {z:.1f}"


def measure(ways: dict[str, Way], repeats: int) -> dict[str, float]:
    """Runs per second, from the shortest of `repeats` times; the ways take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way.successes(way.n)
            seconds[name].append(time.perf_counter() - start)
    return {name: way.n / min(seconds[name]) for name, way in ways.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--slow-runs", type=int, default=5_000, help="runs of the rows in plain Python")
    parser.add_argument("--steps", type=int, default=30, help="horizon T")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    model = compile_model(replace(read_model(MODEL), horizon=options.steps))
    ways = ways_of(model, options.runs, options.slow_runs)
    check(ways, evaluate(model, never(model)).success)
    rates = measure(ways, options.repeats)
    print(f"T = {options.steps}, never; |z| <= {MAX_Z:g} against the exact success rate")
    print(f"{'':22}{'runs':>10}{'M runs/s':>12}{ONE + ' / it':>24}")
    for name, rate in rates.items():
        print(f"{name:22}{ways[name].n:10,}{rate / 1e6:12.4f}{rates[ONE] / rate:24.2f}")


if __name__ == "__main__":
    main()
