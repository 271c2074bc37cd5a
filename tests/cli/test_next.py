import json
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.report.next.document import NextRunsDocument


def next_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> NextRunsDocument:
    assert run(["next", "example:toy", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return msgspec.json.decode(captured.out, type=NextRunsDocument)


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = next_json(capsys, "--budget", "0.03")
    assert document.objective == "best-arm"
    assert (document.usd or 1) <= 0.03
    assert document.usd == pytest.approx(sum(it.usd or 1 for it in document.runs))
    assert document.stopped == "the budget is spent"
    assert sum(it.prob_best for it in document.arms) == pytest.approx(1.0)
    assert document.rho_source == "measured"
    dearer = next_json(capsys, "--budget", "1", "--price", "rollback=0.02")
    assert {it.kind for it in dearer.runs} == {"repeat-baseline"}
    net = next_json(
        capsys, "--budget", "5", "--new-tasks", "9", "--objective", "net-benefit", "--volume", "2000", "--value", "0.5"
    )
    assert (net.sample_value or 0) > 0
    assert net.objective == "net-benefit"


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["next", "example:toy", "--budget", "1", "--price", "rollback=0.02"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "10 runs of the baseline again, since reruns of a task end differently" in " ".join(out.split())
    assert run(["next", "example:toy", "--budget", "5", "--objective", "net-benefit", "--volume", "900"]) == 0
    assert "best sample: 200 repeats of rollback, worth " in " ".join(capsys.readouterr().out.split())
    assert run(["next", "example:toy", "--budget", "0", "--require-decided"]) == 3
    assert "Nothing more to run: the budget is spent." in capsys.readouterr().out


def test_a_pilot_without_costs_counts_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plain.jsonl"
    rows = [
        {"task_id": f"t{i}", "arm": arm, "outcome": "success" if (i + len(arm)) % 3 else "fail"}
        for i in range(12)
        for arm in ("baseline", "a", "b")
    ]
    path.write_text("".join(json.dumps(it) + "\n" for it in rows))
    assert run(["next", str(path), "--budget", "4"]) == 0
    captured = capsys.readouterr()
    assert "no run has a cost, so that the budget counts runs" in captured.err
    assert "USD" not in captured.out
    assert run(["next", str(path), "--budget", "4", "--json", "--quiet"]) == 0
    document = msgspec.json.decode(capsys.readouterr().out, type=NextRunsDocument)
    assert document.usd is None
    assert 0 < len(document.runs) <= 4
    assert run(["next", str(path), "--budget", "4", "--objective", "net-benefit", "--volume", "9"]) == 2
    assert "no run has a cost; give --price ARM=USD for every arm" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["example:toy", "--budget", "-1"], "budget, seed and new_tasks must be ≥ 0"),
        (["example:toy", "--budget", "1", "--price", "rollback"], "price must be ARM=USD"),
        (["example:toy", "--budget", "1", "--price", "x=1"], "price must name an arm"),
        (["example:toy", "--budget", "1", "--volume", "5"], "are for --objective net-benefit"),
        (["example:toy", "--budget", "1", "--objective", "net-benefit"], "needs --volume RUNS"),
        (["example:alfworld", "--budget", "1"], "takes runs, one a line"),
        (["example:toy", "--budget", "1", "--agent", "nobody"], "one agent and benchmark at a time"),
    ],
)
def test_mistakes_exit_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["next", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
