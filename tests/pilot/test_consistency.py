"""Rules between records."""

import time

import numpy as np
import pytest

from drsim.pilot.consistency import Places, between_counts, between_marginals, between_runs
from drsim.pilot.records import CountsRow, Fork, MarginalsRow, Outcome, Run

OWN_TRIAL = "give each repeat its own trial number"


def places(n: int) -> Places:
    """Odd records in a, even in b."""
    return Places(sources=("a", "b"), source_of=np.arange(n) % 2, line_of=np.arange(n) // 2 + 1)


def run(task: str = "t", **fields: object) -> Run:
    return Run(task_id=task, arm="x", outcome=Outcome.FAIL, **fields)  # type: ignore[arg-type]


def messages(*runs: Run) -> list[str]:
    return [str(mistake) for mistake in between_runs(runs, places(len(runs)))]


def test_equal_trials_are_a_mistake() -> None:
    assert messages(run(), run("u"), run()) == [
        f"a:2: trial: repeats the run at a:1, of the same agent, benchmark, arm, task_id and trial; {OWN_TRIAL}"
    ]


@pytest.mark.parametrize("other", [{"trial": 1}, {"agent": "z"}, {"benchmark": "z"}, {"task": "z"}])
def test_runs_that_differ_in_one_part_are_no_repeats(other: dict[str, object]) -> None:
    assert messages(run(), run(**other)) == []  # type: ignore[arg-type]


def test_equal_run_ids_are_a_mistake() -> None:
    assert messages(run(run_id="r"), run("u"), run("v"), run("w", run_id="r")) == [
        "b:2: run_id: repeats the run_id at a:1; give each run its own run_id"
    ]


def test_fork_from_another_task() -> None:
    assert messages(run(run_id="r"), run("u", forked_from=Fork(run_id="r", t=0))) == [
        "b:1: forked_from.run_id: must name a run of the same task; the one at a:1 is of another, got 'r'"
    ]


def test_fork_from_itself() -> None:
    assert messages(run(run_id="r", forked_from=Fork(run_id="r", t=0))) == [
        "a:1: forked_from.run_id: must name another run, not the run itself, got 'r'"
    ]


@pytest.mark.parametrize(("t", "is_wrong"), [(2, False), (3, True), (4, True)])
def test_fork_beyond_its_parent(t: int, is_wrong: bool) -> None:
    message = f"b:1: forked_from.t: must lie below n_steps = 3 of the run at a:1, got {t}"
    child = run(trial=1, forked_from=Fork(run_id="r", t=t))
    assert messages(run(run_id="r", n_steps=3), child) == ([message] if is_wrong else [])
    assert messages(run(run_id="r"), child) == []


def test_fork_of_a_run_that_is_not_there_is_no_mistake() -> None:
    assert messages(run(forked_from=Fork(run_id="elsewhere", t=3))) == []


def test_short_forms() -> None:
    counts = [CountsRow(arm=arm, a=1, b=1, c=1, d=1) for arm in ("x", "y", "x")]
    assert [str(mistake) for mistake in between_counts(counts, places(3))] == [
        "a:2: arm: repeats the row at a:1, of the same agent, benchmark and arm; add them up or keep one"
    ]
    marginals = [MarginalsRow(arm="x", successes=1, n=2, trial=trial) for trial in (0, 1, 0)]
    assert [str(mistake) for mistake in between_marginals(marginals, places(3))] == [
        f"a:2: trial: repeats the row at a:1, of the same agent, benchmark, arm and trial; {OWN_TRIAL}"
    ]


def test_many_runs_are_checked_in_no_time() -> None:
    runs = [run(f"t{i // 4}", trial=i % 4, run_id=f"r{i}") for i in range(100_000)]
    where = places(len(runs))
    start = time.process_time()
    assert next(between_runs(runs, where), None) is None
    # 0.1 s is usual; the limit of the design is 0.3 s, and a busy machine gets some room. Quadratic work takes hours.
    assert time.process_time() - start < 1
