"""The planner: seconds and memory for 10⁴ draws, 200 alternatives and 50 budgets, after warm-up.

Alternatives are worked out from beta-distributed tasks, and the frontier found over all budgets; the limit is two
seconds and 500 MB. Best-of-2 with a perfect selector is held against its closed form in every draw.
"""

import argparse
import resource
import time
from itertools import product

import numpy as np

from drsim.planning.alternatives import (
    Abort,
    Alternative,
    BestOf,
    Halt,
    Intervene,
    Nothing,
    Retry,
    RetryInContext,
    Selector,
    Verifier,
    World,
    world_of,
)
from drsim.planning.attempts import Attempts, beta_attempt, beta_watched
from drsim.planning.frontier import find_frontier
from drsim.planning.prices import costs_of, prices_of
from drsim.process.spec import Cost
from drsim.theory.selection import best_of_n_beta

SECONDS = 2.0
MEGABYTES = 500.0
N_MAX = 16


def world(n_draws: int) -> World:
    """Four policies and four triggers over drawn parameters."""
    rng = np.random.default_rng(7)
    success, rho = rng.beta(30, 20, n_draws), rng.beta(4.5, 2.0, n_draws)
    good = np.stack([rng.normal(9e3, 3e2, n_draws), np.full(n_draws, 8.0), np.zeros(n_draws), np.full(n_draws, 8.0)])
    bad = 1.3 * good
    unaided = beta_attempt(success, rho, good, bad)
    gains = rng.normal([[0.05], [0.02], [0.0], [-0.04]], 0.02, (4, n_draws))
    intervened = {
        f"policy {i}": beta_attempt(np.clip(success + it, 0, 1), rho, good, bad) for i, it in enumerate(gains)
    }
    watched = {
        f"trigger {i}": beta_watched(unaided, np.full(n_draws, tpr), np.full(n_draws, tpr / 3), good / 2, bad / 2)
        for i, tpr in enumerate((0.2, 0.4, 0.6, 0.8))
    }
    attempts = Attempts(unaided=unaided, intervened=intervened, watched=watched, rho=rho)
    return world_of(attempts, n_max=N_MAX, growth=120.0, second_success=None)


def alternatives(n: int, given: World) -> list[Alternative]:
    """The first n of a list that holds every kind."""
    verifier = Verifier(tpr=0.9, fpr=0.1)
    found: list[Alternative] = [Nothing(), BestOf(attempts=2, selector=Selector(auroc=1.0))]
    found += [Intervene(policy=it) for it in given.attempts.intervened]
    found += [Halt(trigger=it) for it in given.attempts.watched]
    found += [Abort(trigger=it, restarts=r) for it, r in product(given.attempts.watched, range(1, 4))]
    found += [Retry(attempts=k, verifier=verifier) for k in range(2, 9)]
    found += [RetryInContext(attempts=k, verifier=verifier, contamination=0.7) for k in range(2, 9)]
    arms: list[str | None] = [None, *given.attempts.intervened]
    selectors = [Selector(auroc=a, shared=c) for a, c in ((0.8, 0.3), (1.0, 0.0), (0.7, 0.0))]
    found += [
        BestOf(attempts=k, selector=s, policy=arm, in_sequence=k % 2 == 1)
        for s, arm, k in product(selectors, arms, range(2, N_MAX + 1))
    ]
    assert len(found) >= n, f"there are {len(found)}"
    return found[:n]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--alternatives", type=int, default=200)
    parser.add_argument("--budgets", type=int, default=50)
    arguments = parser.parse_args()
    prices = prices_of(
        Cost(critic_tokens=200.0, usd_per_million_tokens=1.0, seconds_per_step=4.0),
        {},
        usd_per_million_tokens=None,
        second_seconds=0.0,
    )

    def once(n_draws: int) -> float:
        start = time.perf_counter()
        given = world(n_draws)
        built = time.perf_counter()
        outcomes = [it.evaluate(given) for it in alternatives(arguments.alternatives, given)]
        worked_out = time.perf_counter()
        success, costs = np.stack([it.success for it in outcomes]), costs_of(outcomes, prices)
        cost = costs.of(prices.money)
        budgets = np.linspace(1.001 * cost[0].mean(), cost.mean(axis=1).max(), arguments.budgets)
        found = find_frontier(success, cost, costs.seconds, budgets.tolist())
        ended = time.perf_counter()
        assert len(found.points) == arguments.budgets
        mean, rho = given.attempts.unaided.mean_success, given.attempts.rho
        size = 1.0 / rho - 1.0
        assert np.allclose(success[1], best_of_n_beta(mean * size, (1.0 - mean) * size, 2), atol=1e-10, rtol=0.0)
        print(
            f"{n_draws:>6} draws: tasks {built - start:.2f} s, {len(outcomes)} alternatives "
            f"{worked_out - built:.2f} s, {arguments.budgets} budgets {ended - worked_out:.2f} s, "
            f"in all {ended - start:.2f} s"
        )
        return ended - start

    once(100)
    seconds = min(once(arguments.draws) for _ in range(3))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process {megabytes:.0f} MB")
    assert seconds < SECONDS, f"{seconds:.2f} s"
    assert megabytes < MEGABYTES, f"{megabytes:.0f} MB"


if __name__ == "__main__":
    main()
