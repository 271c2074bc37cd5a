"""Pareto smoothing: tails of known shape."""

import numpy as np
import pytest

from drsim.inference.hierarchical.psis import effective_draws, smooth_weights


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9])
def test_shape_of_a_known_tail(shape: float) -> None:
    """Weights U^(−k) are exactly Pareto; the fit's sd is about (1 + k)/√(tail)."""
    n = 40_000
    log_weights = -shape * np.log(np.random.default_rng(1).random(n))
    weights, k = smooth_weights(log_weights)
    n_tail = 3 * n**0.5
    pulled = (n_tail * shape + 5) / (n_tail + 10)
    assert k == pytest.approx(pulled, abs=5 * (1 + shape) / n_tail**0.5)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()


def test_equal_weights_have_no_tail() -> None:
    weights, k = smooth_weights(np.full(1000, 3.0))
    assert k == 0
    assert effective_draws(weights) == pytest.approx(1000)


def test_bounded_weights_have_a_small_shape() -> None:
    _, k = smooth_weights(np.log(np.random.default_rng(2).random(4000)))
    assert k < 0


def test_too_few_weights_are_not_judged() -> None:
    assert smooth_weights(np.zeros(10))[1] == float("inf")


def test_impossible_draws_get_no_weight() -> None:
    log_weights = np.random.default_rng(3).standard_normal(500)
    log_weights[:50] = -np.inf
    weights, k = smooth_weights(log_weights)
    assert (weights[:50] == 0).all()
    assert np.isfinite(k)
