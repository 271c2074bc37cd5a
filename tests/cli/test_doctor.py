import json
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.cli.doctor import ESTIMANDS
from drsim.report.documents import DoctorDocument

LINES = [
    {"task_id": f"t{i}", "arm": arm, "outcome": outcome, "cost": {"usd": 0.5}}
    for i, ends in enumerate([("fail", "success"), ("success", "success"), ("success", "fail"), ("fail", "infra")] * 6)
    for arm, outcome in zip(("baseline", "rollback"), ends, strict=True)
]


@pytest.fixture
def pilot(tmp_path: Path) -> str:
    path = tmp_path / "pilot.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return str(path)


def decode(text: str) -> DoctorDocument:
    return msgspec.json.decode(text, type=DoctorDocument, strict=True)


def test_text_shows_arms_estimands_and_warnings_on_stdout(pilot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", pilot]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "agent on benchmark: 24 tasks, 1 run each" in out
    assert "0.50–0.75" in out
    assert "no     churn, best-of-n: no baseline run is repeated" in out
    assert "fix: run the baseline a second time on the same 24 tasks (24 runs)" in out
    assert "! " in out
    assert max(map(len, out.splitlines())) <= 80


def test_json_is_one_document_of_the_stated_schema(pilot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", pilot, "--json", "--seed", "7", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = decode(out)
    assert document.schema == "drsim.doctor/1"
    assert tuple(item.name for item in document.estimands) == ESTIMANDS
    arm = document.arms[1]
    assert (arm.arm, arm.success, arm.success_bounds) == ("rollback", 12 / 18, (0.5, 0.75))
    assert document.cells[0].unpaired[0].runs == 6
    assert json.loads(out)["cells"][0]["n_pairs"] == 18


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--require", "gain"], 0),
        (["--require", "gain", "--require", "churn"], 3),
        (["--require", "wisdom"], 2),
        (["--arm", "nowhere"], 2),
    ],
)
def test_exit_codes(pilot: str, options: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", pilot, *options]) == code
    out, err = capsys.readouterr()
    assert (out == "") is (code == 2)
    assert (err == "") is (code != 2)


def test_a_failure_under_json_is_one_document(pilot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", pilot, "--json", "--arm", "nowhere"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "data"


def test_output_goes_to_a_file(pilot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "found.json"
    assert run(["doctor", pilot, "--json", "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert decode(target.read_text()).form == "runs"


def test_what_the_fit_refuses_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "caps.jsonl"
    lines = [
        {"task_id": f"t{i}", "arm": arm, "outcome": outcome, "n_steps": n}
        for i in range(3)
        for arm, outcome, n in (("baseline", "capped", 5), ("rollback", "success", 9))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run(["fit", str(path)]) == 2
    capsys.readouterr()
    assert run(["doctor", str(path)]) == 0
    assert "stopped at 5 steps" in capsys.readouterr().out


def test_long_names_keep_to_the_width(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "long.jsonl"
    lines = [{"task_id": "t", "arm": arm, "outcome": "fail"} for arm in ("baseline", "an-arm-with-a-long-name-" * 2)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run(["doctor", str(path)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_every_shared_pilot_is_readable_in_eighty_columns(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in sorted((shared_data / "pilots").glob("*.jsonl")):
        assert run(["doctor", str(path)]) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 80, path.name
        assert run(["doctor", str(path), "--json"]) == 0
        decode(capsys.readouterr().out)


def test_the_examples_of_the_help_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--help"]) == 0
    lines = [line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("    drsim ")]
    assert len(lines) == 3
    for arguments in lines:
        assert run(arguments) == 0, arguments
        assert capsys.readouterr().out
