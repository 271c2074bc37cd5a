"""What threshold policies are worth under draws of a model: P(success) less prices."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledPolicy
from drsim.process.exact_many import evaluate_many
from drsim.process.stacks import ModelDraws, stack_policies
from drsim.process.success_many import success_many
from drsim.process.terms import Terms

__all__ = ["net_values"]


def net_values(draws: ModelDraws, policies: Sequence[CompiledPolicy], terms: Terms) -> FloatArray:
    """Exact values of policies, net of prices.

    Parameters
    ----------
    draws : ModelDraws
        D draws.
    policies : sequence of CompiledPolicy
        P policies that fire on the score of a step.
    terms : Terms
        With the prices.

    Returns
    -------
    ndarray
        (P, D) P(success) less the prices of interventions and of scoring every live step, which a policy without a
        mechanism does not do.

    Raises
    ------
    ParameterError
        The policies do not belong to the draws, or look back on a run's history.
    """
    table = stack_policies(policies)
    if terms.is_free:
        return success_many(draws, table).success
    priced = replace(
        draws,
        tokens=np.zeros_like(draws.tokens),
        critic_tokens=np.full_like(draws.critic_tokens, terms.critic_price),
        mechanism_tokens=np.full_like(draws.mechanism_tokens, terms.intervention_price),
    )
    values = evaluate_many(priced, table)
    net: FloatArray = values.success - values.tokens
    return net
