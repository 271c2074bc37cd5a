"""Exact values of a threshold policy by backward recursion (THEORY section 4).

Under a threshold policy with gates a run is a Markov chain on (state, budget left, cooldown left). One pass from the
horizon back to step 0 gives every expectation, and the 2×2 table with the unaided run that shares its prefix. NumPy
alone, so that a small command need not wait for a compiler.
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledModel, CompiledPolicy, firing
from drsim.process.coupling import Joint
from drsim.process.gates import gates_of
from drsim.process.quadrature import mean_over_shift

__all__ = ["Exact", "evaluate", "unaided"]

SUCCESS, CAPPED, STEPS, INTERVENTIONS, TOKENS = range(5)
N_VALUES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """What a policy does to runs of a model; expectations per run."""

    success: float
    """P(success)."""
    capped: float
    """P(neither success nor fail within the horizon)."""
    steps: float
    """Acts; extra steps of interventions pass without one."""
    interventions: float
    """Interventions."""
    tokens: float
    """Tokens of acts, of scoring, and of interventions."""
    usd: float
    """Price of the tokens."""
    seconds: float
    """Time of the acts."""
    baseline: float
    """P(success) of an unaided run."""
    shared_prefix: Joint
    """With the unaided run that is the same run up to the first firing, and independent after it given the state."""
    independent: Joint
    """With an unaided run that shares only the task."""
    rho: float
    """ρ, intraclass correlation of unaided runs of one task; 0 where tasks are alike, NaN where no run or every run
    succeeds."""
    n_nodes: int
    """Gauss–Hermite nodes for the run-level shift; 1 where there is none."""

    @property
    def gain(self) -> float:
        """Δ = P(success) − P(success of an unaided run)."""
        return self.success - self.baseline


def evaluate(model: CompiledModel, policy: CompiledPolicy) -> Exact:
    """Exact values of one policy.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policy : CompiledPolicy
        Compiled for the same model.

    Returns
    -------
    Exact
        Every field to rounding where ω = 0, else to about 1e-10.

    Raises
    ------
    ConvergenceError
        ω is so large against the spread of the score that the quadrature gives up.

    References
    ----------
    THEORY section 4.
    """
    run_sd = model.run_sd if gates_of(model, policy).reads_scores else 0.0
    flat, n_nodes = mean_over_shift(lambda shifts: _backward(model, policy, shifts), run_sd, model.score_sd)
    weights, transitions = _classes(model)
    by_class = flat.reshape(weights.size, -1)
    values = weights @ by_class
    alone = _unaided(transitions)[:, 0, :] @ model.start
    fail_fail, fail_success, success_fail, success_success = (float(it) for it in values[N_VALUES:])
    return Exact(
        success=float(values[SUCCESS]),
        capped=float(values[CAPPED]),
        steps=float(values[STEPS]),
        interventions=float(values[INTERVENTIONS]),
        tokens=float(values[TOKENS]),
        usd=float(values[TOKENS]) * model.usd_per_token,
        seconds=float(values[STEPS]) * model.seconds_per_step,
        baseline=float(weights @ alone),
        shared_prefix=Joint(
            fail_fail=fail_fail,
            fail_success=fail_success,
            success_fail=success_fail,
            success_success=success_success,
        ),
        independent=Joint.of_independent(weights, alone, by_class[:, SUCCESS]),
        rho=_rho(weights, alone),
        n_nodes=n_nodes,
    )


def _classes(model: CompiledModel) -> tuple[FloatArray, FloatArray]:
    """Shares (J,) and transitions (J, T, S, S + 2) of the classes of tasks."""
    if model.tasks is None:
        return np.ones(1), model.transitions[np.newaxis]
    return model.tasks.weights, model.tasks.transitions


def _rho(weights: FloatArray, success: FloatArray) -> float:
    """ρ = Var(s)/(E s (1 − E s)) of tasks' success rates (J,)."""
    mean = float(weights @ success)
    if not 0.0 < mean < 1.0:
        return float("nan")
    return float(weights @ (success - mean) ** 2) / (mean * (1.0 - mean))


def unaided(model: CompiledModel) -> FloatArray:
    """P(success) of a run that nobody intervenes in, by the step that it is about to act in.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.

    Returns
    -------
    ndarray
        (T + 1, S): V_x(t) of THEORY section 4; the last row is 0. Where tasks differ,
        (J, T + 1, S), one for each class.
    """
    return _unaided(model.transitions if model.tasks is None else model.tasks.transitions)


def _unaided(transitions: FloatArray) -> FloatArray:
    """V (…, T + 1, S) of transitions (…, T, S, S + 2)."""
    horizon, n_states = transitions.shape[-3:-1]
    value = np.zeros((*transitions.shape[:-3], horizon + 1, n_states))
    for t in reversed(range(horizon)):
        act = transitions[..., t, :, :]
        value[..., t, :] = (act[..., :n_states] @ value[..., t + 1, :, None])[..., 0] + act[..., n_states]
    return value


def _backward(model: CompiledModel, policy: CompiledPolicy, shifts: FloatArray) -> FloatArray:
    """Values (5) and the table with the shared prefix (4, row by row) of J classes at each of N shifts: (N, J · 9)."""
    _, transitions = _classes(model)
    n_classes, horizon, n_states = transitions.shape[:3]
    fires = np.stack([firing(model, policy, shift) for shift in shifts])
    alone = _unaided(transitions)
    gates = gates_of(model, policy)
    budget, cooldown = gates.budget, gates.cooldown
    cooler = np.maximum(np.arange(cooldown + 1) - 1, 0)
    is_scored = policy.mechanism >= 0

    end = np.zeros((N_VALUES, shifts.size, n_classes, budget + 1, cooldown + 1, n_states))
    end[CAPPED] = 1.0
    # ahead[j]: values of a run that is about to act in step t + 1 + j
    ahead = [end] * (gates.extra + 1)
    # until the first firing both runs are one; at the horizon both have failed
    table = np.zeros((4, shifts.size, n_classes, n_states))
    table[0] = 1.0
    for t in reversed(range(horizon)):
        live = transitions[:, t, :, :n_states]
        success, fail = transitions[:, t, :, n_states], transitions[:, t, :, n_states + 1]
        value = ahead[0][..., cooler, :]
        if budget:
            fire = fires[:, None, t, :]
            moved = ahead[-1][..., :budget, cooldown, :] @ model.kernels[policy.mechanism, t].T
            moved[INTERVENTIONS] += 1.0
            moved[TOKENS] += model.mechanism_tokens[policy.mechanism]
            stayed = value[..., 1:, 0, :]
            value[..., 1:, 0, :] = (1.0 - fire)[..., None, :] * stayed + fire[..., None, :] * moved
            table = (1.0 - fire) * table + fire * _product(alone[:, t + 1], moved[SUCCESS, :, :, budget - 1, :])
        value = value @ live.transpose(0, 2, 1)[:, None]
        value[SUCCESS] += success[:, None, None]
        value[STEPS] += 1.0
        value[TOKENS] += model.tokens[t]
        if is_scored:
            value[TOKENS] += model.critic_tokens[t] * live.sum(axis=2)[:, None, None]
        ahead = [value, *ahead[:-1]]
        table = (live @ table[..., None])[..., 0]
        table[0] += fail
        table[3] += success
    begun = np.concatenate([ahead[0][..., budget, 0, :] @ model.start, table @ model.start])
    return np.moveaxis(begun, 0, -1).reshape(shifts.size, n_classes * len(begun))


def _product(alone: FloatArray, aided: FloatArray) -> FloatArray:
    """The table (4, N, J, S) of two runs that go separate ways from here."""
    return np.stack([(1.0 - alone) * (1.0 - aided), (1.0 - alone) * aided, alone * (1.0 - aided), alone * aided])
