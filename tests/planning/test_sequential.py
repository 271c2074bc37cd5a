from itertools import accumulate

import numpy as np
import pytest

from drsim.arrays import IntArray
from drsim.errors import ParameterError
from drsim.inference.paired_table import PairedTable
from drsim.planning.betting import BENEFIT, HARM, N_BETS, confidence_bounds, factors, log_capital, running_bounds, walk
from drsim.planning.pilot_rules import PilotRule, RuleKind, decided_tasks, rule_limits, stopping_limits
from drsim.planning.pilot_size import first_passage, tasks_needed
from drsim.planning.pilot_world import PilotPlan, PilotWorld, table_probabilities
from drsim.planning.sequential import MonitorRule, StopKind, look, posterior_error
from drsim.planning.verdict import DecisionKind, DecisionRule, decide

LOOKS = 2_000
ALPHA = 0.05


def tables(n: int, gain: float, discordance: float, seed: int, n_trials: int = 1, rho: float = 0.5) -> IntArray:
    """(n, 4) pairs of n tasks."""
    flips, chances = table_probabilities(gain, discordance, rho, n_trials)
    drawn = flips[np.random.default_rng(seed).choice(len(flips), size=n, p=chances)]
    found = np.zeros((n, 4), dtype=np.int64)
    found[:, 1:3] = drawn
    found[:, 0] = n_trials - drawn.sum(axis=1)
    return found


@pytest.mark.parametrize("discordance", [0.1, 0.25, 0.5])
def test_false_benefit_over_two_thousand_looks_and_what_naive_looking_does(discordance: float) -> None:
    rule = PilotRule(kind=RuleKind.ANYTIME, alpha=ALPHA)
    ((benefit, harm, _, _),) = first_passage(*stopping_limits(rule, LOOKS), [0.0], [discordance])
    assert benefit <= ALPHA
    assert harm <= rule.harm_alpha
    m = np.arange(LOOKS + 1)
    limits = rule_limits(PilotRule(kind=RuleKind.POSTERIOR), LOOKS, m)
    ((naive, _, _, _),) = first_passage(limits.deploy_from, m + 1, [0.0], [discordance])
    assert naive > 4 * ALPHA
    # the two-sided test at α, read as a claim in either direction
    limits = rule_limits(PilotRule(kind=RuleKind.MCNEMAR, alpha=ALPHA), LOOKS, m)
    ((up, down, _, _),) = first_passage(limits.deploy_from, m - limits.reject_to, [0.0], [discordance])
    assert up + down > 4 * ALPHA


def test_false_benefit_where_pairs_of_a_task_hang_together() -> None:
    k, n_pilots = 3, 2_000
    flips, chances = table_probabilities(0.0, 0.4, 0.7, k)
    gains = (flips[:, 1] - flips[:, 0]) / k
    kinds = np.random.default_rng(1).choice(len(flips), size=(n_pilots, LOOKS // k), p=chances)
    stops, sides = np.empty(n_pilots, dtype=np.int64), np.empty(n_pilots, dtype=np.int64)
    up, down = factors(gains, 0.0, BENEFIT), factors(-gains, 0.0, HARM)
    walk(kinds, up, down, np.full((2, N_BETS), 1 / N_BETS), np.array([1 / ALPHA, 10.0]), stops, sides)
    slack = 5 * (ALPHA * (1 - ALPHA) / n_pilots) ** 0.5
    assert np.mean(sides == 1) <= ALPHA + slack
    assert np.mean(sides == -1) <= 0.1 + slack
    # pairs taken one by one, as if they were independent, break the promise
    up_pairs = np.prod(factors(np.array([-1.0, 1.0]), 0.0, BENEFIT)[None] ** flips[:, :, None], axis=1)
    down_pairs = np.ones_like(up_pairs)
    walk(kinds, up_pairs, down_pairs, np.full((2, N_BETS), 1 / N_BETS), np.array([1 / ALPHA, 10.0]), stops, sides)
    assert np.mean(sides == 1) > ALPHA + slack


@pytest.mark.parametrize("gain", [0.0, 0.1, -0.2])
def test_the_confidence_sequence_covers_at_all_times_together(gain: float) -> None:
    k, n_pilots, n = 2, 2_000, 500
    flips, chances = table_probabilities(gain, 0.35, 0.5, k)
    gains = (flips[:, 1] - flips[:, 0]) / k
    kinds = np.random.default_rng(2).choice(len(flips), size=(n_pilots, n), p=chances)
    stops, sides = np.empty(n_pilots, dtype=np.int64), np.empty(n_pilots, dtype=np.int64)
    up, down = factors(gains, gain, BENEFIT), factors(-gains, -gain, BENEFIT)
    even, limits = np.full((2, N_BETS), 1 / N_BETS), np.array([2 / ALPHA, 2 / ALPHA])
    walk(kinds, up, down, even, limits, stops, sides)
    assert np.mean(sides != 0) <= ALPHA + 5 * (ALPHA * (1 - ALPHA) / n_pilots) ** 0.5
    # the walk leaves when the limits do
    for path in range(20):
        bounds = np.empty((n, 2))
        running_bounds(kinds[path], gains, ALPHA, BENEFIT.sizes, bounds)
        outside = np.flatnonzero((bounds[:, 0] > gain + 1e-9) | (bounds[:, 1] < gain - 1e-9))
        assert len(outside) == 0 if sides[path] == 0 else outside[0] + 1 == stops[path]


def test_running_limits_are_the_sharpest_so_far() -> None:
    gains = np.array([-1.0, 0.0, 1.0])
    kinds = np.random.default_rng(3).choice(3, size=150, p=[0.1, 0.7, 0.2])
    bounds = np.empty((150, 2))
    running_bounds(kinds, gains, ALPHA, BENEFIT.sizes, bounds)
    single = [
        confidence_bounds(np.bincount(kinds[:i], minlength=3).astype(np.float64), gains, ALPHA) for i in range(1, 151)
    ]
    lows, highs = list(accumulate((it[0] for it in single), max)), list(accumulate((it[1] for it in single), min))
    assert bounds[:, 0] == pytest.approx(np.array(lows), abs=1e-9)
    assert bounds[:, 1] == pytest.approx(np.array(highs), abs=1e-9)


def test_expected_size_against_a_fixed_one() -> None:
    """A fixed pilot of the same one-sided error and power takes more pairs than the sequential one on average."""
    anytime = PilotRule(kind=RuleKind.ANYTIME)
    world = PilotWorld(discordance=0.3)
    for gain in (0.06, 0.12, -0.25):
        ((benefit, harm, _, expected),) = first_passage(*stopping_limits(anytime, LOOKS), [gain], [0.3])
        level = anytime.alpha if gain > 0 else anytime.harm_alpha
        fixed = PilotRule(decision=DecisionRule(confidence=1 - level))
        power = min(benefit if gain > 0 else harm, 0.99)
        assert power > 0.9
        n = tasks_needed(world, PilotPlan(n_tasks=1), fixed, gain, power=power, seed=1)
        assert n is not None
        assert expected < n


def test_a_collapse_is_caught_within_25_pairs() -> None:
    rule = PilotRule(kind=RuleKind.ANYTIME)
    ((_, harm, _, _),) = first_passage(*stopping_limits(rule, 25), [-0.255], [0.35])
    assert harm >= 0.5
    ((_, harm, _, _),) = first_passage(*stopping_limits(rule, 25), [-0.25], [0.35])
    assert harm >= 0.5


def test_a_look_is_what_its_parts_say() -> None:
    rows = tables(240, 0.1, 0.3, seed=4, n_trials=2)
    rule = MonitorRule(n_trials=2, max_tasks=400)
    found = look(rows, rule, seed=1)
    gains = (rows[:, 2] - rows[:, 1]) / 2
    values = np.arange(-2, 3) / 2
    counts = np.array([(gains == it).sum() for it in values], dtype=float)
    assert np.log(found.e_benefit) == pytest.approx(float(log_capital(counts, values, 0.0, BENEFIT)), abs=1e-9)
    assert np.log(found.e_harm) == pytest.approx(float(log_capital(counts, -values, 0.0, HARM)), abs=1e-9)
    assert found.gain == pytest.approx(gains.mean())
    assert found.counts == tuple(rows.sum(axis=0))
    low, high = found.interval
    assert low < found.gain < high
    assert found.posterior is DecisionKind.DEPLOY
    decided = decided_tasks(rule.decision, 240, gains.sum()[None], (gains**2).sum()[None])
    assert decided[0] == 1


def test_the_posterior_is_that_of_fit() -> None:
    rows = tables(90, 0.08, 0.3, seed=4)
    rule = MonitorRule(max_tasks=100, decision=DecisionRule(margin=0.02))
    a, b, c, d = (float(it) for it in rows.sum(axis=0))
    table = PairedTable(a=a, b=b, c=c, d=d)
    found = look(rows, rule, seed=1)
    assert found.prob_gain == table.prob_gain_above(0.02)
    assert found.posterior is decide(table, rule.decision)
    assert found.posterior_error is None


def test_the_first_stop_stays() -> None:
    harm = np.tile([0, 1, 0, 0], (12, 1))
    benefit = np.tile([0, 0, 1, 0], (200, 1))
    early, late = (look(it, MonitorRule(), seed=1) for it in (harm, np.concatenate([harm, benefit])))
    assert early.stop is not None
    assert early.stop.kind is StopKind.HARM
    # 1 + c on average over large bets reaches 10 at the fifth loss
    assert early.stop.n_tasks == int(np.argmax([(1 + HARM.sizes) ** i @ np.ones(N_BETS) >= 320 for i in range(20)]))
    assert late.stop == early.stop
    assert late.state is StopKind.HARM
    assert late.e_benefit > 1e6


def test_equivalence_and_futility() -> None:
    alike = np.tile([0, 0, 0, 1], (600, 1))
    found = look(alike, MonitorRule(decision=DecisionRule(rope=0.02)), seed=1)
    assert found.state is StopKind.EQUIVALENT
    hopeless = look(tables(400, -0.01, 0.3, seed=5), MonitorRule(max_tasks=450), seed=1)
    assert hopeless.state is StopKind.FUTILE
    assert hopeless.stop is None
    assert hopeless.prob_benefit < 0.05
    over = look(tables(400, 0.02, 0.3, seed=5), MonitorRule(max_tasks=400, harm_alpha=1e-6), seed=1)
    assert over.state in (StopKind.FUTILE, StopKind.BENEFIT)


def test_the_chance_of_a_benefit_is_calibrated() -> None:
    """Over worlds drawn from the posterior of what was seen, the share that goes on to stop is what was said."""
    rows = tables(60, 0.1, 0.3, seed=7)
    rule = MonitorRule(max_tasks=300)
    said = look(rows, rule, seed=1).prob_benefit
    rng = np.random.default_rng(8)
    b, c = rows[:, 1].sum(), rows[:, 2].sum()
    n = 1_000
    stopped = 0
    for down, up, _ in rng.dirichlet([b + 0.5, c + 0.5, 60 - b - c + 1.0], size=n):
        further = np.zeros((240, 4), dtype=np.int64)
        kinds = rng.choice([1, 2, 0], size=240, p=[down, up, 1 - down - up])
        further[np.arange(240), kinds] = 1
        gains = np.concatenate([rows, further])[:, 2] - np.concatenate([rows, further])[:, 1]
        logs = np.cumsum(np.log(factors(np.array([-1.0, 0.0, 1.0]), 0.0, BENEFIT))[gains + 1], axis=0)
        worse = np.cumsum(np.log(factors(np.array([1.0, 0.0, -1.0]), 0.0, HARM))[gains + 1], axis=0)
        won, lost = np.exp(logs).mean(axis=1) >= 20, np.exp(worse).mean(axis=1) >= 10
        stopped += bool(won.any() and not lost[: int(np.argmax(won))].any())
    assert abs(stopped / n - said) < 5 * (said * (1 - said) * 2 / n) ** 0.5


def test_error_of_the_posterior_rule_by_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    from drsim.planning import sequential

    rows = tables(300, 0.0, 0.3, seed=6)
    rule = MonitorRule(max_tasks=200, decision=DecisionRule(rope=0.0))
    exact = posterior_error(rows, rule, seed=1)
    monkeypatch.setattr(sequential, "MOST_EXACT", 0)
    simulated = posterior_error(rows, rule, seed=1)
    # the simulated rule takes the posterior for normal, which tells at the first few flips
    assert simulated == pytest.approx(exact, abs=5 * (0.25 / 2_000) ** 0.5)
    assert exact > 4 * ALPHA


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_trials": 0}, "n_trials must be at least 1"),
        ({"alpha": 5.0}, "alpha must lie between 0 and 1"),
        ({"max_tasks": 0}, "max_tasks must be from 1"),
        ({"futility": 1.0}, "futility must lie in [0, 1)"),
        ({"decision": DecisionRule(margin=1.0)}, "margin must lie between -1 and 1"),
    ],
)
def test_mistakes(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError) as error:
        MonitorRule(**changes)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_incomplete_tasks_are_refused() -> None:
    with pytest.raises(ParameterError, match="every row of 2 pairs"):
        look(tables(3, 0.0, 0.3, seed=1), MonitorRule(n_trials=2), seed=1)
