"""The experiment gives what it is said to give, and says so when it does not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "01_intervention_paradox"


def start(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)


def test_published_figures_are_recomputed_as_expected(shared_data: Path) -> None:
    done = start(FOLDER / "run.py", "--check", "--data", str(shared_data))
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "equal to expected.json"


def test_another_answer_is_noticed(shared_data: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text((FOLDER / "run.py").read_text(encoding="utf-8"), encoding="utf-8")
    expected = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    expected["lines"][0]["ours"] += 0.0001
    (tmp_path / "expected.json").write_text(json.dumps(expected), encoding="utf-8")
    done = start(script, "--check", "--data", str(shared_data))
    assert (done.returncode, done.stderr) == (1, "differs from expected.json\n")


def test_missing_figures_are_named(tmp_path: Path) -> None:
    done = start(FOLDER / "run.py", "--check", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "is missing; name the folder of published figures with --data" in done.stderr


@pytest.mark.parametrize("status", ["quoted", "quoted second-hand"])
def test_what_is_expected_names_its_status(status: str) -> None:
    expected = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    assert status in {item["status"] for item in expected["lines"]}
    assert all(item["agrees"] == (not item["why_not"]) for item in expected["lines"])
