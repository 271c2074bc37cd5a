"""Spans against brute force: never narrower than what rounding allows, and no wider than they need be."""

import itertools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from drsim.errors import ParameterError
from drsim.theory.consistency import (
    Span,
    break_even_span,
    disruption_bounds,
    expected_largest,
    gain_span,
    holm_rejects,
    median_coverage,
    printed,
    recovery_bounds,
    single_threshold,
    usual_intervals,
    whole_counts,
)
from drsim.theory.tradeoff import marginal_bounds

fractions = st.fractions(0, 1, max_denominator=60)
spans = st.tuples(fractions, fractions).map(lambda pair: Span(low=min(pair), high=max(pair)))
shares = st.integers(0, 4).map(lambda k: Fraction(k, 4))


def inside(span: Span, share: Fraction) -> Fraction:
    return span.low + share * (span.high - span.low)


@pytest.mark.parametrize(
    ("text", "is_percent", "low", "high"),
    [
        ("38.0", False, "37.95", "38.05"),
        ("38", False, "37.5", "38.5"),
        (".35", False, "0.345", "0.355"),
        ("38.0", True, "0.3795", "0.3805"),
        ("4e1", False, "35", "45"),
        ("0.1000000000000000055", False, "0.0999999995000000055", "0.1000000005000000055"),
    ],
)
def test_a_printed_figure_is_half_a_unit_wide_to_each_side(text: str, is_percent: bool, low: str, high: str) -> None:
    assert printed(Decimal(text), is_percent=is_percent) == Span(low=Fraction(low), high=Fraction(high))


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_what_is_no_figure_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="value must be finite"):
        printed(Decimal(text))


def test_ends_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ParameterError, match="low must not exceed high, got 1 and 0; exchange them"):
        Span(low=Fraction(1), high=Fraction(0))


@settings(deadline=None)
@given(p=spans, r=spans, d=spans, at=st.tuples(shares, shares, shares))
def test_gain_span_holds_every_gain_and_touches_its_ends(
    p: Span, r: Span, d: Span, at: tuple[Fraction, Fraction, Fraction]
) -> None:
    span = gain_span(p, r, d)
    x, y, z = (inside(part, share) for part, share in zip((p, r, d), at, strict=True))
    assert span.low <= x * y - (1 - x) * z <= span.high
    corners = [a * b - (1 - a) * c for a, b, c in itertools.product(*((s.low, s.high) for s in (p, r, d)))]
    assert (min(corners), max(corners)) == (span.low, span.high)


@settings(deadline=None)
@given(r=spans, d=spans, at=st.tuples(shares, shares))
def test_break_even_span_holds_every_threshold(r: Span, d: Span, at: tuple[Fraction, Fraction]) -> None:
    x, y = inside(r, at[0]), inside(d, at[1])
    span = break_even_span(r, d)
    if x + y > 0:
        assert span is not None
        assert span.low <= y / (x + y) <= span.high
    elif r.high + d.high == 0:
        assert span is None


@settings(deadline=None)
@given(base=spans, arm=spans, at=st.tuples(shares, shares))
def test_bounds_hold_those_of_every_pair_of_success_rates(base: Span, arm: Span, at: tuple[Fraction, Fraction]) -> None:
    s0, s1 = inside(base, at[0]), inside(arm, at[1])
    assume(0 < s0 < 1)
    exact = marginal_bounds(float(s0), float(s1))
    r, d = recovery_bounds(base, arm), disruption_bounds(base, arm)
    assert float(r.low) <= exact.recovery_lower + 1e-12
    assert float(r.high) >= exact.recovery_upper - 1e-12
    assert float(d.low) <= exact.disruption_lower + 1e-12
    assert float(d.high) >= exact.disruption_upper - 1e-12


@settings(deadline=None)
@given(s0=fractions, s1=fractions)
def test_bounds_of_exact_rates_are_the_sharp_ones(s0: Fraction, s1: Fraction) -> None:
    assume(0 < s0 < 1)
    exact = marginal_bounds(float(s0), float(s1))
    r, d = (bounds(Span.exactly(s0), Span.exactly(s1)) for bounds in (recovery_bounds, disruption_bounds))
    got = [float(end) for end in (r.low, r.high, d.low, d.high)]
    want = [exact.recovery_lower, exact.recovery_upper, exact.disruption_lower, exact.disruption_upper]
    np.testing.assert_allclose(got, want, atol=1e-12)


@given(n=st.integers(1, 700), k=st.integers(0, 700), digits=st.integers(0, 3))
def test_a_rounded_share_always_has_its_count(n: int, k: int, digits: int) -> None:
    assume(k <= n)
    figure = (Decimal(k) / Decimal(n)).quantize(Decimal(1).scaleb(-digits))
    assert k in whole_counts(printed(figure), n)


def test_a_rate_between_two_counts_has_none() -> None:
    assert list(whole_counts(printed(Decimal("38.5"), is_percent=True), 300)) == []
    assert list(whole_counts(printed(Decimal("38.5"), is_percent=True), 200)) == [77]
    assert list(whole_counts(printed(Decimal("-4.4"), is_percent=True), 90)) == [-4]


def test_the_largest_of_several_normals_by_known_values() -> None:
    # order statistics of the standard normal: 1/√π for two, 3/(2√π) for three
    assert abs(expected_largest(1)) < 1e-12
    assert abs(expected_largest(2) - 1 / np.sqrt(np.pi)) < 1e-12
    assert abs(expected_largest(3) - 1.5 / np.sqrt(np.pi)) < 1e-12


def test_a_range_of_three_seeds_is_no_95_percent_interval() -> None:
    assert median_coverage(3) == 0.75


@pytest.mark.parametrize(("k", "n"), [(0, 20), (7, 20), (20, 20), (171, 300)])
def test_usual_intervals_are_those_of_the_reference(k: int, n: int) -> None:
    rates = [0.3, 0.5, 0.4]
    intervals = usual_intervals(k / n, n, rates, 0.95)
    test = stats.binomtest(k, n)
    for got, method in zip(intervals, ("wilson", "exact"), strict=False):
        want = test.proportion_ci(0.95, method=method)
        np.testing.assert_allclose(got, (want.low, want.high), atol=1e-9)
    t = stats.t.interval(0.95, 2, loc=k / n, scale=0.1 / np.sqrt(3))
    np.testing.assert_allclose(intervals[3], np.clip(t, 0, 1), atol=1e-9)


def test_thresholds_of_the_smallest_p_value() -> None:
    assert single_threshold("none", 0.05, 4) == 0.05
    assert single_threshold("holm", 0.05, 4) == single_threshold("bonferroni", 0.05, 4) == 0.0125
    assert abs(single_threshold("sidak", 0.05, 4) - (1 - 0.95**0.25)) < 1e-15
    with pytest.raises(ParameterError, match="correction must be none, bonferroni, sidak or holm, got 'fdr'"):
        single_threshold("fdr", 0.05, 4)


@given(values=st.lists(st.integers(0, 100), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(values: list[int]) -> None:
    """A hypothesis falls exactly when Bonferroni rejects every family that holds it."""
    alpha = Fraction(1, 20)
    p = [Fraction(value, 500) for value in values]
    got = holm_rejects(p, alpha)
    for i in range(len(p)):
        families = [
            family
            for size in range(1, len(p) + 1)
            for family in itertools.combinations(range(len(p)), size)
            if i in family
        ]
        assert got[i] == all(min(p[j] for j in family) * len(family) <= alpha for family in families)
