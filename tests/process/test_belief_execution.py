from dataclasses import replace

import numpy as np
import pytest
from process.believers import believe
from process.chains import REFERENCE

from drsim.errors import ParameterError
from drsim.process.belief_execution import run_in_worlds
from drsim.process.belief_programme import belief_programme, typical
from drsim.process.compile import CompiledModel, compile_model
from drsim.process.shipped import find_model
from drsim.process.stacks import stack_draws
from drsim.process.terms import Terms
from drsim.process.threshold_ascent import worlds_of

EXAMPLE = compile_model(find_model("example"))
MINIMAX = compile_model(find_model("ip_hotpotqa_minimax_m2_1"))
ALFWORLD = compile_model(find_model("ip_alfworld_minimax_m2_1"))
TERMS = [Terms(budget=3), Terms(budget=2, cooldown=2, intervention_price=0.01, critic_price=0.001)]


@pytest.mark.parametrize("terms", TERMS, ids=["free", "prices"])
@pytest.mark.parametrize("model", [EXAMPLE, MINIMAX], ids=["extra step", "two mechanisms"])
def test_in_its_own_model_a_policy_is_worth_what_the_programme_says(model: CompiledModel, terms: Terms) -> None:
    programme = belief_programme(model, terms)
    (value,) = run_in_worlds(model, programme, worlds_of(stack_draws([model])))
    assert value == pytest.approx(programme.value, abs=1e-5)


def test_with_two_modes_it_lies_between_the_bounds() -> None:
    model = compile_model(REFERENCE)
    programme = belief_programme(model, Terms(budget=2))
    (value,) = run_in_worlds(model, programme, worlds_of(stack_draws([model])))
    assert programme.value - 2 * programme.error < value < programme.value


def test_runs_that_go_another_way_than_the_filter_thinks() -> None:
    """Against runs of the other model; what the filter's own model says is seen to be wrong."""
    for terms in TERMS:
        for model, truth in ((MINIMAX, ALFWORLD), (ALFWORLD, MINIMAX)):
            programme = belief_programme(model, terms)
            (value,) = run_in_worlds(model, programme, worlds_of(stack_draws([truth])))
            found = believe(model, programme, truth=truth, n=200_000, seed=2).net
            assert abs(found.z(value)) <= 5
            assert abs(found.z(programme.value)) > 50
            # nobody does better in a model than who knows it
            assert value <= belief_programme(truth, terms).value


def test_tasks_and_shifts_are_worlds() -> None:
    spec = find_model("signals")
    given = compile_model(replace(spec, critic=replace(spec.critic, run_sd=0.3)))
    model = typical(given)
    programme = belief_programme(model, Terms(budget=2), n_points=101)
    worlds = worlds_of(stack_draws([given]))
    values = run_in_worlds(model, programme, worlds)
    # a world alone is what it is among others
    which = np.array([7, 500])
    few = replace(
        worlds,
        **{it: getattr(worlds, it)[which] for it in ("weight", "start", "transitions", "kernels", "mean", "sd")},
    )
    np.testing.assert_array_equal(run_in_worlds(model, programme, few), values[which])
    with pytest.raises(ParameterError, match="take the typical model"):
        run_in_worlds(given, programme, worlds)
