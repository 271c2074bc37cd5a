import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from drsim.errors import ParameterError
from drsim.inference.companions import mcnemar_midp
from drsim.inference.paired_table import PairedTable
from drsim.planning.betting import BENEFIT, HARM, log_capital
from drsim.planning.pilot_assurance import assurance
from drsim.planning.pilot_rules import PilotRule, RuleKind, decided_tasks, rule_limits, stopping_limits
from drsim.planning.pilot_size import detectable_gain, operating_points, tasks_needed
from drsim.planning.pilot_split import cheapest, splits
from drsim.planning.pilot_world import PairingPlan, PilotPlan, PilotWorld, Prices, table_probabilities
from drsim.planning.verdict import DecisionKind, DecisionRule, decide
from drsim.theory.churn import rerun_rates

FIXED = [RuleKind.POSTERIOR, RuleKind.POINT, RuleKind.MCNEMAR]


def said(rule: PilotRule, n: int, b: int, c: int) -> int:
    """1, −1, 2 or 0, by the functions that read a pilot."""
    if rule.kind is RuleKind.POINT:
        return 1 if c > b else -1
    if rule.kind is RuleKind.MCNEMAR:
        return int(np.sign(c - b)) if mcnemar_midp(b, c) <= rule.alpha else 0
    kind = decide(PairedTable(a=n - b - c, b=b, c=c, d=0), rule.decision)
    return {DecisionKind.DEPLOY: 1, DecisionKind.DO_NOT_DEPLOY: -1, DecisionKind.EQUIVALENT: 2}.get(kind, 0)


def enumerated(rule: PilotRule, n: int, gain: float, q: float) -> dict[int, float]:
    """Probabilities of what is said, table by table."""
    chances = [(q - gain) / 2, (q + gain) / 2, 1 - q]
    found = dict.fromkeys((1, -1, 2, 0), 0.0)
    for b in range(n + 1):
        for c in range(n + 1 - b):
            found[said(rule, n, b, c)] += float(stats.multinomial.pmf([b, c, n - b - c], n, chances))
    return found


@pytest.mark.parametrize("kind", FIXED)
@pytest.mark.parametrize(
    "decision",
    [DecisionRule(), DecisionRule(rope=0.2, confidence=0.8), DecisionRule(margin=0.05, rope=0.15, confidence=0.7)],
)
def test_exact_is_the_sum_over_all_tables(kind: RuleKind, decision: DecisionRule) -> None:
    if kind is not RuleKind.POSTERIOR:
        decision = DecisionRule()
    rule = PilotRule(kind=kind, decision=decision)
    for n, gain, q in itertools.product((1, 7, 24), (-0.2, 0.0, 0.11), (0.3,)):
        (point,) = operating_points(PilotWorld(discordance=q), PilotPlan(n_tasks=n), rule, [gain], seed=1)
        by_hand = enumerated(rule, n, gain, q)
        assert point.p_deploy == pytest.approx(by_hand[1], abs=1e-12)
        assert point.p_reject == pytest.approx(by_hand[-1], abs=1e-12)
        assert point.p_equivalent == pytest.approx(by_hand[2], abs=1e-12)
        assert point.n_pilots is None
        assert point.p_wrong == (point.p_reject if gain > decision.margin else point.p_deploy)


@pytest.mark.parametrize("kind", RuleKind)
def test_a_larger_gain_is_deployed_more_often(kind: RuleKind) -> None:
    gains = np.linspace(-0.3, 0.3, 13).tolist()
    points = operating_points(PilotWorld(discordance=0.3), PilotPlan(n_tasks=90), PilotRule(kind=kind), gains, seed=1)
    deploy, reject = (np.array([getattr(it, name) for it in points]) for name in ("p_deploy", "p_reject"))
    assert (np.diff(deploy) > -1e-12).all()
    assert (np.diff(reject) < 1e-12).all()
    assert (deploy + reject <= 1 + 1e-12).all()
    assert kind is RuleKind.ANYTIME or deploy[-1] > 0.99
    # the same pilots with B and C exchanged; at a tie the point rule and the levels of harm tell the sides apart
    if kind in (RuleKind.POSTERIOR, RuleKind.MCNEMAR):
        assert deploy == pytest.approx(reject[::-1], abs=1e-12)


def test_equivalence_is_among_what_was_compared() -> None:
    rule = PilotRule(decision=DecisionRule(rope=0.2, confidence=0.8))
    assert enumerated(rule, 24, 0.0, 0.3)[2] > 0.3


def test_limits_beyond_the_exact_posterior_are_near_it() -> None:
    rule = PilotRule(decision=DecisionRule(margin=0.01, rope=0.03, confidence=0.95))
    m = np.array([230, 300])
    limits = rule_limits(rule, 1500, m)
    for i, flips in enumerate(m):
        c = int(limits.deploy_from[i])
        below, above = (PairedTable(a=1500 - flips, b=flips - k, c=k, d=0).prob_gain_above(0.01) for k in (c - 1, c))
        assert below < 0.951
        assert above > 0.949


def test_reference_sizes() -> None:
    rule, plan = PilotRule(kind=RuleKind.MCNEMAR), PilotPlan(n_tasks=50)
    needed = tasks_needed(PilotWorld(discordance=0.25), plan, rule, 0.028, power=0.8, seed=1)
    assert needed is not None
    # Connor's normal approximation for McNemar's test
    z, w, q, d = 1.959964, 0.841621, 0.25, 0.028
    connor = (z * q**0.5 + w * (q - d**2) ** 0.5) ** 2 / d**2
    assert abs(needed - connor) < 0.01 * connor
    (small,) = operating_points(PilotWorld(discordance=0.25), plan, rule, [0.028], seed=1)
    (large,) = operating_points(PilotWorld(discordance=0.35), plan, rule, [-0.255], seed=1)
    assert 0.03 < small.p_deploy < 0.06
    assert 0.88 < large.p_reject < 0.94


def test_needed_and_detectable_are_each_others_inverse() -> None:
    world, rule = PilotWorld(discordance=0.3), PilotRule()
    for power in (0.5, 0.9):
        needed = tasks_needed(world, PilotPlan(n_tasks=1), rule, 0.06, power=power, seed=1)
        assert needed is not None
        gain = detectable_gain(world, PilotPlan(n_tasks=needed), rule, power=power, seed=1)
        assert gain is not None
        # the size is exact to 0.5 %, the gain falls with its root; discrete limits add a little
        assert gain == pytest.approx(0.06, rel=0.01)
        loss = detectable_gain(world, PilotPlan(n_tasks=needed), rule, power=power, seed=1, sign=-1)
        assert loss == pytest.approx(-gain, abs=2e-4)


@pytest.mark.parametrize("margin", [-0.5, 0.5])
def test_a_margin_beyond_what_is_possible_still_has_a_smallest_effect(margin: float) -> None:
    world, plan = PilotWorld(discordance=0.2), PilotPlan(n_tasks=50)
    rule, sign = PilotRule(decision=DecisionRule(margin=margin)), 1 if margin < 0 else -1
    found = detectable_gain(world, plan, rule, power=0.8, seed=1, sign=sign)
    assert found is not None
    assert abs(found) <= 0.2
    (point,) = operating_points(world, plan, rule, [found], seed=1)
    assert point.p_right(margin) >= 0.8
    assert detectable_gain(world, plan, rule, power=0.8, seed=1, sign=-sign) is None


def test_all_pairs_flip_may_be_said_by_a_whole_number() -> None:
    rule, plan = PilotRule(kind=RuleKind.ANYTIME), PilotPlan(n_tasks=20)
    (whole,) = operating_points(PilotWorld(discordance=1), plan, rule, [0], seed=1)
    (share,) = operating_points(PilotWorld(discordance=1.0), plan, rule, [0.0], seed=1)
    assert whole == share


def test_without_a_pilot_the_same_prior_is_acted_on() -> None:
    world, plan = PilotWorld(discordance=0.1), PilotPlan(n_tasks=200)
    cut = stats.truncnorm(-1.0, 0.0, loc=0.1, scale=0.2)
    found = assurance(world, plan, PilotRule(), mean=0.1, sd=0.2, seed=1)
    assert found.value_without == pytest.approx(float(cut.mean()), abs=1e-9)
    strict = PilotRule(decision=DecisionRule(margin=0.05))
    assert assurance(world, plan, strict, mean=0.1, sd=0.2, seed=1).value_without == 0.0


def test_no_size_and_no_gain() -> None:
    world = PilotWorld(discordance=0.3)
    assert tasks_needed(world, PilotPlan(n_tasks=1), PilotRule(), 0.001, power=0.9, seed=1, max_tasks=500) is None
    assert detectable_gain(world, PilotPlan(n_tasks=3), PilotRule(), power=0.9, seed=1) is None


@pytest.mark.parametrize("kind", FIXED)
def test_simulated_pilots_of_one_trial_agree_with_the_exact_ones(
    kind: RuleKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drsim.planning import pilot_size

    world, plan = PilotWorld(discordance=0.3), PilotPlan(n_tasks=60)
    rule = PilotRule(kind=kind)
    (exact,) = operating_points(world, plan, rule, [0.08], seed=1)
    n = 200_000
    shares = pilot_size._simulated(world, plan, rule, 0.08, 0.3, 3, n)
    for share, prob in zip(shares, (exact.p_deploy, exact.p_reject), strict=False):
        se = (prob * (1 - prob) / n) ** 0.5
        # a posterior taken for normal puts the limit of some m one flip aside
        slack = 0.01 if kind is RuleKind.POSTERIOR else 0.0
        assert abs(share - prob) < 5 * se + slack


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_tables_of_a_task(rho: float) -> None:
    gain, q, k = 0.06, 0.3, 4
    flips, chances = table_probabilities(gain, q, rho, k)
    gains = (flips[:, 1] - flips[:, 0]) / k
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert float(chances @ gains) == pytest.approx(gain, abs=1e-12)
    assert float(chances @ flips.sum(axis=1)) == pytest.approx(k * q, abs=1e-12)
    variance = float(chances @ gains**2) - gain**2
    assert variance == pytest.approx((q - gain**2) * (1 + (k - 1) * rho) / k, abs=1e-12)
    assert (chances >= 0).all()


def test_clustering_makes_the_test_of_independent_pairs_wrong_and_not_the_posterior() -> None:
    world, plan = PilotWorld(discordance=0.3, rho=0.6), PilotPlan(n_tasks=60, n_trials=4)
    mcnemar, posterior = (
        operating_points(world, plan, PilotRule(kind=kind), [0.0], seed=1)[0]
        for kind in (RuleKind.MCNEMAR, RuleKind.POSTERIOR)
    )
    assert mcnemar.p_deploy + mcnemar.p_reject > 2 * 0.05
    assert posterior.p_deploy < 0.06


def test_the_posterior_of_tasks_is_that_of_fit() -> None:
    from inference.pilots import cell_of

    from drsim.inference.static import fit_cell

    rng = np.random.default_rng(2)
    rule = DecisionRule()
    for shift in (0.02, 0.1, 0.25):
        s = rng.beta(1.0, 1.0, size=(80, 1))
        baseline = (rng.random((80, 3)) < s).astype(np.int64)
        arm = (rng.random((80, 3)) < np.minimum(s + shift, 1)).astype(np.int64)
        fit = fit_cell(cell_of(baseline, arm), seed=1, n_draws=40_000)
        assert fit.gain is not None
        prob = fit.gain.posterior.prob_gain_above(0.0)
        gains = (arm - baseline).mean(axis=1)
        above = np.linspace(0.51, 0.999, 200)
        decided = [
            int(decided_tasks(replace(rule, confidence=level), 80, gains.sum()[None], (gains**2).sum()[None])[0])
            for level in above
        ]
        ours = float(above[np.array(decided) == 1].max(initial=0.5))
        assert ours == pytest.approx(prob, abs=0.01)


def test_first_passage_agrees_with_walks() -> None:
    from drsim.planning import pilot_size

    world, plan, rule = PilotWorld(discordance=0.35), PilotPlan(n_tasks=120), PilotRule(kind=RuleKind.ANYTIME)
    for gain in (-0.2, 0.0, 0.12):
        (exact,) = operating_points(world, plan, rule, [gain], seed=1)
        n = 20_000
        deploy, reject, _, tasks = pilot_size._simulated_stops(world, plan, rule, gain, 0.35, 5, n)
        for share, prob in ((deploy, exact.p_deploy), (reject, exact.p_reject)):
            assert abs(share - prob) < 5 * (prob * (1 - prob) / n) ** 0.5
        assert abs(tasks - exact.expected_tasks) < 5 * 60 / n**0.5
        assert exact.n_pilots is None


def test_stopping_limits_are_where_the_capital_is_reached() -> None:
    rule = PilotRule(kind=RuleKind.ANYTIME)
    benefit, harm = stopping_limits(rule, 40)
    signs = np.array([-1.0, 1.0])
    for m in (3, 10, 40):
        for limits, bets, alpha in ((benefit, BENEFIT, 0.05), (harm, HARM, 0.1)):
            for k in range(m + 1):
                capital = float(log_capital(np.array([m - k, k], dtype=float), signs, 0.0, bets))
                assert (capital >= -np.log(alpha)) == (k >= limits[m])


def test_assurance_by_simulation() -> None:
    world, plan, rule = PilotWorld(discordance=0.4), PilotPlan(n_tasks=80), PilotRule()
    found = assurance(world, plan, rule, mean=0.03, sd=0.06, seed=1)
    rng = np.random.default_rng(4)
    gains = rng.normal(0.03, 0.06, 400)
    points = operating_points(world, plan, rule, np.clip(gains, -0.39, 0.39).tolist(), seed=1)
    deploy = np.array([it.p_deploy for it in points])
    right = np.array([it.p_right(0.0) for it in points])
    for value, draws in ((found.p_deploy, deploy), (found.p_right, right), (found.value, deploy * gains)):
        assert abs(value - draws.mean()) < 5 * draws.std() / len(draws) ** 0.5
    assert found.prob_gain == pytest.approx(float(stats.norm.sf(-0.5)), abs=1e-4)
    assert found.value > max(0.0, 0.03) * found.p_deploy


def test_splits_and_forks() -> None:
    world = PilotWorld(discordance=0.3, rho=0.5, fires=0.4)
    found = splits(world, PilotRule(), 0.08, power=0.8, prices=Prices(run=1.0), seed=1, trials=(1, 3))
    by_plan = {(it.pairing, it.n_trials): it for it in found}
    best = cheapest(found)
    assert best is by_plan[PairingPlan.FORK, 1]
    assert cheapest(found, PairingPlan.RERUN) is by_plan[PairingPlan.RERUN, 1]
    sizes = {key: it.n_tasks or 0 for key, it in by_plan.items()}
    assert sizes[PairingPlan.FORK, 1] < 0.5 * sizes[PairingPlan.RERUN, 1]
    # the variance of a task's gain falls from 1 to (1 + 2·0.5)/3
    assert sizes[PairingPlan.RERUN, 3] == pytest.approx(2 / 3 * sizes[PairingPlan.RERUN, 1], rel=0.06)
    dear = splits(world, PilotRule(), 0.08, power=0.8, prices=Prices(run=1.0, task=30.0), seed=1, trials=(1, 3))
    assert (cheapest(dear, PairingPlan.RERUN) or dear[0]).n_trials == 3
    same = replace(world, clustering=0.0)
    found = splits(same, PilotRule(), 0.08, power=0.8, prices=Prices(run=1.0), seed=1, trials=(3,))
    assert (found[0].n_tasks or 0) == pytest.approx(sizes[PairingPlan.RERUN, 1] / 3, rel=0.1)
    alike = splits(PilotWorld(discordance=0.3), PilotRule(), 0.08, power=0.8, prices=Prices(), seed=1, trials=(1,))
    assert {it.pairing for it in alike} == {PairingPlan.RERUN}


def test_discordance_of_reruns_is_churn() -> None:
    world = PilotWorld(failure_rate=0.3, rho=0.4)
    assert world.discordance_at(0.0) == pytest.approx(float(rerun_rates(0.3, 0.4).churn), abs=1e-12)
    assert PilotWorld(failure_rate=0.3, rho=1.0).discordance_at(0.1) == pytest.approx(0.1)
    assert PilotWorld(failure_rate=0.3, rho=0.0).discordance_at(0.1) == pytest.approx(0.7 * 0.2 + 0.8 * 0.3)
    forked = PilotWorld(failure_rate=0.3, rho=0.0, fires=0.5)
    assert forked.discordance_at(0.0, PairingPlan.FORK) == pytest.approx(0.21)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PilotWorld(), "must be given, got neither"),
        (lambda: PilotWorld(discordance=25), "discordance must lie in (0, 1], got 25"),
        (lambda: PilotWorld(discordance=0.2).discordance_at(0.3), "within the +0.2 that these pairs can show"),
        (lambda: PilotWorld(failure_rate=0.1).discordance_at(0.3), "within the +0.1 that these pairs can show"),
        (lambda: PilotPlan(n_tasks=0), "n_tasks must be a whole number from 1"),
        (lambda: PilotRule(alpha=5), "alpha must lie between 0 and 1, got 5"),
        (lambda: PilotRule(kind=RuleKind.POINT, decision=DecisionRule(margin=0.1)), "knows no margin"),
        (lambda: Prices(run=-1), "the price of a run must be a finite number ≥ 0"),
        (lambda: rule_limits(PilotRule(kind=RuleKind.ANYTIME), 5, np.arange(3)), "stopping_limits"),
        (
            lambda: tasks_needed(
                PilotWorld(discordance=0.2), PilotPlan(n_tasks=1), PilotRule(), 0.0, power=0.8, seed=1
            ),
            "must differ from the margin",
        ),
    ],
)
def test_mistakes(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError) as error:
        call()
    assert message in str(error.value)


@pytest.mark.parametrize("n_tasks", [20, 50, 200])
def test_several_trials_decide_as_the_posterior_that_is_not_taken_for_normal(n_tasks: int) -> None:
    n_pilots, rule = 200, DecisionRule()
    flips, chances = table_probabilities(0.1, 0.3, 0.5, 3)
    gains = (flips[:, 1] - flips[:, 0]) / 3
    rng = np.random.default_rng(4)
    tasks = rng.multinomial(n_tasks, chances, size=n_pilots)
    decided = decided_tasks(rule, n_tasks, tasks @ gains, tasks @ gains**2)
    n_other = 0
    for i, of_kind in enumerate(tasks):
        alpha = np.concatenate([of_kind, [0.5, 1.0, 0.5]])
        weights = rng.standard_gamma(alpha, size=(4_000, len(alpha)))
        gain = weights @ np.concatenate([gains, [-1.0, 0.0, 1.0]]) / weights.sum(axis=1)
        above, within = np.mean(gain > 0), np.mean(np.abs(gain) < rule.rope)
        exact = 1 if above >= 0.95 else -1 if above <= 0.05 else 2 if within >= 0.95 else 0
        n_other += exact != decided[i]
    # the draws themselves err next to the limit, for about one pilot in a hundred
    share = 0.03
    assert n_other / n_pilots <= share + 5 * (share * (1 - share) / n_pilots) ** 0.5
