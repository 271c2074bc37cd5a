"""Microseconds an exact value takes: success alone and all five values, compiled, and success alone in plain C.

One model, many thresholds, on one thread: what is shared by all policies of a draw is nearly free here. C and both
recursions must agree to 1e-12; it works out the unaided run once, as we do, but carries a cooldown as states of their
own. "all / C" holds five values against C's one. C is left out where there is no compiler `cc`.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy
from drsim.process.exact_many import evaluate_many
from drsim.process.stacks import stack_draws, stack_policies
from drsim.process.success_many import success_many
from drsim.process.toml import read_model

HERE = Path(__file__).parent
REPEATS = 7
AGREEMENT = 1e-12
MOST_SECONDS = 0.5
"""Required of 100,000 evaluations of all values at 15 steps, budget 3."""
MOST_TIMES_C = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is evaluated."""

    horizon: int
    budget: int
    cooldown: int
    extra: int
    by_step: bool
    """Whether the threshold changes from step to step, so that every step has a normal tail of its own."""

    def __str__(self) -> str:
        tau = "t(step)" if self.by_step else "t"
        return f"T={self.horizon} b={self.budget} c={self.cooldown} x={self.extra} {tau}"


CASES = [
    Case(horizon=15, budget=3, cooldown=0, extra=1, by_step=False),
    Case(horizon=15, budget=3, cooldown=0, extra=0, by_step=False),
    Case(horizon=15, budget=3, cooldown=2, extra=1, by_step=False),
    Case(horizon=30, budget=3, cooldown=0, extra=1, by_step=False),
    Case(horizon=30, budget=3, cooldown=0, extra=1, by_step=True),
]


def compiled(case: Case, n_policies: int) -> tuple[CompiledModel, list[CompiledPolicy]]:
    """The shipped example with another horizon, and policies of many thresholds."""
    spec = read_model(HERE.parent / "models" / "example.toml")
    rollback = replace(spec.mechanisms["rollback"], extra_steps=case.extra)
    late = replace(spec.policies["late"], first_step=0, last_step=None, budget=case.budget, cooldown=case.cooldown)
    spec = replace(spec, horizon=case.horizon, mechanisms={"rollback": rollback}, policies={"late": late})
    policy = compile_policy(spec, "late")
    slope = np.linspace(0.0, 1.0, case.horizon) if case.by_step else np.zeros(case.horizon)
    return compile_model(spec), [
        replace(policy, logit_threshold=threshold + slope) for threshold in np.linspace(-3.0, 3.0, n_policies)
    ]


def build_c(folder: Path) -> Path | None:
    """The C program, compiled; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    program = folder / "exact"
    command = [compiler, "-O3", "-march=native", "-DSTATES=2", "-o", str(program), str(HERE / "exact.c"), "-lm"]
    subprocess.run(command, check=True)
    return program


def run_c(program: Path, case: Case, model: CompiledModel, policies: list[CompiledPolicy]) -> tuple[float, FloatArray]:
    """Seconds and successes."""
    model_file, policy_file = program.with_suffix(".model"), program.with_suffix(".policies")
    horizon, n_states = model.transitions.shape[:2]
    with model_file.open("wb") as file:
        np.array([horizon, n_states], dtype=np.int64).tofile(file)
        for array in (model.start, model.transitions, model.kernels[0], model.score_mean, model.score_sd):
            array.tofile(file)
    with policy_file.open("wb") as file:
        np.array([len(policies), case.budget, case.cooldown, case.extra], dtype=np.int64).tofile(file)
        np.stack([it.logit_threshold for it in policies]).tofile(file)
    command = [str(program), str(model_file), str(policy_file), str(REPEATS)]
    seconds, *found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return float(seconds), np.array([float(it) for it in found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", type=int, default=100_000)
    n = parser.parse_args().policies
    print(f"{'microseconds an evaluation':28}{'success':>9}{'all five':>10}{'C':>8}{'success / C':>13}{'all / C':>9}")
    with tempfile.TemporaryDirectory() as folder:
        program = build_c(Path(folder))
        for case in CASES:
            model, policies = compiled(case, n)
            draws, table = stack_draws([model]), stack_policies(policies)
            alone, many = success_many(draws, table), evaluate_many(draws, table)
            assert np.abs(alone.success - many.success).max() < AGREEMENT, "the recursions disagree"
            # the ways take turns, so that a busy machine slows all of them
            took: list[list[float]] = [[], []]
            for _ in range(REPEATS):
                for call, seconds in ((success_many, took[0]), (evaluate_many, took[1])):
                    start = time.perf_counter()
                    call(draws, table)
                    seconds.append(time.perf_counter() - start)
            one, five = min(took[0]), min(took[1])
            line = f"{case!s:28}{1e6 * one / n:9.3f}{1e6 * five / n:10.3f}"
            if program is not None:
                c, found = run_c(program, case, model, policies)
                assert np.abs(alone.success[:, 0] - found).max() < AGREEMENT, "C disagrees"
                verdict = "" if one < MOST_TIMES_C * c else "  missed"
                line += f"{1e6 * c / n:8.3f}{one / c:13.2f}{five / c:9.2f}{verdict}"
            print(line)
            if case == CASES[0]:
                seconds_of_many = 1e5 * five / n
    print(f"required: success / C < {MOST_TIMES_C:g}; 100,000 evaluations of all values < {MOST_SECONDS:g} s,")
    print(f"here {seconds_of_many:.3f} s" + ("" if seconds_of_many < MOST_SECONDS else ", missed"))


if __name__ == "__main__":
    main()
