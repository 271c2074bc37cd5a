"""Errors that drsim raises on purpose; each message says what, the rule, what was got, and the remedy."""

from dataclasses import dataclass
from typing import Any

__all__ = ["ConvergenceError", "DataError", "DrsimError", "Mistake", "ParameterError"]

MAX_MISTAKES_SHOWN = 20
"""A reader of messages fixes the first few causes; more lines than a screen hide them."""


class DrsimError(Exception):
    """Base of every error that a user's input or request can cause."""

    kind = "error"

    def details(self) -> list[dict[str, Any]]:
        """One mapping per separate mistake, for JSON; empty when the message says it all."""
        return []


class ParameterError(DrsimError, ValueError):
    """A parameter lies outside its domain."""

    kind = "parameter"


class ConvergenceError(DrsimError):
    """An iterative method ended without an answer that can be trusted."""

    kind = "convergence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong in an input file."""

    source: str
    """File name as the user gave it, `<stdin>` for standard input."""
    line: int | None
    """Line (JSONL, CSV) or row (Parquet, JSON list) from 1; None when the file as a whole is wrong."""
    field: str
    """Path of the field, such as `steps[3].score`; empty when the line as a whole is wrong."""
    value: str
    """What was got, shortened; empty when nothing was."""
    rule: str
    """What is allowed, with the remedy where there is one."""

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        parts = [place, self.field] if self.field else [place]
        got = f", got {self.value}" if self.value else ""
        return ": ".join(parts) + f": {self.rule}{got}"

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, for JSON."""
        return {
            "source": self.source,
            "line": self.line,
            "field": self.field,
            "value": self.value,
            "rule": self.rule,
        }


class DataError(DrsimError):
    """An input file cannot be used; carries every mistake that is shown, and how many there are.

    Parameters
    ----------
    message : str
        The first line, complete on its own when there are no `mistakes`.
    mistakes : sequence of Mistake
        All that were found; the message shows the first 20.
    """

    kind = "data"

    def __init__(self, message: str, mistakes: tuple[Mistake, ...] | list[Mistake] = ()) -> None:
        self.mistakes = tuple(mistakes)
        shown = [f"  {mistake}" for mistake in self.mistakes[:MAX_MISTAKES_SHOWN]]
        hidden = len(self.mistakes) - len(shown)
        if hidden > 0:
            shown.append(f"  … and {hidden} more")
        super().__init__("\n".join([message, *shown]))

    def details(self) -> list[dict[str, Any]]:
        """The mistakes that the message shows."""
        return [mistake.to_dict() for mistake in self.mistakes[:MAX_MISTAKES_SHOWN]]
