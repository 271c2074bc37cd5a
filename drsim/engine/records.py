"""Simulated runs as pilot records, so that what is simulated can be fitted."""

from collections.abc import Iterator, Mapping

import numpy as np

from drsim.arrays import FloatArray
from drsim.engine.law import law_of
from drsim.engine.runs import Ending, SimulatedRuns
from drsim.engine.simulate import Engine, run_engine
from drsim.pilot.records import BASELINE, Cost, Intervention, Outcome, Run
from drsim.process.compile import CompiledModel, CompiledPolicy, never

__all__ = ["simulated_runs"]

OUTCOMES = {Ending.FAIL: Outcome.FAIL, Ending.SUCCESS: Outcome.SUCCESS, Ending.CAPPED: Outcome.CAPPED}


def simulated_runs(
    model: CompiledModel,
    policies: Mapping[str, tuple[CompiledPolicy, str]],
    *,
    name: str,
    n: int,
    seed: int,
    engine: Engine,
    trials: int = 1,
) -> Iterator[Run]:
    """Yield the runs of a pilot: n tasks, each with `trials` runs of the baseline and of every policy.

    Unlike in `simulate`, arms do not share their draws: a pilot's runs are independent given the model and the task.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policies : mapping of str to (CompiledPolicy, str)
        Policies by arm, each with the name of its mechanism.
    name : str
        Name of the model, which becomes the benchmark.
    n : int
        Tasks, ≥ 1.
    seed : int
        In [0, 2⁶⁴).
    engine : Engine
        Same runs whichever is taken; not `counts`.
    trials : int
        Runs of each task and arm, ≥ 1.

    Yields
    ------
    Run
    """
    arms = {BASELINE: (never(model), ""), **policies}
    for k, (arm, (policy, mechanism)) in enumerate(arms.items()):
        law = law_of(model, [policy])
        for trial in range(trials):
            first = (k * trials + trial) * n
            (runs,) = run_engine(law, engine, n=n, seed=seed, first=first, first_task=0)
            propensity = np.broadcast_to(policy.propensity, (law.horizon,)) if law.withholds[0] else None
            for i in range(n):
                yield Run(
                    task_id=f"task-{i:06d}",
                    arm=arm,
                    outcome=OUTCOMES[Ending(int(runs.ending[i]))],
                    agent="simulated",
                    benchmark=name,
                    trial=trial,
                    n_steps=int(runs.acts[i]),
                    interventions=_triggers(runs, i, mechanism, propensity),
                    cost=_cost(runs, i, model),
                )


def _triggers(runs: SimulatedRuns, i: int, mechanism: str, propensity: FloatArray | None) -> tuple[Intervention, ...]:
    """The triggers of run i in order, with what chance each had of being acted on where that was left to chance."""
    fired_at = [int(t) for t in runs.fired_at[i, : runs.interventions[i]]]
    if propensity is None:
        return tuple(Intervention(t=t, mechanism=mechanism) for t in fired_at)
    acted = dict.fromkeys(fired_at, True) | dict.fromkeys(np.flatnonzero(runs.withheld[i]).tolist(), False)
    return tuple(
        Intervention(t=t, mechanism=mechanism, acted=acted[t], propensity=float(propensity[t])) for t in sorted(acted)
    )


def _cost(runs: SimulatedRuns, i: int, model: CompiledModel) -> Cost:
    acts, tokens = int(runs.acts[i]), float(runs.tokens[i])
    return Cost(tokens=tokens, usd=tokens * model.usd_per_token, seconds=acts * model.seconds_per_step)
