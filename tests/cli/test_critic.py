import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from inference.critics import CriticWorld

from drsim.cli.app import run
from drsim.inference.critic.scores import runs_of_evidence, scored_arms
from drsim.pilot.reading import read
from drsim.report.critic.document import CriticDocument
from drsim.theory.roc import auroc

FULL = "append-gpt-4-0613"
BINARY = "append-gpt-4-0613-binary"


def critic_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> CriticDocument:
    assert run(["critic", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return msgspec.json.decode(captured.out, type=CriticDocument, strict=True)


def write(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def baseline(scores: list[float], ends: list[str], **other: Any) -> list[dict[str, Any]]:
    return [
        {"task_id": f"t{i}", "arm": "baseline", "outcome": end, "steps": [{"t": 0, "score": score}], **other}
        for i, (score, end) in enumerate(zip(scores, ends, strict=True))
    ]


@pytest.fixture
def mint(shared_data: Path) -> str:
    return str(shared_data / "pilots" / "mint-gpt35-append.jsonl")


def test_toy_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["critic", "example:toy"]) == 0
    out, err = capsys.readouterr()
    for line in (
        "critic's scores in baseline, toy-agent on toy: 60 runs of 30 tasks, 35 failed",
        "AUROC                 0.917",
        "23 of 60 pairs by trial: 4 of 17 failures recovered",
        "best: τ =",
        "cross-fitted: threshold picked on half of the tasks",
        "calibrated: intervene where",
        "what AUROC 0.917 hides: gain",
        "runs for each one that it recovers",
    ):
        assert line in out
    assert "warning: failing runs of baseline have more scored steps: their number alone has AUROC 0.9" in err
    assert "warning: disruption given firing rests on 6 pairs of rollback" in err
    assert max(map(len, out.splitlines())) <= 80


def test_toy_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = critic_json(capsys, "example:toy")
    (critic,) = document.critics
    assert (document.scored_arm, document.contaminated) == ("baseline", False)
    assert document.auroc == critic.runs.auroc
    assert (document.brier, document.nll, document.ece) == (critic.steps.brier, critic.steps.nll, critic.steps.ece)
    assert document.operating_points == critic.operating_points
    rates = [point.trigger_rate for point in document.operating_points]
    assert rates == sorted(rates)
    assert rates[-1] == 1.0
    assert critic.best in critic.operating_points
    assert critic.rates is not None
    assert (critic.rates.source, critic.rates.arm, critic.rates.churn) == ("acted-pairs", "rollback", "measured")
    assert critic.places == []


def test_gain_follows_from_the_stated_rates(capsys: pytest.CaptureFixture[str]) -> None:
    (critic,) = critic_json(capsys, "example:toy", "--recovery", "0.3", "--disruption", "0.2").critics
    assert critic.rates is not None
    assert critic.calibrated is not None
    assert critic.rates.assumption == "stated with --recovery and --disruption, and taken as exact"
    assert (critic.rates.recovery.mean, critic.rates.recovery.sd) == (0.3, 0.0)
    assert critic.calibrated.eta == pytest.approx(0.4)
    always = critic.operating_points[-1]
    assert always.gain is not None
    assert critic.failure_rate is not None
    p = critic.failure_rate.mean
    assert p is not None
    assert always.gain.mean == pytest.approx(p * 0.3 - (1 - p) * 0.2)
    assert critic.as_run is None


def test_verdicts_of_intervened_runs_are_used_and_said_to_be_contaminated(
    mint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = critic_json(capsys, mint)
    assert (document.scored_arm, document.contaminated, document.auroc) == (None, True, None)
    assert [critic.scored_arm for critic in document.critics] == [FULL, BINARY, f"{FULL}-textual-sparse"]
    assert all(critic.contaminated for critic in document.critics)
    assert sum("CONTAMINATED" in warning for warning in document.warnings) == 3
    critic = next(critic for critic in document.critics if critic.scored_arm == BINARY)
    (arm,) = scored_arms(runs_of_evidence(read([mint])), arms=[BINARY])
    assert critic.runs.plain.auroc == auroc(arm.runs.scores, arm.runs.failed)
    assert (critic.granularity.distinct, critic.granularity.coarse) == (2, True)
    assert [point.threshold for point in critic.operating_points] == [0.0, -1.0]
    assert critic.failure_rate_of == "baseline"
    assert critic.runs.nll is None
    assert critic.runs.impossible > 0
    assert critic.steps.temperature.value > 10
    assert len(critic.places) == 8
    assert critic.rates is not None
    assert critic.rates.churn == "assumed"


def test_real_data_as_text_keeps_to_80_columns(mint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["critic", mint, "--arm", BINARY]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "CONTAMINATED: the arm intervenes" in out
    assert "NLL                   ∞ (" in out
    assert f"warning: CONTAMINATED: the scores of {BINARY} are judged by ends that its interventions changed" in err
    assert "no trigger rate can be reached but 0, 78, 100 %" in err
    for line in out.splitlines():
        if line.startswith("gpt-3.5-turbo-0613 on mint/mmlu"):
            break
    else:
        pytest.fail("no row for MMLU")


def test_coupled_debugger_pairs_are_judged(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "ldb-debugger.jsonl")
    document = critic_json(capsys, path, "--arm", "ldb_block")
    (critic,) = document.critics
    # several agents ran each task: 664 tasks, not 2,156
    assert critic.n_tasks == 664
    assert critic.runs.n == 2_156
    assert "disruption given firing rests on 4 pairs of ldb_block" in document.warnings


def test_an_arm_does_not_depend_on_its_neighbours(mint: str, capsys: pytest.CaptureFixture[str]) -> None:
    together = {critic.scored_arm: critic for critic in critic_json(capsys, mint).critics}
    (alone,) = critic_json(capsys, mint, "--arm", BINARY).critics
    assert alone == together[BINARY]


def test_same_bytes_whatever_the_order_of_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = CriticWorld(recovery=0.3).pilot(30, 2, np.random.default_rng(1)).runs
    lines = [msgspec.json.encode(item) + b"\n" for item in runs]
    texts = []
    for name, ordered in (("a", lines), ("b", lines[::-1])):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"".join(ordered))
        assert run(["critic", str(path), "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--require-gain", "0.9"], 3),
        (["--require-gain", "0", "--recovery", "0.9", "--disruption", "0"], 0),
        (["--require-gain", "0", "--recovery", "0", "--disruption", "0.9"], 3),
        (["--recovery", "0", "--disruption", "0"], 0),
        (["--arm", "nowhere"], 2),
    ],
)
def test_exit_codes(options: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["critic", "example:toy", *options]) == code
    out, err = capsys.readouterr()
    assert (out == "") is (code == 2)
    assert max(map(len, out.splitlines()), default=0) <= 80
    assert (code == 2) <= err.startswith("drsim: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--recovery", "0.3"], "--recovery and --disruption must be given together; a gain needs both rates"),
        (
            ["--recovery", "30", "--disruption", "0.1"],
            "--recovery must lie in [0, 1], got 30.0; give a probability, not per cent",
        ),
        (["--require-gain", "5"], "--require-gain must lie in [-1, 1], got 5.0; give a difference of success rates"),
        (
            ["--confidence", "95"],
            "confidence must lie between 0.5 and 1, got 95.0; give a probability, not per cent",
        ),
        (["--draws", "5"], "n_draws must be at least 1000, got 5"),
        (["--rates-from", "baseline"], "--rates-from baseline names no intervened arm; arms found: rollback"),
        (
            ["--arm", "undo"],
            "--arm undo names no arm with scores; arms found, with their scored runs: baseline (60), rollback (60)",
        ),
        (["--rho", "high"], "rho must be a number in [0, 1] or beta:A,B, got 'high'; write 0.45 or beta:4.5,2"),
    ],
)
def test_bad_parameters_exit_2_with_the_remedy(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["critic", "example:toy", *options]) == 2
    assert capsys.readouterr().err == f"drsim: {message}\n"
    assert run(["critic", "example:toy", *options, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] in ("parameter", "data")
    assert error["message"] == message


def test_without_scores_the_remedy_is_named(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "taubench-airline-repeats.jsonl")
    assert run(["critic", path]) == 2
    assert capsys.readouterr().err == (
        "drsim: no judged run carries a critic's score (runs with scores by arm: baseline (0)); log `score`, the "
        "critic's probability that the run fails, in the `steps` of the baseline runs: a critic can score their "
        "transcripts afterwards, without new runs\n"
    )
    assert run(["critic", "example:alfworld"]) == 2
    assert "holds counts without runs, hence no critic's scores" in capsys.readouterr().err


def test_one_end_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "p.jsonl", baseline([0.2, 0.8, 0.5], ["success"] * 3))
    document = critic_json(capsys, path)
    assert document.auroc is None
    assert document.operating_points == []
    assert document.brier is not None
    assert (
        "every scored run of baseline succeeded, so that there is nothing for a critic to tell apart"
        in document.warnings
    )
    assert run(["critic", path, "--require-gain", "0"]) == 3
    assert "no ROC and no gain: all scored runs end alike" in capsys.readouterr().out


def test_scores_without_an_intervened_arm_imply_no_gain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "p.jsonl", baseline([0.2, 0.8, 0.5, 0.4], ["success", "fail", "fail", "success"]))
    document = critic_json(capsys, path)
    assert all(point.gain is None for point in document.operating_points)
    assert any(warning.startswith("nothing tells what firing on baseline recovers") for warning in document.warnings)
    assert run(["critic", path, "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "recovery and disruption given firing: unknown" in out


def test_one_task_and_equal_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line | {"task_id": "t", "trial": i} for i, line in enumerate(baseline([0.5] * 4, ["fail", "success"] * 2))]
    path = write(tmp_path / "p.jsonl", lines)
    document = critic_json(capsys, path, "--recovery", "0.2", "--disruption", "0.1")
    (critic,) = document.critics
    assert critic.runs.plain.auroc == 0.5
    assert critic.steps.temperature.status == "flat"
    assert critic.steps.temperature.held_out is None
    assert critic.cross_fitted is None
    assert [point.trigger_rate for point in critic.operating_points] == [1.0]
    assert any(warning.startswith("all scored runs of baseline are of one task") for warning in document.warnings)
    assert any("no trigger rate can be reached but 0, 100 %" in warning for warning in document.warnings)
    assert run(["critic", path, "--recovery", "0.2", "--disruption", "0.1"]) == 0
    assert "– (one task)" in capsys.readouterr().out


def test_pairs_at_unlike_caps_leave_the_scores_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = baseline([0.2, 0.8, 0.5, 0.4], ["success", "capped", "capped", "success"], n_steps=5)
    lines += [{"task_id": f"t{i}", "arm": "zap", "outcome": "fail", "n_steps": 9} for i in range(4)]
    document = critic_json(capsys, write(tmp_path / "p.jsonl", lines))
    assert document.auroc is not None
    assert document.critics[0].rates is None
    assert any("arms with unlike caps cannot be compared" in warning for warning in document.warnings)


def test_several_intervened_arms_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = baseline([0.2, 0.8, 0.5, 0.4], ["success", "fail", "fail", "success"])
    for arm, n_acted in (("a", 1), ("b", 3)):
        for i in range(4):
            line: dict[str, Any] = {"task_id": f"t{i}", "arm": arm, "outcome": "success"}
            lines.append(line | ({"interventions": [{"t": 0, "mechanism": "append"}]} if i < n_acted else {}))
    path = write(tmp_path / "p.jsonl", lines)
    document = critic_json(capsys, path)
    assert document.critics[0].rates is not None
    assert document.critics[0].rates.arm == "b"
    assert "there are 2 intervened arms; gains rest on b (--rates-from names another)" in document.warnings
    (other,) = critic_json(capsys, path, "--rates-from", "a").critics
    assert other.rates is not None
    assert other.rates.arm == "a"


def test_schema_is_that_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "critic"]) == 0
    assert "CriticDocument" in json.loads(capsys.readouterr().out)["$ref"]


def test_looser_thresholds_than_the_arm_had_are_called_extrapolated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["critic", "example:toy"]) == 0
    assert "rollback acted on 38 %: beyond that the rates given firing are extrapolated" in capsys.readouterr().err
    assert run(["critic", "example:toy", "--recovery", "0.3", "--disruption", "0.2"]) == 0
    assert "extrapolated" not in capsys.readouterr().err


def test_pairs_that_leave_no_room_for_a_rate_are_said_to_know_too_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Six pairs in ten share their end, as if they shared a seed: fewer flip than reruns alone would.
    rng = np.random.default_rng(3)
    lines = []
    for task, success in enumerate(rng.choice([0.2, 0.5, 0.8], size=200)):
        for trial in range(2):
            ends = ["success" if rng.random() < success else "fail" for _ in range(2)]
            if rng.random() < 0.6:
                ends[1] = ends[0]
            for arm, end in zip(("baseline", "rollback"), ends, strict=True):
                score = round(float(rng.beta(3, 2) if end == "fail" else rng.beta(2, 3)), 3)
                acted = [{"t": 0, "mechanism": "rollback"}] if arm == "rollback" and score > 0.5 else []
                line = {"task_id": f"t{task}", "arm": arm, "trial": trial, "outcome": end}
                lines.append({**line, "steps": [{"t": 0, "score": score}], "interventions": acted})
    assert run(["critic", write(tmp_path / "pilot.jsonl", lines)]) == 0
    assert "given firing comes out at 0, the edge of what it can be" in capsys.readouterr().err
