import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.posterior import Uncertain
from drsim.inference.rate_draws import draw_rates
from drsim.inference.rho_prior import RhoPrior
from drsim.inference.static import fit_cell
from drsim.pilot.cell import Pairing
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Counts, Marginals, Pilot
from drsim.pilot.reading import read
from drsim.pilot.records import CountsRow, Fork, MarginalsRow, Outcome, Run
from drsim.planning.bounds.ceilings import Bounds, Ceilings, Figure, best_of_n_gain, bound, ceilings
from drsim.planning.bounds.evidence import settings_of_pairing
from drsim.planning.bounds.inputs import (
    SWEPT_DISRUPTION,
    SWEPT_FAILURE_RATES,
    SWEPT_RECOVERY,
    Given,
    Question,
    setting_of_numbers,
)
from drsim.planning.bounds.winner_map import MappedRates, winner_map
from drsim.theory.churn import beta_from_rho
from drsim.theory.critic import best_operating_point, binormal_shift, operating_gain

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "oracles.json").read_text())
ROWS = [pytest.param(row, id=row["model"]) for row in GOLDEN["rows"]]

N_SIMULATED = 400_000
Z = 5.0

RATES = st.floats(0.0, 1.0)


def of_numbers(
    failure_rate: float | None = None,
    recovery: float | None = None,
    disruption: float | None = None,
    rho: float | None = None,
    question: Question | None = None,
) -> Ceilings:
    stated = Given(
        failure_rate=failure_rate,
        recovery=recovery,
        disruption=disruption,
        rho=None if rho is None else RhoPrior(value=rho),
    )
    return ceilings(setting_of_numbers(stated, seed=1), question or Question())


def of_pairing(pairing: Pairing, stated: Given | None = None, seed: int = 1) -> Bounds:
    found = settings_of_pairing(pairing, stated or Given(), seed=seed)
    return bound(found, Question(), seed=seed, n_draws=20_000)


def of_counts(a: int, b: int, c: int, d: int, stated: Given | None = None) -> Ceilings:
    row = CountsRow(arm="rollback", a=a, b=b, c=c, d=d)
    return of_pairing(cells_of(Counts(rows=(row,), sources=("x",))), stated).best


def pilot(runs: list[Run]) -> Pilot:
    places = np.arange(len(runs), dtype=np.int64)
    return Pilot(runs=runs, sources=("x",), source_of=0 * places, line_of=places + 1)


def baseline_runs(trials: list[list[bool]]) -> Pairing:
    runs = [
        Run(task_id=f"t{i}", arm="baseline", trial=k, outcome=Outcome.SUCCESS if end else Outcome.FAIL)
        for i, ends in enumerate(trials)
        for k, end in enumerate(ends)
    ]
    return cells_of(pilot(runs))


def exact(figure: Figure | None) -> float:
    assert isinstance(figure, float)
    return figure


def uncertain(figure: Figure | None) -> Uncertain:
    assert isinstance(figure, Uncertain)
    return figure


def ends(figure: Figure | None) -> tuple[float, float]:
    assert isinstance(figure, tuple)
    return figure


def z_of(draws: FloatArray, expected: float) -> float:
    return float((draws.mean() - expected) / (draws.std(ddof=1) / math.sqrt(len(draws))))


# Published figures


def two_runs(row: dict[str, Any]) -> list[list[bool]]:
    """300 pairs of baseline runs with the published success rate, and the published one of the better of two."""
    n, s = GOLDEN["n"], row["counts"]["S"]
    differ = round(float(row["figures"]["best_of_two_success"]) * n / 100) - s
    both = s - differ
    neither = n - both - 2 * differ
    return [[True, True]] * both + [[True, False], [False, True]] * differ + [[False, False]] * neither


@pytest.mark.parametrize("row", ROWS)
def test_published_oracle_intervention_is_c_over_n(row: dict[str, Any]) -> None:
    n, (s, c, b) = GOLDEN["n"], (row["counts"][name] for name in "SCB")
    found = of_counts(n - s - c, b, c, s - b)
    counted = found.setting.observed.oracle_intervention
    assert counted is not None
    assert f"{100 * counted:+.1f}" == row["figures"]["oracle_intervention"]
    posterior = uncertain(found.oracle_intervention)
    assert posterior.q2_5 < counted < posterior.q97_5
    # Jeffreys' prior adds half a pair to each of four cells
    assert abs(posterior.mean - (c + 0.5) / (n + 2)) < Z * posterior.sd / math.sqrt(20_000)


@pytest.mark.parametrize("row", ROWS)
def test_published_oracle_best_of_two_is_half_the_churn(row: dict[str, Any]) -> None:
    found = of_pairing(baseline_runs(two_runs(row))).best
    figures = row["figures"]
    assert f"{100 * found.setting.observed.best_of[2]:+.1f}" == figures["best_of_two"]
    direct, beta = uncertain(found.reruns.best_of_two), uncertain(found.best_of[2])
    assert f"{100 * direct.mean:+.1f}" == figures["best_of_two"]
    assert f"{100 * beta.mean:+.1f}" == figures["best_of_two"]
    # with the same p and ρ as plain numbers, exactly
    p, half = 1 - row["counts"]["S"] / GOLDEN["n"], found.setting.observed.best_of[2]
    plain = of_numbers(failure_rate=p, rho=1 - half / (p * (1 - p)))
    assert exact(plain.best_of[2]) == pytest.approx(half, abs=1e-12)
    # 1 − p², as if all tasks were alike, is not what was published
    assert f"{100 * p * (1 - p):+.1f}" != figures["best_of_two"]


def test_golden_figures_are_those_of_the_paper(shared_data: Path) -> None:
    paper = json.loads((shared_data / "papers" / "intervention_paradox.json").read_text())
    printed, derived = paper["table10_26_oracle_HotPotQA"]["rows"], paper["oracle_derived_CalRoll_HotPotQA"]["rows"]
    for row, oracle, counts in zip(GOLDEN["rows"], printed, derived, strict=True):
        figures = row["figures"]
        assert row["model"] == oracle["model"] == counts["model"]
        assert row["counts"] == {name: counts[name] for name in "SCB"}
        assert figures["oracle_intervention"] == f"{oracle['d_int']:+.1f}"
        assert figures["best_of_two"] == f"{oracle['d_bo2']:+.1f}"
        assert figures["baseline"] == f"{oracle['baseline']:.1f}"
        assert figures["best_of_two_success"] == f"{oracle['oracle_bo2']:.1f}"


# Brute force


@pytest.mark.parametrize(("p", "r", "d", "auroc"), [(0.3, 0.2, 0.1, 0.8), (0.7, 0.4, 0.5, 0.6), (0.1, 0.5, 0.3, 0.95)])
def test_critic_ceilings_are_what_a_simulated_critic_gains(p: float, r: float, d: float, auroc: float) -> None:
    found = of_numbers(p, r, d, question=Question(aurocs=(auroc,)))
    (case,), (critic,) = found.cases, found.cases[0].critics
    rng = np.random.default_rng(7)
    would_fail = rng.random(N_SIMULATED) < p
    score = rng.standard_normal(N_SIMULATED) + np.where(would_fail, binormal_shift(auroc), 0.0)
    flips = rng.random(N_SIMULATED) < np.where(would_fail, r, d)
    change = np.where(flips, np.where(would_fail, 1.0, -1.0), 0.0)
    fires = score > best_operating_point(p, r, d, auroc).threshold
    assert abs(z_of(np.where(fires, change, 0.0), exact(critic.gain))) <= Z
    assert abs(z_of(fires.astype(float), exact(critic.trigger_rate))) <= Z
    assert abs(z_of(np.where(would_fail, change, 0.0), exact(case.perfect_critic))) <= Z
    assert exact(case.random_critic) == max(0.0, p * r - (1 - p) * d)
    # r and d as if the critic fired on every run of its kind
    assert abs(z_of(np.where(fires, change, 0.0), exact(case.perfect_critic))) > Z


@given(p=RATES, r=RATES, d=RATES, auroc=st.floats(0.5, 0.999), threshold=st.floats(-5.0, 8.0))
def test_no_threshold_gains_more_than_the_ceiling(p: float, r: float, d: float, auroc: float, threshold: float) -> None:
    from scipy.special import ndtr

    found = of_numbers(p, r, d, 0.5, Question(aurocs=(auroc,), n_max=2))
    tpr, fpr = ndtr(binormal_shift(auroc) - threshold), ndtr(-threshold)
    assert operating_gain(p, r, d, tpr, fpr) <= exact(found.cases[0].critics[0].gain) + 1e-12
    assert exact(found.cases[0].critics[0].gain) <= exact(found.cases[0].perfect_critic) + 1e-12


@pytest.mark.parametrize(("p", "rho"), [(0.3, 0.2), (0.6, 0.5), (0.93, 0.45)])
def test_best_of_n_is_what_simulated_attempts_gain(p: float, rho: float) -> None:
    found = of_numbers(p, rho=rho)
    rng = np.random.default_rng(11)
    s = rng.beta(*beta_from_rho(p, rho), N_SIMULATED)
    attempts = rng.random((8, N_SIMULATED)) < s
    # s itself as the control: its mean is known
    for n in range(2, 9):
        gained = attempts[:n].any(axis=0) - 1.0 * attempts[0]
        assert abs(z_of(gained, exact(found.best_of[n]))) <= Z
        assert abs(z_of(gained, (1 - p**n) - (1 - p))) > Z, "tasks that are all alike would give too much"
    first, second = attempts[0], attempts[1]
    assert abs(z_of(second[~first].astype(float), exact(found.reruns.recovery))) <= Z
    assert abs(z_of(1.0 - second[first], exact(found.reruns.disruption))) <= Z
    assert abs(z_of((first != second).astype(float), exact(found.reruns.churn))) <= Z
    assert exact(found.reruns.best_of_two) == pytest.approx(exact(found.best_of[2]), abs=1e-12)


@given(p=RATES, rho=RATES, n=st.integers(1, 20))
def test_best_of_n_lies_between_its_limits(p: float, rho: float, n: int) -> None:
    alike, same = (float(best_of_n_gain(np.asarray(p), np.asarray(x), n)) for x in (0.0, 1.0))
    found = float(best_of_n_gain(np.asarray(p), np.asarray(rho), n))
    assert alike == pytest.approx(p - p**n, abs=1e-12)
    assert same == 0.0
    assert -1e-12 <= found <= alike + 1e-12
    assert found <= float(best_of_n_gain(np.asarray(p), np.asarray(rho), n + 1)) + 1e-12


def test_best_of_n_reaches_its_limits_without_a_jump() -> None:
    p = np.asarray([0.2, 0.5, 0.9])
    for rho in (0.0, 1.0):
        near = np.asarray(abs(rho - 1e-9))
        assert best_of_n_gain(p, near, 5) == pytest.approx(best_of_n_gain(p, np.asarray(rho), 5), abs=1e-7)


@given(p=st.floats(0.01, 0.99), r=st.floats(0.01, 1.0), d=st.floats(0.01, 1.0), margin=st.floats(0.001, 0.3))
@settings(max_examples=50)
def test_smallest_auroc_is_the_first_that_reaches_the_margin(p: float, r: float, d: float, margin: float) -> None:
    wanted = exact(of_numbers(p, r, d, 0.5, Question(margin=margin, n_max=2)).smallest_auroc)
    if margin > p * r:
        assert math.isinf(wanted)
        return
    assert 0.5 <= wanted <= 1.0
    assert best_operating_point(p, r, d, wanted).gain >= margin
    if wanted - 1e-6 >= 0.5:
        assert best_operating_point(p, r, d, wanted - 1e-6).gain < margin


# Evidence


def test_draws_agree_with_the_fit() -> None:
    (cell,) = cells_of(Counts(rows=(CountsRow(arm="x", a=40, b=9, c=16, d=35),), sources=("x",))).cells
    posterior = fit_cell(cell, seed=1)
    draws = draw_rates(posterior, seed=1, n_draws=50_000)
    assert draws.recovery is not None
    assert draws.disruption is not None
    assert draws.gain is not None
    assert posterior.recovery is not None
    assert posterior.disruption is not None
    assert posterior.gain is not None
    for found, summary in (
        (draws.failure_rate, posterior.failure_rate),
        (draws.recovery, posterior.recovery),
        (draws.disruption, posterior.disruption),
        (draws.gain, posterior.gain.summary),
    ):
        assert abs(z_of(found, summary.mean)) <= Z
        assert found.std() == pytest.approx(summary.sd, rel=0.03)
    p, r, d = draws.failure_rate, draws.recovery, draws.disruption
    assert draws.gain == pytest.approx(p * r - (1 - p) * d, abs=1e-12)


def test_repeated_tasks_widen_the_ceiling() -> None:
    rows = [CountsRow(arm="x", a=118, b=9, c=16, d=7, tasks=tasks) for tasks in (50, None)]
    alike, independent = (of_pairing(cells_of(Counts(rows=(row,), sources=("x",)))).best for row in rows)
    assert uncertain(alike.oracle_intervention).sd > 1.5 * uncertain(independent.oracle_intervention).sd
    assert alike.possible.gain > independent.possible.gain


def test_beta_binomial_covers_the_observed_curve_of_forty_samples(shared_data: Path) -> None:
    pairing = cells_of(read([str(shared_data / "pilots" / "game24-samples.jsonl")]), baseline="io")
    found = of_pairing(pairing).best
    observed = found.setting.observed.best_of
    assert set(observed) == set(range(2, 41))
    p = uncertain(found.failure_rate).mean
    for n, figure in found.best_of.items():
        posterior = uncertain(figure)
        assert posterior.q2_5 <= observed[n] <= posterior.q97_5
        assert not posterior.q2_5 <= p - p**n <= posterior.q97_5, "1 − p^N"


def test_observed_best_of_n_is_the_mean_over_all_choices_of_runs() -> None:
    from itertools import combinations

    rng = np.random.default_rng(3)
    trials = [[bool(end) for end in rng.random(5) < s] for s in rng.random(12)]
    found = of_pairing(baseline_runs(trials)).best.setting.observed.best_of
    mean = np.mean([np.mean(ends) for ends in trials])
    assert set(found) == {2, 3, 4, 5}
    for n, gain in found.items():
        best = np.mean([np.mean([any(choice) for choice in combinations(ends, n)]) for ends in trials])
        assert gain == pytest.approx(best - mean, abs=1e-12)


def test_baseline_runs_alone_are_swept_by_name() -> None:
    found = of_pairing(baseline_runs([[True, False]] * 30 + [[False, False]] * 20)).best
    assert found.setting.arm is None
    assert found.oracle_intervention is None
    assert found.oracle_excess is None
    assert len(found.cases) == len(SWEPT_RECOVERY) * len(SWEPT_DISRUPTION)
    sources = {item.name: (item.source, item.text) for item in found.setting.assumptions}
    assert sources["recovery"] == ("assumed", "swept: 0.1, 0.3, 0.5")
    assert sources["disruption"] == ("assumed", "swept: 0.1, 0.3, 0.5")
    assert sources["failure_rate"] == ("measured", "100 baseline runs")
    assert sources["rho"] == ("measured", "repeated runs of 50 tasks")
    low, high = ends(found.over_cases(lambda case: case.perfect_critic))
    assert high / low == pytest.approx(SWEPT_RECOVERY[-1] / SWEPT_RECOVERY[0])
    # nothing says that no mechanism recovers more than what is swept
    assert found.possible.gain == uncertain(found.failure_rate).q97_5


def test_given_rates_stand_in_for_those_of_the_arm() -> None:
    stated = Given(recovery=0.4, disruption=0.05)
    found = of_counts(40, 9, 16, 35, stated)
    (case,) = found.cases
    assert (case.recovery, case.disruption) == (0.4, 0.05)
    assert exact(case.threshold) == pytest.approx(0.05 / 0.45)
    assert uncertain(found.oracle_intervention) == uncertain(of_counts(40, 9, 16, 35).oracle_intervention)
    assert not found.map.rates.is_excess
    (half,) = of_counts(40, 9, 16, 35, Given(recovery=0.4)).cases
    assert half.recovery == 0.4
    assert uncertain(half.disruption) == uncertain(of_counts(40, 9, 16, 35).cases[0].disruption)


def test_failure_rate_beside_runs_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"failure_rate is measured by the runs, got 0\.3 as well; leave out"):
        of_counts(4, 1, 2, 3, Given(failure_rate=0.3))


def test_marginals_leave_the_oracle_between_two_ends() -> None:
    rows = tuple(MarginalsRow(arm=arm, successes=k, n=1000) for arm, k in (("baseline", 570), ("rollback", 500)))
    found = of_pairing(cells_of(Marginals(rows=rows, sources=("x",)))).best
    low, high = ends(found.oracle_intervention)
    assert 0.0 <= low < 0.005
    assert high == pytest.approx(0.43, abs=0.01)
    assert found.possible.gain == pytest.approx(0.46, abs=0.01)
    # whatever C/n is, each case has the one gain that the two rates fix
    gains = [
        uncertain(case.perfect_critic).mean - (1 - uncertain(case.failure_rate).mean) * uncertain(case.disruption).mean
        for case in found.cases
    ]
    assert gains == pytest.approx([-0.07] * 3, abs=0.01)


def test_forked_pairs_have_no_churn_to_take_off() -> None:
    runs = [Run(task_id=f"t{i}", arm="baseline", run_id=f"b{i}", success=i % 3 == 0) for i in range(30)]
    forks = [
        Run(task_id=f"t{i}", arm="rollback", success=i % 2 == 0, forked_from=Fork(run_id=f"b{i}", t=1))
        for i in range(30)
    ]
    found = of_pairing(cells_of(pilot([*runs, *forks]))).best
    assert found.oracle_intervention is not None
    assert found.oracle_excess is None
    assert not found.map.rates.is_excess


def test_excess_is_what_the_oracle_gains_beyond_best_of_two() -> None:
    found = of_counts(40, 9, 16, 35)
    excess = uncertain(found.oracle_intervention).mean - uncertain(found.reruns.best_of_two).mean
    assert uncertain(found.oracle_excess).mean == pytest.approx(excess, abs=1e-12)
    assert found.map.rates.is_excess
    assert uncertain(found.failure_rate).mean * found.map.rates.recovery == pytest.approx(excess, abs=0.005)


def test_a_cell_does_not_depend_on_its_neighbours_and_seeds_repeat(shared_data: Path) -> None:
    evidence = read([str(shared_data / "pilots" / "mint-gpt35-append.jsonl")])
    few = of_pairing(cells_of(evidence, arms=["append-gpt-4-0613"]), seed=5)
    again = of_pairing(cells_of(evidence, arms=["append-gpt-4-0613"]), seed=5)
    all_cells = {cell.setting.name: cell for cell in of_pairing(cells_of(evidence), seed=5).cells}
    for cell, same in zip(few.cells, again.cells, strict=True):
        assert cell.cases == same.cases == all_cells[cell.setting.name].cases
        assert cell.best_of == same.best_of == all_cells[cell.setting.name].best_of
    assert of_pairing(cells_of(evidence, arms=["append-gpt-4-0613"]), seed=6).cells[0].cases != few.cells[0].cases


# Numbers alone


def test_all_numbers_give_exact_figures() -> None:
    found = of_numbers(0.3, 0.2, 0.1, 0.5)
    assert exact(found.failure_rate) == 0.3
    assert exact(found.cases[0].perfect_critic) == 0.3 * 0.2
    assert exact(found.cases[0].threshold) == pytest.approx(1 / 3)
    assert exact(found.best_of[2]) == pytest.approx(0.3 * 0.7 * 0.5, abs=1e-15)
    assert exact(found.reruns.recovery) == pytest.approx(0.35)
    assert found.possible.gain == 0.3 * 0.2


def test_what_is_not_given_is_swept_and_named() -> None:
    found = of_numbers(recovery=0.2)
    assert len(found.cases) == len(SWEPT_FAILURE_RATES) * len(SWEPT_DISRUPTION)
    assert {item.name: item.source for item in found.setting.assumptions} == {
        "failure_rate": "assumed",
        "rho": "assumed",
        "recovery": "given",
        "disruption": "assumed",
    }
    assert ends(found.failure_rate) == (0.1, 0.9)
    assert exact(found.over_cases(lambda case: case.recovery)) == 0.2
    assert found.map.mark is None
    assert found.possible.gain == pytest.approx(0.18)


def test_an_assumed_rho_reaches_every_figure_that_hangs_on_it() -> None:
    found = of_numbers(0.3, 0.2, 0.1)
    low, high = RhoPrior(a=4.5, b=2.0).band()[[0, -1]]
    best = uncertain(found.best_of[2])
    assert (best.q2_5, best.q97_5) == pytest.approx((0.21 * (1 - high), 0.21 * (1 - low)), abs=0.004)


@pytest.mark.parametrize(("required", "is_met"), [(None, True), (0.06, True), (0.0601, False)])
def test_possible_is_the_perfect_predictors_gain(required: float | None, is_met: bool) -> None:
    found = of_numbers(0.3, 0.2, question=Question(required=required))
    assert found.possible.is_met is is_met


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_nothing_fails_and_everything_fails(p: float) -> None:
    found = of_numbers(p, 0.2, 0.1, 0.5)
    assert exact(found.cases[0].perfect_critic) == p * 0.2
    assert all(exact(figure) == 0.0 for figure in found.best_of.values())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Given(failure_rate=30), "failure_rate must lie in [0, 1], got 30; give a probability, not per cent"),
        (lambda: Given(recovery=-0.1), "recovery must lie in [0, 1], got -0.1"),
        (lambda: Given(disruption=math.nan), "disruption must lie in [0, 1], got nan"),
        (lambda: Question(aurocs=(0.9, 0.4)), "auroc must lie in [0.5, 1], got 0.4; a critic below one half"),
        (lambda: Question(margin=2), "margin must lie in [0, 1], got 2"),
        (lambda: Question(required=2), "require_possible must lie in [0, 1], got 2"),
        (lambda: Question(n_max=1), "n_max must be a whole number from 2 to 64, got 1"),
        (lambda: setting_of_numbers(Given(), seed=1, n_draws=10), "n_draws must be at least 1000, got 10"),
    ],
)
def test_wrong_numbers_are_named(build: Any, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        build()
    assert str(caught.value).startswith(message)


# The map


@pytest.mark.parametrize("is_excess", [False, True])
def test_letters_say_who_wins(is_excess: bool) -> None:
    rates = MappedRates(recovery=0.15, disruption=0.1, is_excess=is_excess)
    found = winner_map(rates, failure_rate=(0.2, 0.4, 0.6), rho=(0.3, 0.5, 0.9), auroc=0.85, margin=0.02)
    seen = set()
    for level, row in zip(found.rho, found.rows, strict=True):
        for p, letter in zip(found.failure_rate, row, strict=True):
            extra = (1 - level) if is_excess else 0.0
            r, d = min(1.0, 0.15 + extra * (1 - p)), min(1.0, 0.1 + extra * p)
            critic = float(best_operating_point(p, r, d, 0.85).gain)
            gains = {"B": p * (1 - p) * (1 - level), "P": p * r, "C": critic}
            if max(gains.values()) < 0.02:
                expected = "."
            elif gains["B"] > gains["P"]:
                expected = "B"
            else:
                expected = "C" if gains["C"] >= max(gains["B"], 0.02) else "P"
            assert letter == expected
            seen.add(letter)
    assert seen == ({"C", "P", "."} if is_excess else {"B", "C", "P", "."})
    assert found.mark is not None
    row_index, column = found.mark
    assert found.rho[row_index] == pytest.approx(0.5, abs=0.06)
    assert found.failure_rate[column] == pytest.approx(0.4, abs=0.01)
