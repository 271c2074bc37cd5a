"""Pilots simulated a second for each rule that has a closed form, and seconds of the exact characteristics.

The limit is 100,000 pilots a second for 50 tasks of 3 trials; with one trial the simulated and the exact probability of
deploying must agree.
"""

import argparse
import time

from drsim.planning import pilot_size
from drsim.planning.pilot_rules import PilotRule, RuleKind
from drsim.planning.pilot_size import operating_points, tasks_needed
from drsim.planning.pilot_world import PilotPlan, PilotWorld

PER_SECOND = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=400_000)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--trials", type=int, default=3)
    arguments = parser.parse_args()
    world = PilotWorld(discordance=0.3, rho=0.5)
    plan = PilotPlan(n_tasks=arguments.tasks, n_trials=arguments.trials)
    for kind in (RuleKind.POSTERIOR, RuleKind.POINT, RuleKind.MCNEMAR):
        rule = PilotRule(kind=kind)
        start = time.perf_counter()
        operating_points(world, plan, rule, [0.05], seed=1, n_pilots=arguments.pilots)
        rate = arguments.pilots / (time.perf_counter() - start)
        single = PilotPlan(n_tasks=arguments.tasks)
        start = time.perf_counter()
        (exact,) = operating_points(world, single, rule, [0.05], seed=1)
        seconds = time.perf_counter() - start
        share = pilot_size._simulated(world, single, rule, 0.05, 0.3, 1, arguments.pilots)[0]
        slack = 0.01 if kind is RuleKind.POSTERIOR else 0.0
        se = (exact.p_deploy * (1 - exact.p_deploy) / arguments.pilots) ** 0.5
        assert abs(share - exact.p_deploy) <= 5 * se + slack, (share, exact.p_deploy)
        mark = "" if rate >= PER_SECOND else "  under"
        print(f"{kind:10}  {rate:,.0f} pilots/s{mark}, exact with one trial in {1000 * seconds:.1f} ms")
    start = time.perf_counter()
    points = operating_points(
        world, PilotPlan(n_tasks=2_000), PilotRule(kind=RuleKind.ANYTIME), [-0.1, 0.0, 0.05], seed=1
    )
    assert points[1].p_deploy <= 0.05
    print(f"anytime     2,000 pairs at three gains, exact in {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    needed = tasks_needed(
        PilotWorld(discordance=0.25), single, PilotRule(kind=RuleKind.MCNEMAR), 0.028, power=0.8, seed=1
    )
    print(f"pairs for 2.8 pp at 25 % discordance: {needed} in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
