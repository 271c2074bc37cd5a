"""Warnings that the doctor and a fit share: what a reader should know of cells before trusting them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from drsim.pilot.cell import Unpaired
from drsim.pilot.retries import Retried, Retries

__all__ = ["NamedCell", "bounds_warning", "few", "places_of", "retry_warnings", "unpaired_warning"]

MAX_PLACES = 3
"""Cells or arms named in one warning."""


class NamedCell(Protocol):
    """What a warning needs to know of a cell."""

    @property
    def agent(self) -> str:
        """Agent."""
        ...

    @property
    def benchmark(self) -> str:
        """Benchmark."""
        ...

    @property
    def name(self) -> str:
        """The cell in words."""
        ...

    @property
    def unpaired(self) -> tuple[Unpaired, ...]:
        """Judged runs in no pair."""
        ...

    @property
    def gain_bounds(self) -> tuple[float, float] | None:
        """Gain if the runs set aside count against, then for, the intervention."""
        ...


def retry_warnings(arms: Iterable[tuple[str, Retries | None]]) -> Iterator[str]:
    """Yield one warning for each kind of end that was retried; `arms` are names with what was found of their trials."""
    retried = [(name, retries) for name, retries in arms if retries is not None]
    for kind, harm in (
        (Retried.FAILURE, "rates over all trials, churn and Best-of-N are biased; keep each task's first trial"),
        (Retried.INFRA, "give a retry the trial number of the run it replaces, or it finds no partner"),
    ):
        found = [(name, item) for name, item in retried if item.after is kind]
        if found:
            end, had = ("failed", "had failed") if kind is Retried.FAILURE else ("infra", "were infra")
            shown = [
                f"{name} ({item.followed_bad:,} of {item.followed:,} followed trials {had})" for name, item in found
            ]
            yield f"later trials follow {end} ones only, so they are retries, not repeats, in {few(shown)}: {harm}"


def unpaired_warning(cells: Sequence[NamedCell]) -> Iterator[str]:
    """Yield one warning for all judged runs in no pair, with the reasons."""
    reasons: Counter[str] = Counter()
    unpaired = [cell for cell in cells if cell.unpaired]
    for cell in unpaired:
        for item in cell.unpaired:
            reasons[item.reason] += item.runs
    if reasons:
        counted = [f"{n:,}: {reason}" if len(reasons) > 1 else reason for reason, n in reasons.most_common()]
        yield f"{reasons.total():,} judged runs are in no pair ({'; '.join(counted)}), in {few(places_of(unpaired))}"


def bounds_warning(cells: Sequence[NamedCell]) -> Iterator[str]:
    """Yield one warning where the runs set aside leave the sign of the gain open."""
    found = [
        f"{cell.name} ({100 * cell.gain_bounds[0]:+.1f} to {100 * cell.gain_bounds[1]:+.1f} pp)"
        for cell in cells
        if cell.gain_bounds is not None and cell.gain_bounds[0] < 0 < cell.gain_bounds[1]
    ]
    if found:
        yield f"infra and unjudged runs leave the sign of the gain open in {few(found)}"


def places_of(cells: Sequence[NamedCell]) -> list[str]:
    """Cells by name; several arms of one agent and benchmark by their number."""
    groups: dict[tuple[str, str], list[NamedCell]] = {}
    for cell in cells:
        groups.setdefault((cell.agent, cell.benchmark), []).append(cell)
    return [
        members[0].name if len(members) == 1 else f"{agent} on {benchmark} ({len(members)} arms)"
        for (agent, benchmark), members in groups.items()
    ]


def few(names: Sequence[str]) -> str:
    """The first few of many."""
    more = len(names) - MAX_PLACES
    shown = "; ".join(names[:MAX_PLACES])
    return f"{shown}; and {more} more" if more > 0 else shown
