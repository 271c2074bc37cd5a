"""Which model lends a pilot its shape, and which of its policies is the one that the pilot ran."""

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches

from drsim.errors import ParameterError
from drsim.process.parts import Signal
from drsim.process.shipped import find_model, shipped_models
from drsim.process.spec import Model

__all__ = ["EXAMPLE", "Base", "base_for", "policy_for"]

EXAMPLE = "example"
"""The shipped model of no agent at all, which is at hand where no other is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A model, and why it was taken."""

    model: Model
    why: str
    is_made_up: bool
    """Whether it is of no agent, and was taken for want of another."""


def base_for(given: str | None, *, agent: str | None, benchmark: str | None) -> Base:
    """The base model of a cell.

    Parameters
    ----------
    given : str or None
        Shipped name or path of a model file, where the user names one.
    agent, benchmark : str or None
        The cell's.

    Returns
    -------
    Base
        What the user names; else the shipped model of the same agent and benchmark; else the example. A model of
        another agent, or of this agent elsewhere, is not taken unasked: its finish profile, scores and disruption
        would look like knowledge of this one.

    Raises
    ------
    ParameterError
        No shipped model has the name.
    DataError
        The file cannot be read, or has mistakes.
    """
    if given is not None:
        return Base(model=find_model(given), why="it was given", is_made_up=False)
    name = _shipped_for(agent, benchmark)
    if name is not None:
        why = f"it is the shipped model of {agent} on {benchmark}"
        return Base(model=find_model(name), why=why, is_made_up=False)
    whom = f"{agent} on {benchmark}" if agent and benchmark else "this cell"
    why = f"no shipped model is of {whom}, and its numbers are made up; name a base model of your own"
    return Base(model=find_model(EXAMPLE), why=why, is_made_up=True)


def _shipped_for(agent: str | None, benchmark: str | None) -> str | None:
    """Shipped models are named SOURCE_benchmark_agent."""
    if not agent or not benchmark:
        return None
    wanted = _letters(benchmark) + _letters(agent)
    for name in shipped_models():
        _, _, rest = name.partition("_")
        if rest and _letters(rest) == wanted:
            return name
    return None


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def policy_for(model: Model, *, given: str | None, arm: str, mechanisms: Collection[str] = ()) -> tuple[str, str]:
    """The model's policy that stands for an arm.

    Parameters
    ----------
    model : Model
        The base model.
    given : str or None
        One of its policies, where the user names one.
    arm : str
        Name of the intervened arm.
    mechanisms : collection of str
        Mechanisms of the arm's interventions, where the runs name them.

    Returns
    -------
    policy, why : str
        The policy of the arm's name; else the only one with a mechanism of the arm's name, or of the name that its
        interventions carry.

    Raises
    ------
    ParameterError
        None is named so, or several are; or the policy looks back on a run's history, so that it has no exact values.
    """
    name, why = _named_policy(model, given, arm, mechanisms)
    policy = model.policies[name]
    if Signal(policy.signal) is not Signal.SCORE:
        raise ParameterError(
            f"policy must read the score of a step alone to be matched exactly, got {name} with signal "
            f"{policy.signal}; name another policy"
        )
    return name, why


def _named_policy(model: Model, given: str | None, arm: str, mechanisms: Collection[str]) -> tuple[str, str]:
    there = f"{model.name} has {', '.join(model.policies) or 'none'}"
    if given is not None:
        if given in model.policies:
            return given, "it was given"
        near = get_close_matches(given, model.policies, n=1)
        hint = f"did you mean {near[0]!r}?" if near else there
        raise ParameterError(f"policy must be one of the base model's, got {given!r}; {hint}")
    if arm in model.policies:
        return arm, "it has the arm's name"
    for mechanism in (arm, *mechanisms):
        found = [name for name, policy in model.policies.items() if policy.mechanism == mechanism]
        if len(found) == 1:
            return found[0], f"it is the only one with mechanism {mechanism}"
    raise ParameterError(
        f"the base model must have the policy that the pilot's arm {arm!r} ran; {there}; name one of them, or "
        "give a base model that has it"
    )
