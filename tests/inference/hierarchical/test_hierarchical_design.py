"""Which factors there are, what scales mean, priors as documented."""

import dataclasses

import numpy as np
import pytest
from inference.hierarchical.worlds import shape_of
from scipy import special, stats

from drsim.errors import ParameterError
from drsim.inference.hierarchical.design import half_normal, lay_out, lkj_correlation, lkj_slope
from drsim.inference.hierarchical.predict import prior_cells
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS, Priors


def test_factors_with_one_level_drop_out() -> None:
    design = lay_out(shape_of(1, 1, 5, 1), Priors())
    assert design.names == ("baseline", "task", "gain", "spread")
    assert design.n_theta == 0


def test_factors_that_say_the_same_are_one() -> None:
    one_arm = lay_out(shape_of(4, 1, 5, 1), Priors())
    assert one_arm.scale_names == ("baseline benchmark", "task block", "gain benchmark", "spread cell")
    crossed = lay_out(shape_of(2, 2, 5, 1, agents=("a", "c")), Priors())
    assert crossed.scale_names == (
        *(f"baseline {factor}" for factor in ("agent", "benchmark", "block")),
        "task block",
        *(f"gain {factor}" for factor in ("agent", "benchmark", "mechanism", "cell")),
        "spread cell",
    )


def test_parameters_add_up() -> None:
    data = shape_of(2, 2, 5, 1)
    design = lay_out(data, Priors())
    z = np.zeros((1, design.n_z))
    theta = np.full((1, design.n_theta), 0.3)
    z[0, design.names.index("gain[mechanism=arm1]")] = 2.0
    x = design.parameters(theta, z)[0] - design.mean
    shifted = 2.0 * 0.5 * half_normal(np.array([0.3]))[0]
    np.testing.assert_allclose(x[design.starts[0] : design.starts[1]], [0, 0, 0, 0, shifted, 0])


def test_half_normal_has_its_quantiles() -> None:
    theta = np.linspace(-6, 6, 25)
    exact = stats.halfnorm.ppf(stats.norm.cdf(theta))
    np.testing.assert_allclose(half_normal(theta), exact, rtol=1e-6)
    assert half_normal(np.array([-40.0]))[0] == 0
    assert np.isfinite(half_normal(np.array([30.0]))[0])


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Priors)])
def test_priors_refuse_what_is_outside_their_domain(name: str) -> None:
    for value in (float("nan"), float("inf"), *(() if name.endswith("_mean") else (0.0, -1.0))):
        with pytest.raises(ParameterError, match=name):
            Priors(**{name: value})


def test_priors_scale_and_round_trip() -> None:
    double = DEFAULT_PRIORS.scaled(2)
    assert double.gain_sd == 2 * DEFAULT_PRIORS.gain_sd
    assert double.task_median == DEFAULT_PRIORS.task_median
    assert Priors.from_dict(double.to_dict()) == double
    with pytest.raises(ParameterError, match="no prior is called"):
        Priors.from_dict({"gain_scale": 1.0})


def test_prior_of_rates_does_not_depend_on_the_spread_of_tasks() -> None:
    """As documented: p as expit of N(0, 1.5²), Δ centred on 0, both the same whether tasks hardly or widely differ."""
    narrow, wide = (
        prior_cells(shape_of(1, 1, 1, 1), Priors(task_median=m, task_log_sd=0.05), seed=1, draws=4000)[0].draws
        for m in (0.5, 8.0)
    )
    exact = special.expit(1.5 * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)).std()
    for draws in (narrow, wide):
        assert draws.failure_rate.std() == pytest.approx(exact, rel=0.04)
        assert abs(draws.gain.mean()) < 5 * draws.gain.std() / 4000**0.5
    assert narrow.gain.std() == pytest.approx(wide.gain.std(), rel=0.06)
    assert narrow.rho.mean() < 0.1 < 0.75 < wide.rho.mean()


def test_correlation_has_the_law_of_two_effects() -> None:
    """η = 1 is uniform; η = 2 has the quantiles of 2 Beta(2, 2) − 1; ρ is odd in its score and never leaves (−1, 1)."""
    theta = np.linspace(-6, 6, 49)
    np.testing.assert_allclose(lkj_correlation(theta, 1.0)[0], 2 * special.ndtr(theta) - 1, atol=1e-12)
    correlation, rest = lkj_correlation(theta, 2.0)
    np.testing.assert_allclose(correlation, 2 * special.betaincinv(2, 2, special.ndtr(theta)) - 1, atol=1e-9)
    np.testing.assert_allclose(correlation, -correlation[::-1], atol=1e-15)
    np.testing.assert_allclose(rest, np.sqrt(1 - correlation**2), atol=1e-9)
    far = lkj_correlation(np.array([-50.0, 50.0]), 2.0)
    assert (far[1] > 0).all()
    slope = (lkj_correlation(theta + 1e-6, 2.0)[0] - lkj_correlation(theta - 1e-6, 2.0)[0]) / 2e-6
    np.testing.assert_allclose(lkj_slope(theta, 2.0), slope, atol=1e-8)


def test_effects_of_one_level_are_correlated() -> None:
    design = lay_out(shape_of(3, 1, 5, 1), DEFAULT_PRIORS)
    assert design.correlation_names == ("benchmark",)
    rng = np.random.default_rng(1)
    theta = np.zeros((200_000, design.n_theta))
    theta[:, -1] = 1.2
    (rho,) = design.correlations(theta[:1])[0]
    effects = design.mixing(theta).effects(rng.standard_normal((len(theta), design.n_z)))
    names = list(design.names)
    seen = np.corrcoef(effects[:, names.index("baseline[benchmark=b1]")], effects[:, names.index("gain[benchmark=b1]")])
    assert seen[0, 1] == pytest.approx(rho, abs=5 * (1 - rho**2) / len(theta) ** 0.5)
    other = np.corrcoef(
        effects[:, names.index("baseline[benchmark=b1]")], effects[:, names.index("gain[benchmark=b2]")]
    )
    assert other[0, 1] == pytest.approx(0, abs=5 / len(theta) ** 0.5)


def test_mixing_is_one_matrix() -> None:
    """Its three uses against the matrix written out."""
    design = lay_out(shape_of(3, 2, 5, 1, agents=("a", "b")), DEFAULT_PRIORS)
    assert design.correlation_names == ("agent", "benchmark")
    rng = np.random.default_rng(2)
    theta, z = rng.standard_normal((2, design.n_theta)), rng.standard_normal((2, design.n_z))
    mixing = design.mixing(theta)
    whole = np.zeros((2, design.n_z, design.n_z))
    for n in range(2):
        whole[n] = np.diag(mixing.own[n])
        whole[n, mixing.coupled, mixing.partner] += mixing.lent[n]
    np.testing.assert_allclose(mixing.effects(z), np.einsum("nij,nj->ni", whole, z), atol=1e-13)
    np.testing.assert_allclose(mixing.carried(z), np.einsum("nji,nj->ni", whole, z), atol=1e-13)
    root = rng.standard_normal((1, design.n_z, design.n_z))
    matrix = root @ root.swapaxes(1, 2)
    np.testing.assert_allclose(mixing.congruent(matrix), whole.swapaxes(1, 2) @ matrix @ whole, atol=1e-10)


def test_slopes_in_scores_are_those_of_the_parameters() -> None:
    design = lay_out(shape_of(3, 2, 5, 1, agents=("a", "b")), DEFAULT_PRIORS)
    rng = np.random.default_rng(3)
    theta, z = rng.standard_normal((1, design.n_theta)), rng.standard_normal((1, design.n_z))
    pull = rng.standard_normal(design.n_z)
    mixing = design.mixing(theta)
    slopes = design.score_slopes(theta, pull * z, pull[mixing.coupled] * z[:, mixing.partner])
    for i, probe in enumerate(1e-5 * np.eye(design.n_theta)):
        ends = [pull @ design.mixing(theta + side * probe).effects(z)[0] for side in (1, -1)]
        assert slopes[0, i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)
