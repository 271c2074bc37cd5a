from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from drsim.errors import ParameterError
from drsim.planning.net_values import net_values
from drsim.planning.robust import mean_draw, robust
from drsim.process.belief_programme import belief_programme
from drsim.process.compile import CompiledModel, compile_model, never
from drsim.process.exact import evaluate
from drsim.process.shipped import find_model
from drsim.process.stacks import stack_draws
from drsim.process.terms import Terms

EXAMPLE = compile_model(find_model("example"))


def with_rates(model: CompiledModel, recovery: float, disruption: float) -> CompiledModel:
    """Rates moved on the logit scale."""
    kernels = model.kernels.copy()
    with np.errstate(divide="ignore"):
        kernels[..., 1, 0] = expit(logit(kernels[..., 1, 0]) + recovery)
        kernels[..., 0, 1] = expit(logit(kernels[..., 0, 1]) + disruption)
    kernels[..., 1, 1] = 1.0 - kernels[..., 1, 0]
    kernels[..., 0, 0] = 1.0 - kernels[..., 0, 1]
    return replace(model, kernels=kernels)


def drawn(n: int, spread: float = 0.8) -> list[CompiledModel]:
    rng = np.random.default_rng(5)
    return [with_rates(EXAMPLE, *(spread * rng.standard_normal(2))) for _ in range(n)]


def test_a_blind_critic_in_one_open_step_has_a_closed_form() -> None:
    """Then a policy fires or does not: the robust one by the mean gain, the perfect one draw by draw."""
    t = 6
    is_open = np.arange(15) == t
    blind = replace(EXAMPLE, score_mean=np.zeros(2), extra_steps=np.zeros(1, dtype=np.int64))
    models = [replace(it, score_mean=blind.score_mean, extra_steps=blind.extra_steps) for it in drawn(30, 1.5)]
    always = replace(never(blind), mechanism=0, budget=1, logit_threshold=np.where(is_open, -np.inf, np.inf))
    gains = np.array([evaluate(it, always).gain for it in models])
    assert gains.min() < 0.0 < gains.max()
    found = robust(models, Terms(budget=1, is_open=is_open))
    assert found.mean == pytest.approx(max(0.0, gains.mean()), abs=1e-12)
    assert found.perfect_gain == pytest.approx(np.maximum(0.0, gains), abs=1e-12)
    assert found.perfect_knowledge == pytest.approx(np.maximum(0.0, gains).mean() - max(0.0, gains.mean()), abs=1e-12)
    # an estimate that errs: it says that intervening pays where the mean says it does not, or the reverse
    wrong = with_rates(blind, 3.0 if gains.mean() < 0.0 else -3.0, 0.0)
    at_wrong = robust(models, Terms(budget=1, is_open=is_open), point=wrong)
    assert at_wrong.regret == pytest.approx(abs(gains.mean()), abs=1e-12)


def test_order_of_the_three_policies() -> None:
    models = drawn(20)
    for terms in (Terms(budget=2), Terms(budget=1, intervention_price=0.02, critic_price=0.001)):
        found = robust(models, terms)
        assert found.regret >= -1e-12
        assert found.perfect_knowledge > 0.0
        assert (found.perfect_gain >= found.gain).all()
        assert (found.perfect_gain >= found.point_gain).all()
        assert found.varying == ("r and d",)
        assert 0.0 <= found.prob_gain <= 1.0
        assert found.policy is not None
        draws = stack_draws(models)
        alone = [evaluate(it, never(it)).success for it in models]
        assert found.gain == pytest.approx(net_values(draws, [found.policy], terms)[0] - alone, abs=1e-12)


def test_equal_draws_leave_nothing_to_know() -> None:
    found = robust([EXAMPLE] * 3, Terms(budget=2))
    assert found.perfect_knowledge == pytest.approx(0.0, abs=1e-9)
    assert found.regret == pytest.approx(0.0, abs=1e-9)
    assert found.varying == ()


def test_the_belief_policy_of_the_point_estimate() -> None:
    models = drawn(8)
    found = robust(models, Terms(budget=2), point=EXAMPLE, runs_belief=True)
    assert found.belief_gain is not None
    # it remembers scores, which is worth more here than knowing the draw
    assert found.belief_gain.mean() > found.perfect_gain.mean()
    for gain, model in zip(found.belief_gain, models, strict=True):
        best = belief_programme(model, Terms(budget=2), n_points=201)
        assert gain <= best.gain + best.error
    shifted = [replace(it, run_sd=0.2) for it in models]
    assert robust(shifted, Terms(budget=2), point=EXAMPLE, runs_belief=True).belief_gain is None


def test_the_mean_draw_and_a_single_one() -> None:
    models = drawn(4)
    mean = mean_draw(stack_draws(models))
    np.testing.assert_allclose(mean.kernels[0], np.mean([it.kernels for it in models], axis=0))
    with pytest.raises(ParameterError, match="draws must be at least two to be robust against, got 1"):
        robust([EXAMPLE], Terms(budget=1))


def test_nothing_can_be_done() -> None:
    found = robust(drawn(3), Terms(budget=0))
    assert (found.policy, found.point_policy) == (None, None)
    assert (found.mean, found.regret, found.perfect_knowledge) == (0.0, 0.0, 0.0)
