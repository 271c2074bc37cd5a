"""Models and draws that tests of sweeps share."""

from dataclasses import replace
from typing import Any

import numpy as np

from drsim.planning.axes_text import axes_of
from drsim.planning.sweep_cells import Fold, SweepInputs
from drsim.process.compile import CompiledModel, compile_model
from drsim.process.spec import Agent, Cost, Critic, Mechanism, Mode, Model, Policy, Signal
from drsim.process.stacks import stack_draws

MODEL = Model(
    name="small",
    source="made up",
    horizon=6,
    agent=Agent(finish=0.2, modes={"off": Mode(slip=0.15, abandon=0.1, self_recover=0.05)}),
    critic=Critic(mean_on=-0.8, mean_off={"off": 0.9}, temperature=1.5),
    mechanisms={
        "rollback": Mechanism(recover={"off": 0.4}, disrupt=0.15, extra_steps=1, tokens=3.0),
        "append": Mechanism(recover={"off": 0.2}, disrupt=(0.5, 0.3, 0.1, 0.0, 0.0, 0.0)),
    },
    policies={
        "base": Policy(mechanism="append", threshold=0.55, budget=2, first_step=1, cooldown=1),
        "tiring": Policy(mechanism="rollback", threshold=(0.2, 0.4, 0.5, 0.6, 0.7, 0.8), budget=3, propensity=0.8),
        "believer": Policy(mechanism="rollback", threshold=0.5, budget=2, signal=Signal.BELIEF),
    },
    cost=Cost(tokens_per_step=10.0, tokens_per_step_growth=1.0, critic_tokens=2.0, usd_per_million_tokens=4.0),
)


def drawn(n: int, seed: int, model: Model = MODEL) -> list[CompiledModel]:
    """Models whose rates differ a little, as draws of a posterior do."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        mechanisms = {
            name: replace(it, recover={mode: float(rng.uniform(0.1, 0.5)) for mode in it.recover})
            for name, it in model.mechanisms.items()
        }
        agent = replace(model.agent, finish=float(rng.uniform(0.15, 0.25)))
        out.append(compile_model(replace(model, mechanisms=mechanisms, agent=agent)))
    return out


def inputs(
    n_draws: int = 5,
    *,
    model: Model = MODEL,
    n_folds: int = 0,
    n_runs: int = 500,
    cells_at_once: int | None = None,
    **axes: Any,
) -> SweepInputs:
    """A sweep of the small model under so many draws."""
    folds = tuple(
        Fold(choose=stack_draws(drawn(4, 100 + i, model)), value=stack_draws(drawn(3, 200 + i, model)))
        for i in range(n_folds)
    )
    models = drawn(n_draws, 1, model) if n_draws > 1 else [compile_model(model)]
    return SweepInputs(
        model=model,
        draws=stack_draws(models),
        axes=axes_of(model, **axes),
        seed=3,
        n_runs=n_runs,
        source="small",
        folds=folds,
        cells_at_once=cells_at_once,
    )
