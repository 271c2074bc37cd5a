"""A pilot that is looked at after every pair: its errors, its size against a fixed one, how soon it sees a collapse.

All numbers are exact, by first passage. The limits are those that the monitor promises: a false benefit in at most α of
pilots of any number of looks where naive looking errs in more than 4α, and a collapse of 25.5 pp within a median of 25.
"""

import argparse
import time

import numpy as np

from drsim.planning.pilot_rules import PilotRule, RuleKind, rule_limits, stopping_limits
from drsim.planning.pilot_size import first_passage, tasks_needed
from drsim.planning.pilot_world import PilotPlan, PilotWorld
from drsim.planning.verdict import DecisionRule

DISCORDANCES = (0.1, 0.25, 0.5)
EFFECTS = (0.06, 0.12, -0.25)
COLLAPSE, COLLAPSE_FLIPS, MEDIAN = -0.255, 0.35, 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--looks", type=int, default=2_000)
    looks = parser.parse_args().looks
    start = time.perf_counter()
    anytime = PilotRule(kind=RuleKind.ANYTIME)
    limits = stopping_limits(anytime, looks)
    m = np.arange(looks + 1)
    print(f"false claims over {looks:,} looks where the gain is 0")
    print("flips  anytime benefit  harm   posterior > .95  McNemar mid-p < .05, either way")
    for q in DISCORDANCES:
        ((benefit, harm, _, _),) = first_passage(*limits, [0.0], [q])
        naive = rule_limits(PilotRule(kind=RuleKind.POSTERIOR), looks, m)
        ((posterior, _, _, _),) = first_passage(naive.deploy_from, m + 1, [0.0], [q])
        naive = rule_limits(PilotRule(kind=RuleKind.MCNEMAR), looks, m)
        ((up, down, _, _),) = first_passage(naive.deploy_from, m - naive.reject_to, [0.0], [q])
        print(f"{q:5.2f}  {benefit:15.3f}  {harm:.3f}  {posterior:15.3f}  {up + down:.3f}")
        assert benefit <= anytime.alpha
        assert harm <= anytime.harm_alpha
        assert looks < 2_000 or min(posterior, up + down) > 4 * anytime.alpha
    print("expected pairs at 30 % flips, and pairs of a fixed posterior rule of the same error and power")
    for gain in EFFECTS:
        ((benefit, harm, _, expected),) = first_passage(*limits, [gain], [0.3])
        level = anytime.alpha if gain > 0 else anytime.harm_alpha
        fixed_rule = PilotRule(decision=DecisionRule(confidence=1 - level))
        power = min(benefit if gain > 0 else harm, 0.99)
        fixed = tasks_needed(
            PilotWorld(discordance=0.3),
            PilotPlan(n_tasks=1),
            fixed_rule,
            gain,
            power=power,
            seed=1,
        )
        print(f"{100 * gain:+6.1f} pp  power {power:.3f}  anytime {expected:6.0f}  fixed {fixed}")
    for n in range(1, looks):
        ((_, harm, _, _),) = first_passage(limits[0][: n + 1], limits[1][: n + 1], [COLLAPSE], [COLLAPSE_FLIPS])
        if harm >= 0.5:
            break
    print(f"{100 * COLLAPSE:+.1f} pp at {100 * COLLAPSE_FLIPS:.0f} % flips is caught within a median of {n} pairs")
    assert n <= MEDIAN
    print(f"{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
