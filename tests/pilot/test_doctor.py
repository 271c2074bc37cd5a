from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.errors import DataError
from drsim.pilot.cell import PairedBy
from drsim.pilot.cells import cells_of
from drsim.pilot.doctor import examine
from drsim.pilot.doctor.diagnosis import Diagnosis
from drsim.pilot.evidence import Counts, Marginals, Pilot
from drsim.pilot.reading import read
from drsim.pilot.records import Cost, CountsRow, Fork, Intervention, MarginalsRow, Outcome, Run, Step
from drsim.pilot.retries import Retried

NAMES = (
    "gain",
    "recovery-disruption",
    "break-even",
    "churn",
    "timing",
    "critic",
    "causal-effect",
    "cost",
    "best-of-n",
)


def pilot(runs: Sequence[Run]) -> Pilot:
    n = len(runs)
    return Pilot(
        runs=list(runs),
        sources=("runs.jsonl",),
        source_of=np.zeros(n, dtype=np.int64),
        line_of=np.arange(1, n + 1, dtype=np.int64),
    )


def run(task: int, arm: str, outcome: str, trial: int = 0, **fields: Any) -> Run:
    return Run(task_id=f"t{task}", arm=arm, outcome=Outcome(outcome), trial=trial, **fields)


def two_arms(pairs: Sequence[tuple[str, str]], **fields: Any) -> list[Run]:
    """Runs of a baseline and an intervened arm, one pair a task; `fields` go to the intervened runs."""
    return [
        item
        for i, (base, arm) in enumerate(pairs)
        for item in (run(i, "baseline", base), run(i, "rollback", arm, **fields))
    ]


MIXED = [("fail", "fail"), ("fail", "success"), ("success", "fail"), ("success", "success")] * 10


def answers(diagnosis: Diagnosis) -> set[str]:
    return {item.name for item in diagnosis.estimands if item.answerable}


def fix(diagnosis: Diagnosis, name: str) -> str:
    text = diagnosis.estimand(name).fix
    assert text is not None
    return text


def look(shared_data: Path, name: str, **options: Any) -> Diagnosis:
    return examine(read([str(shared_data / "pilots" / f"{name}.jsonl")]), **options)


# Real pilots --------------------------------------------------------------------------------------------------------


def test_taubench_measures_churn_and_nothing_about_an_intervention(shared_data: Path) -> None:
    found = look(shared_data, "taubench-airline-repeats")
    assert answers(found) == {"churn", "best-of-n"}
    assert found.cells == ()
    assert "50 tasks with 4 judged baseline runs each" in found.estimand("churn").why
    assert "Best-of-4" in found.estimand("best-of-n").why
    assert fix(found, "gain") == "run an intervened arm on the same 50 tasks (50 runs)"
    (arm,) = found.arms
    assert arm.is_baseline
    assert (arm.tasks, arm.runs, arm.trials, arm.retries) == (50, 200, (4, 4), None)
    assert found.warnings == ()


def test_mint_compares_arms_but_lacks_churn_a_critic_and_more_than_one_step(shared_data: Path) -> None:
    found = look(shared_data, "mint-gpt35-append")
    assert answers(found) == {"gain", "recovery-disruption", "break-even", "cost"}
    assert (len(found.arms), len(found.cells)) == (32, 24)
    assert fix(found, "churn") == "run the baseline a second time on the same 586 tasks (586 runs)"
    assert "always comes at step 1" in found.estimand("timing").why
    assert "586 baseline runs" in fix(found, "critic")
    full = next(arm for arm in found.arms if (arm.benchmark, arm.arm) == ("mint/alfworld", "append-gpt-4-0613"))
    assert full.step_cap == 5
    assert full.tally.to_dict() == {"success": 89, "fail": 1, "capped": 14, "infra": 30, "unjudged": 0}
    assert full.success_bounds == (89 / 134, 119 / 134)
    assert full.carried is not None
    assert full.carried.scores == 113 / 134
    assert (full.carried.steps, full.carried.costs, full.carried.interventions) == (1.0, 1.0, 1.0)
    cell = next(item for item in found.cells if (item.benchmark, item.arm) == ("mint/alfworld", "append-gpt-4-0613"))
    assert (cell.pairs, cell.baseline_failures, cell.baseline_successes, cell.flips) == (103, 52, 51, 45)
    assert any(text.startswith("d rests on successes of fewer than 20 tasks in 9 cells") for text in found.warnings)
    assert any("leave the sign of the gain open" in text for text in found.warnings)


@pytest.mark.parametrize("baseline", ["baseline", "retry"])
def test_reflexion_retry_holds_retries_in_every_arm(shared_data: Path, baseline: str) -> None:
    found = look(shared_data, "reflexion-retry", baseline=baseline)
    assert [arm.retries is not None and arm.retries.after for arm in found.arms] == [Retried.FAILURE] * 5
    assert answers(found) == set()
    assert found.warnings[0].startswith("later trials follow failed ones only")


def test_reflexion_retry_without_a_baseline_names_the_arms(shared_data: Path) -> None:
    found = look(shared_data, "reflexion-retry")
    assert "no run belongs to the arm 'baseline'" in found.estimand("gain").why
    assert fix(found, "gain").endswith("--baseline ARM, one of reflexion, reflexion_1, reflexion_2, retry")


def test_reflexion_retry_keeps_its_first_trials(shared_data: Path) -> None:
    found = look(shared_data, "reflexion-retry", baseline="retry")
    assert fix(found, "gain") == "keep the first trial of each task only (334 pairs remain, no new runs)"
    assert "117 tasks that were not retried (117 runs)" in fix(found, "churn")


def test_reflexion_programming_answers_in_some_cells(shared_data: Path) -> None:
    found = look(shared_data, "reflexion-programming")
    assert answers(found) == {"gain", "recovery-disruption", "break-even", "churn", "best-of-n"}
    assert found.estimand("churn").why.startswith("3 of 9 baseline arms")
    assert fix(found, "churn") == "run the baseline a second time on the same 928 tasks (928 runs)"
    assert found.estimand("gain").why.startswith("12 of 14 cells")
    assert not any(arm.retries for arm in found.arms)


def test_who_and_when_has_no_success_at_all(shared_data: Path) -> None:
    found = look(shared_data, "who-and-when-errors")
    assert answers(found) == set()
    assert "no baseline run succeeded" in found.estimand("critic").why
    assert [text.partition(" succeeded")[0] for text in found.warnings] == [
        "none of the 126 judged runs of algorithm-generated on who&when, baseline",
        "none of the 58 judged runs of hand-crafted on who&when, baseline",
    ]


def test_game24_needs_its_baseline_named(shared_data: Path) -> None:
    assert "--baseline io" in fix(look(shared_data, "game24-samples"), "churn")
    found = look(shared_data, "game24-samples", baseline="io")
    assert answers(found) == {"churn", "best-of-n"}
    assert "Best-of-40" in found.estimand("best-of-n").why


@pytest.mark.parametrize(("name", "n_cells"), [("ldb-debugger", 9), ("intercode-sql", 2)])
def test_coupled_pilots_answer_what_their_ends_say(shared_data: Path, name: str, n_cells: int) -> None:
    found = look(shared_data, name)
    assert answers(found) == {"gain", "recovery-disruption", "break-even"}
    assert found.estimand("gain").why.startswith(f"{n_cells} of {n_cells} cells")


# What a fit refuses, and other gaps -----------------------------------------------------------------------------------


def test_unlike_caps_block_the_gain_with_the_message_of_the_fit() -> None:
    runs = [run(i, "baseline", "capped", n_steps=5) for i in range(4)]
    runs += [run(i, "rollback", "success", n_steps=9) for i in range(4)]
    with pytest.raises(DataError) as refusal:
        cells_of(pilot(runs))
    found = examine(pilot(runs))
    assert answers(found) == set()
    assert "baseline was stopped at 5 steps, rollback ran up to 9" in found.estimand("gain").why
    assert "(4 runs)" in fix(found, "gain")
    assert found.warnings[0] == str(refusal.value)


def test_an_arm_without_a_judged_run_is_reported() -> None:
    found = examine(pilot(two_arms([("success", "infra"), ("fail", "unjudged")])))
    assert not found.estimand("gain").answerable
    assert found.estimand("gain").why == "no run of rollback is judged"
    assert found.arms[1].success_bounds == (0.0, 1.0)


def test_arms_without_a_common_task_are_compared_unpaired_only() -> None:
    runs = [run(i, "baseline", "success" if i % 2 else "fail") for i in range(8)]
    runs += [run(i, "rollback", "success") for i in range(20, 28)]
    found = examine(pilot(runs))
    assert answers(found) == {"gain"}
    assert "unpaired" in found.estimand("gain").why
    assert fix(found, "recovery-disruption") == "run the intervened arm on the baseline's 8 tasks (8 runs)"
    assert found.cells[0].pairing is PairedBy.NONE
    assert "8 tasks in the baseline only, 8 in the arm" in found.warnings[0]


def test_a_baseline_that_never_fails_leaves_r_without_a_denominator() -> None:
    found = examine(pilot(two_arms([("success", "fail"), ("success", "success")])))
    assert answers(found) == {"gain"}
    assert "r has no denominator" in found.estimand("recovery-disruption").why


def test_no_flip_leaves_break_even_undefined() -> None:
    found = examine(pilot(two_arms([("success", "success"), ("fail", "fail")])))
    assert answers(found) == {"gain", "recovery-disruption"}
    assert fix(found, "break-even") == "double the pilot: 2 more tasks in both arms (4 runs)"


def test_retries_that_are_in_no_pair_do_not_block_the_gain() -> None:
    runs = two_arms([("success", "success")] * 20 + [("fail", "fail")] * 20)
    runs += [run(i, "rollback", "fail", trial=1) for i in range(20, 40)]
    found = examine(pilot(runs))
    assert found.arms[1].retries is not None
    assert found.estimand("gain").answerable


def test_an_arm_can_be_left_out_and_must_exist() -> None:
    runs = [*two_arms(MIXED), run(0, "append", "fail")]
    assert [arm.arm for arm in examine(pilot(runs), arms=["rollback"]).arms] == ["baseline", "rollback"]
    with pytest.raises(DataError, match="--arm nowhere"):
        examine(pilot(runs), arms=["nowhere"])


# Tiny denominators ----------------------------------------------------------------------------------------------------


def test_six_successes_under_d_are_warned_of() -> None:
    pairs = [("success", "success")] * 5 + [("success", "fail")] + [("fail", "success")] * 30
    (text,) = examine(pilot(two_arms(pairs))).warnings
    assert text == (
        "d rests on 6 successes of the baseline in agent on benchmark, rollback: a 95 % interval is at least 0.39 "
        "wide, whatever happens"
    )


def test_trials_of_few_tasks_are_no_substitute_for_tasks() -> None:
    runs = [
        run(i, arm, "success" if i < 5 else "fail", trial=k)
        for arm in ("baseline", "rollback")
        for i in range(60)
        for k in range(6)
    ]
    found = examine(pilot(runs))
    assert found.cells[0].baseline_successes == 30
    assert "d rests on the successes of 5 tasks" in found.warnings[0]


def test_the_stated_width_is_the_least_of_all_wilson_intervals() -> None:
    z = 1.959963984540054
    for n in (1, 6, 19):
        k = np.arange(n + 1)
        widths = 2 * z / (n + z**2) * np.sqrt(k * (n - k) / n + z**2 / 4)
        assert widths.min() == pytest.approx(z**2 / (n + z**2), abs=1e-12)


# Timing, critic, causal effects, cost ---------------------------------------------------------------------------------


def acted(t: int, **fields: Any) -> tuple[Intervention, ...]:
    return (Intervention(t=t, mechanism="rollback", **fields),)


@pytest.mark.parametrize(("n_late", "is_answerable"), [(20, True), (19, False)])
def test_timing_takes_twenty_runs_early_and_late(n_late: int, is_answerable: bool) -> None:
    runs = []
    for i, (base, end) in enumerate(MIXED[: 20 + n_late]):
        t = 1 if i < 20 else 4
        runs += [run(i, "baseline", base), run(i, "rollback", end, interventions=acted(t))]
    found = examine(pilot(runs))
    assert found.estimand("timing").answerable is is_answerable
    if not is_answerable:
        # 39 runs, of which 19 late: 39 · (20/19 − 1) = 2.05
        assert "about 3 times more" in fix(found, "timing")


def test_a_critic_needs_scores_on_baseline_runs_of_both_ends() -> None:
    scored = (Step(t=0, score=0.5),)
    on_arm = examine(pilot(two_arms(MIXED, steps=scored)))
    assert not on_arm.estimand("critic").answerable
    assert "the intervention changed" in on_arm.estimand("critic").why
    runs = [run(i, "baseline", base, steps=scored) for i, (base, _) in enumerate(MIXED)]
    assert "20 failed and 20 successful" in examine(pilot(runs)).estimand("critic").why


def test_forks_and_randomised_triggers_answer_causal_questions() -> None:
    forked = [run(i, "baseline", base, run_id=f"b{i}") for i, (base, _) in enumerate(MIXED)]
    forked += [
        run(i, "rollback", end, trial=7, forked_from=Fork(run_id=f"b{i}", t=2)) for i, (_, end) in enumerate(MIXED)
    ]
    assert examine(pilot(forked)).estimand("causal-effect").why == "r and d from 40 forked pairs"

    def triggered(propensity: float) -> Diagnosis:
        runs = [run(i, "baseline", base) for i, (base, _) in enumerate(MIXED)]
        runs += [
            run(i, "rollback", end, interventions=acted(1, acted=i % 2 == 0, propensity=propensity))
            for i, (_, end) in enumerate(MIXED)
        ]
        return examine(pilot(runs))

    assert "20 acted and 20 withheld" in triggered(0.5).estimand("causal-effect").why
    # Withheld at propensity 1 cannot be: such a log is no randomisation.
    assert not triggered(1.0).estimand("causal-effect").answerable


def test_cost_needs_both_arms() -> None:
    priced = two_arms(MIXED, cost=Cost(tokens=10.0))
    assert examine(pilot(priced)).estimand("cost").why == "no baseline run has tokens or usd"
    runs = [run(i, arm, "fail", cost=Cost(usd=0.1)) for arm in ("baseline", "rollback") for i in range(3)]
    assert examine(pilot(runs)).estimand("cost").answerable


# Short forms ----------------------------------------------------------------------------------------------------------


def test_counts_answer_r_and_d_but_never_churn() -> None:
    row = CountsRow(arm="rollback", a=118, b=9, c=16, d=7, tasks=50)
    found = examine(Counts(rows=(row,), sources=("counts.json",)))
    assert answers(found) == {"gain", "recovery-disruption", "break-even"}
    assert "no new runs" in fix(found, "churn")
    assert "d rests on 16 successes" in found.warnings[0]
    once = examine(Counts(rows=(CountsRow(arm="rollback", a=20, b=9, c=16, d=30),), sources=("counts.json",)))
    assert "run the baseline a second time on the same 75 tasks (75 runs)" in fix(once, "churn")


def test_marginals_leave_r_and_d_to_bounds() -> None:
    rows = (MarginalsRow(arm="baseline", successes=10, n=50), MarginalsRow(arm="rollback", successes=20, n=50))
    found = examine(Marginals(rows=rows, sources=("marginals.csv",)))
    assert answers(found) == {"gain"}
    assert "only bounds" in found.estimand("recovery-disruption").why
    unnamed = examine(Marginals(rows=rows, sources=("marginals.csv",)), baseline="none")
    assert answers(unnamed) == set()
    assert "--baseline ARM" in fix(unnamed, "gain")


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4).filter(any), min_size=1, max_size=4), st.booleans())
def test_any_counts_are_examined(tables: list[tuple[int, int, int, int]], is_repeated: bool) -> None:
    rows = tuple(
        CountsRow(arm=f"a{i}", a=a, b=b, c=c, d=d, tasks=1 if is_repeated else None)
        for i, (a, b, c, d) in enumerate(tables)
    )
    found = examine(Counts(rows=rows, sources=("counts.csv",)))
    assert tuple(item.name for item in found.estimands) == NAMES
    assert all(item.why and (item.answerable or item.fix) for item in found.estimands)


@settings(deadline=None)
@given(
    st.sets(st.tuples(st.sampled_from("xy"), st.sampled_from(["baseline", "a", "b"]), st.integers(0, 2)), min_size=1),
    st.sampled_from(["baseline", "a", "nowhere"]),
)
def test_any_marginals_are_examined(keys: set[tuple[str, str, int]], baseline: str) -> None:
    rows = tuple(
        MarginalsRow(benchmark=benchmark, arm=arm, trial=trial, successes=trial, n=4)
        for benchmark, arm, trial in sorted(keys)
    )
    found = examine(Marginals(rows=rows, sources=("marginals.csv",)), baseline=baseline)
    assert tuple(item.name for item in found.estimands) == NAMES
    assert all(item.why and (item.answerable or item.fix) for item in found.estimands)


# Anything goes --------------------------------------------------------------------------------------------------------


@st.composite
def any_pilot(draw: st.DrawFn) -> Pilot:
    keys = draw(
        st.sets(
            st.tuples(
                st.sampled_from("xy"), st.sampled_from(["baseline", "a", "b"]), st.integers(0, 3), st.integers(0, 2)
            ),
            min_size=1,
            max_size=24,
        )
    )
    return pilot(
        [
            Run(
                task_id=f"t{task}",
                arm=arm,
                benchmark=benchmark,
                trial=trial,
                outcome=draw(st.sampled_from(list(Outcome))),
                n_steps=draw(st.sampled_from([None, 3, 5])),
                interventions=()
                if arm == "baseline"
                else draw(st.sampled_from([(), acted(1), acted(2, propensity=0.5)])),
            )
            for benchmark, arm, task, trial in sorted(keys)
        ]
    )


@settings(deadline=None, max_examples=150)
@given(any_pilot(), st.sampled_from(["baseline", "a", "nowhere"]))
def test_every_pilot_is_examined_and_every_gap_has_a_fix(evidence: Pilot, baseline: str) -> None:
    found = examine(evidence, baseline=baseline)
    assert tuple(item.name for item in found.estimands) == NAMES
    assert all(item.why for item in found.estimands)
    assert all(item.answerable or item.fix for item in found.estimands)
    assert sum(arm.runs for arm in found.arms) == len(evidence.runs)
    assert all(low <= high for low, high in (arm.success_bounds for arm in found.arms))
    try:
        fitted = cells_of(evidence, baseline=baseline)
    except DataError:
        return
    pairs = {(c.agent, c.benchmark, c.arm): c.pairs for c in found.cells}
    fitted_pairs = {(c.agent, c.benchmark, c.arm): c.n_paired for c in fitted.cells if c.arm != baseline}
    # Arms without a judged run are examined all the same.
    assert {key: n for key, n in pairs.items() if n or key in fitted_pairs} == fitted_pairs
