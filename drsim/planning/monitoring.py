"""A growing pilot, reduced to what a monitor must remember: judged runs in the order in which they came.

Everything else follows from that list, so that a monitor which was stopped, or read its file in other portions, ends in
the same state.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from msgspec import Struct

from drsim.arrays import IntArray
from drsim.errors import DataError, ParameterError
from drsim.pilot.growing import Position
from drsim.pilot.records import BASELINE, Outcome, Run
from drsim.planning.sequential import Look, MonitorRule, look

__all__ = ["MonitorState", "Settings", "WatchedCell", "add_runs", "read_state", "watched_cells"]


class Settings(Struct, frozen=True, kw_only=True):
    """What a state was made with, and must be gone on with."""

    baseline: str = BASELINE
    trials: int = 1
    margin: float = 0.0
    rope: float = 0.01
    alpha: float = 0.05
    harm_alpha: float = 0.1


class Judged(Struct, frozen=True, array_like=True):
    """One judged run."""

    agent: str
    benchmark: str
    arm: str
    task_id: str
    trial: int
    is_success: bool
    run_id: str | None
    parent: str | None


class MonitorState(Struct, frozen=True, kw_only=True):
    """All that a monitor remembers."""

    schema: str = "drsim.monitor-state/1"
    settings: Settings
    position: Position = Position()
    runs: tuple[Judged, ...] = ()
    set_aside: int = 0
    """Runs that are infra or unjudged."""


def read_state(text: bytes, name: str, settings: Settings) -> MonitorState:
    """The state of an earlier monitor.

    Parameters
    ----------
    text : bytes
        What was written.
    name : str
        Of the file, for messages.
    settings : Settings
        Those of now.

    Returns
    -------
    MonitorState

    Raises
    ------
    DataError
        It is no state.
    ParameterError
        It was made with other settings.
    """
    try:
        state = msgspec.json.decode(text, type=MonitorState)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is no state of drsim monitor: {error}; remove it to start anew") from None
    if state.schema != "drsim.monitor-state/1":
        raise DataError(f"{name} has the schema {state.schema!r}, not drsim.monitor-state/1; remove it to start anew")
    if state.settings != settings:
        differing = [
            f"{it} {getattr(state.settings, it)} (now {getattr(settings, it)})"
            for it in Settings.__struct_fields__
            if getattr(state.settings, it) != getattr(settings, it)
        ]
        raise ParameterError(
            f"{name} was made with {', '.join(differing)}; levels may not change while a pilot runs: give the same, "
            "or start a new state"
        )
    return state


def add_runs(state: MonitorState, runs: Sequence[Run], position: Position) -> MonitorState:
    """The state after further runs.

    Parameters
    ----------
    state : MonitorState
        Before.
    runs : sequence of Run
        In file order.
    position : Position
        How far the file was read.

    Returns
    -------
    MonitorState

    Raises
    ------
    DataError
        A run repeats an earlier one, of the same agent, benchmark, arm, task and trial.
    """
    judged = [_judged(run) for run in runs if run.outcome.is_judged]
    known = {_key(it) for it in state.runs}
    for it in judged:
        if _key(it) in known:
            raise DataError(
                f"a run of {it.agent} on {it.benchmark}, {it.arm}, task {it.task_id}, trial {it.trial} is there twice; "
                "give each repeat its own trial number"
            )
        known.add(_key(it))
    return msgspec.structs.replace(
        state,
        position=position,
        runs=(*state.runs, *judged),
        set_aside=state.set_aside + len(runs) - len(judged),
    )


def _judged(run: Run) -> Judged:
    return Judged(
        run.agent,
        run.benchmark,
        run.arm,
        run.task_id,
        run.trial,
        run.outcome is Outcome.SUCCESS,
        run.run_id,
        None if run.forked_from is None else run.forked_from.run_id,
    )


def _key(run: Judged) -> tuple[str, str, str, str, int]:
    return run.agent, run.benchmark, run.arm, run.task_id, run.trial


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCell:
    """One intervened arm of a growing pilot."""

    agent: str
    benchmark: str
    arm: str
    look: Look
    n_waiting: int
    """Pairs of tasks that are not complete yet."""
    n_surplus: int
    """Pairs beyond those that make their task complete; they are not used."""
    n_unpaired: int
    """Runs of the arm without their baseline run."""


@dataclass(slots=True)
class _Place:
    """Pairs of one agent, benchmark and arm in the order in which they came."""

    complete: list[list[int]] = field(default_factory=list)
    open: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0]))
    done: set[str] = field(default_factory=set)
    n_surplus: int = 0
    waiting: dict[tuple[str, object], list[Judged]] = field(default_factory=lambda: defaultdict(list))

    def add(self, task_id: str, base: bool, arm: bool, n_trials: int) -> None:
        if task_id in self.done:
            self.n_surplus += 1
            return
        table = self.open[task_id]
        table[base + 2 * arm] += 1
        if sum(table) == n_trials:
            self.complete.append(self.open.pop(task_id))
            self.done.add(task_id)


def watched_cells(
    state: MonitorState, rule: MonitorRule, *, arms: Iterable[str] | None = None, seed: int
) -> tuple[WatchedCell, ...]:
    """Where every arm stands.

    Parameters
    ----------
    state : MonitorState
        Judged runs.
    rule : MonitorRule
        Of the same levels as the state's settings.
    arms : iterable of str, optional
        Intervened arms to keep; all by default.
    seed : int
        Seed of what is simulated.

    Returns
    -------
    tuple of WatchedCell
        In order of agent, benchmark, arm.
    """
    places = _replay(state, rule.n_trials)
    wanted = None if arms is None else set(arms)
    return tuple(
        WatchedCell(
            agent=agent,
            benchmark=benchmark,
            arm=arm,
            look=look(_table(place.complete), rule, seed=seed),
            n_waiting=sum(map(sum, place.open.values())),
            n_surplus=place.n_surplus,
            n_unpaired=sum(map(len, place.waiting.values())),
        )
        for (agent, benchmark, arm), place in sorted(places.items())
        if wanted is None or arm in wanted
    )


def _table(rows: list[list[int]]) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _replay(state: MonitorState, n_trials: int) -> dict[tuple[str, str, str], _Place]:
    """Pairs by place, in the order in which their later run came; a fork pairs by its parent, others by trial."""
    places: dict[tuple[str, str, str], _Place] = defaultdict(_Place)
    baselines: dict[tuple[str, str], dict[tuple[str, object], bool]] = defaultdict(dict)
    arms_of: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in state.runs:
        spot = run.agent, run.benchmark
        if run.arm != state.settings.baseline:
            arms_of[spot].add(run.arm)
            place = places[*spot, run.arm]
            key = (run.task_id, run.trial if run.parent is None else run.parent)
            base = baselines[spot].get(key)
            if base is None:
                place.waiting[key].append(run)
            else:
                place.add(run.task_id, base, run.is_success, n_trials)
            continue
        for name in (run.trial, run.run_id):
            if name is None:
                continue
            key = (run.task_id, name)
            baselines[spot][key] = run.is_success
            for arm in sorted(arms_of[spot]):
                place = places[*spot, arm]
                for waiting in place.waiting.pop(key, ()):
                    place.add(run.task_id, run.is_success, waiting.is_success, n_trials)
    return places
