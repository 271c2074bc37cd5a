"""What a policy could gain that sees the state of a run instead of scores (THEORY section 5)."""

import numpy as np

from drsim.arrays import FloatArray
from drsim.process.compile import CompiledModel
from drsim.process.terms import Terms, check_terms, open_steps, usable_budget, usable_cooldown, usable_mechanisms

__all__ = ["full_information"]


def full_information(model: CompiledModel, terms: Terms) -> float:
    """P(success) less prices of the best policy that sees the live state after every act, and the task.

    It needs no critic and pays for none. No policy on scores is worth more, whatever its run-level shift.

    Parameters
    ----------
    model : CompiledModel
        T steps, S live states.
    terms : Terms
        Of the same model.

    Returns
    -------
    float
        To rounding.

    Raises
    ------
    ParameterError
        The terms are not of this model.

    References
    ----------
    THEORY section 5.
    """
    check_terms(model, terms)
    if model.tasks is None:
        return _best(model, model.transitions, terms)
    values = np.array([_best(model, transitions, terms) for transitions in model.tasks.transitions])
    return float(model.tasks.weights @ values)


def _best(model: CompiledModel, transitions: FloatArray, terms: Terms) -> float:
    """Backward over (budget left, cooldown left, state)."""
    horizon, n_states = transitions.shape[:2]
    budget, cooldown = usable_budget(model, terms), usable_cooldown(model, terms)
    mechanisms = usable_mechanisms(model, terms)
    extra = np.minimum(model.extra_steps, horizon)
    cooler = np.maximum(np.arange(cooldown + 1) - 1, 0)
    is_open = open_steps(model, terms)
    # ahead[j]: values of a run that is about to act in step t + 1 + j
    ahead = [np.zeros((budget + 1, cooldown + 1, n_states))] * (int(extra[list(mechanisms)].max(initial=0)) + 1)
    for t in reversed(range(horizon)):
        value = ahead[0][:, cooler]
        if budget and is_open[t]:
            for m in mechanisms:
                moved = ahead[extra[m]][:budget, cooldown] @ model.kernels[m, t].T - terms.intervention_price
                value[1:, 0] = np.maximum(value[1:, 0], moved)
        value = value @ transitions[t, :, :n_states].T + transitions[t, :, n_states]
        ahead = [value, *ahead[:-1]]
    return float(ahead[0][budget, 0] @ model.start)
