"""Totals of many runs without the runs: whole groups move by one multinomial draw a step.

Under a threshold policy a run is a Markov chain on (state, budget left, cooldown left), so that runs which agree in
these three can be told apart by nothing that is still to come. How many of a group go each way is multinomial, and the
totals that follow have the law of the totals of single runs, whatever the number of runs costs nothing. They are equal
**in distribution** to those of the other engines, not to the bit: the draws have no run for an address.
"""

from dataclasses import dataclass, replace

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.engine.random import key_words
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy, firing
from drsim.process.gates import gates_of

__all__ = ["Totals", "count_batches", "count_runs"]

MOST_RUNS = 10**12
"""Times a horizon of thousands of steps, still far below 2⁶³."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over n runs, each of shape (replications,)."""

    seed: int
    n: IntArray
    """Runs of each replication."""
    success: IntArray
    """Runs that succeed."""
    fail: IntArray
    """Runs that fail within the horizon; the capped ones are apart."""
    capped: IntArray
    """Runs that do neither within the horizon."""
    acts: IntArray
    """Acts of the agent."""
    interventions: IntArray
    tokens: FloatArray
    """Tokens of acts, of scoring and of interventions."""


def count_runs(model: CompiledModel, policy: CompiledPolicy, *, n: int, seed: int, replications: int = 1) -> Totals:
    """Totals of n simulated runs, many times over.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policy : CompiledPolicy
        Compiled for the same model.
    n : int
        Runs of a replication, in [0, 10¹²]; time and memory do not depend on it.
    seed : int
        In [0, 2⁶⁴).
    replications : int
        Independent repetitions, ≥ 1: simulated pilots, say.

    Returns
    -------
    Totals
        A pure function of the arguments.

    Raises
    ------
    ParameterError
        `n`, `seed` or `replications` is outside its domain, or runs that agree in state, budget and cooldown are not
        alike: the policy looks back on a run's history, or reads scores that share a shift within a run (ω > 0).

    References
    ----------
    THEORY section 4.
    """
    if not 0 <= n <= MOST_RUNS:
        raise ParameterError(f"n must lie in [0, 10^12], got {n}; give a number of runs")
    if replications < 1:
        raise ParameterError(f"replications must be at least 1, got {replications}; 1 simulates n runs once")
    return count_batches(model, policy, sizes=np.full(replications, n, dtype=np.int64), seed=seed)


def count_batches(model: CompiledModel, policy: CompiledPolicy, *, sizes: IntArray, seed: int) -> Totals:
    """`count_runs` with sizes (replications,) of their own; the same conditions hold."""
    if policy.history is None and gates_of(model, policy).reads_scores and model.run_sd > 0:
        raise ParameterError(
            f"run_sd must be 0 where runs are only counted, got {model.run_sd}: the shift that scores of a run share"
            " tells runs apart; use another engine"
        )
    key_words(seed)
    rng = np.random.default_rng(int(seed))
    if model.tasks is None:
        parts = [_Counts(model, policy, sizes, rng)]
    else:
        by_class = rng.multinomial(sizes, model.tasks.weights)
        parts = [
            _Counts(replace(model, transitions=transitions, tasks=None), policy, by_class[:, j], rng)
            for j, transitions in enumerate(model.tasks.transitions)
        ]
    for part in parts:
        for t in range(model.transitions.shape[0]):
            part.step(t)
    success, fail, acts, interventions = (
        np.sum([getattr(part, name) for part in parts], axis=0) for name in ("success", "fail", "acts", "interventions")
    )
    return Totals(
        seed=seed,
        n=sizes,
        success=success,
        fail=fail,
        capped=sizes - success - fail,
        acts=acts,
        interventions=interventions,
        tokens=np.sum([part.tokens for part in parts], axis=0),
    )


class _Counts:
    """Groups of runs on their way: (R, budget left, cooldown left, S), by the step of their next act."""

    def __init__(self, model: CompiledModel, policy: CompiledPolicy, sizes: IntArray, rng: np.random.Generator) -> None:
        n_states, replications = model.start.size, len(sizes)
        self.model, self.policy, self.rng = model, policy, rng
        self.fire = firing(model, policy)
        gates = gates_of(model, policy)
        self.budget, self.left = gates.budget, gates.cooldown
        shape = (replications, self.budget + 1, self.left + 1, n_states)
        # ahead[j]: runs whose next act is j steps ahead
        self.ahead = [np.zeros(shape, dtype=np.int64) for _ in range(gates.extra + 1)]
        self.success, self.fail, self.acts, self.interventions = np.zeros((4, replications), dtype=np.int64)
        self.tokens = np.zeros(replications)
        self.ahead[0][:, self.budget, 0, :] = rng.multinomial(sizes, model.start)

    def step(self, t: int) -> None:
        """Act, monitor, intervene."""
        model = self.model
        n_states = model.start.size
        acting = self.ahead.pop(0)
        self.ahead.append(np.zeros_like(acting))
        moved = self.rng.multinomial(acting, model.transitions[t]).sum(axis=3)
        n_acting = acting.sum(axis=(1, 2, 3))
        ended = moved[..., n_states:].sum(axis=(1, 2))
        live = moved[..., :n_states]
        self.acts += n_acting
        self.success += ended[:, 0]
        self.fail += ended[:, 1]
        self.tokens += model.tokens[t] * n_acting
        if self.policy.mechanism >= 0:
            self.tokens += model.critic_tokens[t] * live.sum(axis=(1, 2, 3))
        if self.budget and self.fire[t].any():
            self._intervene(t, live)
        self.ahead[0][:, :, 0, :] += live[:, :, 0, :]
        self.ahead[0][:, :, : self.left, :] += live[:, :, 1:, :]

    def _intervene(self, t: int, live: IntArray) -> None:
        """Take the runs that fire out of `live`, and let them act again later."""
        mechanism = self.policy.mechanism
        ready = live[:, 1:, 0, :]
        fired = self.rng.binomial(ready, self.fire[t])
        ready -= fired
        n_fired = fired.sum(axis=(1, 2))
        self.interventions += n_fired
        self.tokens += self.model.mechanism_tokens[mechanism] * n_fired
        moved = self.rng.multinomial(fired, self.model.kernels[mechanism, t]).sum(axis=2)
        self.ahead[-1][:, :-1, self.left, :] += moved
