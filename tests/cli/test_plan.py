import json
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.process.shipped import find_model
from drsim.process.toml import format_model
from drsim.report.documents import Number
from drsim.report.plan.document import PlanDocument

QUICK = ("--draws", "50", "--n-max", "3")


def plan_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> PlanDocument:
    assert run(["plan", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return msgspec.json.decode(captured.out.encode(), type=PlanDocument)


def test_the_published_case(capsys: pytest.CaptureFixture[str]) -> None:
    document = plan_json(capsys)
    assert document.model is None
    shown = [(f"{100 * it.oracle_intervention:+.1f}", f"{100 * it.oracle_best_of_two:+.1f}") for it in document.case]
    assert shown == [("+7.7", "+11.0"), ("+4.7", "+6.7"), ("+4.0", "+11.0")]
    for it in document.case:
        assert it.churn == pytest.approx(2.0 * it.oracle_best_of_two)
        assert it.best_of["2"] == pytest.approx(it.oracle_best_of_two)
        assert it.verdict == "run it twice"
    assert run(["plan"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    for it in document.case:
        assert f"{it.rho:.3f}" in out


def test_figures_as_printed_in_the_paper(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = json.loads((shared_data / "papers" / "intervention_paradox.json").read_text())
    rows = tables["table10_26_oracle_HotPotQA"]["rows"]
    document = plan_json(capsys)
    assert [it.agent for it in document.case] == [row["model"] for row in rows]
    for it, row in zip(document.case, rows, strict=True):
        assert round(100 * it.baseline, 1) == row["baseline"]
        assert round(100 * it.oracle_intervention, 1) == row["d_int"]
        assert round(100 * it.oracle_best_of_two, 1) == row["d_bo2"]


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = plan_json(capsys, "--from", "example", "--volume", "1000", "--budget", "0.01:0.03:3usd", *QUICK)
    assert (document.model, document.unit, document.money, document.volume) == ("example", "usd", "usd", 1000)
    assert [it.budget for it in document.verdicts] == pytest.approx([0.01, 0.02, 0.03])
    names = [it.name for it in document.alternatives]
    assert len(set(names)) == len(names)
    by_name = {it.name: it for it in document.alternatives}
    for verdict in document.verdicts:
        assert not by_name[verdict.choice].dominated
        assert not by_name[verdict.choice].bound
        assert sum(verdict.probabilities.values()) == pytest.approx(1.0)
        assert verdict.at_volume is not None
        found = by_name[verdict.choice].success
        assert isinstance(found, Number)
        assert verdict.at_volume.successes == pytest.approx(1000 * (found.mean or 0.0))
        assert verdict.worth_at_volume is not None
        assert verdict.worth_at_volume["2"] == pytest.approx(1000 * verdict.worth_of_pilot["2"])
    assert {it.source for it in document.assumed} == {"assumed"}
    assert by_name["nothing"].n == 1.0
    assert by_name["best of 3"].n == 3.0


def test_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "plan"]) == 0
    assert "verdicts" in json.dumps(json.loads(capsys.readouterr().out))


def test_one_draw_gives_plain_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    document = plan_json(capsys, "--from", "example", "--rho", "0.5", *QUICK)
    assert document.n_draws == 1
    assert document.rho == 0.5
    assert all(isinstance(it.success, float) for it in document.alternatives)
    assert all(isinstance(it.usd, float) for it in document.alternatives)


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--from", "example", *QUICK]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    flat = " ".join(out.split())
    assert "AUROC of the selector 0.8 (assumed; swept 0.6 and 0.95; --selector-auroc)" in flat
    assert "critic calls must cost < $" in flat
    assert "best of 2 (perfect selector) †" in flat
    assert "What to do with a budget a task:" in flat
    document = plan_json(capsys, "--from", "example", *QUICK)
    for verdict in document.verdicts:
        assert f"{verdict.kind.upper()}: {verdict.why}" in flat
    assert run(["plan", "--from", "example", "--all", "--selector-auroc", "0.9", *QUICK]) == 0
    whole = capsys.readouterr().out
    assert "AUROC of the selector 0.9 (as given" in whole
    assert len(whole.splitlines()) > len(out.splitlines())
    assert max(len(line) for line in whole.splitlines()) <= 80


def test_a_model_without_prices_is_planned_in_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = plan_json(capsys, "--from", "ip_hotpotqa_qwen3_8b", *QUICK)
    assert (document.unit, document.money) == ("tokens", "tokens")
    assert all(it.usd is None and it.seconds is None for it in document.alternatives)
    path = tmp_path / "mine.toml"
    path.write_text(format_model(find_model("example")))
    assert plan_json(capsys, "--from", str(path), *QUICK).money == "usd"


def test_a_second_agent_and_a_deadline(capsys: pytest.CaptureFixture[str]) -> None:
    second = ("--second-success", "0.95", "--second-price", "0.01usd", "--second-seconds", "5")
    document = plan_json(capsys, "--from", "example", "--deadline", "23", "--budget", "0.03usd", *second, *QUICK)
    times = {it.name: it.seconds for it in document.alternatives}
    for verdict in document.verdicts:
        seconds = times[verdict.choice]
        assert isinstance(seconds, Number)
        assert seconds.mean is not None
        assert seconds.mean <= 23.0
    assert any(it.family == "escalate" for it in document.alternatives)


def test_numbers_in_the_place_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ("--failure-rate", "0.4", "--recovery", "0.3", "--disruption", "0.1", "--rho", "0.5")
    document = plan_json(capsys, *numbers, "--run-tokens", "9000", "--run-seconds", "30", "--price-tokens", "2")
    by_name = {it.name: it for it in document.alternatives}
    assert by_name["nothing"].success == pytest.approx(0.6)
    assert by_name["nothing"].usd == pytest.approx(0.018)
    assert by_name["retry ≤ 2"].seconds == pytest.approx(30.0 * by_name["retry ≤ 2"].n)
    assert by_name["intervene: arm"].gain == pytest.approx(0.06)


def test_same_bytes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix in (".svg", ".png"):
        pictures = []
        for k in range(2):
            picture = tmp_path / f"{k}{suffix}"
            arguments = ["plan", "--from", "example", *QUICK, "--plot", str(picture), "-o", str(tmp_path / f"{k}.txt")]
            assert run(arguments) == 0
            pictures.append(picture.read_bytes())
        assert pictures[0] == pictures[1]
        assert len(pictures[0]) > 10_000
    assert (tmp_path / "0.txt").read_bytes() == (tmp_path / "1.txt").read_bytes()
    assert capsys.readouterr().out == ""


def test_pictures_of_models_without_time_or_mechanisms(tmp_path: Path) -> None:
    picture = tmp_path / "x.png"
    assert (
        run(["plan", "--from", "ip_hotpotqa_qwen3_8b", *QUICK, "--plot", str(picture), "-o", str(tmp_path / "x")]) == 0
    )
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "example", "--budget", "0.001usd"], "budget must cover one run, got 0.001 usd"),
        (["--from", "example", "--selector-auroc", "0.4"], "auroc must lie in [0.5, 1], got 0.4"),
        (["--from", "example", "--verifier-tpr", "90"], "verifier_tpr must lie in [0, 1]"),
        (["--from", "example", "--budget", "0.02usd", "--budget", "900tokens"], "budgets must share one unit"),
        (["--from", "example", "--budget", "0.02"], "with its unit"),
        (["--from", "example", "--budget", "9000tokens", "--price-critic", "0.1usd"], "and a budget in tokens"),
        (["--from", "ip_hotpotqa_qwen3_8b", "--price-critic", "0.1usd"], "prices must share one unit"),
        (["--from", "ip_hotpotqa_qwen3_8b", "--budget", "1usd"], "give --price-tokens"),
        (["--from", "ip_hotpotqa_qwen3_8b", "--deadline", "9"], "deadline must be left out"),
        (["--from", "example", "--price-verifier", "3seconds"], "must be in usd or tokens"),
        (["--from", "example", "--contamination", "0"], "contamination must be positive"),
        (["--from", "example", "--second-success", "0.9"], "must come with a price"),
        (["--from", "exampel"], "did you mean 'example'?"),
        (["--from", "example", "--policy", "lat"], "did you mean 'late'?"),
        (["--from", "example", "--rho", "2"], "rho must lie in [0, 1]"),
        (["--from", "example", "--plot", "x.pdf"], "must name a file that ends in .svg or .png"),
        (["--budget", "0.02usd"], "--budget needs a model"),
        (["--from", "example", "--failure-rate", "0.3"], "in the place of a model"),
        (["--failure-rate", "30"], "failure_rate must lie in [0, 1]"),
        (["--failure-rate", "0.3", "--recovery", "0.3"], "must both be given"),
    ],
)
def test_mistakes_exit_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *arguments, "--draws", "50"] if "--from" in arguments else ["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_a_pilot_is_planned_by_the_mechanism_that_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """ρ from its repeated baseline runs, costs from its records; append, which it did not try, only when asked for."""
    asked = ("plan", "--from", "example:alfworld", *QUICK, "--quiet", "--json")
    assert run([*asked]) == 0
    document = msgspec.json.decode(capsys.readouterr().out.encode(), type=PlanDocument)
    assert any("rollback" in it.name for it in document.alternatives)
    assert not any("append" in it.name for it in document.alternatives)
    assert run([*asked, "--mechanism", "rollback,append"]) == 0
    both = msgspec.json.decode(capsys.readouterr().out.encode(), type=PlanDocument)
    assert any("append" in it.name for it in both.alternatives)
    assert run(["plan", "--from", "example:toy", *QUICK, "--quiet"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "ρ as repeated runs show" in out
    assert "costs: tokens_per_step" in out


def test_an_unknown_mechanism_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--from", "example", "--mechanism", "rolback"]) == 2
    assert "got 'rolback'; did you mean 'rollback'?" in capsys.readouterr().err
