import numpy as np
import pytest
from scipy.special import betaln

from drsim.errors import ParameterError
from drsim.inference.retry_fit import fit_retries
from drsim.inference.rho_prior import RhoPrior
from drsim.inference.task_spread import fit_task_spread
from drsim.theory.hazards import retry_hazards


def drawn(success: float, rho: float, n_tasks: int, rng: np.random.Generator) -> np.ndarray:
    size = 1.0 / rho - 1.0
    return rng.beta(success * size, (1.0 - success) * size, n_tasks)


def test_the_posterior_is_that_of_the_beta_binomial() -> None:
    """Means by importance weights over draws from the prior."""
    x, k = np.array([0, 0, 1, 4, 2]), np.array([4, 4, 4, 4, 3])
    found = fit_task_spread(x, k, n_draws=200_000, seed=1)
    rng = np.random.default_rng(2)
    mean, rho = rng.beta(0.5, 0.5, 400_000), rng.random(400_000)
    a, b = mean * (1.0 / rho - 1.0), (1.0 - mean) * (1.0 / rho - 1.0)
    log_weight = sum(betaln(a + hits, b + n - hits) - betaln(a, b) for hits, n in zip(x, k, strict=True))
    weight = np.exp(log_weight - log_weight.max())
    n_effective = weight.sum() ** 2 / (weight**2).sum()
    for values, draws in ((mean, found.success), (rho, found.rho)):
        expected = float(weight @ values / weight.sum())
        sd = np.sqrt(float(weight @ (values - expected) ** 2 / weight.sum()))
        assert abs(draws.mean() - expected) <= 5.0 * sd * np.sqrt(1.0 / n_effective + 1.0 / draws.size)


def test_intervals_cover_what_tasks_are_drawn_with() -> None:
    rng = np.random.default_rng(3)
    covered = []
    for i in range(200):
        success, rho = rng.beta(0.5, 0.5), rng.random()
        x = rng.binomial(4, drawn(success, np.clip(rho, 1e-6, 1.0 - 1e-6), 40, rng))
        found = fit_task_spread(x, np.full(40, 4), n_draws=1000, seed=i)
        ranks = [np.mean(found.success < success), np.mean(found.rho < rho)]
        covered.append([0.05 <= rank <= 0.95 for rank in ranks])
    # five standard errors of a share of 0.9 in 200
    assert np.all(np.abs(np.mean(covered, axis=0) - 0.9) <= 5.0 * np.sqrt(0.09 / 200))


def test_a_fixed_rho_stays() -> None:
    found = fit_task_spread([1, 0, 2], [2, 2, 2], rho_prior=RhoPrior(value=0.3), n_draws=50, seed=1)
    np.testing.assert_allclose(found.rho, 0.3)


def test_retries_give_back_what_they_were_drawn_with() -> None:
    """Many tasks, so that the estimates are near; hazards of the truth are within five standard errors of the fit's."""
    rng = np.random.default_rng(4)
    s, n_tasks = drawn(0.5, 0.4, 100_000, rng), 100_000
    open_, solved, tried = np.ones(n_tasks, dtype=bool), [], []
    for _ in range(6):
        wins = open_ & (rng.random(n_tasks) < s)
        tried.append(int(open_.sum()))
        solved.append(int(wins.sum()))
        open_ &= ~wins
        s = 0.6 * s / (1.0 - s + 0.6 * s)
    fit = fit_retries(solved, tried)
    truth = retry_hazards(0.5, 0.4, 0.6, 6)
    se = np.sqrt(truth * (1.0 - truth) / tried)
    assert np.all(np.abs(fit.context.hazards - truth) <= 5.0 * se)
    assert fit.context.rho == pytest.approx(0.4, abs=0.05)
    assert fit.context.contamination == pytest.approx(0.6, abs=0.05)
    assert fit.p_fresh < 1e-6
    assert fit.p_independent < 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_task_spread([3], [2], n_draws=5, seed=1), "no more successes than runs"),
        (lambda: fit_task_spread([], [], n_draws=5, seed=1), "one list each"),
        (lambda: fit_task_spread([0.5], [2], n_draws=5, seed=1), "successes must be a whole number"),
        (lambda: fit_retries([3, 1], [2, 1]), "no more solved than tried"),
        (lambda: fit_retries([1], [2]), "two attempts or more"),
    ],
)
def test_counts_that_cannot_be(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ParameterError, match=message):
        call()
