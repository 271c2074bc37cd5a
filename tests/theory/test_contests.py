from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln, expit

from drsim.errors import ParameterError
from drsim.theory.beta_nodes import beta_logit_nodes, beta_nodes
from drsim.theory.contests import success_counts, thinned, top_given_counts
from drsim.theory.hazards import retry_hazards
from drsim.theory.selection import best_of_n_beta, selected_best_of_n_beta
from drsim.theory.shared_error import shared_error_best_of_n_beta

MEAN, RHO = (it.ravel() for it in np.meshgrid([0.02, 0.3, 0.9], [0.01, 0.4, 0.97]))
A, B = MEAN * (1.0 / RHO - 1.0), (1.0 - MEAN) * (1.0 / RHO - 1.0)


@pytest.mark.parametrize("n", [1, 2, 5, 16])
@pytest.mark.parametrize("auroc", [0.5, 0.7, 0.95, 1.0])
@pytest.mark.parametrize("shared", [0.0, 0.3, 1.0])
def test_counts_give_the_success_of_best_of_n(n: int, auroc: float, shared: float) -> None:
    nodes, weights = beta_nodes(MEAN, RHO)
    found = success_counts(nodes, weights, 16) @ thinned(top_given_counts(n, auroc, shared), 16)
    np.testing.assert_allclose(found, shared_error_best_of_n_beta(A, B, n, auroc, shared), atol=1e-9)
    if shared == 0.0:
        np.testing.assert_allclose(found, selected_best_of_n_beta(A, B, n, auroc), atol=1e-9)


@settings(deadline=None, max_examples=50)
@given(n=st.integers(1, 30), auroc=st.floats(0.5, 1.0), shared=st.floats(0.0, 1.0))
def test_more_successes_and_better_selectors_never_hurt(n: int, auroc: float, shared: float) -> None:
    table = top_given_counts(n, auroc, shared)
    assert table.shape == (n + 1,)
    assert (table[0], table[-1]) == (0.0, 1.0)
    assert np.all(np.diff(table) >= -1e-9)
    better = top_given_counts(n, min(1.0, auroc + 0.01), shared)
    assert np.all(better >= table - 1e-9)


def test_a_table_is_not_shared_between_callers() -> None:
    first = top_given_counts(3, 0.8)
    first[:] = 0.0
    assert top_given_counts(3, 0.8)[3] == 1.0


def test_nodes_are_exact_for_polynomials() -> None:
    nodes, weights = beta_nodes(MEAN, RHO)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    for n in (1, 2, 12, 23):
        np.testing.assert_allclose(
            (weights * (1.0 - (1.0 - nodes) ** n)).sum(axis=1), best_of_n_beta(A, B, n), atol=1e-12
        )
    few, shares = beta_nodes(MEAN, RHO, 3)
    assert np.abs((shares * (1.0 - (1.0 - few) ** 23)).sum(axis=1) - best_of_n_beta(A, B, 23)).max() > 1e-3


def test_nodes_at_the_ends() -> None:
    nodes, weights = beta_nodes([0.3, 0.3, 0.0, 1.0], [0.0, 1.0, 0.5, 0.5])
    np.testing.assert_allclose((weights * nodes).sum(axis=1), [0.3, 0.3, 0.0, 1.0])
    np.testing.assert_allclose((weights * nodes * (1.0 - nodes)).sum(axis=1), [0.21, 0.0, 0.0, 0.0], atol=1e-15)


def test_logit_nodes() -> None:
    logits, weights = beta_logit_nodes(MEAN, RHO)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    for n in (1, 7, 40):
        found = (weights * (1.0 - expit(-logits) ** n)).sum(axis=1)
        np.testing.assert_allclose(found, best_of_n_beta(A, B, n), atol=1e-7)


def test_hazards_of_fresh_attempts_are_those_of_an_urn() -> None:
    found = retry_hazards(MEAN, RHO, 1.0, 6)
    np.testing.assert_allclose(found, A[:, None] / ((A + B)[:, None] + np.arange(6.0)), rtol=1e-6)


@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_hazards_in_context_by_another_quadrature(factor: float) -> None:
    a, b = 0.5 * (1.0 / 0.3 - 1.0), 0.5 * (1.0 / 0.3 - 1.0)

    def left(s: float, n: int) -> float:
        return float(np.prod([(1.0 - s) / (1.0 - s + factor**j * s) for j in range(n)]))

    def remaining(n: int) -> float:
        def integrand(s: float) -> float:
            return left(s, n) * float(s ** (a - 1.0) * (1.0 - s) ** (b - 1.0) / np.exp(betaln(a, b)))

        return float(quad(integrand, 0.0, 1.0, points=[1e-3, 0.1], limit=300)[0])

    shares = np.array([remaining(n) for n in range(6)])
    expected = 1.0 - shares[1:] / shares[:-1]
    np.testing.assert_allclose(retry_hazards(0.5, 0.3, factor, 5), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top_given_counts(0, 0.8), "attempts must be a whole number"),
        (lambda: top_given_counts(2, 0.4), "auroc must lie in"),
        (lambda: beta_nodes(1.2, 0.3), "mean must lie in"),
        (lambda: beta_nodes(0.2, np.nan), "rho must lie in"),
        (lambda: retry_hazards(0.2, 0.3, 0.0, 3), "contamination must be positive"),
    ],
)
def test_numbers_outside_their_domain(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
