import json
import threading
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from drsim.cli.app import run
from drsim.report.monitor.document import MonitorDocument


def line(task: int, arm: str, trial: int, success: bool, **more: object) -> str:
    record = {"task_id": f"t{task}", "arm": arm, "trial": trial, "success": success, **more}
    return json.dumps(record) + "\n"


def pilot_lines(n_tasks: int, shift: float, seed: int, n_trials: int = 1) -> list[str]:
    """Runs of both arms, not in the order of pairs."""
    rng = np.random.default_rng(seed)
    lines = []
    for task in range(n_tasks):
        s = rng.beta(1.0, 1.0)
        for trial in range(n_trials):
            pair = [
                line(task, "baseline", trial, bool(rng.random() < s)),
                line(task, "rollback", trial, bool(rng.random() < s + shift)),
            ]
            lines += pair if rng.random() < 0.5 else pair[::-1]
    return lines


def monitor_json(capsys: pytest.CaptureFixture[str], *arguments: str, quiet: bool = True) -> MonitorDocument:
    assert run(["monitor", *arguments, "--json", *(["--quiet"] if quiet else [])]) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=MonitorDocument)


def test_any_batching_ends_in_the_same_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(pilot_lines(60, -0.3, seed=1, n_trials=2)).encode()
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    whole.write_bytes(text)
    options = ["--trials", "2", "--max-tasks", "100"]
    once = monitor_json(capsys, str(whole), *options, "--state", str(tmp_path / "whole.json"))
    rng = np.random.default_rng(2)
    cuts = sorted({0, *rng.integers(0, len(text), 9).tolist(), len(text)})
    for start, stop in pairwise(cuts):
        with parts.open("ab") as stream:  # cuts fall within lines, as a reader may see them
            stream.write(text[start:stop])
        last = monitor_json(capsys, str(parts), *options, "--state", str(tmp_path / "parts.json"))
    assert last == once
    assert (tmp_path / "parts.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    again = monitor_json(capsys, str(whole), *options, "--state", str(tmp_path / "whole.json"))
    assert again == once
    assert once.state == "stop-harm"
    assert once.pairs == 120
    assert once.cells[0].stop is not None
    assert once.cells[0].stop.tasks < 60


def test_the_document_is_what_counting_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = pilot_lines(40, 0.1, seed=3)
    lines += [line(99, "baseline", 0, True), line(98, "rollback", 0, True), line(0, "rollback", 7, True)]
    lines += [line(0, "baseline", 7, False), json.dumps({"task_id": "x", "arm": "rollback", "outcome": "infra"}) + "\n"]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(lines))
    found = monitor_json(capsys, str(path))
    (cell,) = found.cells
    assert (found.runs, found.set_aside) == (84, 1)
    assert (cell.tasks, cell.unpaired, cell.surplus, cell.waiting) == (40, 1, 1, 0)
    c = cell.counts
    assert c.a + c.b + c.c + c.d == 40
    assert cell.gain == pytest.approx((c.c - c.b) / 40)
    assert found.confidence_sequence == cell.confidence_sequence
    assert any("1 pair beyond the first 1 of their task are not used" in it for it in found.warnings)


def test_forks_pair_with_their_parent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        line(0, "rollback", 5, True, forked_from={"run_id": "b0", "t": 2}),
        line(0, "baseline", 0, False, run_id="b0"),
        line(1, "baseline", 0, True, run_id="b1"),
        line(1, "rollback", 3, False, forked_from={"run_id": "b1", "t": 2}),
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(lines))
    (cell,) = monitor_json(capsys, str(path)).cells
    assert (cell.counts.b, cell.counts.c, cell.tasks) == (1, 1, 2)


def test_watching_while_runs_are_appended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("")
    lines = [line(i, arm, 0, arm == "baseline") for i in range(15) for arm in ("baseline", "append")]

    def append() -> None:
        for some in lines:
            with path.open("a") as stream:
                stream.write(some)
            time.sleep(0.01)

    writer = threading.Thread(target=append)
    writer.start()
    assert run(["monitor", str(path), "--watch", "--every", "0.05", "--timeout", "60", "--json"]) == 0
    writer.join()
    captured = capsys.readouterr()
    found = msgspec.json.decode(captured.out, type=MonitorDocument)
    assert found.state == "stop-harm"
    assert "stop-harm" in captured.err
    # reading ended with the stop, not with the file: five losses are enough
    assert found.cells[0].stop is not None
    assert found.cells[0].stop.tasks == 5


def test_a_line_that_is_being_written_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.jsonl"
    whole = line(0, "baseline", 0, True) + line(0, "rollback", 0, True)
    state = ["--state", str(tmp_path / "s.json")]
    path.write_text(whole[:-9])
    assert monitor_json(capsys, str(path), *state).runs == 1
    path.write_text(whole[:-1])
    assert monitor_json(capsys, str(path), *state).runs == 2
    path.write_text(whole + line(1, "baseline", 0, True))
    assert monitor_json(capsys, str(path), *state).runs == 3


def test_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(pilot_lines(30, -0.4, seed=4, n_trials=2)))
    assert run(["monitor", str(path), "--trials", "2", "--require", "stop-harm"]) == 0
    out = capsys.readouterr().out
    assert max(len(it) for it in out.splitlines()) <= 80
    assert "stop: intervening harms (after" in " ".join(out.split())
    assert run(["monitor", str(path), "--trials", "2", "--require", "go-on"]) == 3
    capsys.readouterr()
    path.write_text(line(0, "baseline", 0, True))
    assert run(["monitor", str(path)]) == 0
    assert "No run of an intervened arm was read yet." in capsys.readouterr().out


def test_nothing_watched_meets_no_requirement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped arm, or a file without any, used to pass every --require."""
    path = tmp_path / "p.jsonl"
    path.write_text("".join(pilot_lines(30, -0.4, seed=4, n_trials=2)))
    arguments = ["monitor", str(path), "--trials", "2", "--require", "stop-harm"]
    assert run([*arguments, "--arm", "rollback"]) == 0
    capsys.readouterr()
    for names in (["rolback"], ["rollback", "rolback"]):
        assert run([*arguments, *(it for name in names for it in ("--arm", name))]) == 3
        assert "no run of the arm rolback was read yet: check its name" in capsys.readouterr().err
        assert run(["monitor", str(path), "--watch", "--timeout", "0.05", "--every", "0.01", "--arm", *names[-1:]]) == 0
        capsys.readouterr()
    path.write_text(line(0, "baseline", 0, True))
    assert run(arguments) == 3


def test_a_state_is_written_when_there_is_something_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = tmp_path / "p.jsonl", tmp_path / "s.json"
    path.write_text(line(0, "baseline", 0, True))
    for further in (False, True):
        monitor_json(capsys, str(path), "--state", str(state))
        before = state.stat()
        if further:
            path.write_text(path.read_text() + line(1, "baseline", 0, True))
        monitor_json(capsys, str(path), "--state", str(state))
        after = state.stat()
        assert (after.st_ino != before.st_ino or after.st_mtime_ns != before.st_mtime_ns) is further


def test_mistakes_exit_2_and_leave_the_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = tmp_path / "p.jsonl", tmp_path / "s.json"
    first = line(0, "baseline", 0, True)
    path.write_text(first)
    arguments = ["monitor", str(path), "--state", str(state)]
    assert run(arguments) == 0
    kept = state.read_bytes()

    def fails(text: str, message: str, *more: str) -> None:
        capsys.readouterr()
        path.write_text(text)
        assert run([*arguments, *more]) == 2
        assert message in capsys.readouterr().err
        assert state.read_bytes() == kept

    fails(first + '{"task_id": "t1"}\n', "outcome")
    fails(first + "nonsense\n", "must hold one JSON object")
    fails(first + first, "is there twice")
    fails(first.replace("true", "false"), "is not the file that was read before")
    fails("", "is not the file that was read before")
    fails(first, "was made with alpha 0.05 (now 0.01)", "--alpha", "0.01")
    state.write_text("{}")
    kept = b"{}"
    fails(first, "is no state of drsim monitor")
    assert run(["monitor", str(tmp_path / "none.jsonl")]) == 2


def test_levels_are_those_of_each_arm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(line(i, arm, 0, i % 2 == 0) for i in range(6) for arm in ("baseline", "a", "b")))
    found = monitor_json(capsys, str(path))
    assert [it.arm for it in found.cells] == ["a", "b"]
    assert (found.state, found.pairs) == (None, None)
    assert found.warnings == ["the levels hold for each of the 2 arms: for all together give --alpha 0.025"]
    assert [it.arm for it in monitor_json(capsys, str(path), "--arm", "b").cells] == ["b"]
