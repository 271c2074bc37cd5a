"""From a specification to plain arrays that know no names; the recursion and every engine read only these.

Live states are 0 (on track) and 1 … K (the modes in the order of the specification). A step t = 0 … T−1 of a run:

1. act: the state moves by `transitions[t]`, or by those of the run's task; success and fail absorb.
2. monitor: a run that is still live is scored in its new state x by a raw logit score
   z ~ N(score_mean[x] + u, score_sd[x]²), with u ~ N(0, run_sd²) drawn once per run.
3. intervene: where z > `logit_threshold[t]`, budget is left and no cooldown is left, the policy fires, and acts on it
   with probability `propensity[t]`: then the state moves by `kernels[mechanism, t]`, one unit of budget is used, and
   the next act is at step t + 1 + `extra_steps[mechanism]`. Nothing fires in the `cooldown` steps from there on: a
   cooldown begins once the extra steps are over. A policy with a `history` fires on what it makes of all scores so far.

A run whose next act would be at T or later is capped. Steps 0 … T−1 all act, monitor and intervene alike: a firing in
the last step counts as an intervention, though the run is capped after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from scipy.special import expit, logit, ndtr

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.process.quadrature import shift_nodes
from drsim.process.spec import Agent, Critic, Mechanism, Model, Policy, Signal
from drsim.process.steps import step_values
from drsim.theory.critic import binormal_shift

__all__ = [
    "CompiledModel",
    "CompiledPolicy",
    "History",
    "TaskClasses",
    "compile_model",
    "compile_policy",
    "firing",
    "never",
]

TOKENS_PER_PRICE = 1e6
"""Prices are per million tokens."""

TASK_NODES = 41
"""Classes of tasks: Gauss–Hermite nodes, which give the means of smooth functions of a normal effect. On the shipped
example with 15 and 60 steps, the success of a run is within 1e-10 of that with 167 nodes for a spread of 1, within 1e-5
for 2, within 3e-4 for 3; ρ within 1e-9, 1e-4 and 2e-3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskClasses:
    """Tasks that differ: J classes, which stand for a normal effect v of the task.

    The classes are the law itself, in the exact recursion as in the engines, so that both agree however few there are.
    """

    effects: FloatArray
    """(J,) v in standard deviations, increasing: easier tasks later."""
    weights: FloatArray
    """(J,) share of each class; sums to 1."""
    transitions: FloatArray
    """(J, T, S, S + 2) as in `CompiledModel`: finish on the logit scale moved by `finish_task_sd` · v, all slips
    together by −`slip_task_sd` · v."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModel:
    """A model as arrays: T steps, S live states, M mechanisms; all contiguous."""

    start: FloatArray
    """(S,) distribution of the first state; sums to 1."""
    transitions: FloatArray
    """(T, S, S + 2) act of step t from a live state to the live states, success, fail; rows sum to 1. Where tasks
    differ, that of the typical one (v = 0)."""
    kernels: FloatArray
    """(M, T, S, S) intervention by mechanism m after step t; rows sum to 1."""
    extra_steps: IntArray
    """(M,) further steps of the horizon that an intervention uses up."""
    score_mean: FloatArray
    """(S,) mean of the logit score."""
    score_sd: FloatArray
    """(S,) standard deviation of the logit score, given the run-level shift; positive."""
    run_sd: float
    """ω ≥ 0, standard deviation of the run-level shift."""
    temperature: float
    """Positive; score = 1/(1 + exp(−z/temperature))."""
    tokens: FloatArray
    """(T,) tokens of the agent's step t; extra steps cost none, since nothing acts in them."""
    critic_tokens: FloatArray
    """(T,) tokens of scoring step t; every live run is scored where a policy with a mechanism runs, fires it or not."""
    mechanism_tokens: FloatArray
    """(M,) tokens of one intervention."""
    usd_per_token: float
    """Price of a token, whoever uses it."""
    seconds_per_step: float
    """Time of one act."""
    tasks: TaskClasses | None = None
    """None: all tasks are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a policy makes of all scores of a run so far."""

    signal: Signal
    """`belief`, `mean` or `votes`."""
    threshold: FloatArray
    """(T,) fires when the signal is above it: P(off track) or mean score, in [0, 1); for `votes` the raw logit score
    above which a step votes."""
    window: int
    """Scores looked back on; 0 for `belief`, which forgets none."""
    votes: int
    """Votes from which it fires; 0 for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPolicy:
    """A policy as numbers."""

    mechanism: int
    """Index into `kernels`; −1 never intervenes, and scores nothing."""
    logit_threshold: FloatArray
    """(T,) fires when the raw logit score, before temperature, is above it; +inf: never, also outside the gates;
    −inf: always, and in every open step of a policy with a history."""
    budget: int
    """Most interventions in one run."""
    cooldown: int
    """Steps in which nothing fires after an intervention and its extra steps."""
    propensity: FloatArray | float = 1.0
    """(T,), or one for all steps: P(the policy acts when it fires), in (0, 1]."""
    history: History | None = None
    """None: a run is a Markov chain on (state, budget left, cooldown left), and its values are exact."""


def compile_model(spec: Model) -> CompiledModel:
    """Arrays of a model.

    Parameters
    ----------
    spec : Model
        Checked by its construction.

    Returns
    -------
    CompiledModel
        Mechanisms in the order of the specification.

    References
    ----------
    THEORY section 4.
    """
    horizon = spec.horizon
    modes = list(spec.agent.modes)
    mechanisms = list(spec.mechanisms.values())
    kernels = np.empty((len(mechanisms), horizon, len(modes) + 1, len(modes) + 1))
    for m, mechanism in enumerate(mechanisms):
        kernels[m] = _kernel(mechanism, modes, horizon)
    mean, sd = _scores(spec.critic, modes)
    cost = spec.cost
    return CompiledModel(
        start=_start(spec.agent),
        transitions=_transitions(spec.agent, horizon, 0.0),
        kernels=kernels,
        extra_steps=np.array([it.extra_steps for it in mechanisms], dtype=np.int64),
        score_mean=mean,
        score_sd=sd,
        run_sd=float(spec.critic.run_sd),
        temperature=float(spec.critic.temperature),
        tokens=cost.tokens_per_step + cost.tokens_per_step_growth * np.arange(horizon, dtype=np.float64),
        critic_tokens=np.full(horizon, float(cost.critic_tokens)),
        mechanism_tokens=np.array([it.tokens for it in mechanisms], dtype=np.float64),
        usd_per_token=cost.usd_per_million_tokens / TOKENS_PER_PRICE,
        seconds_per_step=float(cost.seconds_per_step),
        tasks=_tasks(spec.agent, horizon),
    )


def _start(agent: Agent) -> FloatArray:
    modes = list(agent.modes)
    if isinstance(agent.start_off, Mapping):
        off = np.array([agent.start_off.get(mode, 0.0) for mode in modes])
    else:
        off = np.full(len(modes), agent.start_off / len(modes))
    off /= max(1.0, off.sum())
    return np.concatenate([[max(0.0, 1.0 - off.sum())], off])


def _tasks(agent: Agent, horizon: int) -> TaskClasses | None:
    if agent.finish_task_sd == 0.0 and agent.slip_task_sd == 0.0:
        return None
    effects, weights = shift_nodes(TASK_NODES)
    return TaskClasses(
        effects=effects,
        weights=weights,
        transitions=np.stack([_transitions(agent, horizon, float(effect)) for effect in effects]),
    )


def _transitions(agent: Agent, horizon: int, effect: float) -> FloatArray:
    n_states = len(agent.modes) + 1
    success, fail = n_states, n_states + 1
    moves = np.zeros((horizon, n_states, n_states + 2))
    finish = _moved(step_values(agent.finish, horizon), agent.finish_task_sd * effect)
    slips = np.stack([step_values(mode.slip, horizon) for mode in agent.modes.values()], axis=1)
    # slips that sum to 1 may round to a little more
    slips /= np.maximum(1.0, slips.sum(axis=1, keepdims=True))
    together = slips.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        slips *= np.where(together > 0.0, _moved(together, -agent.slip_task_sd * effect) / together, 0.0)
    moves[:, 0, success] = finish
    moves[:, 0, 1:n_states] = (1.0 - finish)[:, None] * slips
    moves[:, 0, 0] = (1.0 - finish) * np.maximum(0.0, 1.0 - slips.sum(axis=1))
    for k, mode in enumerate(agent.modes.values(), 1):
        abandon = step_values(mode.abandon, horizon)
        back = step_values(mode.self_recover, horizon)
        moves[:, k, fail] = abandon
        moves[:, k, 0] = (1.0 - abandon) * back
        moves[:, k, k] = (1.0 - abandon) * (1.0 - back)
    return moves


def _moved(probability: FloatArray, by: float) -> FloatArray:
    """Probabilities moved on the logit scale; 0 and 1 stay, and so does everything that is moved by 0."""
    if by == 0.0:
        return probability
    moved: FloatArray = expit(logit(probability) + by)
    return moved


def _kernel(mechanism: Mechanism, modes: list[str], horizon: int) -> FloatArray:
    kernel = np.zeros((horizon, len(modes) + 1, len(modes) + 1))
    disrupt = step_values(mechanism.disrupt, horizon)
    weights = np.ones(len(modes)) if mechanism.to is None else np.array([mechanism.to.get(mode, 0.0) for mode in modes])
    kernel[:, 0, 0] = 1.0 - disrupt
    kernel[:, 0, 1:] = disrupt[:, None] * (weights / weights.sum())
    for k, mode in enumerate(modes, 1):
        recover = step_values(mechanism.recover[mode], horizon)
        kernel[:, k, 0] = recover
        kernel[:, k, k] = 1.0 - recover
    return kernel


def _scores(critic: Critic, modes: list[str]) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the logit score by state."""
    if critic.auroc is not None:
        half = float(binormal_shift(critic.auroc)) / 2.0
        return np.array([-half, *(half for _ in modes)]), np.ones(len(modes) + 1)
    off = critic.mean_off or {}
    mean = np.array([critic.mean_on, *(off[mode] for mode in modes)], dtype=np.float64)
    return mean, np.full(len(modes) + 1, 1.0 if critic.sigma is None else float(critic.sigma))


def compile_policy(spec: Model, name: str) -> CompiledPolicy:
    """Numbers of one policy of a model.

    Parameters
    ----------
    spec : Model
        Checked by its construction.
    name : str
        One of its policies.

    Returns
    -------
    CompiledPolicy
        Gates are folded into the thresholds.

    Raises
    ------
    ParameterError
        The model has no policy of that name.
    """
    if name not in spec.policies:
        near = get_close_matches(name, spec.policies, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(spec.policies) or 'none'}"
        raise ParameterError(f"policy must be one of the model's, got {name!r}; {hint}")
    policy = spec.policies[name]
    steps = np.arange(spec.horizon)
    last = spec.horizon - 1 if policy.last_step is None else policy.last_step
    is_open = (steps >= policy.first_step) & (steps <= last) & ((steps - policy.first_step) % policy.every == 0)
    threshold = step_values(policy.threshold, spec.horizon)
    # logit(0) = −inf and logit(1) = inf are the policies that always and never fire
    cut = float(spec.critic.temperature) * logit(threshold)
    history = _history(policy, threshold, cut)
    if history is not None:
        cut = np.where(threshold < 1.0, -np.inf, np.inf)
    return CompiledPolicy(
        mechanism=list(spec.mechanisms).index(policy.mechanism),
        logit_threshold=np.where(is_open, cut, np.inf),
        budget=int(policy.budget),
        cooldown=int(policy.cooldown),
        propensity=step_values(policy.propensity, spec.horizon),
        history=history,
    )


def _history(policy: Policy, threshold: FloatArray, cut: FloatArray) -> History | None:
    signal = Signal(policy.signal)
    if signal is Signal.SCORE:
        return None
    return History(
        signal=signal,
        threshold=cut if signal is Signal.VOTES else threshold,
        window=int(policy.window or 0),
        votes=int(policy.votes or 0),
    )


def never(model: CompiledModel) -> CompiledPolicy:
    """The policy that leaves every run alone: the baseline."""
    horizon = model.transitions.shape[0]
    return CompiledPolicy(mechanism=-1, logit_threshold=np.full(horizon, np.inf), budget=0, cooldown=0)


def firing(model: CompiledModel, policy: CompiledPolicy, shift: float = 0.0) -> FloatArray:
    r"""Probability that a policy that could intervene does, by step and state: fires, and acts on it.

    .. math:: q_t\, P(z > \tau_t \mid x, u) = q_t\, \Phi\left((\mu_x + u - \tau_t)/\sigma_x\right)

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policy : CompiledPolicy
        Compiled for the same model.
    shift : float
        u, the run-level shift.

    Returns
    -------
    ndarray
        (T, S) in [0, 1]; 0 throughout for a policy without a mechanism.

    Raises
    ------
    ParameterError
        The policy looks back on a run's history, so that no such probability exists.
    """
    if policy.history is not None:
        raise ParameterError(
            f"policy must read the score of a step alone to be exact, got signal {policy.history.signal}; simulate it"
        )
    if policy.mechanism < 0:
        return np.zeros(model.transitions.shape[:2])
    above: FloatArray = ndtr((model.score_mean + shift - policy.logit_threshold[:, None]) / model.score_sd)
    acted: FloatArray = above * np.reshape(policy.propensity, (-1, 1))
    return acted
