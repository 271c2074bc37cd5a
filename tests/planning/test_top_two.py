import numpy as np
import pytest

from drsim.planning.allocation_study import ArmProblem, compare_allocations
from drsim.planning.top_two import best_shares, fill_posterior, leaders, sample_value, top_two

PROBLEMS = {
    "one good": ArmProblem(gains=(0.12, 0.0, -0.02, -0.05, -0.1)),
    "steps": ArmProblem(gains=(0.12, 0.08, 0.04, 0.0, -0.04)),
    "two good": ArmProblem(gains=(0.15, 0.09, -0.05, -0.1, -0.2)),
    "none helps": ArmProblem(gains=(-0.08, -0.1, -0.12, -0.15, -0.2)),
    "mixed": ArmProblem(gains=(0.1, 0.03, -0.02, -0.06, -0.25)),
}


def test_the_posterior_is_that_of_drawn_task_weights() -> None:
    rng = np.random.default_rng(1)
    n = 200
    level = rng.normal(0, 0.3, (n, 1))
    gains = np.clip(np.round(level + rng.normal([0.1, 0.0, -0.1], 0.5, (n, 3))), -1, 1)
    has = rng.random((n, 3)) < np.array([1.0, 0.7, 0.4])
    both, values = has.astype(float), np.where(has, gains, 0.0)
    mean, cov = np.empty(3), np.empty((3, 3))
    fill_posterior(both.T @ both, values.T @ both, values.T @ values, mean, cov)
    # half a task on each pure table of every arm: gains −1, 1 and twice 0
    weights = rng.standard_gamma(1.0, (20_000, n))
    prior = rng.standard_gamma(0.5, (20_000, 3, 4))
    drawn = (weights @ values + prior[:, :, 1] - prior[:, :, 0]) / (weights @ both + prior.sum(axis=2))
    sd = drawn.std(axis=0)
    assert mean == pytest.approx(drawn.mean(axis=0), abs=5 * sd.max() / 20_000**0.5 + 1e-3)
    # to first order in 1/n, with the fewest tasks some 80
    assert np.sqrt(np.diag(cov)) == pytest.approx(sd, rel=0.02)
    assert cov / np.outer(sd, sd) == pytest.approx(np.corrcoef(drawn.T), abs=0.04)
    assert np.corrcoef(drawn.T)[0, 1] > 0.15


def test_shares_of_the_best_arm() -> None:
    normals = np.random.default_rng(2).standard_normal((200_000, 2))
    mean, cov = np.array([0.1, 0.1]), np.array([[0.04, 0.02], [0.02, 0.04]])
    shares = best_shares(mean, cov, normals)
    # P(both gains below 0) by simulation with NumPy's own draws
    other = np.random.default_rng(3).multivariate_normal(mean, cov, size=200_000)
    assert shares[0] == pytest.approx(float((other.max(axis=1) < 0).mean()), abs=5 * 0.7 / 200_000**0.5)
    assert shares[1] == pytest.approx(shares[2], abs=5 / 200_000**0.5)
    assert shares.sum() == pytest.approx(1.0)


def test_leader_and_challenger() -> None:
    normals = np.random.default_rng(4).standard_normal((500, 3))
    mean, cov = np.array([0.2, 0.19, -0.5]), np.diag([0.001, 0.001, 0.001])
    found, best = np.empty(2, dtype=np.int64), np.empty(500, dtype=np.int64)
    leaders(mean, cov, normals, best)
    top_two(mean, cov, normals, found)
    assert set(found) == {1, 2}
    assert found[0] == best[0]
    assert found[1] == best[best != best[0]][0]
    top_two(mean, np.diag([1e-12] * 3), normals, found)
    assert found.tolist() == [1, 2]
    top_two(-mean - 1.0, np.diag([1e-12] * 3), normals, found)
    assert found.tolist() == [0, 3]


def test_value_of_a_sample_by_simulation() -> None:
    values, variance, share = np.array([0.0, 0.05, 0.02]), 0.01, 0.4
    z = np.random.default_rng(5).standard_normal(400_000)
    for arm in (1, 2):
        shifted = values[arm] + np.sqrt(variance * share) * z
        gained = np.maximum(shifted, np.delete(values, arm).max()) - values.max()
        found = sample_value(values, arm, variance, share)
        assert found == pytest.approx(gained.mean(), abs=5 * gained.std() / len(z) ** 0.5)
    assert sample_value(values, 1, variance, 0.0) == 0.0
    assert sample_value(values, 1, variance, 0.8) > sample_value(values, 1, variance, 0.4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_drawn_problems_have_the_gains_stated(name: str) -> None:
    problem = PROBLEMS[name]
    gains = problem.draw(50, 2_000, np.random.default_rng(6)).reshape(-1, 5)
    assert np.abs(gains.mean(axis=0) - problem.gains).max() < 5 * gains.std() / len(gains) ** 0.5


def test_top_two_sampling_takes_a_quarter_fewer_runs_than_all_arms_on_every_task() -> None:
    saved, errors = [], []
    for problem in PROBLEMS.values():
        found = compare_allocations(problem, level=0.95, max_runs=3_600, n_problems=600, seed=1)
        assert (np.diff(found.runs) > 0).all()
        saved.append(found.saved)
        errors.append(found.saved_se)
        # in no problem it is worse
        assert found.saved > -2 * found.saved_se
    assert np.mean(saved) - 2 * np.sqrt(np.sum(np.square(errors))) / len(saved) > 0.25


def test_the_same_seed_gives_the_same_comparison() -> None:
    one, other = (
        compare_allocations(PROBLEMS["two good"], level=0.8, max_runs=600, n_problems=120, seed=3) for _ in range(2)
    )
    assert one.runs_top_two == other.runs_top_two
    assert (one.top_two == other.top_two).all()
