"""Each code raised once, beside a neighbour that is consistent; consistent tables are never accused."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planning.reported_tables import random_table

from drsim.errors import ParameterError
from drsim.pilot.claims.reading import read_claims
from drsim.planning.audit.auditing import Audit, audit
from drsim.planning.audit.codes import CODES, code_of

type Row = Mapping[str, Any]

PILOT: dict[str, Any] = {"p": "0.89", "r": "0.12", "d": "0.56", "p_star": "0.82", "delta": "0.047"}
CELL: dict[str, Any] = {"agent": "a", "benchmark": "b", "unit": "percent"}
SEEDS: dict[str, Any] = {"seeds": ["35", "42", "37"], "n": 300, "unit": "percent"}
PART: dict[str, Any] = {"id": "x", "base_success": "0.64", "arm_success": "0.38"}
OTHER: dict[str, Any] = {"id": "y", "base_success": "0.47", "arm_success": "0.17"}
BEST: dict[str, Any] = {"delta": "0.03", "best_of": ["x", "y"], "delta_corrected": "0.01"}
TEST: dict[str, Any] = {
    "p_value": "0.012",
    "significant": True,
    "correction": "holm",
    "comparisons": 4,
    "delta": "0.028",
}


def audit_rows(rows: Sequence[Row], folder: Path) -> Audit:
    path = folder / "claims.json"
    path.write_text(json.dumps(list(rows)))
    return audit(read_claims([str(path)]))


COUNTS: dict[str, Any] = {"A": 118, "B": 9, "C": 16, "D": 7}
RANGE = SEEDS | {"interval": ["35.0", "42.0"]}
POOL: dict[str, Any] = {"pools": ["x", "y"]}
GAINS: list[Row] = [{"id": "x", "delta": "0.03"}, {"id": "y", "delta": "0.01"}]

CASES: dict[str, list[tuple[list[Row], Row, Row]]] = {
    # code: other rows, a consistent row, and what makes it contradict
    "AUD101": [
        ([], PILOT | {"p_star": None}, {"delta": "0.067"}),
        ([], {"p": ".36", "r": ".11", "d": ".47", "arm_success": ".38"}, {"r": ".20"}),
    ],
    "AUD102": [([], {"r": "0.12", "d": "0.56", "p_star": "0.83"}, {"p_star": "0.85"})],
    "AUD103": [([], PART | {"delta": "-0.27"}, {"delta": "-0.28"})],
    "AUD104": [([], {"p": "0.37", "base_success": "0.64"}, {"p": "0.38"})],
    "AUD105": [([], {"base_success": "0.50", "arm_success": "0.70", "r": "0.40"}, {"r": "0.35"})],
    "AUD106": [([], PART | {"d": "0.41"}, {"d": "0.35"})],
    "AUD107": [([], {"p": "0.89", "p_star": "0.82", "delta": "-0.00"}, {"delta": "-0.01"})],
    "AUD201": [
        ([], {"arm_success": "16.1", "n": 404, "unit": "percent"}, {"n": 606}),
        ([], {"r": ".3", "F": 10}, {"r": ".26"}),
        ([], {"d": ".3", "S": 10}, {"d": ".26"}),
        ([], {"delta": ".045", "n": 200}, {"n": 100}),
        ([], {"seeds": ["0.3", "0.50"], "n": 20}, {"seeds": ["0.34", "0.50"]}),
    ],
    "AUD202": [
        ([], {"C": 16, "F": 134, "r": ".12"}, {"r": ".13"}),
        ([], COUNTS | {"delta": ".047"}, {"delta": ".048"}),
        ([], COUNTS | {"p_star": ".82"}, {"p_star": ".83"}),
        ([], COUNTS | {"arm_success": ".153", "base_success": ".107"}, {"arm_success": ".155"}),
    ],
    "AUD203": [
        ([], {"A": 118, "C": 16, "F": 134}, {"F": 133}),
        ([], {"C": 16, "F": 16}, {"F": 15}),
        ([], {"S": 16, "B": 9, "C": 16, "successes": 23}, {"successes": 24}),
        ([], {"seed_successes": [3, 4], "n": 20, "successes": 7}, {"successes": 8}),
        ([], {"seed_successes": [3, 4], "n": 20}, {"seed_successes": [3, 11]}),
    ],
    "AUD301": [
        ([], {"seeds": ["0.35", "0.42", "0.37"], "arm_success": "0.385"}, {"arm_success": "0.40"}),
        ([], SEEDS | {"arm_success": "38.0"}, {"arm_success": "38.3"}),
        ([], {"seed_successes": [35, 42, 37], "n": 300, "arm_success": "0.380"}, {"arm_success": "0.387"}),
    ],
    "AUD302": [
        ([], SEEDS | {"interval": ["32.7", "43.6"]}, {"interval": ["35.0", "42.0"]}),
        ([], RANGE | {"interval_is": "range"}, {"interval_is": "confidence", "interval_level": ".95"}),
    ],
    "AUD303": [
        ([], {"arm_success": "0.38", "interval": ["0.38", "0.45"]}, {"interval": ["0.40", "0.45"]}),
        ([], {"delta": "0.03", "delta_interval": ["-0.02", "0.03"]}, {"delta_interval": ["-0.02", "0.01"]}),
    ],
    "AUD304": [([], RANGE | {"interval_is": "range"}, {"interval": ["35.0", "41.0"]})],
    "AUD401": [
        ([CELL | {"arm": "x", "arm_success": "38.5"}], CELL | {"arm": "y", "arm_success": "38.0"}, {"arm": "x"}),
        (
            [CELL | {"arm": "x", "arm_success": "38", "n": 300}],
            CELL | {"arm": "x", "arm_success": "36", "n": 100},
            {"n": 300},
        ),
        ([CELL | {"arm": "baseline", "arm_success": "64.0"}], CELL | {"p": "36"}, {"p": "34"}),
        ([CELL | {"arm": "baseline", "arm_success": "64.0"}], CELL | {"base_success": "64"}, {"base_success": "62"}),
    ],
    "AUD402": [
        ([PART, OTHER], POOL | {"C": 17, "F": 210, "B": 150, "S": 300}, {"C": 80}),
        ([PART, OTHER], POOL | {"p": "0.37"}, {"p": "0.34"}),
    ],
    "AUD403": [
        ([PART, OTHER], POOL | {"d": ".40"}, {"d": ".35"}),
        ([{"id": "x", "r": ".1"}, {"id": "y", "r": ".2"}], POOL | {"r": ".22"}, {"r": ".28"}),
    ],
    "AUD404": [(GAINS, BEST, {"delta": "0.05"})],
    "AUD501": [
        ([], TEST | {"is_best": True, "delta_corrected": "0"}, {"p_value": "0.014"}),
        # without being the smallest, .014 may be Holm's second step
        ([], TEST | {"p_value": "0.014"}, {"p_value": "0.06"}),
        ([], TEST | {"correction": "bonferroni"}, {"p_value": "0.014"}),
        ([], TEST | {"correction": "sidak"}, {"p_value": "0.014"}),
        ([], {"p_value": "0.05", "significant": True}, {"p_value": "0.06"}),
        # all four p-values are known, so every step is
        ([TEST | {"p_value": p, "significant": False} for p in ("0.2", "0.3", "0.4")], TEST, {"p_value": "0.014"}),
    ],
    "AUD502": [
        (GAINS, BEST, {"delta_corrected": None}),
        ([], {"delta": "0.03", "comparisons": 4}, {"is_best": True}),
    ],
}


def test_every_code_has_a_case() -> None:
    assert set(CASES) == set(CODES)


@pytest.mark.parametrize(
    ("code", "others", "sound", "change"),
    [(code, *case) for code, cases in CASES.items() for case in cases],
)
def test_a_contradiction_is_found_and_its_neighbour_is_not(
    code: str, others: list[Row], sound: Row, change: Row, tmp_path: Path
) -> None:
    found = audit_rows([*others, {**sound, **change}], tmp_path).findings
    assert {finding.code for finding in found} == {code}
    assert all(finding.where.startswith(f"row {len(others) + 1}") for finding in found)
    neighbour = audit_rows([*others, sound], tmp_path)
    assert neighbour.findings == ()
    assert neighbour.n_checks >= 1 or code in ("AUD401", "AUD502")


def test_messages_carry_the_arithmetic(tmp_path: Path) -> None:
    (finding,) = audit_rows([PILOT | {"delta": "0.067", "p_star": None}], tmp_path).findings
    assert finding.where == "row 1: delta"
    assert finding.message == ("delta = 0.067, but p·r − (1 − p)·d at p = 0.89, r = 0.12, d = 0.56 = 0.0368 to 0.0536")
    np.testing.assert_allclose(finding.reported, [0.067])
    np.testing.assert_allclose(finding.implied, [0.885 * 0.115 - 0.115 * 0.565, 0.895 * 0.125 - 0.105 * 0.555])


def test_a_baseline_that_every_arm_prints_is_found_once(tmp_path: Path) -> None:
    rows: list[Row] = [{**CELL, "arm": arm, "base_success": "16.1", "n": 606} for arm in ("x", "y")]
    assert len(audit_rows(rows, tmp_path).findings) == 1


def test_a_mean_of_rounded_seeds_is_told_as_such(tmp_path: Path) -> None:
    row = {"seeds": ["16.7", "10.0", "16.7"], "n": 90, "unit": "percent", "arm_success": "14.5"}
    (finding,) = audit_rows([row], tmp_path).findings
    assert finding.code == "AUD201"
    assert finding.message.endswith("; the mean of the printed seeds gives it, rounded a second time")


def test_codes_are_looked_up_in_either_case() -> None:
    assert code_of("aud302") is CODES["AUD302"]
    with pytest.raises(ParameterError, match="there is no finding 'AUD9'; the codes are AUD101, AUD102"):
        code_of("AUD9")


def test_no_false_alarm_on_a_thousand_consistent_tables(tmp_path: Path) -> None:
    n_checks = 0
    for seed in range(1000):
        result = audit_rows(random_table(np.random.default_rng(seed)), tmp_path)
        assert result.findings == (), seed
        n_checks += result.n_checks
    assert n_checks > 50_000


MOVED = ("p", "r", "d", "delta", "p_star", "base_success", "arm_success")


def move(rng: np.random.Generator, row: dict[str, Any], *, units: int) -> bool:
    """Move one figure by some units of its last digit, within its domain; False where that cannot be."""
    name = str(rng.choice([name for name in MOVED if name in row]))
    figure = Decimal(row[name])
    step = Decimal(1).scaleb(int(figure.as_tuple().exponent)) * units
    high = 100 if row["unit"] == "percent" else 1
    inside = [value for value in (figure - step, figure + step) if (-high if name == "delta" else 0) <= value <= high]
    if not inside:
        return False
    row[name] = str(inside[int(rng.integers(len(inside)))])
    return True


def test_a_figure_moved_by_two_units_is_found_where_counts_are_given(tmp_path: Path) -> None:
    found = Counter[bool]()
    for seed in range(300):
        rng = np.random.default_rng(seed)
        rows = random_table(rng, keep=1.0)
        arm = rows[int(rng.integers(1, len(rows) - 2))]
        if move(rng, arm, units=2):
            found[bool(audit_rows(rows, tmp_path).findings)] += 1
    assert found.total() > 250
    assert found[True] >= 0.95 * found.total()


def test_without_counts_a_rate_moved_by_ten_points_is_found(tmp_path: Path) -> None:
    """Rates with three digits bind each other alone."""
    found = Counter[bool]()
    for seed in range(600):
        rng = np.random.default_rng(seed)
        arm = random_table(rng, keep=1.0)[1]
        places = -int(Decimal(arm["delta"]).as_tuple().exponent) + (2 if arm["unit"] == "percent" else 0)
        if places < 3 or not set(MOVED) <= set(arm):
            continue
        only_rates = {name: arm[name] for name in (*MOVED, "unit")}
        assert audit_rows([only_rates], tmp_path).findings == ()
        if move(rng, only_rates, units=10 ** (places - 1)):
            found[bool(audit_rows([only_rates], tmp_path).findings)] += 1
    assert found.total() > 150
    assert found[True] >= 0.95 * found.total()


@pytest.fixture(scope="module")
def published(shared_data: Path) -> Audit:
    return audit(read_claims([str(shared_data / "papers" / "intervention_paradox.json")]))


@pytest.mark.parametrize(
    ("code", "where"),
    [
        ("AUD403", "Table 21, MiniMax-M2.1, HotPotQA and GAIA, all four: d"),
        ("AUD402", "Table 21, GLM-4.7, HotPotQA and GAIA, all four: delta"),
        ("AUD402", "Table 21, Qwen-3-8B, HotPotQA and GAIA, all four: delta"),
        ("AUD404", "Table 4, GLM-4.7, GAIA, best of four: delta"),
        ("AUD401", "Table 13, MiniMax-M2.1, HotPotQA, Cal+Roll: arm_success"),
        ("AUD301", "Table 4, MiniMax-M2.1, HotPotQA, Cal+Roll: arm_success"),
        ("AUD302", "Table 4, Qwen-3-8B, HotPotQA, baseline: interval"),
        ("AUD501", "Table 4 and abstract, Qwen-3-8B, ALFWorld, best of four: p_value"),
    ],
)
def test_the_published_contradictions_are_found(code: str, where: str, published: Audit) -> None:
    assert (code, where) in {(finding.code, finding.where) for finding in published.findings}


def test_what_is_found_in_the_published_tables_in_all(published: Audit) -> None:
    assert Counter(finding.code for finding in published.findings) == {
        "AUD201": 5,
        "AUD301": 1,
        "AUD302": 33,
        "AUD401": 3,
        "AUD402": 5,
        "AUD403": 1,
        "AUD404": 1,
        "AUD501": 1,
        "AUD502": 9,
    }
    # the brackets of Qwen-3-8B on ALFWorld are no ranges of seeds
    assert not any(f.code == "AUD302" and "Qwen-3-8B, ALFWorld" in f.where for f in published.findings)
