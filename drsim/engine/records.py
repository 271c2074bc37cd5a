"""Simulated runs as pilot records, so that what is simulated can be fitted."""

from collections.abc import Iterator, Mapping

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
) -> Iterator[Run]:
    """Yield the runs of a pilot: n tasks, each with one run of the baseline and one of every policy.

    Unlike in `simulate`, arms do not share their draws: a pilot's runs are independent given the model.

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
        Same runs whichever is taken.

    Yields
    ------
    Run
    """
    arms = {BASELINE: (never(model), ""), **policies}
    for k, (arm, (policy, mechanism)) in enumerate(arms.items()):
        runs = run_engine(law_of(model, policy), engine, n=n, seed=seed, first=k * n)
        for i in range(n):
            yield _record(runs, i, model, arm=arm, mechanism=mechanism, benchmark=name)


def _record(runs: SimulatedRuns, i: int, model: CompiledModel, *, arm: str, mechanism: str, benchmark: str) -> Run:
    acts, tokens = int(runs.acts[i]), float(runs.tokens[i])
    fired_at = runs.fired_at[i, : runs.interventions[i]].tolist()
    return Run(
        task_id=f"task-{i:06d}",
        arm=arm,
        outcome=OUTCOMES[Ending(int(runs.ending[i]))],
        agent="simulated",
        benchmark=benchmark,
        n_steps=acts,
        interventions=tuple(Intervention(t=t, mechanism=mechanism) for t in fired_at),
        cost=Cost(tokens=tokens, usd=tokens * model.usd_per_token, seconds=acts * model.seconds_per_step),
    )
