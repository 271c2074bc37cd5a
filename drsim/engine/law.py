"""A model and a policy as integer thresholds: the law that every engine follows, bit for bit.

Probabilities become thresholds once, here; an engine only compares words with them. Where the critic's scores of a run
share a shift (ω > 0), whether it fires depends on the shift, so that the raw score is read from one table of normal
quantiles instead; its resolution is stated in `thresholds.score_table`.
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.engine.random import WordArray
from drsim.engine.thresholds import bernoulli_thresholds, cumulative_thresholds, score_table
from drsim.process.compile import CompiledModel, CompiledPolicy, firing

__all__ = ["SCORE_BITS", "Law", "law_of"]

SCORE_BITS = 16
"""Scores are read on 2¹⁶ levels: distribution functions are at most 2⁻¹⁷ apart from the normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """What an engine needs of one model and one policy; T steps, S live states."""

    start: WordArray
    """(S − 1,) thresholds of the first state."""
    act: WordArray
    """(T, S, S + 1) thresholds of the act: live states, then success, fail."""
    intervene: WordArray
    """(T, S, S − 1) thresholds of the policy's mechanism; one step of zeros where it has none."""
    fire: WordArray
    """(T, S) thresholds of firing, where no shift is shared."""
    cuts: FloatArray
    """(T, S) standardised score above which the policy fires in a run without shift."""
    shift: FloatArray
    """(S,) ω over the score's sd: what one unit of the run's shift takes off a cut; zeros where no shift is shared."""
    scores: FloatArray
    """(2^SCORE_BITS,) normal quantiles; empty where no shift is shared."""
    tokens: FloatArray
    """(T,) tokens of an act."""
    critic_tokens: FloatArray
    """(T,) tokens of scoring a live run; zeros for a policy that scores nothing."""
    mechanism_tokens: float
    """Tokens of an intervention."""
    budget: int
    """Most interventions in a run; 0 for a policy that never intervenes."""
    cooldown: int
    """Steps after a firing in which nothing fires: the extra steps, then those of the cooldown."""
    extra_steps: int
    """Further steps that an intervention uses up."""

    @property
    def has_shift(self) -> bool:
        """Whether the scores of a run share a shift."""
        return self.scores.size > 0


def law_of(model: CompiledModel, policy: CompiledPolicy) -> Law:
    """Integer thresholds of a policy on a model.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    policy : CompiledPolicy
        Compiled for the same model.

    Returns
    -------
    Law
    """
    horizon, n_states = model.transitions.shape[:2]
    scores_runs = policy.mechanism >= 0
    has_shift = scores_runs and model.run_sd > 0
    extra = int(model.extra_steps[policy.mechanism]) if scores_runs else 0
    kernel = (
        model.kernels[policy.mechanism]
        if scores_runs
        else np.broadcast_to(np.eye(n_states), (horizon, n_states, n_states))
    )
    return Law(
        start=cumulative_thresholds(model.start),
        act=cumulative_thresholds(model.transitions),
        intervene=cumulative_thresholds(kernel),
        fire=bernoulli_thresholds(firing(model, policy)),
        cuts=(policy.logit_threshold[:, None] - model.score_mean) / model.score_sd,
        shift=model.run_sd / model.score_sd if has_shift else np.zeros(n_states),
        scores=score_table(SCORE_BITS) if has_shift else np.empty(0),
        tokens=model.tokens,
        critic_tokens=model.critic_tokens if scores_runs else np.zeros(horizon),
        mechanism_tokens=float(model.mechanism_tokens[policy.mechanism]) if scores_runs else 0.0,
        budget=min(policy.budget, horizon) if scores_runs else 0,
        cooldown=min(policy.cooldown + extra, horizon),
        extra_steps=extra,
    )
