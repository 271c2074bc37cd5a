import numpy as np
import pytest
from inference.pilots import World, cell_of
from scipy import special

from drsim.errors import ParameterError
from drsim.inference.paired_table import PairedTable
from drsim.inference.static import fit_cell
from drsim.inference.task_groups import PURE_TABLES, TaskGroups
from drsim.planning.verdict import DecisionKind, DecisionRule, decide, next_pilot

PUBLISHED = PairedTable(a=118, b=9, c=16, d=7)


def groups_of(table: PairedTable) -> TaskGroups:
    counts = np.array([table.a, table.b, table.c, table.d])
    return TaskGroups(values=PURE_TABLES, n_tasks=counts).with_prior(PURE_TABLES)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (PUBLISHED, DecisionKind.INCONCLUSIVE),
        (PairedTable(a=50, b=2, c=30, d=50), DecisionKind.DEPLOY),
        (PairedTable(a=50, b=30, c=2, d=50), DecisionKind.DO_NOT_DEPLOY),
        (PairedTable(a=9_000, b=20, c=20, d=9_000), DecisionKind.EQUIVALENT),
    ],
)
def test_decisions(table: PairedTable, kind: DecisionKind) -> None:
    assert decide(table, DecisionRule()) is kind


def test_margin_moves_the_decision() -> None:
    table = PairedTable(a=50, b=2, c=30, d=50)
    assert decide(table, DecisionRule(margin=0.2)) is DecisionKind.INCONCLUSIVE
    assert decide(table, DecisionRule(margin=0.4)) is DecisionKind.DO_NOT_DEPLOY


def test_exactly_the_confidence_is_enough() -> None:
    prob = PUBLISHED.prob_gain_above(0.0)
    assert decide(PUBLISHED, DecisionRule(confidence=prob)) is DecisionKind.DEPLOY
    assert decide(PUBLISHED, DecisionRule(confidence=np.nextafter(prob, 1))) is DecisionKind.INCONCLUSIVE


def brute_force_prob_decided(table: PairedTable, n_pairs: int, rule: DecisionRule, n_pilots: int) -> float:
    """Larger pilots one by one, each read by the exact posterior and the rule itself."""
    rng = np.random.default_rng(21)
    at_hand = np.array([table.a, table.b, table.c, table.d])
    n_decided = 0
    for _ in range(n_pilots):
        a, b, c, d = at_hand + rng.multinomial(n_pairs - int(at_hand.sum()), rng.dirichlet(table.alpha))
        n_decided += decide(PairedTable(a=a, b=b, c=c, d=d), rule) is not DecisionKind.INCONCLUSIVE
    return n_decided / n_pilots


def test_next_pilot_decides_with_the_stated_probability() -> None:
    rule = DecisionRule()
    found = next_pilot(groups_of(PUBLISHED), rule, pairs_per_task=1, usd_per_pair=0.5, seed=1)
    assert found is not None
    assert found.more_pairs == found.pairs - 150
    assert found.usd == 0.5 * found.more_pairs
    n_pilots = 600
    prob = brute_force_prob_decided(PUBLISHED, found.pairs, rule, n_pilots)
    # Both sides are simulated: 2,000 pilots there, 600 here, and the size is found to 2 %, worth about 0.005.
    assert abs(prob - rule.power) <= 5 * np.sqrt(0.16 / n_pilots + 0.16 / 2_000) + 0.005
    half = brute_force_prob_decided(PUBLISHED, found.pairs // 3, rule, n_pilots)
    assert half < rule.power - 5 * np.sqrt(0.25 / n_pilots)


def test_next_pilot_of_repeated_tasks_counts_pairs() -> None:
    baseline, arm = World(failure_rate=0.43, rho=0.5, shift=0.15).draw(40, 3, np.random.default_rng(3))
    groups = fit_cell(cell_of(baseline, arm), seed=1).groups
    found = next_pilot(groups, DecisionRule(), pairs_per_task=3, usd_per_pair=None, seed=1)
    assert found is not None
    assert found.usd is None
    assert found.pairs % 3 == 0
    assert found.more_pairs == found.pairs - 120


def test_no_affordable_pilot_is_said() -> None:
    rule = DecisionRule(max_pairs=160)
    assert next_pilot(groups_of(PUBLISHED), rule, pairs_per_task=1, usd_per_pair=None, seed=1) is None


def test_more_power_needs_more_pairs() -> None:
    sizes = []
    for power in (0.6, 0.8, 0.9):
        rule = DecisionRule(power=power)
        found = next_pilot(groups_of(PUBLISHED), rule, pairs_per_task=1, usd_per_pair=None, seed=1)
        assert found is not None
        sizes.append(found.pairs)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_normal_form_of_the_future_posterior_agrees_with_the_exact_one() -> None:
    # next_pilot reads P(|Δ| < rope) by the normal form; where pilots are large enough for it to matter, it holds.
    table = PairedTable(a=3_000, b=60, c=75, d=3_000)
    gain = table.gain()
    exact = table.prob_gain_above(-0.01) - table.prob_gain_above(0.01)
    normal = special.ndtr((0.01 - gain.mean) / gain.sd) - special.ndtr((-0.01 - gain.mean) / gain.sd)
    assert normal == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 4}, "margin must lie in [-1, 1], got 4; give a probability, not per cent"),
        ({"rope": -0.1}, "rope must lie in [0, 1], got -0.1; give a probability, not per cent"),
        ({"confidence": 95}, "confidence must lie between 0.5 and 1, got 95; give a probability, not per cent"),
        ({"power": float("nan")}, "power must lie between 0 and 1, got nan; give a probability, not per cent"),
        ({"max_pairs": 0}, "max_pairs must be at least 1, got 0"),
    ],
)
def test_bad_rules_are_named(options: dict[str, float], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        DecisionRule(**options)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize("flips", [200, 400, 2_000])
def test_normal_form_of_the_sign_errs_by_under_a_thousandth(flips: int) -> None:
    for ups in range(flips // 2, flips // 2 + 3 * round(flips**0.5)):
        up, down = ups + 0.5, flips - ups + 0.5
        exact = special.betainc(down, up, 0.5)
        if not 0.9 <= exact <= 0.99:
            continue
        # P(Δ > 0) by mean and variance of the Dirichlet posterior, with as many pairs that do not flip.
        total = 2 * (up + down)
        mean = (up - down) / total
        sd = np.sqrt(((up + down) / total - mean**2) / (total + 1))
        assert special.ndtr(mean / sd) == pytest.approx(exact, abs=1e-3)
