"""A compiled threshold policy as a user would write it down."""

import numpy as np
from scipy.special import expit

from drsim.errors import ParameterError
from drsim.process.compile import CompiledPolicy
from drsim.process.spec import Model, Policy

__all__ = ["written_policy"]

DIGITS = 6
"""A threshold that is off by 10⁻⁶ costs far less, since the best one lies where the value is flat."""


def written_policy(model: Model, policy: CompiledPolicy) -> Policy:
    """The specification of a policy that fires on the score of a step.

    Parameters
    ----------
    model : Model
        For which it was compiled.
    policy : CompiledPolicy
        With a mechanism.

    Returns
    -------
    Policy
        Thresholds as scores to six decimals, so that it fires nearly as the policy does; one number where all open
        steps share it.

    Raises
    ------
    ParameterError
        The policy has no mechanism, or looks back on a run's history.
    """
    if policy.mechanism < 0 or policy.history is not None:
        raise ParameterError("policy must have a mechanism and fire on the score of a step to be written as thresholds")
    with np.errstate(over="ignore"):
        scores = np.round(expit(policy.logit_threshold / float(model.critic.temperature)), DIGITS)
    is_open = np.flatnonzero(scores < 1.0)
    first, last = (int(is_open[0]), int(is_open[-1])) if is_open.size else (0, model.horizon - 1)
    window = scores[first : last + 1]
    is_single = bool(np.all(window == window[0]))
    propensity = np.broadcast_to(policy.propensity, (model.horizon,))
    return Policy(
        mechanism=list(model.mechanisms)[policy.mechanism],
        threshold=float(window[0]) if is_single else tuple(float(it) for it in scores),
        budget=policy.budget,
        cooldown=policy.cooldown,
        first_step=first,
        last_step=None if last == model.horizon - 1 else last,
        propensity=1.0 if np.all(propensity == 1.0) else tuple(float(it) for it in propensity),
    )
