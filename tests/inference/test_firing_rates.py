import numpy as np
import pytest
from inference.critics import CriticWorld
from scipy import special

from drsim.errors import DataError, ParameterError
from drsim.inference.critic.firing_rates import (
    FiringRates,
    RateSource,
    acted_pairs,
    firing_rates,
    given_rates,
    rate_draws,
)
from drsim.inference.critic.independent_pairs import Flows, causal_rates, largest_within
from drsim.inference.critic.task_weights import TaskWeights
from drsim.inference.rho_prior import RhoPrior
from drsim.pilot.records import Intervention, Outcome, Run

PLACE = ("agent", "benchmark")


def run(task: str, arm: str, outcome: str, *, acted: bool = False, trial: int = 0, n_steps: int | None = None) -> Run:
    return Run(
        task_id=task,
        arm=arm,
        outcome=Outcome(outcome),
        trial=trial,
        n_steps=n_steps,
        interventions=(Intervention(t=0, mechanism="rollback"),) if acted else (),
    )


PAIRS = [
    *(run(task, "baseline", "success" if task == "b" else "fail") for task in "abcd"),
    run("a", "zap", "success", acted=True),
    run("b", "zap", "fail", acted=True),
    run("c", "zap", "success"),
    run("d", "zap", "infra", acted=True),
]


def rates_of(runs: list[Run], rho: float | None = None) -> FiringRates:
    prior = RhoPrior(value=rho) if rho is not None else RhoPrior(a=4.5, b=2.0)
    rates = firing_rates(runs, [PLACE], "zap", baseline="baseline", rho_prior=prior)
    assert rates is not None
    return rates


def test_only_acted_pairs_count_and_tasks_keep_their_rows() -> None:
    rates = rates_of(PAIRS)
    assert rates.source is RateSource.ACTED_PAIRS
    assert rates.counts == {"A": 0, "B": 1, "C": 1, "D": 0}
    assert rates.pairs is not None
    assert rates.pairs.tables.tolist() == [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert rates.pairs.acted.tolist() == [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert acted_pairs(PAIRS, "zap", baseline="baseline") == 2
    assert "ρ beta:4.5,2 assumed" in rates.assumption


def test_without_logged_interventions_every_run_is_taken_to_be_acted_on() -> None:
    rates = rates_of([run(item.task_id, item.arm, item.outcome) for item in PAIRS])
    assert rates.source is RateSource.ALL_PAIRS
    assert rates.counts == {"A": 0, "B": 1, "C": 2, "D": 0}
    assert "no run says whether it was" in rates.assumption


def test_part_of_a_tasks_pairs_that_was_acted_on() -> None:
    runs = [run("a", "baseline", "fail", trial=trial) for trial in range(4)]
    runs += [run("a", "zap", "success", acted=trial < 3, trial=trial) for trial in range(4)]
    pairs = rates_of(runs).pairs
    assert pairs is not None
    assert pairs.acted.tolist() == [[0, 0, 0.75, 0]]
    assert pairs.repeats.tolist() == [[0, 0, 1]]


def test_arms_without_a_pair_and_unlike_caps() -> None:
    assert firing_rates(PAIRS, [PLACE], "other", baseline="baseline") is None
    capped = [run(task, arm, "capped", n_steps=n) for task in "ab" for arm, n in (("baseline", 5), ("zap", 9))]
    with pytest.raises(DataError, match="arms with unlike caps cannot be compared"):
        firing_rates(capped, [PLACE], "zap", baseline="baseline")


def test_stated_rates() -> None:
    assert given_rates(None, None) is None
    rates = given_rates(0.3, 0.1)
    assert rates is not None
    recovery, disruption, as_run = rate_draws(rates, TaskWeights(n_tasks=2, n_draws=1_000, seed=(1,)))
    assert (set(recovery), set(disruption), as_run) == ({0.3}, {0.1}, None)
    with pytest.raises(ParameterError) as error:
        given_rates(0.3, None)
    assert str(error.value) == "--recovery and --disruption must be given together; a gain needs both rates"
    with pytest.raises(ParameterError) as error:
        given_rates(30, 0.1)
    assert str(error.value) == "--recovery must lie in [0, 1], got 30; give a probability, not per cent"


def flows_of(world: CriticWorld) -> tuple[Flows, float]:
    """Exact shares of independent pairs, by quadrature over tasks."""
    size = 1 / world.rho - 1
    a, b = (1 - world.failure_rate) * size, world.failure_rate * size
    s = special.betaincinv(a, b, (np.arange(200_000) + 0.5) / 200_000)
    fire_fail, fire_success = world.tpr(world.fires_above), world.fpr(world.fires_above)
    after = s * (1 - fire_success * world.disruption) + (1 - s) * fire_fail * world.recovery
    fires = (1 - s) * fire_fail + s * fire_success
    shares = [(1 - s) * after, s * (1 - after), 1 - s, (1 - s) * fires, s * fires]
    c, d, p, fired_failed, fired_succeeded = (np.array([float(np.mean(share))]) for share in shares)
    flows = Flows(recovered=c, disrupted=d, failed=p, fired_failed=fired_failed, fired_succeeded=fired_succeeded)
    return flows, float(np.mean(s * (1 - s)))


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("recovery", "disruption"), [(0.4, 0.2), (0.0, 0.0), (0.9, 0.7)])
def test_both_rates_are_recovered_from_exact_shares(rho: float, recovery: float, disruption: float) -> None:
    world = CriticWorld(rho=rho, recovery=recovery, disruption=disruption)
    flows, within = flows_of(world)
    found = causal_rates(flows, np.array([within]))
    assert np.concatenate(found) == pytest.approx([recovery, disruption], abs=1e-9)
    # what is taken of churn matters: without it the rates are others
    assert np.abs(np.concatenate(causal_rates(flows, np.zeros(1))) - [recovery, disruption]).max() > 0.02


def test_rates_stay_probabilities_however_large_the_churn_is_taken_to_be() -> None:
    flows, _ = flows_of(CriticWorld(recovery=0.4, disruption=0.2))
    for within in (0.0, 0.05, 0.1, 0.2, 0.25, 1.0):
        rates = np.concatenate(causal_rates(flows, np.array([within])))
        assert np.all((rates >= 0) & (rates <= 1))
    assert 0 < largest_within(flows)[0] < 0.25


def posterior(world: CriticWorld, *, is_forked: bool, seed: int) -> tuple[float, float, float, float]:
    """Mean and sd of ρ_m, then of δ_m."""
    pilot = world.pilot(400, 2, np.random.default_rng(seed), is_forked=is_forked)
    rates = firing_rates(pilot.runs, [PLACE], "rollback", baseline="baseline")
    assert rates is not None
    recovery, disruption, _ = rate_draws(rates, TaskWeights(n_tasks=400, n_draws=1_000, seed=(seed,)))
    return float(recovery.mean()), float(recovery.std()), float(disruption.mean()), float(disruption.std())


@pytest.mark.parametrize("is_forked", [True, False])
def test_known_rates_from_simulated_pilots(is_forked: bool) -> None:
    world = CriticWorld(recovery=0.4, disruption=0.3, rho=0.5)
    for seed in range(3):
        r, r_sd, d, d_sd = posterior(world, is_forked=is_forked, seed=seed)
        assert abs(r - 0.4) <= 4 * r_sd
        assert abs(d - 0.3) <= 4 * d_sd


def test_forked_rates_are_beta_posteriors() -> None:
    # 30 tasks of one pair each: ρ_m ~ Beta(C' + ½, A' + ½) but for the quarter that is not acted on
    pilot = CriticWorld(recovery=0.5, disruption=0.5).pilot(200, 1, np.random.default_rng(4), is_forked=True)
    rates = firing_rates(pilot.runs, [PLACE], "rollback", baseline="baseline")
    assert rates is not None
    assert rates.counts is not None
    recovery, _, _ = rate_draws(rates, TaskWeights(n_tasks=200, n_draws=20_000, seed=(1,)))
    a, c = rates.counts["A"] + 0.25, rates.counts["C"] + 0.25
    sd = np.sqrt(a * c / (a + c) ** 2 / (a + c + 1))
    assert abs(recovery.mean() - c / (a + c)) <= 5 * sd / np.sqrt(20_000)
