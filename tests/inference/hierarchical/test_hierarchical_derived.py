"""Derived quantities against adaptive quadrature and the identities of THEORY section 2."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.derived import cell_draws

KAPPA = 256 / 75 / np.pi**2
POINTS = np.array(
    [
        [0.3, 0.2, 0.5, -0.7],
        [-1.0, 1.4, -0.8, -0.2],
        [0.0, 2.5, 0.0, -1.5],
        [2.0, -1.0, 1.5, 0.3],
        [0.5, 1.0, -0.01, -3.0],
    ]
)


def by_scipy(row: FloatArray) -> dict[str, float]:
    a, sigma, delta, tau = row[0], np.exp(row[1]), row[2], np.exp(row[3])
    c = np.sqrt(1 + KAPPA * sigma**2)
    u, w = np.linspace(-8, 8, 1601), np.linspace(-8, 8, 4001)
    s = special.expit(c * a + sigma * u)
    s1 = special.expit((c * a + sigma * u)[:, None] + c * (delta + tau * w))
    over_w = stats.norm.pdf(w)
    arm = integrate.trapezoid(s1 * over_w, w, axis=1)
    up = integrate.trapezoid(np.maximum(s1 - s[:, None], 0) * over_w, w, axis=1)

    def mean(values: FloatArray) -> float:
        return float(integrate.trapezoid(values * stats.norm.pdf(u), u))

    p = mean(1 - s)
    within = mean(s * (1 - s))
    return {
        "failure_rate": p,
        "arm_success": mean(arm),
        "gain": mean(arm - s),
        "churn": 2 * within,
        "rho": 1 - within / (p * (1 - p)),
        "recovery": mean((1 - s) * arm) / p,
        "disruption": mean(s * (1 - arm)) / (1 - p),
        "excess_recovery": mean((1 - s) * (arm - s)) / p,
        "excess_disruption": mean(s * (s - arm)) / (1 - p),
        "least_recovery": mean(up) / p,
        "least_disruption": mean(up - arm + s) / (1 - p),
    }


@pytest.mark.parametrize("i", range(len(POINTS)))
def test_equal_scipy(i: int) -> None:
    draws = cell_draws(POINTS)
    for name, exact in by_scipy(POINTS[i]).items():
        assert getattr(draws, name)[i] == pytest.approx(exact, abs=1e-4), name


def test_identities_hold_in_every_draw() -> None:
    rng = np.random.default_rng(2)
    draws = cell_draws(POINTS[0] + rng.standard_normal((200, 4)))
    p = draws.failure_rate
    for r, d in (
        (draws.recovery, draws.disruption),
        (draws.excess_recovery, draws.excess_disruption),
        (draws.least_recovery, draws.least_disruption),
    ):
        np.testing.assert_allclose(p * r - (1 - p) * d, draws.gain, atol=1e-12)
    assert (draws.least_recovery <= draws.recovery + 1e-9).all()
    assert (draws.least_disruption <= draws.disruption + 1e-9).all()
    np.testing.assert_allclose(draws.churn / 2, p * (1 - p) * (1 - draws.rho), atol=1e-12)


def test_an_arm_that_does_nothing_leaves_reruns() -> None:
    draws = cell_draws(np.array([[0.4, 0.9, 0.0, -30.0]]))
    for name in ("gain", "excess_recovery", "excess_disruption", "least_recovery", "least_disruption"):
        assert getattr(draws, name)[0] == pytest.approx(0, abs=1e-9)
    assert draws.break_even[0] == pytest.approx(draws.failure_rate[0])


def test_summary_has_every_field() -> None:
    draws = cell_draws(POINTS)
    summary = draws.summary()
    assert summary.gain.mean == pytest.approx(draws.gain.mean())
    assert set(summary.to_dict()) == set(type(draws).__dataclass_fields__)
    assert draws.prob_gain_above(-1) == 1
