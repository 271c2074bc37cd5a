import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process.believers import believe
from process.chains import REFERENCE, models
from scipy.special import ndtr

from drsim.arrays import FloatArray
from drsim.engine.simulate import Engine, simulate
from drsim.errors import ParameterError
from drsim.process.belief_grid import belief_grid, expected, off_points, posterior
from drsim.process.belief_programme import belief_programme, typical
from drsim.process.compile import CompiledModel, CompiledPolicy, History, compile_model
from drsim.process.exact import unaided
from drsim.process.quadrature import shift_nodes
from drsim.process.shipped import find_model
from drsim.process.spec import Agent, Critic, Mechanism, Mode, Model, Signal
from drsim.process.terms import Terms

EXAMPLE = compile_model(find_model("example"))
MINIMAX = compile_model(find_model("ip_hotpotqa_minimax_m2_1"))


def only(model: CompiledModel, step: int) -> Terms:
    is_open = np.zeros(len(model.transitions), dtype=np.bool_)
    is_open[step] = True
    return Terms(budget=1, is_open=is_open)


def break_even(model: CompiledModel, t: int, price: float = 0.0, m: int = 0) -> float:
    """THEORY section 4, the leverage identity, with extra steps and a price."""
    horizon = len(model.transitions)
    alone = unaided(model)
    later = min(t + 1 + int(model.extra_steps[m]), horizon)
    leverage = alone[later, 0] - alone[later, 1]
    lost_on, lost_off = alone[t + 1] - alone[later]
    d, r = model.kernels[m, t, 0, 1], model.kernels[m, t, 1, 0]
    slope = (r + d) * leverage + lost_on - lost_off
    return float((d * leverage + lost_on + price) / slope) if slope > 0.0 else np.inf


@pytest.mark.parametrize("model", [EXAMPLE, MINIMAX], ids=["extra step", "two mechanisms"])
@pytest.mark.parametrize("price", [0.0, 0.003])
def test_one_open_step_is_the_leverage_identity(model: CompiledModel, price: float) -> None:
    compared = 0
    for m in range(len(model.kernels)):
        for t in range(len(model.transitions)):
            terms = replace(only(model, t), intervention_price=price, mechanisms=(m,))
            programme = belief_programme(model, terms, n_points=201)
            found, expected_b = programme.regions.lowest[m, 0, t], break_even(model, t, price, m)
            if 0.0 <= expected_b < 1.0 - 1e-9:
                assert found == pytest.approx(expected_b, abs=1e-10)
                compared += 1
            else:
                assert np.isnan(found)
    assert compared >= 13


def test_one_open_step_gains_what_the_binormal_closed_form_says() -> None:
    """The gain is the leverage times E[(b r − (1 − b) d)⁺] over the first score: two normal tails."""
    start = np.array([0.7, 0.3])
    model = replace(EXAMPLE, extra_steps=np.zeros(1, dtype=np.int64), start=start)
    live = start @ model.transitions[0, :, :2]
    d, r = model.kernels[0, 0, 0, 1], model.kernels[0, 0, 1, 0]
    leverage = unaided(model)[1, 0] - unaided(model)[1, 1]
    delta = (model.score_mean[1] - model.score_mean[0]) / model.score_sd[0]
    cut = np.log(live[0] * d / (live[1] * r)) / delta + delta / 2.0
    gain = leverage * (live[1] * r * ndtr(delta - cut) - live[0] * d * ndtr(-cut))
    programme = belief_programme(model, only(model, 0))
    # a convex function is never below its interpolant, and the bound must hold
    assert -1e-12 <= programme.gain - gain <= programme.error
    assert programme.error < 1e-6


@settings(deadline=None, max_examples=60)
@given(models(most_steps=5, most_modes=2), st.integers(0, 3), st.integers(0, 2), st.booleans())
def test_the_value_of_any_model_is_what_its_own_policy_gains(
    spec: Model, budget: int, cooldown: int, is_priced: bool
) -> None:
    model = compile_model(spec)
    terms = Terms(budget=budget, cooldown=cooldown)
    if is_priced:
        terms = replace(terms, intervention_price=0.01, critic_price=0.002)
    programme = belief_programme(model, terms, n_points=301)
    n = 20_000
    found = believe(model, programme, n=n, seed=1).net
    # events rarer than 1 in n are not in the standard error; the grid's own error is
    assert abs(found.value - programme.value) <= 5 * found.se + 10 / n + programme.error


@pytest.mark.parametrize(
    ("model", "terms"),
    [
        (EXAMPLE, Terms(budget=3)),
        (EXAMPLE, Terms(budget=2, cooldown=2)),
        (MINIMAX, Terms(budget=3)),
        (MINIMAX, Terms(budget=2, cooldown=1, intervention_price=0.01, critic_price=0.004)),
    ],
    ids=["example", "cooldown", "two mechanisms", "prices"],
)
def test_the_value_is_the_monte_carlo_value(model: CompiledModel, terms: Terms) -> None:
    programme = belief_programme(model, terms)
    runs = believe(model, programme, n=400_000, seed=7)
    assert abs(runs.net.z(programme.value)) <= 5
    assert abs(runs.success.z(programme.success)) <= 5
    assert abs(runs.interventions.z(programme.interventions)) <= 5
    if terms.critic_price:
        assert runs.critic_calls.value < 5.0
        spent = terms.critic_price * runs.critic_calls.value + terms.intervention_price * runs.interventions.value
        assert runs.net.value == pytest.approx(runs.success.value - spent)


def test_the_engine_gains_as_much_with_its_signal_belief() -> None:
    """One intervention: the curve of thresholds is a policy whose signal is the belief."""
    for model in (EXAMPLE, replace(MINIMAX, kernels=MINIMAX.kernels[1:], extra_steps=MINIMAX.extra_steps[1:])):
        programme = belief_programme(model, Terms(budget=1))
        curve = programme.regions.lowest[0, 0]
        assert programme.regions.is_upper.all()
        closed = np.isnan(curve)
        policy = CompiledPolicy(
            mechanism=0,
            logit_threshold=np.where(closed, np.inf, -np.inf),
            budget=1,
            cooldown=0,
            history=History(signal=Signal.BELIEF, threshold=np.where(closed, 1.0, curve), window=0, votes=0),
        )
        result = simulate(model, {"best": policy}, n=400_000, seed=3, engine=Engine.NUMBA)
        best = result.policies["best"]
        assert abs(best.success.z(programme.success)) <= 5
        assert abs(best.interventions.z(programme.interventions)) <= 5
        # power: a curve that lies elsewhere is seen to be worse
        lower = History(signal=Signal.BELIEF, threshold=np.where(closed, 1.0, 0.4 * curve), window=0, votes=0)
        result = simulate(model, {"worse": replace(policy, history=lower)}, n=400_000, seed=3, engine=Engine.NUMBA)
        assert result.policies["worse"].success.z(programme.success) < -5


@settings(deadline=None, max_examples=150)
@given(models(most_steps=5, most_modes=1), st.floats(0.0, 0.05))
def test_the_last_intervention_is_made_above_a_threshold(spec: Model, price: float) -> None:
    """With one intervention left its worth less that of waiting is concave in b: it pays in an interval, which is an
    upper set wherever it pays in a run that is surely off track. The belief rises with the score, since scores of equal
    spread have a monotone likelihood ratio, so the same holds of the score."""
    model = compile_model(spec)
    programme = belief_programme(model, Terms(budget=1, intervention_price=price), n_points=201)
    for t in range(len(model.transitions) if programme.budget else 0):
        acting = np.flatnonzero(programme.action[0, t] != -1)
        assert not acting.size or acting.size == acting[-1] - acting[0] + 1
        if acting.size and acting[-1] == 200:
            assert programme.regions.is_upper[0, t]
    if abs(model.score_mean[1] - model.score_mean[0]) > 1e-6:
        scores = np.linspace(-8.0, 8.0, 50)[None]
        after = posterior(np.array([[0.6, 0.4]]), scores, model.score_mean, model.score_sd)[0, :, 1]
        rises = np.sign(model.score_mean[1] - model.score_mean[0]) * np.diff(after)
        assert (rises >= -1e-15).all()


@st.composite
def steady_models(draw: st.DrawFn) -> Model:
    """One mode and one mechanism without extra steps, all rates the same in every step, scores of equal spread, and a
    run that was on track is no likelier off track after an intervention than one that was off: r + d ≤ 1."""

    def rate() -> float:
        return draw(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0, allow_subnormal=False)))

    recover = rate()
    return Model(
        name="steady",
        source="drawn",
        horizon=draw(st.integers(2, 8)),
        agent=Agent(finish=rate(), modes={"off": Mode(slip=rate(), abandon=rate(), self_recover=rate())}),
        critic=Critic(auroc=draw(st.floats(0.5, 0.99))),
        mechanisms={"m": Mechanism(recover={"off": recover}, disrupt=(1.0 - recover) * rate())},
    )


@settings(deadline=None, max_examples=150)
@given(steady_models(), st.sampled_from([0.0, 0.01]))
def test_steady_models_have_upper_sets(spec: Model, price: float) -> None:
    """For every number of interventions left. Proved for the last one only; no counterexample is known."""
    programme = belief_programme(compile_model(spec), Terms(budget=3, intervention_price=price), n_points=201)
    assert programme.regions.is_upper.all()


def test_shipped_models_have_upper_sets() -> None:
    for name in ("example", "ip_hotpotqa_minimax_m2_1", "ip_alfworld_minimax_m2_1"):
        regions = belief_programme(compile_model(find_model(name)), Terms(budget=3)).regions
        assert regions.is_upper.all()
        # with more interventions left one is spent more easily
        first = np.where(np.isnan(regions.first), 1.0, regions.first)
        assert (np.diff(first, axis=0) <= 1e-6).all()


def test_a_pause_that_pays_is_no_upper_set() -> None:
    """Nothing finishes in the first steps of this agent, and a run on track slips nearly always: an intervention that
    hardly disrupts saves it from acting, and only runs off track have nothing to save."""
    model = compile_model(find_model("ip_alfworld_qwen3_8b"))
    regions = belief_programme(model, Terms(budget=1)).regions
    assert not regions.is_upper[0, 1]
    assert regions.lowest[0, 0, 1] == 0.0
    assert regions.highest[0, 0, 1] < 1.0
    # without the pause the same interventions pay off track alone
    unpaused = replace(model, extra_steps=np.zeros(2, dtype=np.int64))
    assert belief_programme(unpaused, Terms(budget=1)).regions.is_upper.all()


@settings(deadline=None, max_examples=60)
@given(models(most_steps=5, most_modes=2), st.integers(1, 3), st.integers(0, 2))
def test_what_is_allowed_or_cheaper_is_worth_no_less(spec: Model, budget: int, cooldown: int) -> None:
    model = compile_model(spec)

    def value(terms: Terms) -> float:
        return belief_programme(model, terms, n_points=51).value

    terms = Terms(budget=budget, cooldown=cooldown, intervention_price=0.01, critic_price=0.002)
    dearest = value(terms)
    # without nodes' errors, which several modes have
    tolerance = 1e-12 if len(spec.agent.modes) == 1 else 1e-6
    for easier in (
        replace(terms, budget=budget + 1),
        replace(terms, cooldown=max(0, cooldown - 1)),
        replace(terms, intervention_price=0.0),
        replace(terms, critic_price=0.0),
    ):
        assert value(easier) >= dearest - tolerance
    assert dearest >= value(replace(terms, budget=0)) - tolerance
    assert value(replace(terms, budget=0)) == pytest.approx(float(unaided(model)[0] @ model.start), abs=1e-9)


class Tree:
    """The programme for one mode by recursion over scores, belief by belief: no grid, no interpolation."""

    def __init__(self, model: CompiledModel, terms: Terms, n_scores: int) -> None:
        self.model, self.terms = model, terms
        spread = 6.0 * model.score_sd.max()
        self.z = np.linspace(model.score_mean.min() - spread, model.score_mean.max() + spread, n_scores)
        density = np.exp(-0.5 * ((self.z[:, None] - model.score_mean) / model.score_sd) ** 2) / model.score_sd
        self.share = density / density.sum(axis=0)

    def act(self, t: int, budget: int, cooldown: int, b: FloatArray) -> FloatArray:
        horizon = len(self.model.transitions)
        if t >= horizon:
            return np.zeros_like(b)
        moves = self.model.transitions[t]
        joint = np.stack([1.0 - b, b], axis=-1)
        live = joint @ moves[:, :2]
        now: FloatArray = joint @ moves[:, 2]
        if t == horizon - 1 and self.terms.critic_price == 0.0 and self.terms.intervention_price == 0.0:
            return now
        total = live.sum(axis=-1)
        off = np.divide(live[..., 1], total, out=np.zeros_like(total), where=total > 0.0)
        unscored = self.decide(t, budget, cooldown, off)
        mixed = (1.0 - off)[..., None] * self.share[:, 0] + off[..., None] * self.share[:, 1]
        after = np.divide(off[..., None] * self.share[:, 1], mixed, out=np.zeros_like(mixed), where=mixed > 0.0)
        scored = (mixed * self.decide(t, budget, cooldown, after)).sum(axis=-1) - self.terms.critic_price
        then: FloatArray = np.maximum(unscored, scored) if self.terms.critic_price else scored
        value: FloatArray = now + total * then
        return value

    def decide(self, t: int, budget: int, cooldown: int, b: FloatArray) -> FloatArray:
        best = self.act(t + 1, budget, max(cooldown - 1, 0), b)
        if budget == 0 or cooldown > 0:
            return best
        for m, extra in enumerate(self.model.extra_steps):
            kernel = self.model.kernels[m, t]
            moved = (1.0 - b) * kernel[0, 1] + b * kernel[1, 1]
            then = self.act(t + 1 + int(extra), budget - 1, self.terms.cooldown, moved)
            best = np.maximum(best, then - self.terms.intervention_price)
        return best


@pytest.mark.parametrize(
    "terms",
    [
        Terms(budget=1),
        Terms(budget=2),
        Terms(budget=3, cooldown=1),
        Terms(budget=2, intervention_price=0.01),
        Terms(budget=2, critic_price=0.001),
    ],
    ids=["one", "two", "cooldown", "price", "critic"],
)
@pytest.mark.parametrize("model", [EXAMPLE, MINIMAX], ids=["extra step", "two mechanisms"])
def test_the_grid_agrees_with_a_recursion_that_has_none(model: CompiledModel, terms: Terms) -> None:
    last = 3 if terms.is_free else 2
    steps = slice(8, 9 + last)
    short = replace(
        model,
        start=np.array([0.6, 0.4]),
        transitions=model.transitions[steps],
        kernels=model.kernels[:, steps],
        tokens=model.tokens[steps],
        critic_tokens=model.critic_tokens[steps],
    )
    coarse, fine = (
        float(Tree(short, terms, n_scores).act(0, terms.budget, 0, np.array([0.4]))[0]) for n_scores in (60, 120)
    )
    programme = belief_programme(short, terms)
    assert programme.gain > 1e-4
    assert abs(programme.value - fine) <= abs(fine - coarse) + programme.error
    assert abs(fine - coarse) < 2e-4


def test_of_two_equal_mechanisms_the_first_is_taken() -> None:
    """Neither is better than the other, and yet one of them is the best choice."""
    twice = replace(
        EXAMPLE, kernels=np.repeat(EXAMPLE.kernels, 2, axis=0), extra_steps=np.repeat(EXAMPLE.extra_steps, 2)
    )
    one, two = (belief_programme(it, Terms(budget=2), n_points=101) for it in (EXAMPLE, twice))
    assert two.value == one.value
    np.testing.assert_array_equal(two.regions.lowest[0], one.regions.lowest[0])
    assert np.isnan(two.regions.lowest[1]).all()


def test_halving_the_grid_bounds_the_error() -> None:
    fine = belief_programme(EXAMPLE, Terms(budget=3), n_points=4001)
    for n_points in (101, 501, 1001):
        programme = belief_programme(EXAMPLE, Terms(budget=3), n_points=n_points)
        assert 0.0 <= programme.value - fine.value <= programme.error


@pytest.mark.parametrize(
    ("mean", "sd"),
    [((-1.2, 1.2), (1.0, 1.0)), ((1.0, -0.5), (0.7, 0.7)), ((-1.0, 0.5), (1.0, 1.7)), ((-1.0, 0.5), (1.7, 0.6))],
)
def test_gauss_hermite_nodes_tend_to_the_exact_mean_over_scores(
    mean: tuple[float, float], sd: tuple[float, float]
) -> None:
    grid = belief_grid(2, 101)
    means, sds = np.array(mean), np.array(sd)
    value = np.maximum(0.3 * grid.points[:, 1] ** 2, 0.5 * grid.points[:, 1] - 0.2)
    off = np.array([0.0, 0.013, 0.2, 0.5, 0.9, 1.0])
    exact = expected(grid, off_points(off, np.ones(1)), means, sds) @ value
    errors = []
    for n_nodes in (33, 65, 129, 257, 513):
        nodes, weights = shift_nodes(n_nodes)
        total = np.zeros(off.size)
        for x, share in ((0, 1.0 - off), (1, off)):
            after = posterior(off_points(off, np.ones(1)), (means[x] + sds[x] * nodes)[None], means, sds)[..., 1]
            total += share * (np.interp(after, grid.points[:, 1], value) @ weights)
        errors.append(float(np.abs(total - exact).max()))
    # a kink costs about a squared distance of nodes, which falls as 1/n
    assert errors[-1] < 1e-5
    assert errors[-1] < errors[0] / 4


def test_scores_that_say_nothing_leave_beliefs_alone() -> None:
    grid = belief_grid(2, 101)
    same = expected(grid, grid.points, np.zeros(2), np.ones(2))
    np.testing.assert_allclose(same, np.eye(101), rtol=0, atol=1e-13)
    blind = replace(EXAMPLE, score_mean=np.zeros(2))
    programme = belief_programme(blind, Terms(budget=1))
    assert 0.0 <= programme.gain < belief_programme(EXAMPLE, Terms(budget=1)).gain


@pytest.mark.parametrize("n_states", [2, 3, 4, 6])
def test_cells_hold_every_belief(n_states: int) -> None:
    grid = belief_grid(n_states, 1001)
    assert grid.n_points <= 1001
    beliefs = np.random.default_rng(0).dirichlet(np.full(n_states, 0.4), 3000)
    for points in (beliefs, grid.points, np.eye(n_states)):
        places = grid.places(points)
        assert (places.weights >= 0.0).all()
        rebuilt = np.einsum("nk,nks->ns", places.weights, grid.points[places.corners])
        np.testing.assert_allclose(rebuilt, points, rtol=0, atol=1e-14)


def test_fifty_steps_take_a_second() -> None:
    model = compile_model(replace(find_model("example"), horizon=50, policies={}))
    took = []
    for _ in range(3):
        begun = time.process_time()
        programme = belief_programme(model, Terms(budget=3))
        took.append(time.process_time() - begun)
    assert programme.action.shape == (3, 50, 1001)
    assert min(took) < 1.0


def test_what_the_belief_cannot_hold_is_refused() -> None:
    shifted = compile_model(replace(REFERENCE, critic=replace(REFERENCE.critic, run_sd=0.3)))
    with pytest.raises(ParameterError, match=r"run_sd must be 0 for a belief programme, got 0\.3"):
        belief_programme(shifted, Terms(budget=1))
    unlike = compile_model(find_model("signals"))
    with pytest.raises(ParameterError, match="tasks must be alike for a belief programme"):
        belief_programme(unlike, Terms(budget=1))
    assert belief_programme(typical(unlike), Terms(budget=1), n_points=101).gain > 0.0
    np.testing.assert_allclose(typical(shifted).score_sd, np.hypot(1.0, 0.3))
    with pytest.raises(ParameterError, match="mechanisms must be indices below 1, got 1"):
        belief_programme(EXAMPLE, Terms(budget=1, mechanisms=(1,)))
    with pytest.raises(ParameterError, match="is_open must have the 15 steps"):
        belief_programme(EXAMPLE, Terms(budget=1, is_open=np.ones(3, dtype=np.bool_)))
    with pytest.raises(ParameterError, match=r"intervention_price must lie in \[0, 1\], in units of success, got 1.5"):
        Terms(budget=1, intervention_price=1.5)
    with pytest.raises(ParameterError, match="grid must hold at least the 2 corners"):
        belief_programme(EXAMPLE, Terms(budget=1), n_points=1)
