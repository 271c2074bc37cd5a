"""Rules between the records of all files together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from drsim.arrays import IntArray
from drsim.errors import Mistake
from drsim.pilot.mistakes import show
from drsim.pilot.records import CountsRow, MarginalsRow, Run

__all__ = ["Places", "between_counts", "between_marginals", "between_runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where each record stood."""

    sources: tuple[str, ...]
    source_of: IntArray
    """(n_records,) index into `sources`."""
    line_of: IntArray
    """(n_records,) line in its source, from 1."""

    def place(self, index: int) -> str:
        """`source:line` of record `index`."""
        return f"{self.sources[self.source_of[index]]}:{self.line_of[index]}"

    def mistake(self, index: int, field: str, rule: str, value: str = "") -> Mistake:
        """Mistake of record `index`."""
        source, line = self.sources[self.source_of[index]], int(self.line_of[index])
        return Mistake(source=source, line=line, field=field, value=value, rule=rule)


def between_runs(runs: Sequence[Run], places: Places) -> Iterator[Mistake]:
    """Yield runs that repeat another one, or that claim a parent which cannot be theirs.

    A fork whose parent is not among the runs is no mistake: pairing leaves it out and counts it.

    Parameters
    ----------
    runs : sequence of Run
        All runs of all files.
    places : Places
        Where each of them stood.

    Yields
    ------
    Mistake
        Repeated trials first, then repeated run_ids, then forks.
    """
    for i, first in _repeats(runs, attrgetter("agent", "benchmark", "arm", "task_id", "trial")):
        rule = (
            f"repeats the run at {places.place(first)}, of the same agent, benchmark, arm, task_id and trial; "
            "give each repeat its own trial number"
        )
        yield places.mistake(i, "trial", rule)
    named = [i for i, run in enumerate(runs) if run.run_id is not None]
    for i, first in _repeats(named, lambda index: runs[index].run_id):
        rule = f"repeats the run_id at {places.place(named[first])}; give each run its own run_id"
        yield places.mistake(named[i], "run_id", rule)
    yield from _between_forks(runs, places)


def _repeats[Record](records: Sequence[Record], key_of: Callable[[Record], object]) -> Iterator[tuple[int, int]]:
    """Indices of each record with a repeated key and of the first with that key."""
    if len(set(map(key_of, records))) == len(records):
        return
    first_of: dict[object, int] = {}
    for i, key in enumerate(map(key_of, records)):
        first = first_of.setdefault(key, i)
        if first != i:
            yield i, first


def _between_forks(runs: Sequence[Run], places: Places) -> Iterator[Mistake]:
    forks = [i for i, run in enumerate(runs) if run.forked_from is not None]
    if not forks:
        return
    index_of = {runs[i].run_id: i for i in reversed(range(len(runs))) if runs[i].run_id is not None}
    for i in forks:
        run, fork = runs[i], runs[i].forked_from
        assert fork is not None  # noqa: S101 # tells the type checker what `forks` holds
        parent = runs[index_of[fork.run_id]] if fork.run_id in index_of else None
        if fork.run_id == run.run_id:
            yield places.mistake(
                i, "forked_from.run_id", "must name another run, not the run itself", show(fork.run_id)
            )
        elif parent is None:
            continue
        elif (parent.benchmark, parent.task_id) != (run.benchmark, run.task_id):
            rule = f"must name a run of the same task; the one at {places.place(index_of[fork.run_id])} is of another"
            yield places.mistake(i, "forked_from.run_id", rule, show(fork.run_id))
        elif parent.n_steps is not None and fork.t >= parent.n_steps:
            rule = f"must lie below n_steps = {parent.n_steps} of the run at {places.place(index_of[fork.run_id])}"
            yield places.mistake(i, "forked_from.t", rule, show(fork.t))


def between_counts(rows: Sequence[CountsRow], places: Places) -> Iterator[Mistake]:
    """Yield rows of a cell that another row counts already."""
    for i, first in _repeats(rows, attrgetter("agent", "benchmark", "arm")):
        rule = (
            f"repeats the row at {places.place(first)}, of the same agent, benchmark and arm; add them up or keep one"
        )
        yield places.mistake(i, "arm", rule)


def between_marginals(rows: Sequence[MarginalsRow], places: Places) -> Iterator[Mistake]:
    """Yield rows of a cell and trial that another row counts already."""
    for i, first in _repeats(rows, attrgetter("agent", "benchmark", "arm", "trial")):
        rule = (
            f"repeats the row at {places.place(first)}, of the same agent, benchmark, arm and trial; "
            "give each repeat its own trial number"
        )
        yield places.mistake(i, "trial", rule)
