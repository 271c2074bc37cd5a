import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.arrays import BoolArray, FloatArray
from drsim.errors import ParameterError
from drsim.theory.roc import auroc, roc_points

ROUNDING = 2.0**-53
samples = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=40)
"""Few distinct scores, so that most samples hold ties."""


def columns(sample: list[tuple[int, bool]]) -> tuple[FloatArray, BoolArray]:
    return np.array([float(score) for score, _ in sample]), np.array([failed for _, failed in sample])


@settings(deadline=None)
@given(sample=samples)
def test_auroc_counts_all_pairs(sample: list[tuple[int, bool]]) -> None:
    scores, failed = columns(sample)
    value = auroc(scores, failed)
    if failed.all() or not failed.any():
        assert np.isnan(value)
        return
    difference = scores[failed][:, None] - scores[~failed][None, :]
    wins, ties = int(np.sum(difference > 0)), int(np.sum(difference == 0))
    assert value == (2 * wins + ties) / (2 * difference.size)
    assert auroc(-scores, failed) == (2 * (difference.size - wins - ties) + ties) / (2 * difference.size)
    assert auroc(scores, ~failed) == auroc(-scores, failed)
    assert auroc(np.exp(scores), failed) == value


def test_an_auroc_that_gives_ties_away_fails() -> None:
    assert auroc([0.5, 0.5], [True, False]) == 0.5
    assert auroc([0.1, 0.9], [0, 1]) == 1.0
    assert auroc([0.9, 0.1], [0, 1]) == 0.0


@settings(deadline=None)
@given(sample=samples)
def test_points_are_shares_above_the_threshold(sample: list[tuple[int, bool]]) -> None:
    scores, failed = columns(sample)
    points = roc_points(scores, failed)
    assert points.threshold.size == len(set(scores)) + 1
    assert np.all(np.diff(points.threshold) < 0.0)
    for i, threshold in enumerate(points.threshold):
        fired = scores > threshold
        assert points.trigger_rate[i] == np.sum(fired) / scores.size
        if failed.any():
            assert points.tpr[i] == np.sum(fired & failed) / np.sum(failed)
        else:
            assert np.isnan(points.tpr[i])
        if not failed.all():
            assert points.fpr[i] == np.sum(fired & ~failed) / np.sum(~failed)
        else:
            assert np.isnan(points.fpr[i])


@settings(deadline=None)
@given(sample=samples)
def test_area_under_the_points_is_the_auroc(sample: list[tuple[int, bool]]) -> None:
    scores, failed = columns(sample)
    points = roc_points(scores, failed)
    if not failed.all() and failed.any():
        # seven steps at most; each rounds two quotients, a sum, a difference, a product and the running total
        assert abs(float(np.trapezoid(points.tpr, points.fpr)) - auroc(scores, failed)) <= 7 * 6 * ROUNDING


@pytest.mark.parametrize("measure", [auroc, roc_points])
def test_mistakes_are_named(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(ParameterError, match=r"^scores must be finite, got nan; leave out steps without a score$"):
        measure([0.1, float("nan")], [0, 1])
    with pytest.raises(ParameterError, match=r"^failed must be 0 or 1, got 2; set aside unjudged runs$"):
        measure([0.1, 0.2], [0, 2])
