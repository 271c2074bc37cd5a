r"""Values that may change with the step: a number, a list, or a decay between two numbers.

.. math:: v(t) = b + (a - b)\,2^{-t/h}, \quad t = 0, 1, \dots, T-1
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.process.flaws import Flaw, number_flaws, raise_flaws, real

__all__ = [
    "NOT_PER_CENT",
    "ROUNDING",
    "Decay",
    "StepValue",
    "length_flaws",
    "probability_flaws",
    "smallest",
    "step_values",
]

NOT_PER_CENT = "a probability and not per cent"

LONGEST_HALF_LIFE = 1e6

ROUNDING = 1e-12
"""Ten shares of 0.1 sum to 1 in words, and to a little more or less in float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """A value that moves from one number to another and covers half of what is left every `half_life` steps."""

    start: float
    """a, the value at step 0; `from` in a file."""
    end: float
    """b, the value that it tends to; `to` in a file."""
    half_life: float
    """h, in steps, in [1e-6, 1e6]."""

    def __post_init__(self) -> None:
        raise_flaws(number_flaws("half_life", self.half_life, 1 / LONGEST_HALF_LIFE, LONGEST_HALF_LIFE))


type StepValue = float | Sequence[float] | Decay
"""One number for all steps, one number per step, or a decay."""


def step_values(value: StepValue, horizon: int) -> FloatArray:
    """The value at every step.

    Parameters
    ----------
    value : StepValue
        Checked; a list has `horizon` numbers.
    horizon : int
        T ≥ 1.

    Returns
    -------
    ndarray
        (T,) float64.
    """
    if isinstance(value, Decay):
        weight: FloatArray = np.exp2(-np.arange(horizon) / value.half_life)
        return value.end + (value.start - value.end) * weight
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (horizon,)).copy()


def smallest(value: StepValue) -> float:
    """The least number that a checked step value can take."""
    if isinstance(value, Decay):
        return min(value.start, value.end)
    return float(np.min(value))


def probability_flaws(field: str, value: object) -> Iterator[Flaw]:
    """Flaws of a step value that must hold probabilities; of a list the first wrong step is shown.

    Parameters
    ----------
    field : str
        Path of the field.
    value : object
        What was got.

    Yields
    ------
    Flaw
        At most one for a number or a list, at most two for a decay.
    """
    if isinstance(value, Decay):
        yield from number_flaws(f"{field}.from", value.start, 0.0, 1.0, remedy=NOT_PER_CENT)
        yield from number_flaws(f"{field}.to", value.end, 0.0, 1.0, remedy=NOT_PER_CENT)
    elif isinstance(value, list | tuple):
        for step, entry in enumerate(value):
            found = list(number_flaws(field, entry, 0.0, 1.0, remedy=NOT_PER_CENT, place=f"at step {step}"))
            if found:
                yield from found
                return
    elif real(value) is None:
        rule = "must be a number in [0, 1], a list of one number per step, or {from, to, half_life}"
        yield from (Flaw(field=field, rule=rule, value=flaw.value) for flaw in number_flaws(field, value, 0.0, 1.0))
    else:
        yield from number_flaws(field, value, 0.0, 1.0, remedy=NOT_PER_CENT)


def length_flaws(field: str, value: StepValue, horizon: int) -> Iterator[Flaw]:
    """The flaw of a list that does not have one number per step, if it has one."""
    if isinstance(value, list | tuple) and len(value) != horizon:
        rule = f"must have one number per step, {horizon} for this horizon"
        yield Flaw(field=field, rule=rule, value=f"a list of {len(value)}")
