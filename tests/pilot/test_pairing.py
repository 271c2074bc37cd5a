import re
from pathlib import Path

import numpy as np
import pytest

from drsim.errors import DataError
from drsim.pilot.cell import PairedBy, Unpaired
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Pilot
from drsim.pilot.pairing import pair
from drsim.pilot.reading import read
from drsim.pilot.records import Fork, Outcome, Run


def pilot_of(*runs: Run) -> Pilot:
    return Pilot(
        runs=list(runs),
        sources=("pilot.jsonl",),
        source_of=np.zeros(len(runs), dtype=np.int64),
        line_of=np.arange(1, len(runs) + 1, dtype=np.int64),
    )


def run(
    task: str,
    arm: str,
    outcome: str = "success",
    trial: int = 0,
    *,
    run_id: str | None = None,
    fork: str | None = None,
    n_steps: int | None = None,
) -> Run:
    return Run(
        task_id=task,
        arm=arm,
        outcome=Outcome(outcome),
        trial=trial,
        run_id=run_id,
        forked_from=None if fork is None else Fork(run_id=fork, t=0),
        n_steps=n_steps,
    )


def published_counts(data: Path) -> dict[str, dict[tuple[str, str, str], list[int]]]:
    """The table of paired counts in the data's own README."""
    found: dict[str, dict[tuple[str, str, str], list[int]]] = {}
    for line in (data / "README.md").read_text().splitlines():
        fields = [field.strip() for field in line.strip("|").split("|")]
        if len(fields) == 9 and re.fullmatch(r"\d+", fields[-1]):
            name, agent, benchmark, arm, _, *counts = fields
            found.setdefault(name, {})[agent, benchmark, arm] = [int(count) for count in counts]
    return found


def test_counts_of_every_real_pilot_are_the_published_ones(shared_data: Path) -> None:
    published = published_counts(shared_data)
    assert sum(len(cells) for cells in published.values()) == 47
    for name, cells in published.items():
        pairing = cells_of(read([str(shared_data / "pilots" / f"{name}.jsonl")]))
        found = {
            (cell.agent, cell.benchmark, cell.arm): [cell.counts[letter] for letter in "ABCD"]
            for cell in pairing.cells
            if cell.is_paired
        }
        assert found == cells, name


def test_trials_pair_and_average_within_the_task() -> None:
    pairing = pair(
        pilot_of(
            run("t", "baseline", "fail", 0),
            run("t", "baseline", "success", 1),
            run("t", "rollback", "success", 0),
            run("t", "rollback", "success", 1),
            run("u", "baseline", "success", 0),
            run("u", "rollback", "fail", 0),
        )
    )
    (cell,) = pairing.cells
    assert cell.paired_by is PairedBy.TRIAL
    np.testing.assert_array_equal(cell.tables, [[0, 0, 0.5, 0.5], [0, 1, 0, 0]])
    assert cell.counts == {"A": 0, "B": 1, "C": 1, "D": 1}
    assert (cell.n_paired, cell.n_paired_tasks) == (3, 2)


def test_capped_counts_as_fail_and_apart() -> None:
    (cell,) = pair(pilot_of(run("t", "baseline", "capped"), run("t", "rollback", "success"))).cells
    assert cell.counts == {"A": 0, "B": 0, "C": 1, "D": 0}
    assert (cell.baseline_tally.capped, cell.baseline_tally.fail) == (1, 0)


def test_a_stated_fork_decides_against_equal_trial_numbers() -> None:
    # By trial, the arm's run would meet run b (fail); it says that it shares the prefix of run a (success).
    (cell,) = pair(
        pilot_of(
            run("t", "baseline", "success", 1, run_id="a"),
            run("t", "baseline", "fail", 0, run_id="b"),
            run("t", "rollback", "fail", 0, fork="a"),
        )
    ).cells
    assert cell.paired_by is PairedBy.FORK
    assert cell.counts == {"A": 0, "B": 1, "C": 0, "D": 0}
    assert cell.unpaired == (
        Unpaired(arm="baseline", reason="not part of a fork whose two runs are in the input and judged", runs=1),
    )


def test_several_forks_of_one_run_are_several_pairs_of_one_task() -> None:
    (cell,) = pair(
        pilot_of(
            run("t", "baseline", "success", run_id="a"),
            *(run("t", "rollback", outcome, trial, fork="a") for trial, outcome in enumerate(["fail", "success"])),
        )
    ).cells
    assert cell.paired_by is PairedBy.FORK
    assert cell.counts == {"A": 0, "B": 1, "C": 0, "D": 1}


def test_without_common_trials_the_task_means_are_compared() -> None:
    (cell,) = pair(
        pilot_of(
            *(run("t", "baseline", outcome, trial) for trial, outcome in enumerate(["success", "fail"])),
            *(run("t", "rollback", outcome, 10 + k) for k, outcome in enumerate(["success"] * 3 + ["fail"])),
        )
    ).cells
    assert cell.paired_by is PairedBy.ALL
    np.testing.assert_allclose(cell.tables, [[0.125, 0.125, 0.375, 0.375]], rtol=1e-15)
    assert cell.n_paired == 2


def test_account_names_every_run_outside_the_pairs() -> None:
    pairing = pair(
        pilot_of(
            run("t", "baseline"),
            run("t", "rollback"),
            run("t", "rollback", trial=1),
            run("u", "baseline"),
            run("v", "baseline", "infra"),
            run("v", "rollback"),
            run("w", "baseline", "unjudged"),
            run("x", "rollback"),
        )
    )
    (cell,) = pairing.cells
    assert cell.unpaired == (
        Unpaired(arm="baseline", reason="the other arm has no run of the task", runs=1),
        Unpaired(arm="rollback", reason="the other arm has no judged run of the same trial", runs=1),
        Unpaired(arm="rollback", reason="the other arm has no run of the task", runs=1),
        Unpaired(arm="rollback", reason="the other arm's runs of the task are infra or unjudged", runs=1),
    )
    assert pairing.set_aside == {"infra": 1, "unjudged": 1}
    assert (pairing.n_runs, pairing.n_tasks) == (8, 5)
    judged = cell.baseline_tally.judged + cell.arm_tally.judged
    assert judged == 2 * cell.n_paired + sum(item.runs for item in cell.unpaired)


def test_runs_set_aside_leave_bounds_on_the_gain() -> None:
    # v: the baseline may have succeeded or failed, so the task's gain lies between 0 and 1.
    (cell,) = pair(
        pilot_of(run("t", "baseline"), run("t", "rollback"), run("v", "baseline", "infra"), run("v", "rollback"))
    ).cells
    assert cell.gain_bounds == (0.0, 0.5)
    (clean,) = pair(pilot_of(run("t", "baseline"), run("t", "rollback"))).cells
    assert clean.gain_bounds is None


def test_arms_without_a_common_task_are_not_paired() -> None:
    (cell,) = pair(pilot_of(run("t", "baseline"), run("u", "rollback"))).cells
    assert cell.paired_by is PairedBy.NONE
    assert cell.n_paired == 0


def test_missing_baseline_names_the_arms_that_are_there() -> None:
    pilot = pilot_of(run("t", "io"), run("u", "io"), run("t", "cot"))
    with pytest.raises(DataError) as caught:
        pair(pilot)
    assert str(caught.value) == (
        "no run belongs to the arm 'baseline', against which gains are measured; arms found, with their runs: "
        "cot (1), io (2); name the arm without intervention with --baseline ARM"
    )
    (cell,) = pair(pilot, baseline="io").cells
    assert cell.arm == "cot"


def test_wanted_arm_must_exist() -> None:
    pilot = pilot_of(run("t", "baseline"), run("t", "rollback"), run("t", "append"))
    assert [cell.arm for cell in pair(pilot, arms=["append"]).cells] == ["append"]
    with pytest.raises(DataError, match="--arm undo names no intervened arm; arms found: append, baseline, rollback"):
        pair(pilot, arms=["undo"])


def test_arm_of_an_agent_without_baseline_is_accounted_for() -> None:
    other = Run(task_id="t", arm="rollback", outcome=Outcome.FAIL, agent="other")
    pairing = pair(pilot_of(run("t", "baseline"), run("t", "rollback"), other))
    assert pairing.left_out == (
        Unpaired(arm="rollback", reason="other on benchmark has no judged run of baseline", runs=1),
    )


def test_arms_with_unlike_caps_are_refused() -> None:
    runs = [run(task, "baseline", "capped", n_steps=10) for task in "tu"]
    runs += [run("t", "rollback", "success", n_steps=14), run("u", "rollback", "capped", n_steps=30)]
    with pytest.raises(DataError) as caught:
        pair(pilot_of(*runs))
    assert str(caught.value) == (
        "arms with unlike caps cannot be compared: agent on benchmark, baseline was stopped at 10 steps, "
        "rollback ran up to 30; rerun with one cap, or leave an arm out with --arm"
    )


def test_one_capped_run_shows_no_step_cap() -> None:
    # It may have met a limit on tokens: refusing here would lose pilots that are fine.
    runs = [run("t", "baseline", "capped", n_steps=10), run("u", "baseline", n_steps=4)]
    runs += [run("t", "rollback", n_steps=14), run("u", "rollback", n_steps=4)]
    assert pair(pilot_of(*runs)).cells[0].n_paired == 2


def test_arm_without_a_judged_run_makes_no_cell() -> None:
    pairing = pair(
        pilot_of(
            run("t", "baseline"), run("t", "rollback"), run("t", "append", "infra"), run("u", "append", "unjudged")
        )
    )
    assert [cell.arm for cell in pairing.cells] == ["rollback"]
    assert pairing.left_out == (
        Unpaired(arm="append", reason="agent on benchmark has no judged run of append", runs=2),
    )


def test_baseline_without_a_judged_run_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        pair(pilot_of(run("t", "baseline", "infra"), run("t", "rollback")))
    assert str(caught.value) == (
        "no arm can be compared: agent on benchmark has no judged run of baseline; "
        "judge the unjudged runs, or repeat those that the harness broke"
    )


def test_an_arm_without_a_judged_run_is_named_when_it_alone_was_wanted() -> None:
    """The message used to blame the baseline, whose runs were all judged."""
    pilot = pilot_of(run("t", "baseline"), run("t", "rollback"), run("t", "append", "infra"))
    with pytest.raises(DataError, match="agent on benchmark has no judged run of append; judge"):
        pair(pilot, arms=["append"])
