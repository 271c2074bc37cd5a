from dataclasses import replace

import numpy as np
import pytest

from drsim.planning.alternatives import BestOf, Family, Selector, Verifier
from drsim.planning.assumed import Tools
from drsim.planning.candidates import alternatives_of, best_timings, triggers_of
from drsim.planning.net_values import net_values
from drsim.process.compile import compile_model, compile_policy, never
from drsim.process.shipped import find_model
from drsim.process.stacks import stack_draws
from drsim.process.terms import Terms

TOOLS = Tools(selector=Selector(auroc=0.8), verifier=Verifier(tpr=0.9, fpr=0.1), contamination=0.7)


def test_the_best_timing_is_no_worse_than_what_was_given() -> None:
    spec = find_model("example")
    model, given = compile_model(spec), {"late": compile_policy(spec, "late")}
    draws = stack_draws([model])
    found = best_timings(draws, model, list(spec.mechanisms), given, 3)
    assert list(found) == ["best rollback"]
    values = net_values(draws, [found["best rollback"], given["late"], never(model)], Terms(budget=3))[:, 0]
    assert values[0] >= values[1] > values[2]
    named = best_timings(draws, model, list(spec.mechanisms), {"best rollback": given["late"]}, 3)
    assert list(named) == ["best rollback (found)"]


def test_a_mechanism_that_only_disrupts_is_left_out() -> None:
    spec = find_model("example")
    useless = replace(spec.mechanisms["rollback"], recover={"off": 0.0}, disrupt=0.5)
    model = compile_model(replace(spec, mechanisms={"rollback": useless}))
    assert best_timings(stack_draws([model]), model, ["rollback"], {}, 3) == {}


@pytest.mark.parametrize("temperature", [1e-6, 1.0, 300.0, 1e6])
def test_triggers_rise_and_have_names_of_their_own(temperature: float) -> None:
    spec = find_model("example")
    found = triggers_of(compile_model(replace(spec, critic=replace(spec.critic, temperature=temperature))))
    cuts = [it.logit_threshold[0] for it in found.values()]
    assert len(cuts) == 5
    assert np.all(np.diff(cuts) > 0.0)


def test_all_alternatives() -> None:
    found = alternatives_of(["late"], ["score > 0.5"], TOOLS, n_max=4, has_second=True)
    names = [it.name for it in found]
    assert names[0] == "nothing"
    assert len(set(names)) == len(names)
    assert {it.family for it in found} == set(Family)
    assert {it.attempts for it in found if isinstance(it, BestOf)} == {2, 3, 4}
    perfect = replace(TOOLS, selector=Selector(auroc=1.0))
    at_hand = alternatives_of(["late"], [], perfect, n_max=4, has_second=False)
    assert not any(isinstance(it, BestOf) and it.is_named_perfect for it in at_hand)
    assert Family.ESCALATE not in {it.family for it in at_hand}
