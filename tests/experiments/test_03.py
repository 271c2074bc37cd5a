"""The experiment on timing gives what it is said to give, and says so when it does not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "03_timing"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


def start(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)


def test_the_answers_are_as_expected(shared_data: Path) -> None:
    done = start(FOLDER / "run.py", "--check", "--data", str(shared_data))
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "equal to expected.json"


def test_missing_figures_are_named(tmp_path: Path) -> None:
    done = start(FOLDER / "run.py", "--check", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "is missing; name the folder of published figures with --data" in done.stderr


def test_the_readme_says_what_is_expected() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8").replace("−", "-")
    for name, arms in EXPECTED["early harm"].items():
        for arm, found in arms.items():
            agent = {"qwen3_8b": "Qwen-3-8B", "glm_4_7": "GLM-4.7", "minimax_m2_1": "MiniMax-M2.1"}[name[12:]]
            numbers = [
                found[key]
                for key in ("gain_pp", "only steps 0-1, pp", "from step 2 on, pp", "won back by a minimum step, pp")
            ]
            share = found["share of disruptions in runs first intervened in at steps 0-1"]["shared_prefix"]
            row = f"| {agent}, {arm} | {' | '.join(f'{it:.1f}' for it in numbers)} | {share:.2f} |".replace("0.", ".")
            assert row in text.replace("0.", "."), row
    shipped = EXPECTED["ALFWorld pilot"]["as shipped"]
    assert shipped["best k by mean gain"] == 2
    assert "5.3 [-3.4, 19.4]" in text
    assert shipped["gain at best k"] == "+5.3 [-3.4, +19.4]"
    assert shipped["P(k is best)"] == {"0": 0.12, "2": 0.65, "14": 0.23}
