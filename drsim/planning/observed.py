r"""What a pilot's runs say of a model besides how they end: horizon, costs, and the critic's scores.

Scores are Normal by the state that a run is in, which nobody sees. What the baseline runs' ends say of it, given how
the model moves, is the smoothed P(off track after step t | the run ended so, after so many steps). On average a score
is then

.. math::

    E[z_t] = \mu_{on} + (\mu_{off} - \mu_{on})\,q_t, \qquad
    \mathrm{Var}[z_t] = \sigma^2 + \omega^2 + (\mu_{off} - \mu_{on})^2\, q_t (1 - q_t), \qquad q_t = P(\mathrm{off}_t),

so that least squares give both means, and the residuals σ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.optimize import nnls
from scipy.special import logit

from drsim.arrays import FloatArray
from drsim.pilot.caps import longest_run, step_cap
from drsim.pilot.pairing import group_runs
from drsim.pilot.records import Outcome, Run
from drsim.process.compile import CompiledModel, compile_model
from drsim.process.parts import Cost, Critic, Mechanism, Policy
from drsim.process.spec import Model
from drsim.process.steps import Decay, StepValue

__all__ = ["Seen", "Told", "costs_seen", "horizon_seen", "scores_seen", "with_horizon"]

FEWEST_SCORES = 100
"""Scored steps below which the base model's scores say more."""
LARGEST_MISFIT = 0.2
"""Share of the scored runs whose ends the model cannot give, beyond which it is no guide to their states."""
TOKENS_PER_PRICE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something that the data were asked for."""

    subject: str
    """Such as `costs`."""
    is_used: bool
    """Whether the data carry it, so that nothing is assumed."""
    why: str
    """What was used, or why nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen[T]:
    """A part of a model, from the data where they carry it, and what became of them."""

    part: T
    told: Told


def horizon_seen(runs: Sequence[Run], base: Model, *, baseline: str) -> Seen[int]:
    """Steps after which a run is capped.

    Parameters
    ----------
    runs : sequence of Run
        Of one agent and benchmark.
    base : Model
        Whose horizon stands where the runs show none.
    baseline : str
        Name of the arm without intervention.

    Returns
    -------
    Seen of int
    """
    (by_arm,) = group_runs(runs).values()
    tasks = by_arm.get(baseline, {})
    cap, longest = step_cap(tasks), longest_run(tasks)
    if cap is not None:
        return Seen(part=cap, told=Told(subject="horizon", is_used=True, why=f"{cap} steps, at which runs were capped"))
    if longest is not None and longest > base.horizon:
        why = f"{longest} steps, of the longest baseline run, since no cap shows and {base.horizon} would be too few"
        return Seen(part=longest, told=Told(subject="horizon", is_used=True, why=why))
    why = "no cap shows in the runs" if longest is not None else "the data state no number of steps"
    return Seen(part=base.horizon, told=Told(subject="horizon", is_used=False, why=why))


def with_horizon(model: Model, horizon: int) -> Model:
    """The model over another number of steps.

    Parameters
    ----------
    model : Model
        T steps.
    horizon : int
        ≥ 1. Lists are cut, or go on with their last number; policies that would open too late are left out, and those
        that would close too late close with the horizon.

    Returns
    -------
    Model
    """
    if horizon == model.horizon:
        return model

    def fitted(value: StepValue) -> StepValue:
        if isinstance(value, Decay | float | int):
            return value
        values = tuple(value)[:horizon]
        return values + values[-1:] * (horizon - len(values))

    agent = model.agent
    modes = {
        name: replace(mode, **{it.name: fitted(getattr(mode, it.name)) for it in fields(mode)})
        for name, mode in agent.modes.items()
    }

    def mechanism(it: Mechanism) -> Mechanism:
        recover = {mode: fitted(value) for mode, value in it.recover.items()}
        return replace(it, recover=recover, disrupt=fitted(it.disrupt))

    def policy(it: Policy) -> Policy:
        last = None if it.last_step is None else min(it.last_step, horizon - 1)
        return replace(it, threshold=fitted(it.threshold), propensity=fitted(it.propensity), last_step=last)

    return replace(
        model,
        horizon=horizon,
        agent=replace(agent, finish=fitted(agent.finish), modes=modes),
        mechanisms={name: mechanism(it) for name, it in model.mechanisms.items()},
        policies={name: policy(it) for name, it in model.policies.items() if it.first_step < horizon},
    )


def costs_seen(runs: Sequence[Run], base: Cost, *, baseline: str) -> Seen[Cost]:
    """Tokens, price and time.

    Parameters
    ----------
    runs : sequence of Run
        Of one agent and benchmark.
    base : Cost
        Whose fields stand where the runs are silent.
    baseline : str
        Name of the arm without intervention.

    Returns
    -------
    Seen of Cost
        Tokens of step t as a + g·t by least squares on the baseline runs' totals, a and g not below 0.
    """
    found: dict[str, float] = {}
    alone = [run for run in runs if run.arm == baseline and run.n_steps and run.cost is not None]
    totals = [(run.n_steps, run.cost) for run in alone if run.n_steps and run.cost is not None]
    counted = np.array([(n, cost.tokens) for n, cost in totals if cost.tokens is not None], dtype=np.float64)
    if len(counted):
        n, tokens = counted.T
        columns = [n, n * (n - 1.0) / 2.0] if np.unique(n).size > 1 else [n]
        found["tokens_per_step"], *growth = map(float, nnls(np.stack(columns, axis=1), tokens)[0])
        found["tokens_per_step_growth"] = growth[0] if growth else 0.0
    priced = [(cost.tokens, cost.usd) for _, cost in totals if cost.tokens and cost.usd is not None]
    if priced:
        spent, usd = map(sum, zip(*priced, strict=True))
        found["usd_per_million_tokens"] = float(usd / spent * TOKENS_PER_PRICE)
    timed = [(n, cost.seconds) for n, cost in totals if cost.seconds is not None]
    if timed:
        n_steps, seconds = map(sum, zip(*timed, strict=True))
        found["seconds_per_step"] = float(seconds / n_steps)
    scored = [
        (len(_scores(run)), run.cost.critic_tokens)
        for run in runs
        if run.cost is not None and run.cost.critic_tokens is not None and _scores(run)
    ]
    if scored:
        n_scored, critic = map(sum, zip(*scored, strict=True))
        found["critic_tokens"] = float(critic / n_scored)
    if not found:
        return Seen(part=base, told=Told(subject="costs", is_used=False, why="the data carry no costs"))
    kept = [name for name in base.__slots__ if name not in found]
    why = f"{', '.join(found)} from the runs" + (f"; {', '.join(kept)} of the base model" if kept else "")
    return Seen(part=replace(base, **found), told=Told(subject="costs", is_used=not kept, why=why))


def scores_seen(runs: Sequence[Run], model: Model, *, baseline: str) -> Seen[Critic]:
    """Means and spread of the logit scores, from the scored steps of the baseline runs.

    Parameters
    ----------
    runs : sequence of Run
        Of one agent and benchmark.
    model : Model
        Whose runs fail as often as these, so that it says which states they were in.
    baseline : str
        Name of the arm without intervention.

    Returns
    -------
    Seen of Critic
        With temperature 1, since the scores are taken as they stand, and the base model's run-level spread; the base
        model's critic where the runs do not fix another.
    """
    base = model.critic
    scored = [run for run in runs if run.arm == baseline and run.outcome.is_judged and _scores(run)]

    def refused(why: str) -> Seen[Critic]:
        return Seen(part=base, told=Told(subject="critic scores", is_used=False, why=why))

    if not scored:
        return refused("the baseline runs carry no scores")
    if any(score in (0.0, 1.0) for run in scored for _, score in _scores(run)):
        return refused("the runs' scores hold 0 or 1, which have no logit, so that no normal distribution fits them")
    rows, n_misfits = _smoothed(scored, compile_model(model))
    if n_misfits > LARGEST_MISFIT * len(scored):
        return refused(f"{n_misfits} of {len(scored)} scored baseline runs end where the base model's cannot")
    if len(rows) < FEWEST_SCORES:
        return refused(f"the baseline runs carry {len(rows)} scores of live steps, fewer than {FEWEST_SCORES}")
    z, off = rows.T
    design = np.stack([1.0 - off, off], axis=1)
    (mean_on, mean_off), *_, rank, _ = _least_squares(design, z)
    if rank < 2:
        return refused("the runs' ends do not tell on-track steps from others")
    between = (mean_off - mean_on) ** 2 * float(np.mean(off * (1.0 - off)))
    variance = float(np.mean((z - design @ (mean_on, mean_off)) ** 2)) - between - base.run_sd**2
    if not variance > 0.0:
        return refused("the runs' scores vary less within a state than the base model's run-level shift alone")
    critic = Critic(
        mean_on=float(mean_on),
        mean_off=dict.fromkeys(model.agent.modes, float(mean_off)),
        sigma=float(variance**0.5),
        run_sd=base.run_sd,
    )
    why = (
        f"means {mean_on:.2f} on track and {mean_off:.2f} off track, sigma {variance**0.5:.2f} on the logit scale, "
        f"from {len(rows)} scored steps of {len(scored)} baseline runs, whose states follow from how they ended; "
        "taken as known"
    )
    return Seen(part=critic, told=Told(subject="critic scores", is_used=True, why=why))


def _least_squares(design: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray, int, FloatArray]:
    solution, residuals, rank, singular = np.linalg.lstsq(design, values, rcond=1e-8)
    return solution, residuals, int(rank), singular


def _scores(run: Run) -> list[tuple[int, float]]:
    return [(step.t, step.score) for step in run.steps if step.score is not None]


def _smoothed(runs: Sequence[Run], model: CompiledModel) -> tuple[FloatArray, int]:
    """(n, 2) logit scores of live steps with P(off track), and the number of runs that the model cannot end so."""
    known: dict[tuple[Outcome, int], FloatArray | None] = {}
    rows: list[tuple[float, float]] = []
    n_misfits = 0
    for run in runs:
        length = run.n_steps if run.n_steps is not None else 1 + max(t for t, _ in _scores(run))
        key = (run.outcome, length)
        if key not in known:
            known[key] = _off_track(model, run.outcome, length)
        off = known[key]
        if off is None:
            n_misfits += 1
            continue
        rows += [(float(logit(score)), float(off[t])) for t, score in _scores(run) if t < off.size]
    return np.array(rows, dtype=np.float64).reshape(-1, 2), n_misfits


def _off_track(model: CompiledModel, outcome: Outcome, length: int) -> FloatArray | None:
    """P(off track after step t) for the steps after which such a run was live; None where no run can end so."""
    acts = model.transitions[np.newaxis] if model.tasks is None else model.tasks.transitions
    weights = np.ones(1) if model.tasks is None else model.tasks.weights
    n_classes, horizon, n_states = acts.shape[:3]
    is_capped = outcome is Outcome.CAPPED
    n_live = length if is_capped else length - 1
    if not 0 <= n_live < horizon + is_capped or (is_capped and length != horizon):
        return None
    ahead = np.ones((n_classes, n_states))
    if not is_capped:
        ahead = acts[:, length - 1, :, n_states if outcome is Outcome.SUCCESS else n_states + 1]
    behind = np.zeros((n_live, n_classes, n_states))
    mass = weights[:, None] * model.start
    for t in range(n_live):
        mass = (mass[:, None, :] @ acts[:, t, :, :n_states])[:, 0]
        behind[t] = mass
    off = np.empty(n_live)
    for t in reversed(range(n_live)):
        joint = (behind[t] * ahead).sum(axis=0)
        if not joint.sum() > 0.0:
            return None
        off[t] = joint[1:].sum() / joint.sum()
        ahead = (acts[:, t, :, :n_states] @ ahead[..., None])[..., 0]
    is_possible = n_live > 0 or float(np.sum(weights[:, None] * model.start * ahead)) > 0.0
    return off if is_possible else None
