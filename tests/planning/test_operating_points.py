import numpy as np
import pytest
from inference.critics import CriticWorld
from scipy import special

from drsim.arrays import FloatArray
from drsim.inference.critic.scores import ScoredItems
from drsim.inference.critic.task_weights import TaskWeights
from drsim.planning.critic.assessment import judge_critics
from drsim.planning.critic.auroc_contrast import contrast_auroc, stakes_threshold
from drsim.planning.critic.gains import CriticGains
from drsim.planning.critic.operating_points import (
    ALWAYS,
    NEVER,
    ArmedCritic,
    Stakes,
    arm_critic,
    best_threshold,
    cross_fitted_point,
    shown_thresholds,
    value_thresholds,
)
from drsim.theory.critic import best_operating_point
from drsim.theory.roc import roc_points

WORLD = CriticWorld(failure_rate=0.43, rho=0.4, shift=1.5, recovery=0.3, disruption=0.5)


def armed(
    items: ScoredItems, recovery: float, disruption: float, *, seed: int = 1, n_draws: int = 1_000
) -> ArmedCritic:
    weights = TaskWeights(n_tasks=int(items.task.max()) + 1, n_draws=n_draws, seed=(seed,))
    stakes = Stakes(recovery=np.full(n_draws, recovery), disruption=np.full(n_draws, disruption))
    return arm_critic(items, weights, stakes=stakes, ends=None)


def test_rates_and_gain_of_a_known_critic() -> None:
    critic = armed(WORLD.items(3_000, 2, np.random.default_rng(1)), WORLD.recovery, WORLD.disruption)
    for point, tau in zip(value_thresholds(critic, [0.5, 0.8, 0.95], margin=0.0), (0.5, 0.8, 0.95), strict=True):
        assert point.gain is not None
        assert abs(point.tpr.mean - WORLD.tpr(tau)) <= 5 * point.tpr.sd
        assert abs(point.fpr.mean - WORLD.fpr(tau)) <= 5 * point.fpr.sd
        assert abs(point.gain.mean - WORLD.gain(tau)) <= 5 * point.gain.sd
        # a critic whose false alarms are free; at 0.95 there are next to none
        free = WORLD.failure_rate * WORLD.tpr(tau) * WORLD.recovery
        assert tau == 0.95 or abs(point.gain.mean - free) > 5 * point.gain.sd


def coverage(n_tasks: int, n_trials: int, tau: float) -> dict[str, float]:
    truth = {"tpr": WORLD.tpr(tau), "fpr": WORLD.fpr(tau), "gain": WORLD.gain(tau)}
    covered = dict.fromkeys(truth, 0)
    for seed in range(200):
        items = WORLD.items(n_tasks, n_trials, np.random.default_rng([3, seed]))
        (point,) = value_thresholds(armed(items, WORLD.recovery, WORLD.disruption, seed=seed), [tau], margin=0.0)
        for name, value in truth.items():
            number = getattr(point, name)
            covered[name] += int(number.q2_5 <= value <= number.q97_5)
    return {name: count / 200 for name, count in covered.items()}


def test_intervals_cover() -> None:
    for n_tasks, n_trials in ((30, 1), (60, 3)):
        for name, share in coverage(n_tasks, n_trials, 0.7).items():
            assert share >= 0.9, (n_tasks, n_trials, name)


def test_one_run_a_task_gives_beta_posteriors() -> None:
    n = 40
    rng = np.random.default_rng(2)
    items = ScoredItems(
        scores=rng.random(n), failed=np.arange(n) < 16, task=np.arange(n), place=np.zeros(n, dtype=np.int64)
    )
    (point,) = value_thresholds(armed(items, 0.3, 0.2, n_draws=20_000), [0.8], margin=0.0)
    for number, fired, n_all in (
        (point.tpr, np.count_nonzero(items.scores[:16] > 0.8), 16),
        (point.fpr, np.count_nonzero(items.scores[16:] > 0.8), 24),
    ):
        a, b = fired + 0.5, n_all - fired + 0.5
        sd = np.sqrt(a * b / (a + b) ** 2 / (a + b + 1))
        assert abs(number.mean - a / (a + b)) <= 5 * sd / np.sqrt(20_000)
        assert number.q97_5 == pytest.approx(special.betaincinv(a, b, 0.975), abs=0.01)


def test_always_and_never_are_exact() -> None:
    items = WORLD.items(20, 1, np.random.default_rng(3))
    always, never = value_thresholds(armed(items, 0.3, 0.5), [ALWAYS, NEVER], margin=0.0)
    assert always.gain is not None
    assert never.gain is not None
    assert (always.tpr.q2_5, always.fpr.q2_5, always.trigger_rate) == (1.0, 1.0, 1.0)
    assert (never.tpr.q97_5, never.gain.q97_5, never.prob_gain) == (0.0, 0.0, 0.0)


def test_best_threshold_is_that_of_the_closed_form() -> None:
    items = WORLD.items(40_000, 1, np.random.default_rng(4))
    critic = armed(items, WORLD.recovery, WORLD.disruption)
    best = best_operating_point(WORLD.failure_rate, WORLD.recovery, WORLD.disruption, WORLD.auroc)
    (point,) = value_thresholds(critic, [best_threshold(critic)], margin=0.0)
    assert point.gain is not None
    # The gain is flat at its top, the threshold is not known as well; the picked gain lies above by luck alone.
    assert abs(point.gain.mean - float(best.gain)) <= 5 * point.gain.sd
    assert abs(special.logit(best_threshold(critic)) - float(best.threshold)) < 0.3
    assert abs(point.tpr.mean - float(best.tpr)) < 0.1


def test_never_is_best_where_nothing_is_recovered() -> None:
    items = WORLD.items(50, 1, np.random.default_rng(5))
    assert best_threshold(armed(items, 0.0, 0.5)) == NEVER
    assert best_threshold(armed(items, 0.5, 0.0)) == ALWAYS


def test_picked_gain_is_biased_and_the_cross_fitted_one_is_not() -> None:
    # A critic that knows nothing, level stakes: no threshold gains anything in truth.
    rng = np.random.default_rng(6)
    picked, fitted = [], []
    for seed in range(100):
        n = 60
        failed = rng.random(n) < 0.5
        items = ScoredItems(scores=rng.random(n), failed=failed, task=np.arange(n), place=np.zeros(n, dtype=np.int64))
        critic = armed(items, 0.5, 0.5, seed=seed)
        (best,) = value_thresholds(critic, [best_threshold(critic)], margin=0.0)
        honest = cross_fitted_point(critic, seed=(seed,), margin=0.0)
        assert honest is not None
        assert best.gain is not None
        assert honest.gain is not None
        picked.append(best.gain.mean)
        fitted.append(honest.gain.mean)
    assert np.mean(picked) > 5 * np.std(picked) / 10
    assert np.mean(fitted) < np.mean(picked) / 3


def test_cross_fitting_needs_two_tasks() -> None:
    items = ScoredItems(
        scores=np.array([0.1, 0.9]),
        failed=np.array([False, True]),
        task=np.zeros(2, np.int64),
        place=np.zeros(2, np.int64),
    )
    assert cross_fitted_point(armed(items, 0.5, 0.5), seed=(1,), margin=0.0) is None


def test_few_points_are_all_shown_and_many_by_their_trigger_rates() -> None:
    few = roc_points([0.0, 1.0, 1.0, 0.5], [0, 1, 0, 1])
    assert shown_thresholds(few) == [0.5, 0.0, ALWAYS]
    scores = np.linspace(0.01, 0.99, 200)
    many = roc_points(scores, np.arange(200) % 2)
    taus = shown_thresholds(many)
    rates = [float(np.mean(scores > tau)) for tau in taus]
    assert rates == pytest.approx([0.05, *np.arange(1, 11) / 10])


def test_contrast_names_the_ends_of_what_an_auroc_allows() -> None:
    items = WORLD.items(2_000, 1, np.random.default_rng(7))
    critic = armed(items, WORLD.recovery, WORLD.disruption)
    (best,) = value_thresholds(critic, [best_threshold(critic)], margin=0.0)
    found = contrast_auroc(critic, WORLD.auroc, best)
    assert found is not None
    assert found.binormal is not None
    assert best.gain is not None
    assert found.disrupted_per_recovered is not None
    assert 0 == found.random < found.binormal < found.perfect
    assert abs(found.binormal - best.gain.mean) <= 5 * best.gain.sd
    recovered, disrupted = (
        critic.mean_stakes()[0] * best.tpr.mean,
        critic.mean_stakes()[1] * best.fpr.mean,
    )
    assert found.disrupted_per_recovered == pytest.approx(disrupted / recovered)
    assert stakes_threshold(critic) == pytest.approx(0.625)
    reversed_critic = contrast_auroc(critic, 0.3, best)
    assert reversed_critic is not None
    assert reversed_critic.binormal is None


def gains_of(world: CriticWorld, seed: int) -> CriticGains:
    pilot = world.pilot(400, 3, np.random.default_rng([8, seed]))
    gains = judge_critics(pilot, seed=1, n_draws=1_000).critics[0].gains
    assert gains is not None
    return gains


def test_a_placebo_with_churn_gains_next_to_nothing() -> None:
    world = CriticWorld(rho=0.15, shift=2.5, fires_above=0.5)
    tau = 0.9
    implied: list[float] = []
    naive: list[float] = []
    for seed in range(8):
        gains = gains_of(world, seed)
        assert gains.rates is not None
        assert gains.rates.counts is not None
        assert gains.recovery is not None
        assert gains.disruption is not None
        p, tpr, fpr = world.failure_rate, world.tpr(tau), world.fpr(tau)
        a, b, c, d = gains.rates.counts.values()
        naive.append(p * tpr * c / (a + c) - (1 - p) * fpr * b / (b + d))
        implied.append(p * tpr * gains.recovery.mean - (1 - p) * fpr * gains.disruption.mean)
    # C'/F' and B'/S' of independent pairs let an intervention that does nothing gain 8 pp.
    assert np.mean(naive) > 0.06
    # ρ_m and δ_m have no values below 0, so that the mean of a posterior at 0 lies above it.
    assert np.mean(implied) < np.mean(naive) / 2


def test_known_gains_of_an_independent_and_of_a_forked_pilot() -> None:
    world = CriticWorld(recovery=0.4, disruption=0.2, rho=0.4)
    for is_forked in (True, False):
        pilot = world.pilot(400, 2, np.random.default_rng(9), is_forked=is_forked)
        gains = judge_critics(pilot, seed=1, n_draws=1_000).critics[0].gains
        assert gains is not None
        for point in gains.points:
            assert point.threshold is not None
            assert point.gain is not None
            if point.threshold > 0.01:
                assert abs(point.gain.mean - world.gain(point.threshold)) <= 4 * point.gain.sd


def numbers(gains: CriticGains) -> FloatArray:
    return np.array([point.gain.mean for point in gains.points if point.gain is not None])


def test_same_seed_same_numbers() -> None:
    assert np.array_equal(numbers(gains_of(WORLD, 1)), numbers(gains_of(WORLD, 1)))
