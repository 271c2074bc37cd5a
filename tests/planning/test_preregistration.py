import json
from pathlib import Path

import pytest

from drsim.cli.app import run
from drsim.errors import DataError
from drsim.planning.pilot_rules import PilotRule, RuleKind
from drsim.planning.pilot_world import PilotPlan, PilotWorld
from drsim.planning.preregistration import format_plan, monitor_deviations, preregister, read_plan
from drsim.planning.sequential import MonitorRule
from drsim.planning.verdict import DecisionRule

DESIGN = ["design", "--failure-rate", "0.5", "--no-published", "--at", "0.1", "--quiet", "-o"]


def registered(tmp_path: Path, *arguments: str) -> Path:
    path = tmp_path / "plan.toml"
    assert run([*DESIGN, str(tmp_path / "design.txt"), *arguments, "--preregister", str(path)]) == 0
    return path


def departures(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    return [it.removeprefix("departs from the plan: ") for it in warnings if it.startswith("departs")]


def test_a_plan_comes_back_as_it_was_and_bears_remarks() -> None:
    plan = preregister(
        PilotWorld(failure_rate=0.3, rho=0.1),
        PilotPlan(n_tasks=50, n_trials=3, n_arms=2),
        PilotRule(kind=RuleKind.ANYTIME),
        arm_names=("rollback 😀", 'append äö\x7f"\\'),
        power=0.8,
        seed=4,
    )
    text = format_plan(plan)
    assert read_plan(text, "plan.toml") == plan
    assert read_plan("# a remark\n" + text.replace("tasks = 50", "tasks   = 50 # so many"), "plan.toml") == plan
    assert len(plan.hash) == 64


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tasks = 50", "tasks = 60", "was changed after it was written"),
        ("margin = 0.0", "margin = 0.1", "was changed after it was written"),
        ("tasks = 50", "tusks = 50", "is no plan: Object"),
        ("tasks = 50", "tasks = ", "is no TOML"),
        ("drsim.plan/1", "drsim.plan/9", "is no plan: it needs schema"),
    ],
)
def test_a_changed_plan_is_refused(old: str, new: str, message: str) -> None:
    plan = preregister(
        PilotWorld(failure_rate=0.3), PilotPlan(n_tasks=50), PilotRule(), arm_names=(), power=0.8, seed=1
    )
    text = format_plan(plan)
    assert old in text
    with pytest.raises(DataError) as error:
        read_plan(text.replace(old, new), "plan.toml")
    assert message in str(error.value)


def test_fit_reports_each_departure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(registered(tmp_path, "--tasks", "30", "--trials", "2", "--arm", "rollback"))
    assert departures(capsys, "fit", "example:toy", "--plan", plan) == []
    found = departures(capsys, "fit", "example:toy", "--plan", plan, "--margin", "0.02", "--seed", "3")
    assert found == ["margin 0.02, planned was 0", "seed 3, planned was 1"]
    plan = str(
        registered(
            tmp_path,
            "--tasks",
            "40",
            "--trials",
            "3",
            "--arm",
            "append",
            "--fork",
            "--fires",
            "0.5",
            "--rule",
            "mcnemar",
        )
    )
    assert departures(capsys, "fit", "example:toy", "--plan", plan) == [
        "the rule was to be mcnemar, and the posterior rule decides here",
        "no run of the arm append",
        "the arm rollback was not planned",
        "toy-agent on toy, rollback: 30 tasks, planned were 40",
        "toy-agent on toy, rollback: 2 pairs a task, planned were 3",
        "toy-agent on toy, rollback: runs paired by trial, planned was fork",
    ]
    plan = str(registered(tmp_path, "--tasks", "30", "--trials", "2", "--arms", "3"))
    assert departures(capsys, "fit", "example:toy", "--plan", plan) == ["1 intervened arms, planned were 3"]


def test_monitor_reports_each_departure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(registered(tmp_path, "--tasks", "30", "--trials", "2", "--arm", "rollback", "--rule", "anytime"))
    assert departures(capsys, "monitor", "example:toy", "--trials", "2", "--plan", plan) == []
    plan = str(registered(tmp_path, "--tasks", "20", "--trials", "1", "--arm", "rollback", "--alpha", "0.01"))
    assert departures(capsys, "monitor", "example:toy", "--trials", "2", "--plan", plan) == [
        "trials 2, planned was 1",
        "alpha 0.05, planned was 0.01",
        "the rule was to be posterior, and an anytime-valid one stops here",
        "30 tasks of rollback, planned were 20",
    ]


def test_the_document_names_the_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.toml"
    arguments = ["design", "--tasks", "20", "--discordance", "0.3", "--at", "0", "--no-published", "--json"]
    assert run([*arguments, "--preregister", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out)["plan_hash"] == read_plan(path.read_text(), "plan").hash
    assert run([*arguments, "--arms", "3", "--arm", "a"]) == 2
    assert "arms must be the number of those named, 1, got 3" in capsys.readouterr().err


def test_a_growing_pilot_departs_by_what_is_there_not_by_what_is_to_come() -> None:
    """The second of two planned arms was reported as missing as soon as the first had come."""
    rule = MonitorRule()
    for names, planned in (((), 2), (("a", "b"), 2)):
        plan = preregister(
            PilotWorld(failure_rate=0.3),
            PilotPlan(n_tasks=50, n_arms=planned),
            PilotRule(kind=RuleKind.ANYTIME),
            arm_names=names,
            power=0.8,
            seed=1,
        )
        assert monitor_deviations(plan, rule, {"a": 20}) == ()
        assert monitor_deviations(plan, rule, {"a": 50, "b": 3}) == ()
        (found,) = monitor_deviations(plan, rule, {"a": 50, "b": 3, "c": 1})
        assert found.endswith("the arm c was not planned" if names else "3 intervened arms, planned were 2")
        (found,) = monitor_deviations(plan, rule, {"a": 51})
        assert "51 tasks of a, planned were 50" in found
        sharper = MonitorRule(decision=DecisionRule(confidence=0.9))
        (found,) = monitor_deviations(plan, sharper, {"a": 20})
        assert "confidence 0.9, planned was 0.95" in found
