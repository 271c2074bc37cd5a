"""Axes of a sweep as a user writes them: `early-vs-late`, `0.3:0.95:0.05`, `1:5`, `rollback,append`."""

import math
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from drsim.errors import ParameterError
from drsim.planning.axes import Axes, Family, Timing
from drsim.process.spec import Model, Policy

__all__ = ["FAMILIES", "axes_of", "known_name", "parse_numbers", "parse_wholes"]

FAMILIES = tuple(family.value for family in Family if family is not Family.AS_GIVEN)
"""What `--timing` takes."""

MOST_VALUES = 1_000_000
"""On one axis; a range with more is a slip of the step."""
DIGITS = 12
"""0.3 + 3 · 0.05 is 0.45 to this many decimals, and 0.44999999999999996 in float64."""
LANDS = 1e-9
"""Share of a step by which a range may miss its end through rounding and still reach it."""
PLAIN = {"threshold": 0.5, "budget": 1}
"""Of the policy that a sweep starts from where the model has none."""


def parse_numbers(text: str, name: str) -> tuple[float, ...]:
    """Numbers and ranges, separated by commas.

    Parameters
    ----------
    text : str
        Each part is a number, or `from:to:step` with both ends; without `:step` the step is 1.
    name : str
        What messages call the axis.

    Returns
    -------
    tuple of float
        In the order of the text; not checked against each other.

    Raises
    ------
    ParameterError
        A part is neither, or a range is empty, endless or has more than a million values.
    """
    return tuple(value for part in text.split(",") for value in _range(part.strip(), name))


def _range(part: str, name: str) -> list[float]:
    fields = part.split(":")
    try:
        numbers = [float(field) for field in fields]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or not all(map(math.isfinite, numbers)):
        raise ParameterError(
            f"--{name} must be numbers or ranges from:to:step, separated by commas, got {part!r}; "
            "write 0.3:0.9:0.05, 1:5 or 0.5,0.7"
        )
    if len(numbers) == 1:
        return numbers
    start, stop, step = (*numbers, 1.0)[:3]
    if step <= 0.0 or stop < start:
        raise ParameterError(
            f"--{name} must rise from its first number to its second by a positive step, got {part!r}; "
            "write from:to:step such as 0.3:0.9:0.05"
        )
    n_steps = (stop - start) / step
    if n_steps >= MOST_VALUES:
        raise ParameterError(f"--{name} must have at most {MOST_VALUES:,} values, got {part!r}; give a larger step")
    return [round(start + i * step, DIGITS) for i in range(math.floor(n_steps + LANDS) + 1)]


def parse_wholes(text: str, name: str) -> tuple[int, ...]:
    """As `parse_numbers`, whole numbers.

    Raises
    ------
    ParameterError
        As `parse_numbers`, or a number is not whole.
    """
    numbers = parse_numbers(text, name)
    for number in numbers:
        if number != int(number):
            raise ParameterError(f"--{name} must be whole numbers, got {number:g}; write 1:5 or 1,3")
    return tuple(int(number) for number in numbers)


def axes_of(
    model: Model,
    *,
    timing: str | None = None,
    threshold: str | None = None,
    budget: str | None = None,
    cooldown: str | None = None,
    mechanism: str | None = None,
    policy: str | None = None,
) -> Axes:
    """The product that a user asks for.

    Parameters
    ----------
    model : Model
        With at least one mechanism.
    timing : str, optional
        A timing family; `early-vs-late` where no axis is given at all, else the gates of the policy started from.
    threshold, budget, cooldown : str, optional
        Numbers and ranges, see `parse_numbers`; those of the policy started from where not given.
    mechanism : str, optional
        Names separated by commas; where not given, that of `policy`, or all of the model where there is none.
    policy : str, optional
        The policy of the model that the sweep starts from; its first one where not given, and a plain one with
        threshold 0.5 and budget 1 where the model has none.

    Returns
    -------
    Axes

    Raises
    ------
    ParameterError
        Some text cannot be read, names what the model lacks, or contradicts another axis.
    """
    if not model.mechanisms:
        raise ParameterError(f"model {model.name} has no mechanism to sweep; add a table [mechanisms.NAME]")
    base = _base(model, policy)
    if mechanism is not None:
        names = tuple(known_name(name.strip(), model.mechanisms, "--mechanism") for name in mechanism.split(","))
    else:
        names = tuple(model.mechanisms) if policy is None else (base.mechanism,)
    family = _family(timing, is_alone=threshold is budget is cooldown is None)
    if family is Family.FIXED_FREQUENCY:
        base = replace(base, threshold=0.0, budget=model.horizon)
    if family is Family.DELAY and cooldown is not None:
        raise ParameterError("--cooldown cannot be given with --timing delay, which sets it; sweep first-step instead")
    timing_axis = Timing(family=family, horizon=model.horizon)
    if family is Family.AS_GIVEN:
        timing_axis = replace(timing_axis, first_step=base.first_step, last_step=base.last_step, every=base.every)
    return Axes(
        base=base,
        timing=timing_axis,
        mechanisms=names,
        thresholds=None if threshold is None else parse_numbers(threshold, "threshold"),
        budgets=_wholes(budget, "budget", base.budget),
        cooldowns=_wholes(cooldown, "cooldown", base.cooldown),
    )


def _wholes(text: str | None, name: str, otherwise: int) -> tuple[int, ...]:
    return (otherwise,) if text is None else parse_wholes(text, name)


def _base(model: Model, name: str | None) -> Policy:
    if name is not None:
        return model.policies[known_name(name, model.policies, "--policy")]
    if model.policies:
        return next(iter(model.policies.values()))
    return Policy(mechanism=next(iter(model.mechanisms)), threshold=PLAIN["threshold"], budget=int(PLAIN["budget"]))


def known_name(name: str, known: Iterable[str], option: str) -> str:
    """A name, once it is known that the model has it.

    Parameters
    ----------
    name : str
        As given.
    known : iterable of str
        Names of the model.
    option : str
        Which gave it, for messages.

    Returns
    -------
    str
        `name`.

    Raises
    ------
    ParameterError
        The model has no such name.
    """
    names = list(known)
    if name not in names:
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names) or 'none'}"
        raise ParameterError(f"{option} must be one of the model's, got {name!r}; {hint}")
    return name


def _family(text: str | None, *, is_alone: bool) -> Family:
    if text is None:
        return Family.EARLY_VS_LATE if is_alone else Family.AS_GIVEN
    if text not in FAMILIES:
        near = get_close_matches(text, FAMILIES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "early-vs-late is the usual one"
        raise ParameterError(f"--timing must be one of {', '.join(FAMILIES)}, got {text!r}; {hint}")
    return Family(text)
