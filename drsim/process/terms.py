"""The terms that all policies which are compared must keep: what they may do, and what it costs."""

from dataclasses import dataclass, replace

import numpy as np

from drsim.arrays import BoolArray
from drsim.errors import ParameterError
from drsim.process.compile import CompiledModel
from drsim.process.flaws import number_flaws, raise_flaws, whole_flaws

__all__ = ["Terms", "check_terms", "open_steps", "priced", "usable_budget", "usable_cooldown", "usable_mechanisms"]

LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Terms:
    """What a policy may do at most, and what it costs in units of success."""

    budget: int
    """Most interventions in one run, ≥ 0."""
    cooldown: int = 0
    """Steps in which nothing fires after an intervention and its extra steps, ≥ 0."""
    intervention_price: float = 0.0
    """κ, of one intervention, in [0, 1]: 0.01 says that it is worth one per cent of success."""
    critic_price: float = 0.0
    """Of scoring one step, in [0, 1]."""
    mechanisms: tuple[int, ...] | None = None
    """Indices of the mechanisms to choose among; None: all."""
    is_open: BoolArray | None = None
    """(T,) steps that may fire; None: all."""

    def __post_init__(self) -> None:
        raise_flaws(
            [
                *(
                    flaw
                    for it in ("budget", "cooldown")
                    for flaw in whole_flaws(it, getattr(self, it), 0, LARGEST_COUNT)
                ),
                *(
                    flaw
                    for it in ("intervention_price", "critic_price")
                    for flaw in number_flaws(it, getattr(self, it), 0.0, 1.0, remedy="in units of success")
                ),
            ]
        )

    @property
    def is_free(self) -> bool:
        """Whether nothing costs anything."""
        return self.intervention_price == 0.0 and self.critic_price == 0.0


def check_terms(model: CompiledModel, terms: Terms) -> None:
    """Refuse terms that do not belong to a model.

    Raises
    ------
    ParameterError
        The model lacks a mechanism that the terms name, or has another horizon.
    """
    n_mechanisms, horizon = model.kernels.shape[:2]
    wrong = [it for it in terms.mechanisms or () if not 0 <= it < n_mechanisms]
    if wrong:
        raise ParameterError(
            f"mechanisms must be indices below {n_mechanisms}, got {wrong[0]}; take one of the model's"
        )
    if terms.is_open is not None and terms.is_open.shape != (horizon,):
        raise ParameterError(f"is_open must have the {horizon} steps of the model, got {terms.is_open.shape}")


def usable_mechanisms(model: CompiledModel, terms: Terms) -> tuple[int, ...]:
    """Indices of the mechanisms to choose among."""
    return tuple(range(len(model.kernels))) if terms.mechanisms is None else terms.mechanisms


def open_steps(model: CompiledModel, terms: Terms) -> BoolArray:
    """(T,) steps that may fire."""
    return np.ones(len(model.transitions), dtype=np.bool_) if terms.is_open is None else terms.is_open


def usable_budget(model: CompiledModel, terms: Terms) -> int:
    """Interventions for which budget, open steps, cooldown and extra steps leave room."""
    mechanisms = usable_mechanisms(model, terms)
    steps = np.flatnonzero(open_steps(model, terms))
    if not mechanisms or not steps.size:
        return 0
    extra = int(model.extra_steps[list(mechanisms)].min())
    return min(terms.budget, int(steps[-1] - steps[0]) // (1 + extra + terms.cooldown) + 1)


def usable_cooldown(model: CompiledModel, terms: Terms) -> int:
    """Steps of a cooldown that can matter: none where no second intervention is possible."""
    return min(terms.cooldown, len(model.transitions)) if usable_budget(model, terms) > 1 else 0


def priced(model: CompiledModel, terms: Terms) -> CompiledModel:
    """The model with its tokens replaced by prices.

    Whatever counts tokens then counts the price of a run, by the same rule: every live run is scored where a policy
    with a mechanism runs, fires it or not.

    Parameters
    ----------
    model : CompiledModel
        T steps, M mechanisms.
    terms : Terms
        With the prices.

    Returns
    -------
    CompiledModel
        The same runs.
    """
    return replace(
        model,
        tokens=np.zeros_like(model.tokens),
        critic_tokens=np.full_like(model.critic_tokens, terms.critic_price),
        mechanism_tokens=np.full_like(model.mechanism_tokens, terms.intervention_price),
    )
