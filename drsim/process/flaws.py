"""What is wrong in a specification: every flaw is collected, then all are raised together."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real

from drsim.errors import ParameterError
from drsim.pilot.mistakes import show, unknown_field

__all__ = ["Flaw", "SpecError", "name_flaws", "number_flaws", "raise_flaws", "real", "text_flaws", "whole_flaws"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """One thing that is wrong."""

    field: str
    """Dotted path of the field, such as `agent.modes.off.slip`."""
    rule: str
    """What is allowed, with the remedy where there is one."""
    value: str
    """What was got, and at which step; empty when nothing was."""

    def __str__(self) -> str:
        return f"{self.field} {self.rule}" + (f", got {self.value}" if self.value else "")

    def under(self, path: str) -> "Flaw":
        """The flaw of a field that stands under `path`."""
        return replace(self, field=f"{path}.{self.field}" if self.field else path)


class SpecError(ParameterError):
    """A specification is wrong in one or more places.

    Parameters
    ----------
    flaws : sequence of Flaw
        At least one.
    """

    def __init__(self, flaws: Iterable[Flaw]) -> None:
        self.flaws = tuple(flaws)
        super().__init__("\n  ".join(map(str, self.flaws)))


def raise_flaws(flaws: Iterable[Flaw]) -> None:
    """Raise all flaws at once, or nothing when there are none.

    Raises
    ------
    SpecError
        There is a flaw.
    """
    found = tuple(flaws)
    if found:
        raise SpecError(found)


def real(value: object) -> float | None:
    """`value` as a finite float; None when it is no number, a truth value, NaN, infinite or too large."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def number_flaws(
    field: str, value: object, low: float, high: float, *, remedy: str = "", place: str = ""
) -> Iterator[Flaw]:
    """The flaw of a number that must lie in [low, high], if it has one.

    Parameters
    ----------
    field : str
        Path of the field.
    value : object
        What was got.
    low, high : float
        Ends of the domain, both included.
    remedy : str
        Last part of the rule.
    place : str
        Where in the field the number stands, such as `at step 3`.

    Yields
    ------
    Flaw
        At most one.
    """
    number = real(value)
    if number is None or not low <= number <= high:
        rule = f"must be a number in [{low:g}, {high:g}]" if number is None else f"must lie in [{low:g}, {high:g}]"
        yield Flaw(
            field=field,
            rule=rule + (f", {remedy}" if remedy else ""),
            value=show(value) + (f" {place}" if place else ""),
        )


def whole_flaws(field: str, value: object, low: int, high: int, *, remedy: str = "") -> Iterator[Flaw]:
    """The flaw of a whole number that must lie in [low, high], if it has one."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high:  # type: ignore[operator] # is_whole
        rule = f"must be a whole number from {low} to {high}" + (f", {remedy}" if remedy else "")
        yield Flaw(field=field, rule=rule, value=show(value))


def text_flaws(field: str, value: object) -> Iterator[Flaw]:
    """The flaw of a text that must not be empty, if it has one."""
    if not isinstance(value, str) or not value.strip():
        yield Flaw(field=field, rule="must be text, and not empty", value=show(value))


def name_flaws(field: str, named: Mapping[str, object], known: Iterable[str], noun: str) -> Iterator[Flaw]:
    """Flaws of values by name: each name that is not known, with the nearest that is."""
    names = list(known)
    for name in named:
        if name not in names:
            rule = unknown_field(name, names, f"the {noun}s are {', '.join(names)}").replace("field", noun, 1)
            yield Flaw(field=f"{field}.{name}", rule=f"names an {rule}", value="")
