"""Runs until the best of five arms is picked with a wanted probability: top-two sampling against all arms alike.

Every problem is printed with its saving and its standard error; their mean must be at least a quarter.
"""

import argparse
import time

import numpy as np

from drsim.planning.allocation_study import ArmProblem, compare_allocations

PROBLEMS = {
    "one good arm": ArmProblem(gains=(0.12, 0.0, -0.02, -0.05, -0.1)),
    "steps of 4 pp": ArmProblem(gains=(0.12, 0.08, 0.04, 0.0, -0.04)),
    "two good arms": ArmProblem(gains=(0.15, 0.09, -0.05, -0.1, -0.2)),
    "none helps": ArmProblem(gains=(-0.08, -0.1, -0.12, -0.15, -0.2)),
    "mixed": ArmProblem(gains=(0.1, 0.03, -0.02, -0.06, -0.25)),
}
LEAST = 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=3_600)
    arguments = parser.parse_args()
    for level in (0.9, 0.95):
        saved, errors = [], []
        print(f"P(best arm is picked) = {level:g}      top-two  uniform  saved")
        for name, problem in PROBLEMS.items():
            start = time.perf_counter()
            found = compare_allocations(
                problem, level=level, max_runs=arguments.runs, n_problems=arguments.problems, seed=1
            )
            seconds = time.perf_counter() - start
            saved.append(found.saved)
            errors.append(found.saved_se)
            numbers = f"{found.runs_top_two:7.0f}  {found.runs_uniform:7.0f}"
            print(f"{name:30}  {numbers}  {100 * found.saved:3.0f} ± {100 * found.saved_se:.0f} %  ({seconds:.0f} s)")
        se = np.sqrt(np.sum(np.square(errors))) / len(errors)
        print(f"{'mean':30}  {'':16}  {100 * np.mean(saved):3.0f} ± {100 * se:.1f} %")
        assert level < 0.95 or np.mean(saved) - 2 * se >= LEAST, saved


if __name__ == "__main__":
    main()
