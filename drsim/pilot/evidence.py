"""What a reader hands on: the records, and where each of them stood."""

from dataclasses import dataclass

from drsim.arrays import IntArray
from drsim.pilot.records import CountsRow, MarginalsRow, Run

__all__ = ["Counts", "Evidence", "Marginals", "Pilot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """Runs of one or more files, in file order."""

    runs: list[Run]
    sources: tuple[str, ...]
    """File names as the user gave them; `<stdin>` for standard input."""
    source_of: IntArray
    """(n_runs,) index into `sources`."""
    line_of: IntArray
    """(n_runs,) line in its source, from 1."""

    def place(self, index: int) -> str:
        """`source:line` of run `index`."""
        return f"{self.sources[self.source_of[index]]}:{self.line_of[index]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Paired tables that somebody counted."""

    rows: tuple[CountsRow, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginals:
    """Success counts without pairing."""

    rows: tuple[MarginalsRow, ...]
    sources: tuple[str, ...]


type Evidence = Pilot | Counts | Marginals
