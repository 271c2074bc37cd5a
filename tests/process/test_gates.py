from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from process.chains import REFERENCE, models, paths

from drsim.process.compile import compile_model, compile_policy, never
from drsim.process.exact import evaluate
from drsim.process.gates import gates_of
from drsim.process.spec import Model, Policy
from drsim.process.trace import trace


def gates_with(**changes: object) -> tuple[int, int, int, bool]:
    policy = replace(Policy(mechanism="rollback", threshold=0.5, budget=99), **changes)  # type: ignore[arg-type]
    model = replace(REFERENCE, policies={"p": policy})
    gates = gates_of(compile_model(model), compile_policy(model, "p"))
    return gates.budget, gates.extra, gates.cooldown, gates.reads_scores


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (8, 1, 0, True)),  # steps 0, 2, …, 14: the extra step lies between
        ({"cooldown": 1}, (5, 1, 1, True)),  # steps 0, 3, …, 12
        ({"cooldown": 2}, (4, 1, 2, True)),
        ({"cooldown": 99}, (1, 1, 0, True)),
        ({"first_step": 6, "last_step": 9}, (2, 1, 0, True)),
        ({"budget": 1, "cooldown": 5}, (1, 1, 0, True)),
        ({"budget": 0}, (0, 0, 0, False)),
        ({"threshold": 1.0}, (0, 0, 0, False)),
        ({"threshold": 0.0}, (8, 1, 0, False)),
    ],
)
def test_room_for_interventions(changes: dict[str, object], expected: tuple[int, int, int, bool]) -> None:
    assert gates_with(**changes) == expected


def test_the_baseline_has_no_gates() -> None:
    model = compile_model(REFERENCE)
    gates = gates_of(model, never(model))
    assert (gates.budget, gates.extra, gates.cooldown, gates.reads_scores) == (0, 0, 0, False)


@settings(deadline=None, max_examples=40)
@given(models())
def test_no_run_has_more_interventions(model: Model) -> None:
    gates = gates_of(compile_model(model), compile_policy(model, "p"))
    assert max(len(path.firings) for path in paths(model, "p")) <= gates.budget


def test_budget_and_cooldown_beyond_the_horizon_cost_no_memory() -> None:
    policy = Policy(mechanism="m", threshold=0.5, budget=2**31 - 1, cooldown=2**31 - 1)
    mechanism = replace(REFERENCE.mechanisms["rollback"], extra_steps=10_000)
    model = replace(REFERENCE, mechanisms={"m": mechanism}, policies={"p": policy})
    arrays, compiled = compile_model(model), compile_policy(model, "p")
    exact = evaluate(arrays, compiled)
    assert exact.interventions == pytest.approx(trace(arrays, compiled).interventions.sum(), abs=1e-12)
    assert exact.success + exact.capped <= 1.0


def test_a_shift_that_no_firing_reads_needs_no_nodes() -> None:
    model = replace(compile_model(REFERENCE), run_sd=1000.0)
    always = replace(never(model), mechanism=0, budget=2, logit_threshold=np.full(15, -np.inf))
    for policy in (never(model), always):
        assert evaluate(model, policy).n_nodes == trace(model, policy).n_nodes == 1
