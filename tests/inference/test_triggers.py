"""What acting on a trigger is worth, from triggers acted on by chance: against the engine's own answer."""

from dataclasses import replace

import numpy as np
import pytest

from drsim.arrays import FloatArray
from drsim.engine.law import law_of
from drsim.engine.records import simulated_runs
from drsim.engine.reference import run_law
from drsim.engine.runs import Ending
from drsim.engine.simulate import Engine
from drsim.errors import DataError
from drsim.inference.triggers import fit_triggers
from drsim.pilot.evidence import Pilot
from drsim.pilot.triggers import FirstTriggers, first_triggers
from drsim.process.compile import compile_model, compile_policy
from drsim.process.shipped import find_model
from drsim.process.spec import Model

STEPS = 5


def randomised() -> Model:
    """One intervention at most, acted on in half of the triggers; those of the first five steps are looked at."""
    model = find_model("example")
    return replace(model, policies={"p": replace(model.policies["late"], first_step=0, budget=1, propensity=0.5)})


def true_effect(model: Model) -> FloatArray:
    """(STEPS,) success of runs whose first trigger was acted on, less that of those where it was withheld."""
    (runs,) = run_law(law_of(compile_model(model), [compile_policy(model, "p")]), n=600_000, seed=5)
    first_withheld = np.where(runs.withheld.any(axis=1), runs.withheld.argmax(axis=1), 99)
    first_acted = np.where(runs.fired_at[:, 0] >= 0, runs.fired_at[:, 0], 99)
    success = runs.ending == Ending.SUCCESS
    return np.array(
        [
            success[(first_acted == t) & (first_withheld > t)].mean() - success[(first_withheld == t)].mean()
            for t in range(STEPS)
        ]
    )


def pilot(model: Model, n: int, seed: int) -> Pilot:
    arms = {"p": (compile_policy(model, "p"), "rollback")}
    made = simulated_runs(compile_model(model), arms, name="x", n=n, seed=seed, engine=Engine.REFERENCE)
    runs = list(made)
    index = np.arange(len(runs), dtype=np.int64)
    return Pilot(runs=runs, sources=("s",), source_of=0 * index, line_of=index + 1)


def covered(model: Model, truth: FloatArray, seeds: range) -> float:
    inside = []
    for seed in seeds:
        (cell,) = fit_triggers(first_triggers(pilot(model, 600, seed)), seed=seed).cells
        draws = cell.acted.draws[:, :STEPS] - cell.withheld.draws[:, :STEPS]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        inside.append((low <= truth) & (truth <= high))
    return float(np.mean(inside))


def test_intervals_cover_what_acting_does() -> None:
    model = randomised()
    truth = true_effect(model)
    assert truth[0] < truth[-1], "acting early harms most"
    # 15 pilots whose five intervals hang together: the mean has sd below sqrt(.9 .1 / 15)
    assert covered(model, truth, range(15)) > 0.9 - 5 * np.sqrt(0.09 / 15)


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say() -> None:
    model = randomised()
    truth = true_effect(model)
    assert 0.85 <= covered(model, truth, range(200)) <= 0.97
    assert covered(model, truth + 0.3, range(40)) < 0.6


def test_a_coin_that_does_nothing_has_no_effect() -> None:
    model = randomised()
    still = replace(model.mechanisms["rollback"], recover={"off": 0.0}, disrupt=0.0, extra_steps=0)
    model = replace(model, mechanisms={"rollback": still})
    (cell,) = fit_triggers(first_triggers(pilot(model, 2_000, 3)), seed=1).cells
    mean, low, high = cell.overall
    assert low <= 0.0 <= high
    assert abs(mean) < 0.05


def test_only_triggers_left_to_chance_count() -> None:
    found = first_triggers(pilot(randomised(), 200, 1))
    (triggers,) = found
    assert set(triggers.propensity.tolist()) == {0.5}
    assert 0 < triggers.acted.sum() < triggers.acted.size
    certain = find_model("example")
    certain = replace(certain, policies={"p": certain.policies["late"]})
    assert first_triggers(pilot(certain, 200, 1)) == ()
    with pytest.raises(DataError, match="randomised triggers are needed, some acted on and some withheld"):
        fit_triggers((), seed=1)


def test_runs_acted_on_and_withheld_are_told_apart() -> None:
    step = np.repeat([0, 2], 40)
    acted = np.tile([True, False], 40)
    triggers = FirstTriggers(
        agent="a",
        benchmark="b",
        arm="m",
        step=step,
        acted=acted,
        propensity=np.full(80, 0.5),
        success=acted | (step == 2),
    )
    (cell,) = fit_triggers([triggers], seed=1).cells
    assert cell.is_observed.tolist() == [True, False, True]
    assert cell.prob_helps[0] > 0.99
    assert cell.effect[0] > 0.5
    assert abs(cell.effect[2]) < 0.2
    assert cell.acted.trials.tolist() == [20, 0, 20]
