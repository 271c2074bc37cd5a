from collections.abc import Iterable

import numpy as np
import pytest

from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Counts, Marginals, Pilot
from drsim.pilot.records import Cost, CountsRow, MarginalsRow, Outcome, Run
from drsim.planning.assessment import Assessment, assess
from drsim.planning.verdict import DecisionKind, DecisionRule


def counts(*rows: CountsRow) -> Counts:
    return Counts(rows=rows, sources=("counts.json",))


def row(benchmark: str, a: int, b: int, c: int, d: int, arm: str = "rollback", tasks: int | None = None) -> CountsRow:
    return CountsRow(benchmark=benchmark, arm=arm, a=a, b=b, c=c, d=d, tasks=tasks)


def assessed(*rows: CountsRow, rule: DecisionRule | None = None) -> Assessment:
    return assess(cells_of(counts(*rows)), seed=1, rule=rule)


def pilot(outcomes: Iterable[tuple[str, str, str]], usd: float | None = None) -> Pilot:
    cost = None if usd is None else Cost(usd=usd, critic_usd=usd / 2)
    runs = [Run(task_id=task, arm=arm, outcome=Outcome(outcome), cost=cost) for task, arm, outcome in outcomes]
    index = np.arange(len(runs), dtype=np.int64)
    return Pilot(runs=runs, sources=("pilot.jsonl",), source_of=0 * index, line_of=index + 1)


def test_published_pilot_is_inconclusive_and_priced() -> None:
    (cell,) = assessed(row("ALFWorld", 118, 9, 16, 7, tasks=50)).cells
    assert cell.decision is not None
    assert cell.decision.kind is DecisionKind.INCONCLUSIVE
    assert cell.decision.why == (
        "P(gain > 0) = 0.920 for independent pairs, 0.789 for 50 tasks whose trials are alike, between 0.05 and 0.95"
    )
    assert cell.decision.next is not None
    assert cell.decision.next.pairs > 1_000


def test_the_weaker_reading_decides() -> None:
    # 120 independent pairs would deploy; 30 tasks four times over do not.
    strong, weak = row("x", 40, 8, 24, 48), row("x", 40, 8, 24, 48, tasks=30)
    assert [cell.decision.kind for cell in assessed(strong).cells if cell.decision] == [DecisionKind.DEPLOY]
    assert [cell.decision.kind for cell in assessed(weak).cells if cell.decision] == [DecisionKind.INCONCLUSIVE]


def test_no_affordable_pilot_is_unanswerable() -> None:
    (cell,) = assessed(row("x", 118, 9, 16, 7), rule=DecisionRule(max_pairs=200)).cells
    assert cell.decision is not None
    assert cell.decision.kind is DecisionKind.UNANSWERABLE
    assert cell.decision.next is None
    assert cell.decision.why.endswith("no pilot of up to 200 pairs decides with probability 0.8")


def test_benchmarks_that_agree_are_pooled_by_tasks() -> None:
    (pooled,) = assessed(row("x", 50, 5, 20, 25), row("y", 100, 20, 30, 150)).pooled
    assert pooled.benchmarks == ("x", "y")
    assert pooled.n_tasks == 400
    assert pooled.gain is not None
    # Each benchmark's posterior mean, weighted by its tasks.
    expected = (100 * (20 - 5) / 102 + 300 * (30 - 20) / 302) / 400
    assert pooled.gain.mean == pytest.approx(expected, abs=5 * pooled.gain.sd / np.sqrt(20_000))
    assert pooled.decision is DecisionKind.DEPLOY


def test_benchmarks_that_disagree_in_sign_are_not() -> None:
    (pooled,) = assessed(row("x", 50, 5, 20, 25), row("y", 50, 20, 5, 25)).pooled
    assert pooled.gain is None
    assert pooled.decision is None
    assert pooled.why == "the gain differs in sign: up on x; down on y"


def test_arms_compared_on_the_same_tasks_are_warned_of() -> None:
    warnings = assessed(row("x", 50, 5, 20, 25), row("x", 50, 20, 5, 25, arm="append")).warnings
    assert warnings == ("up to 2 arms were compared on the same tasks: the best of them looks better than it is",)
    assert assessed(row("x", 50, 5, 20, 25)).warnings == ()


def test_runs_in_no_pair_and_open_signs_are_warned_of() -> None:
    evidence = pilot(
        [
            ("t", "baseline", "success"),
            ("t", "rollback", "success"),
            ("u", "baseline", "infra"),
            ("u", "rollback", "fail"),
            ("v", "baseline", "fail"),
            ("v", "rollback", "unjudged"),
        ]
    )
    warnings = assess(cells_of(evidence), seed=1).warnings
    unpaired, bounds = warnings
    assert unpaired == (
        "2 judged runs are in no pair (the other arm's runs of the task are infra or unjudged), "
        "in agent on benchmark, rollback"
    )
    assert bounds == (
        "infra and unjudged runs leave the sign of the gain open in agent on benchmark, rollback (-33.3 to +33.3 pp)"
    )


def test_price_comes_from_the_runs_themselves() -> None:
    outcomes = [(f"t{i}", arm, "success" if (i + k) % 3 else "fail") for i in range(30) for k, arm in enumerate(ARMS)]
    (cell,) = assess(cells_of(pilot(outcomes, usd=0.2)), seed=1).cells
    assert cell.decision is not None
    assert cell.decision.next is not None
    # A pair is two runs of 0.2 + 0.1 dollars.
    assert cell.decision.next.usd == pytest.approx(0.6 * cell.decision.next.more_pairs)


ARMS = ("baseline", "rollback")


def test_unpaired_arms_are_told_to_pair() -> None:
    rows = (MarginalsRow(arm="baseline", successes=57, n=100), MarginalsRow(arm="rollback", successes=60, n=100))
    (cell,) = assess(cells_of(Marginals(rows=rows, sources=("m.csv",))), seed=1).cells
    assert cell.decision is not None
    assert cell.decision.kind is DecisionKind.INCONCLUSIVE
    assert cell.decision.why.endswith("unpaired runs say little: pair them by task and trial")


def test_baseline_alone_has_no_decision() -> None:
    (cell,) = assess(cells_of(pilot([("t", "baseline", "success"), ("u", "baseline", "fail")])), seed=1).cells
    assert cell.decision is None
    assert cell.posterior.gain is None


def test_coupled_pairs_are_warned_of() -> None:
    (warning,) = assessed(row("x", 200, 1, 1, 200)).warnings
    assert warning.startswith("fewer pairs flip than independent runs of the same tasks must")


def test_retries_are_warned_of() -> None:
    # Every failed task is tried a second time, no other: later trials are those of hard tasks.
    runs = []
    for i in range(40):
        first = Outcome.FAIL if i % 2 else Outcome.SUCCESS
        runs.append(Run(task_id=f"t{i}", arm="baseline", outcome=first))
        runs.append(Run(task_id=f"t{i}", arm="rollback", outcome=first))
        if first is Outcome.FAIL:
            runs.append(Run(task_id=f"t{i}", arm="baseline", trial=1, outcome=Outcome.FAIL))
    index = np.arange(len(runs), dtype=np.int64)
    evidence = Pilot(runs=runs, sources=("pilot.jsonl",), source_of=0 * index, line_of=index + 1)
    warnings = assess(cells_of(evidence), seed=1).warnings
    assert any(
        warning.startswith(
            "later trials follow failed ones only, so they are retries, not repeats, in agent on benchmark, baseline "
            "(20 of 20 followed trials had failed)"
        )
        for warning in warnings
    )
