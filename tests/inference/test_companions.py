"""The companions against published figures, against definitions worked out another way, and against wrong formulas."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtri

from drsim.errors import ParameterError
from drsim.inference.companions import (
    Interval,
    companions,
    mcnemar_exact,
    mcnemar_midp,
    newcombe_interval,
    tango_interval,
)

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "paired_proportions.json").read_text(encoding="utf-8")
)
ROUNDING = 4e-16
"""Two units in the last place of a number near 1."""

type Table = tuple[int, int, int, int]
type IntervalFunction = Callable[..., Interval]

INTERVALS = pytest.mark.parametrize("interval_of", [newcombe_interval, tango_interval])
counts = st.integers(0, 60) | st.integers(0, 10**5)
tables = st.tuples(counts, counts, counts, counts).filter(any)
confidences = st.floats(0.5, 0.999)


def agrees(value: float, printed: str) -> bool:
    return Decimal(value).quantize(Decimal(printed)) == Decimal(printed)


def interval_agrees(interval: Interval, printed: list[str]) -> bool:
    return all(agrees(value, text) for value, text in zip(interval, printed, strict=True))


def z_of(confidence: float) -> float:
    return float(ndtri(0.5 + confidence / 2))


def constrained_disruption(delta: float, b: int, c: int, n: int) -> float:
    """Maximum likelihood P(success→fail) given Δ, from the slope of the log-likelihood instead of its quadratic."""
    lowest, highest = max(0.0, -delta), (1 - delta) / 2

    def slope(q: float) -> float:
        concordant = n - b - c
        terms = [(b, q, 1), (c, q + delta, 1), (concordant, 1 - 2 * q - delta, -2)]
        # A count of 0 has no part in the likelihood, even where its probability is 0.
        return sum(sign * count / max(mass, 1e-300) for count, mass, sign in terms if count)

    if slope(lowest) <= 0:
        return lowest
    return highest if slope(highest) >= 0 else float(brentq(slope, lowest, highest, xtol=1e-18, rtol=1e-15))


def score_statistic(delta: float, b: int, c: int, n: int) -> float:
    q = constrained_disruption(delta, b, c, n)
    return (c - b - n * delta) / math.sqrt(n * (q + (q + delta) - delta**2))


def uncorrected_newcombe(a: int, b: int, c: int, d: int, phi: float) -> Interval:
    """Square-and-add at 95% with a correlation of one's own: φ̂ as it is gives method 8, 0 the unpaired interval."""
    n, z = a + b + c + d, z_of(0.95)

    def wilson(x: int) -> tuple[float, float, float]:
        centre, half = x + z**2 / 2, z * math.sqrt(x * (n - x) / n + z**2 / 4)
        return (centre - half) / (n + z**2), x / n, (centre + half) / (n + z**2)

    (l1, s1, u1), (l0, s0, u0) = wilson(c + d), wilson(b + d)

    def distance(x: float, y: float) -> float:
        return math.sqrt(max(0.0, x * x - 2 * phi * x * y + y * y))

    return s1 - s0 - distance(s1 - l1, u0 - s0), s1 - s0 + distance(u1 - s1, s0 - l0)


def unpaired_newcombe(a: int, b: int, c: int, d: int) -> Interval:
    return uncorrected_newcombe(a, b, c, d, 0.0)


# --- published figures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["paired"], ids=lambda case: case["name"])
def test_printed_figures_come_out(case: dict[str, Any]) -> None:
    result = companions(**case["table"], confidence=case["confidence"]).to_dict()
    for name, printed in case["figures"].items():
        if name == "newcombe_method_8":
            continue
        if isinstance(printed, str):
            assert agrees(result[name], printed), name
        else:
            assert interval_agrees(result[name], printed), name


def test_method_8_is_told_from_method_10() -> None:
    """Without the correction of φ̂ the printed limits of method 8 come out instead."""
    [case] = [case for case in GOLDEN["paired"] if "newcombe_method_8" in case["figures"]]
    a, b, c, d = (case["table"][name] for name in "abcd")
    phi = (a * d - b * c) / math.sqrt((a + c) * (b + d) * (a + b) * (c + d))
    method_8 = uncorrected_newcombe(a, b, c, d, phi)
    assert interval_agrees(method_8, case["figures"]["newcombe_method_8"])
    assert not interval_agrees(method_8, case["figures"]["newcombe"])


@pytest.mark.parametrize(
    "case", [case for case in GOLDEN["paired"] if "newcombe" in case["figures"]], ids=lambda case: case["name"]
)
def test_the_unpaired_interval_misses_the_printed_figures(case: dict[str, Any]) -> None:
    """Power: forgetting the pairing must show in each example whose arms are correlated."""
    a, b, c, d = (case["table"][name] for name in "abcd")
    is_correlated = not 0 <= a * d - b * c <= (a + b + c + d) / 2
    assert interval_agrees(unpaired_newcombe(a, b, c, d), case["figures"]["newcombe"]) is not is_correlated


@pytest.mark.parametrize("case", GOLDEN["single"]["cases"], ids=lambda case: f"{case['successes']}/{case['n']}")
def test_wilson_intervals_for_p_r_and_d(case: dict[str, Any]) -> None:
    hits, misses = case["successes"], case["n"] - case["successes"]
    intervals = [
        companions(hits, 0, 0, misses).failure_rate_wilson,
        companions(misses, 0, hits, 5).recovery_wilson,
        companions(5, hits, 0, misses).disruption_wilson,
    ]
    for interval in intervals:
        assert interval is not None
        assert interval_agrees(interval, case["wilson"])


# --- McNemar --------------------------------------------------------------------------------------------------------


def test_mcnemar_equals_exact_sums() -> None:
    for b, c in product(range(26), repeat=2):
        m = b + c
        pmf = [Fraction(math.comb(m, x), 2**m) for x in range(m + 1)]
        tail = sum(pmf[: min(b, c) + 1], Fraction(0))
        farther = sum((p for x, p in enumerate(pmf) if abs(2 * x - m) > abs(b - c)), Fraction(0))
        as_far = sum((p for x, p in enumerate(pmf) if abs(2 * x - m) == abs(b - c)), Fraction(0))
        by_convention = Fraction(1)
        assert mcnemar_exact(b, c) == pytest.approx(float(min(2 * tail, Fraction(1))), rel=1e-12)
        assert mcnemar_midp(b, c) == pytest.approx(float(farther + as_far / 2 if m else by_convention), rel=1e-12)


@given(b=counts, c=counts)
@settings(deadline=None)
def test_mcnemar_properties(b: int, c: int) -> None:
    midp, exact = mcnemar_midp(b, c), mcnemar_exact(b, c)
    assert midp == mcnemar_midp(c, b)
    assert exact == mcnemar_exact(c, b)
    assert 0 <= midp <= exact <= 1


@given(b=counts, c=counts)
@settings(deadline=None)
def test_more_disagreement_in_one_direction_is_more_evidence(b: int, c: int) -> None:
    assume(c >= b)
    assert mcnemar_midp(b, c + 1) <= mcnemar_midp(b, c)
    assert mcnemar_exact(b, c + 1) <= mcnemar_exact(b, c)


def test_mcnemar_at_large_counts_is_near_the_normal_limit() -> None:
    """At z = 2 and m ≈ 2·10⁵ the mid-p-value is O(1/m) from the limit, the exact one P(X = B) ≈ 2·10⁻⁴ above it."""
    b, c = 10**5, 10**5 + 895
    z = (c - b) / math.sqrt(b + c)
    normal = math.erfc(z / math.sqrt(2))
    assert mcnemar_midp(b, c) == pytest.approx(normal, abs=1e-5)
    point = math.sqrt(2 / math.pi / (b + c)) * math.exp(-(z**2) / 2)
    assert mcnemar_exact(b, c) - normal == pytest.approx(point, rel=0.01)


# --- intervals for Δ ------------------------------------------------------------------------------------------------


@INTERVALS
@given(table=tables, confidence=confidences)
@example(table=(0, 0, 0, 1), confidence=0.95)
@example(table=(0, 0, 1, 0), confidence=0.95)
@example(table=(0, 1, 0, 0), confidence=0.95)
@example(table=(10**5, 0, 0, 10**5), confidence=0.95)
@example(table=(0, 10**5, 10**5, 0), confidence=0.95)
@example(table=(0, 10**5, 1, 0), confidence=0.999)
@settings(deadline=None)
def test_interval_holds_the_estimate_within_the_range_of_a_gain(
    interval_of: IntervalFunction, table: Table, confidence: float
) -> None:
    _, b, c, _ = table
    lower, upper = interval_of(*table, confidence=confidence)
    assert -1 - ROUNDING <= lower <= (c - b) / sum(table) <= upper <= 1 + ROUNDING
    assert lower < upper


@INTERVALS
@given(table=tables, confidence=confidences)
@settings(deadline=None)
def test_interval_mirrors(interval_of: IntervalFunction, table: Table, confidence: float) -> None:
    """Exchanging the arms, or success and failure, changes the sign of Δ and nothing else."""
    a, b, c, d = table
    lower, upper = interval_of(a, b, c, d, confidence=confidence)
    for mirrored in [(a, c, b, d), (d, c, b, a)]:
        assert interval_of(*mirrored, confidence=confidence) == pytest.approx((-upper, -lower), rel=0, abs=2e-12)
    assert interval_of(d, b, c, a, confidence=confidence) == pytest.approx((lower, upper), rel=0, abs=2e-12)


@INTERVALS
@given(table=tables, confidence=confidences, wider=confidences)
@settings(deadline=None)
def test_more_confidence_is_a_wider_interval(
    interval_of: IntervalFunction, table: Table, confidence: float, wider: float
) -> None:
    assume(wider >= confidence)
    lower, upper = interval_of(*table, confidence=confidence)
    wide_lower, wide_upper = interval_of(*table, confidence=wider)
    assert wide_lower <= lower + ROUNDING
    assert upper <= wide_upper + ROUNDING


@given(table=tables, confidence=confidences)
@example(table=(3, 0, 4, 0), confidence=0.95)
@example(table=(1, 0, 0, 0), confidence=0.95)
@example(table=(0, 10**5, 10**5, 0), confidence=0.95)
@settings(deadline=None)
def test_tango_inverts_its_score_test(table: Table, confidence: float) -> None:
    _, b, c, _ = table
    n, z = sum(table), z_of(confidence)
    lower, upper = tango_interval(*table, confidence=confidence)
    if b < n:
        assert score_statistic(lower, b, c, n) == pytest.approx(z, rel=0, abs=1e-9)
    else:
        assert lower == -1
    if c < n:
        assert score_statistic(upper, b, c, n) == pytest.approx(-z, rel=0, abs=1e-9)
    else:
        assert upper == 1


@pytest.mark.parametrize("n", [20, 1000, 10**5])
def test_tango_keeps_its_digits_where_the_roots_for_q_meet(n: int) -> None:
    """With C = 0 both roots are equal at Δ = −B/(2n − B); there a discriminant that cancels gave 1e-8 or no number."""
    for b in range(1, 12):
        delta = -b / (2 * n - b)
        confidence = math.erf(-score_statistic(delta, b, 0, n) / math.sqrt(2))
        _, upper = tango_interval(n - b, b, 0, 0, confidence=confidence)
        assert upper == pytest.approx(delta, rel=0, abs=1e-13)


@given(table=tables, confidence=confidences)
@settings(deadline=None)
def test_tango_excludes_zero_exactly_when_mcnemar_rejects(table: Table, confidence: float) -> None:
    _, b, c, _ = table
    chi = abs(c - b) / math.sqrt(b + c) if b + c else 0.0
    z = z_of(confidence)
    assume(abs(chi - z) > 1e-9)
    lower, upper = tango_interval(*table, confidence=confidence)
    assert (lower > 0 or upper < 0) == (chi > z)


@given(table=tables)
@settings(deadline=None)
def test_tango_sees_the_concordant_pairs_only_through_their_number(table: Table) -> None:
    a, b, c, d = table
    assert tango_interval(a, b, c, d) == tango_interval(a + d, b, c, 0)


@given(table=tables)
@settings(deadline=None)
def test_newcombe_without_pairing_is_the_wrong_formula_unless_the_arms_are_uncorrelated(table: Table) -> None:
    a, b, c, d = table
    is_uncorrelated = 0 <= a * d - b * c <= sum(table) / 2 or 0 in (a + b, c + d, a + c, b + d)
    agrees_with_unpaired = newcombe_interval(*table) == pytest.approx(unpaired_newcombe(*table), rel=0, abs=1e-12)
    if is_uncorrelated:
        assert agrees_with_unpaired
    elif sum(table) <= 240:
        # In larger tables a correlation just past the correction moves the limits by less than the tolerance can see.
        assert not agrees_with_unpaired


def exact_coverage(interval_of: IntervalFunction, probabilities: tuple[float, ...], n: int) -> float:
    """P(the interval holds Δ), over every table of n pairs."""
    truth = probabilities[2] - probabilities[1]
    covered = 0.0
    for a, b, c in product(range(n + 1), repeat=3):
        d = n - a - b - c
        if d < 0:
            continue
        lower, upper = interval_of(a, b, c, d)
        if lower <= truth <= upper:
            ways = math.comb(n, a) * math.comb(n - a, b) * math.comb(n - a - b, c)
            covered += ways * math.prod(p**k for p, k in zip(probabilities, (a, b, c, d), strict=True))
    return covered


TRUTHS = {
    "no gain, correlated": (0.40, 0.10, 0.10, 0.40),
    "gain, correlated": (0.35, 0.05, 0.20, 0.40),
    "loss, independent": (0.15, 0.35, 0.15, 0.35),
}


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_coverage_by_enumeration(truth: tuple[float, ...]) -> None:
    """At n = 20 and away from the edges the nominal 95% is missed by no more than 3 points either way."""
    for interval_of in (newcombe_interval, tango_interval):
        assert 0.92 <= exact_coverage(interval_of, truth, 20) <= 0.98


def test_coverage_of_the_unpaired_interval_is_far_off() -> None:
    """Power: arms that agree on 80% of the tasks make the unpaired interval needlessly long."""
    assert exact_coverage(unpaired_newcombe, TRUTHS["no gain, correlated"], 20) > 0.99


# --- the whole ------------------------------------------------------------------------------------------------------


@given(table=tables, confidence=confidences)
@settings(deadline=None)
def test_companions_gather_the_single_functions(table: Table, confidence: float) -> None:
    a, b, c, d = table
    result = companions(*table, confidence=confidence)
    assert result.gain == (c - b) / sum(table)
    assert result.mcnemar_midp == mcnemar_midp(b, c)
    assert result.mcnemar_exact == mcnemar_exact(b, c)
    assert result.newcombe == newcombe_interval(*table, confidence=confidence)
    assert result.tango == tango_interval(*table, confidence=confidence)
    rates = [
        (result.failure_rate_wilson, a + c, sum(table)),
        (result.recovery_wilson, c, a + c),
        (result.disruption_wilson, b, b + d),
    ]
    z = z_of(confidence)
    for interval, x, n in rates:
        assert (interval is None) == (n == 0)
        if interval is not None:
            assert 0 <= interval[0] <= x / n <= interval[1] <= 1
            for limit, at_the_edge in zip(interval, (x == 0, x == n), strict=True):
                # Wilson's limits are where the score statistic of one proportion is ±z.
                if not at_the_edge:
                    assert n * (x / n - limit) ** 2 == pytest.approx(z**2 * limit * (1 - limit), rel=1e-6)


def test_json_and_text() -> None:
    result = companions(12, 7, 1, 0)
    as_dict = result.to_dict()
    assert json.loads(json.dumps(as_dict)) == as_dict
    assert list(as_dict) == list(type(result).__dataclass_fields__)
    assert companions(0, 7, 0, 1).to_dict()["recovery_wilson"] is None
    assert str(companions(12, 7, 1, 1)) == (
        "gain -28.6 pp; 95% interval -51.7 to -2.6 pp (Tango), -50.7 to -2.6 pp (Newcombe); "
        "McNemar mid-p 0.0391, exact 0.0703"
    )
    with pytest.raises(FrozenInstanceError):
        result.gain = 0.0  # type: ignore[misc] # the point of the test


def test_numpy_counts_give_plain_numbers() -> None:
    """A count from an array must not end in JSON as something that JSON does not know."""
    a, b, c, d = np.array([12, 7, 1, 1])
    result = companions(a, b, c, d, confidence=np.float64(0.9))
    assert json.loads(json.dumps(result.to_dict())) == companions(12, 7, 1, 1, confidence=0.9).to_dict()


@pytest.mark.parametrize("value", [-1, 1.0, 0.5, math.nan, True, "3", None])
def test_what_is_no_count_is_refused(value: Any) -> None:
    for call in (
        lambda: companions(1, value, 1, 1),
        lambda: newcombe_interval(1, value, 1, 1),
        lambda: tango_interval(1, value, 1, 1),
        lambda: mcnemar_exact(value, 1),
        lambda: mcnemar_midp(value, 1),
    ):
        with pytest.raises(ParameterError, match=r"b must be a whole number of pairs ≥ 0, got .*; give a count"):
            call()


@pytest.mark.parametrize("function", [companions, newcombe_interval, tango_interval])
def test_an_empty_table_is_refused(function: Callable[..., object]) -> None:
    with pytest.raises(ParameterError, match="at least one pair"):
        function(0, 0, 0, 0)


@pytest.mark.parametrize("function", [companions, newcombe_interval, tango_interval])
@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, math.nan, math.inf, 1e-300, 1 - 1e-16])
def test_a_confidence_without_an_interval_is_refused(function: Callable[..., object], confidence: float) -> None:
    """The last two lie in (0, 1), but their quantile does not exist in floats and would give NaN limits."""
    with pytest.raises(ParameterError, match="confidence must lie strictly between 0 and 1"):
        function(1, 1, 1, 1, confidence=confidence)


def test_import_leaves_the_slow_parts_of_scipy_out() -> None:
    code = (
        "import sys, drsim.inference.companions; sys.exit(bool({'scipy.stats', 'scipy.optimize'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
