r"""A model whose runs are made easier or harder, and one of whose mechanisms recovers and disrupts otherwise.

Ease v moves a run along the axis on which tasks differ in this process (`finish_task_sd`, `slip_task_sd`): on the logit
scale finish goes up by v, and all slips together, like the share that starts off track, go down by v,

.. math:: \mathrm{logit}\,finish'(t) = \mathrm{logit}\,finish(t) + v, \quad
          \mathrm{logit}\,slip'(t) = \mathrm{logit}\,slip(t) - v, \quad
          \mathrm{logit}\,start' = \mathrm{logit}\,start - v.

What is 0 or 1 stays so: a step that cannot finish a run still cannot, and the modes keep their shares.
"""

from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledModel
from drsim.process.spec import Agent, Mechanism, Mode, Model
from drsim.process.stacks import ModelDraws
from drsim.process.steps import step_values

__all__ = ["moved_draws", "moved_model"]


def moved_draws(
    model: CompiledModel, *, ease: FloatArray, mechanism: int, recover: FloatArray, disrupt: FloatArray
) -> ModelDraws:
    """D draws of a model.

    Parameters
    ----------
    model : CompiledModel
        T steps, S = K + 1 live states, M mechanisms, J classes of tasks.
    ease : ndarray
        (D,) v, logits.
    mechanism : int
        Which one is replaced; −1 for none.
    recover : ndarray
        (D, K, T) its r of each mode, in [0, 1]; not looked at where `mechanism` is −1.
    disrupt : ndarray
        (D, T) its d, in [0, 1]; likewise.

    Returns
    -------
    ModelDraws
        Equal to the compiled `moved_model` of every draw, to rounding.
    """
    n_draws = ease.size
    n_states = model.start.size
    transitions = model.transitions[np.newaxis] if model.tasks is None else model.tasks.transitions
    kernels = np.broadcast_to(model.kernels, (n_draws, *model.kernels.shape)).copy()
    if mechanism >= 0:
        kernels[:, mechanism] = _kernels(model.kernels[mechanism], recover, disrupt)
    return ModelDraws(
        start=np.concatenate(_parted(model.start[1:], -ease), axis=-1),
        transitions=_transitions(transitions, ease),
        kernels=kernels,
        score_mean=np.broadcast_to(model.score_mean, (n_draws, n_states)).copy(),
        score_sd=np.broadcast_to(model.score_sd, (n_draws, n_states)).copy(),
        run_sd=np.full(n_draws, model.run_sd),
        task_weights=np.ones(1) if model.tasks is None else model.tasks.weights,
        extra_steps=model.extra_steps,
        tokens=model.tokens,
        critic_tokens=model.critic_tokens,
        mechanism_tokens=model.mechanism_tokens,
        usd_per_token=model.usd_per_token,
        seconds_per_step=model.seconds_per_step,
    )


def _transitions(acts: FloatArray, ease: FloatArray) -> FloatArray:
    """(D, J, T, S, S + 2) of acts (J, T, S, S + 2)."""
    n_states = acts.shape[-2]
    moved = np.broadcast_to(acts, (ease.size, *acts.shape)).copy()
    finish = acts[:, :, 0, n_states]
    left = (1.0 - finish)[..., np.newaxis]
    slips = np.divide(acts[:, :, 0, 1:n_states], left, out=np.zeros_like(acts[:, :, 0, 1:n_states]), where=left > 0.0)
    stay, off = _parted(slips, -ease)
    finish = expit(logit(finish) + ease[:, np.newaxis, np.newaxis])
    left = (1.0 - finish)[..., np.newaxis]
    moved[..., 0, n_states] = finish
    moved[..., 0, :1] = left * stay
    moved[..., 0, 1:n_states] = left * off
    return moved


def _parted(shares: FloatArray, by: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What is left of 1 (D, …, 1), and shares (D, …, K), after moving their sum (…, K) by (D,) logits."""
    together = shares.sum(axis=-1, keepdims=True)
    inside = np.clip(together, 0.0, 1.0)  # a sum of shares may round beyond 1
    moved = expit(logit(inside) + by.reshape(-1, *[1] * together.ndim))
    return 1.0 - moved, moved * np.divide(shares, together, out=np.zeros_like(shares), where=together > 0.0)


def _kernels(kernel: FloatArray, recover: FloatArray, disrupt: FloatArray) -> FloatArray:
    """(D, T, S, S) with the weights of the modes that `kernel` (T, S, S) disrupts to."""
    n_modes = kernel.shape[-1] - 1
    to = kernel[:, 0, 1:].sum(axis=0)
    to = to / to.sum() if to.sum() > 0.0 else np.full(n_modes, 1.0 / n_modes)
    out = np.zeros((len(disrupt), *kernel.shape))
    out[:, :, 0, 0] = 1.0 - disrupt
    out[:, :, 0, 1:] = disrupt[..., np.newaxis] * to
    for k in range(n_modes):
        out[:, :, k + 1, 0] = recover[:, k]
        out[:, :, k + 1, k + 1] = 1.0 - recover[:, k]
    return out


def moved_model(spec: Model, *, ease: float, mechanism: str | None, recover: FloatArray, disrupt: FloatArray) -> Model:
    """One draw as a specification.

    Parameters
    ----------
    spec : Model
        T steps, K modes.
    ease : float
        v, a logit.
    mechanism : str or None
        Which one is replaced; None for none.
    recover : ndarray
        (K, T) its r of each mode, in [0, 1]; not looked at where `mechanism` is None.
    disrupt : ndarray
        (T,) its d, in [0, 1]; likewise.

    Returns
    -------
    Model
        Whose moved values are lists, one number a step.
    """
    mechanisms = dict(spec.mechanisms)
    if mechanism is not None:
        mechanisms[mechanism] = _moved_mechanism(mechanisms[mechanism], list(spec.agent.modes), recover, disrupt)
    return replace(spec, agent=_moved_agent(spec.agent, spec.horizon, ease), mechanisms=mechanisms)


def _moved_mechanism(it: Mechanism, modes: list[str], recover: FloatArray, disrupt: FloatArray) -> Mechanism:
    return replace(
        it,
        recover={mode: _listed(values) for mode, values in zip(modes, recover, strict=True)},
        disrupt=_listed(disrupt),
    )


def _moved_agent(agent: Agent, horizon: int, ease: float) -> Agent:
    modes, by = list(agent.modes), np.array([-ease])
    slips = np.stack([step_values(mode.slip, horizon) for mode in agent.modes.values()], axis=1)
    slips /= np.maximum(1.0, slips.sum(axis=1, keepdims=True))
    start = agent.start_off
    shares = [start / len(modes)] * len(modes) if isinstance(start, float | int) else [start.get(m, 0.0) for m in modes]
    _, moved_slips = _parted(slips, by)
    _, moved_shares = _parted(np.array(shares, dtype=np.float64), by)
    return replace(
        agent,
        finish=_listed(expit(logit(step_values(agent.finish, horizon)) + ease)),
        modes={
            name: Mode(
                slip=_listed(moved_slips[0, :, k]),
                abandon=agent.modes[name].abandon,
                self_recover=agent.modes[name].self_recover,
            )
            for k, name in enumerate(modes)
        },
        start_off=dict(zip(modes, map(float, moved_shares[0]), strict=True)),
    )


def _listed(values: FloatArray) -> tuple[float, ...]:
    return tuple(map(float, values))
