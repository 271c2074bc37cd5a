"""Pilots simulated run by run from a compiled model: with scores, and forked from one prefix. A witness of its own."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from drsim.pilot.records import Fork, Intervention, Outcome, Run, Step
from drsim.process.compile import CompiledModel, CompiledPolicy


@dataclass(slots=True)
class Walk:
    """One run as it goes."""

    state: int
    t: int = 0
    outcome: Outcome = Outcome.CAPPED
    n_steps: int = 0
    scores: list[tuple[int, float]] = field(default_factory=list)
    fired: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    budget: int = 0
    cooled_at: int = 0


def walk(
    model: CompiledModel, rng: np.random.Generator, policy: CompiledPolicy | None, start: Walk | None = None
) -> Walk:
    """A run to its end, from its start or from where another stands; without scores above a threshold of +inf."""
    now = start or Walk(state=int(rng.choice(model.start.size, p=model.start)))
    if start is None and policy is not None:
        now.budget = policy.budget
    horizon, n_states = model.transitions.shape[:2]
    while now.t < horizon:
        end = int(rng.choice(n_states + 2, p=model.transitions[now.t, now.state]))
        now.n_steps = now.t + 1
        if end >= n_states:
            now.outcome = Outcome.SUCCESS if end == n_states else Outcome.FAIL
            return now
        now.state = end
        z = float(rng.normal(model.score_mean[end], model.score_sd[end]))
        now.scores.append((now.t, z))
        now.states.append(end)
        t, now.t = now.t, now.t + 1
        if policy is not None and now.budget and t >= now.cooled_at and z > policy.logit_threshold[t]:
            intervene(model, rng, policy, now, t)
    now.n_steps = horizon
    return now


def intervene(model: CompiledModel, rng: np.random.Generator, policy: CompiledPolicy, now: Walk, t: int) -> None:
    """One intervention after step t."""
    now.fired.append(t)
    now.state = int(rng.choice(model.start.size, p=model.kernels[policy.mechanism, t, now.state]))
    now.budget -= 1
    now.t = t + 1 + int(model.extra_steps[policy.mechanism])
    now.cooled_at = now.t + policy.cooldown


def scored_run(model: CompiledModel, rng: np.random.Generator, task: str) -> Run:
    """A baseline run with the critic's scores at its live steps."""
    done = walk(model, rng, None)
    steps = tuple(Step(t=t, score=float(1 / (1 + np.exp(-z / model.temperature)))) for t, z in done.scores)
    return Run(task_id=task, arm="baseline", outcome=done.outcome, n_steps=done.n_steps, steps=steps, benchmark="x")


def forked_pair(
    model: CompiledModel, policy: CompiledPolicy, mechanism: str, rng: np.random.Generator, task: str
) -> tuple[Run, Run]:
    """A baseline run, and the run that shares it up to the first firing of the policy and is intervened in there."""
    alone = walk(model, rng, None)
    name = f"{task}-alone"
    first = next((t for t, z in alone.scores if z > policy.logit_threshold[t]), None)
    arm = alone
    if first is not None:
        arm = Walk(state=alone.states[first], t=first + 1, budget=policy.budget, n_steps=first + 1)
        intervene(model, rng, policy, arm, first)
        arm = walk(model, rng, policy, arm)
    fork = Fork(run_id=name, t=alone.n_steps - 1 if first is None else first)
    baseline = Run(
        task_id=task, arm="baseline", outcome=alone.outcome, n_steps=alone.n_steps, run_id=name, benchmark="x"
    )
    interventions = tuple(Intervention(t=t, mechanism=mechanism) for t in arm.fired)
    return baseline, Run(
        task_id=task,
        arm="p",
        outcome=arm.outcome,
        run_id=f"{task}-p",
        forked_from=fork,
        n_steps=arm.n_steps,
        interventions=interventions,
        benchmark="x",
    )


def written(runs: list[Run], path: Path) -> str:
    """A file of runs."""
    path.write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in runs))
    return str(path)
