"""A walk around a known curve."""

import numpy as np
from scipy.special import expit, logit

from drsim.inference.based_curve import based_curve
from drsim.inference.timing import TimingPriors

BASE = np.linspace(-2.0, 1.0, 8)


def test_without_counts_the_curve_keeps_its_shape() -> None:
    nothing = np.zeros(8, dtype=np.int64)
    found = based_curve(nothing, nothing, BASE, seed=1, draws=4000)
    step = found - BASE - (found - BASE)[:, :1]
    assert np.all(np.abs(step.mean(axis=0)) < 5 * np.maximum(step.std(axis=0), 1e-12) / 4000**0.5)
    assert abs((found - BASE)[:, 0].std() - TimingPriors().spread) < 5 * TimingPriors().spread / (2 * 4000) ** 0.5


def test_a_level_that_is_counted_moves_the_whole_curve() -> None:
    trials = np.zeros(8, dtype=np.int64)
    events = trials.copy()
    trials[0], events[0] = 4000, round(4000 * float(expit(BASE[0] + 1.5)))
    found = based_curve(events, trials, BASE, seed=1, draws=4000)
    assert abs(float((found - BASE)[:, 0].mean()) - 1.5) < 0.1
    assert abs(float((found - BASE)[:, 4].mean()) - 1.5) < 0.15


def test_many_counts_overrule_the_base() -> None:
    truth = np.full(8, 0.3)
    trials = np.full(8, 20_000, dtype=np.int64)
    found = based_curve(np.round(truth * trials).astype(np.int64), trials, BASE, seed=1, draws=2000)
    assert np.all(np.abs(found.mean(axis=0) - logit(truth)) < 5 * found.std(axis=0))
    assert np.all(found.std(axis=0) < 0.05)


def test_one_step_has_no_walk() -> None:
    one = based_curve(np.array([3]), np.array([10]), np.array([0.0]), seed=1, draws=500)
    assert one.shape == (500, 1)
