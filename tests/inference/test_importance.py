"""Importance weights whose tails are known."""

import numpy as np
import pytest

from drsim.inference.importance import LARGEST_PARETO_K, resampled, smooth


def test_equal_weights_lose_nothing() -> None:
    found = smooth(np.zeros(1000))
    assert found.effective == pytest.approx(1000)
    assert found.pareto_k == 0.0


@pytest.mark.parametrize(("shape", "is_trusted"), [(0.3, True), (1.2, False)])
def test_the_tail_of_the_weights_is_told(shape: float, is_trusted: bool) -> None:
    rng = np.random.default_rng(1)
    log_weights = -shape * np.log(rng.random(20_000))
    found = smooth(log_weights)
    # the tail's shape from 424 exceedances has sd (1 + k)/sqrt(424), and is drawn a little towards 0.5
    assert abs(found.pareto_k - shape) <= 5 * (1 + shape) / np.sqrt(424) + 10 / 434 * abs(0.5 - shape)
    assert (found.pareto_k <= LARGEST_PARETO_K) == is_trusted
    assert found.weights.sum() == pytest.approx(1.0)


def test_resampling_keeps_every_weight_to_within_one() -> None:
    rng = np.random.default_rng(4)
    found = smooth(rng.normal(size=300))
    kept = resampled(found, 1_000, rng)
    counts = np.bincount(kept, minlength=300)
    assert np.all(np.abs(counts - 1_000 * found.weights) <= 1 + 1e-9)


def test_impossible_draws_get_no_weight() -> None:
    log_weights = np.concatenate([np.full(10, -np.inf), np.zeros(100)])
    assert smooth(log_weights).weights[:10].sum() == 0.0


def test_bounded_weights_have_a_light_tail() -> None:
    assert smooth(np.log(np.random.default_rng(2).random(4000))).pareto_k < 0


def test_too_few_weights_are_not_judged() -> None:
    found = smooth(np.zeros(10))
    assert found.pareto_k == np.inf
    assert not found.is_good
