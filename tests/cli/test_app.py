import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drsim import __version__
from drsim.cli.app import COMMANDS, run

HEAVY = ("numpy", "scipy", "numba", "jax", "pymc", "arviz", "matplotlib", "pandas", "rich", "msgspec")


def examples_in(help_text: str) -> list[list[str]]:
    """Commands that a help text shows, as arguments."""
    return [line.split()[1:] for line in help_text.splitlines() if re.match(r" {4}drsim \w+ ", line)]


def help_of(*command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "drsim", *command, "--help"], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_start_loads_nothing_heavy(option: str) -> None:
    script = f"import sys\nfrom drsim.cli.app import run\nrun([{option!r}])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_import_of_the_package_loads_nothing() -> None:
    script = "import sys, drsim; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {name.split(".")[0] for name in done.stdout.split()}.isdisjoint({*HEAVY, "click"})


def test_fit_needs_no_compiler_and_no_sampler() -> None:
    script = "import sys\nfrom drsim.cli.app import run\nassert run(['fit', 'example:alfworld']) == 0\n"
    script += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert loaded.isdisjoint({"numba", "jax", "pymc", "arviz", "matplotlib", "pandas", "scipy.stats"})


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"drsim {__version__}\n"


def test_help_lists_every_command() -> None:
    text = help_of()
    assert all(re.search(rf"^  {name} ", text, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns_and_ends_in_examples_that_run(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = help_of(*command.split())
    assert max(len(line) for line in text.splitlines()) <= 80
    examples = examples_in(text)
    assert examples, f"no example in the help of {command}"
    last = [line for line in text.splitlines() if line.strip()][-1]
    assert last.split()[1:] == examples[-1]
    for example in examples:
        assert run(example) in (0, 3), example
        out = capsys.readouterr().out
        assert out.strip()
        if "--json" in example:
            json.loads(out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "example:alfworld", "--marign", "0.1"], "No such option '--marign'. (Did you mean"),
        (["fti", "x.jsonl"], "No such command 'fti'. Did you mean 'fit'?"),
        (["fit"], "Missing argument 'PILOT…'."),
        (["fit", "example:alfworld", "--seed", "-1"], "Invalid value for '--seed': -1 is not in the range x>=0."),
        (["fit", "example:alfworld", "--require", "win"], "Invalid value for '--require': 'win' is not one of"),
    ],
)
def test_wrong_usage_exits_2_in_both_forms(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    plain = capsys.readouterr()
    assert plain.out == ""
    assert message in plain.err
    assert run([*arguments, "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["kind"] == "usage"
    assert message in document["error"]["message"]
    assert document["error"]["details"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--margin", "5"], "margin must lie in [-1, 1], got 5.0; give a probability, not per cent"),
        (["--rho", "high"], "rho must be a number in [0, 1] or beta:A,B, got 'high'; write 0.45 or beta:4.5,2"),
        (["--draws", "10"], "n_draws must be at least 1000, got 10"),
        (["--arm", "undo"], "--arm undo names no intervened arm; arms found: rollback"),
        (["--output", "no/such/folder/fit.json"], "--output no/such/folder/fit.json cannot be written"),
    ],
)
def test_bad_parameters_exit_2_with_the_remedy(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fit", "example:alfworld", *arguments]) == 2
    plain = capsys.readouterr()
    assert plain.out == ""
    assert plain.err.startswith(f"drsim: {message}")
    assert run(["fit", "example:alfworld", *arguments, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] in ("parameter", "data")
    assert error["message"].startswith(message)


def test_unknown_example_names_those_that_are_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "example:webshop"]) == 2
    assert "example:webshop is not shipped; there are alfworld" in capsys.readouterr().err


def test_bad_records_reach_json_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pilot = tmp_path / "pilot.jsonl"
    pilot.write_text('{"task_id": "t", "arm": "baseline", "outcome": "won", "trial": -1}\n')
    assert run(["fit", str(pilot), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "data"
    assert {(mistake["line"], mistake["field"]) for mistake in error["details"]} == {(1, "outcome"), (1, "trial")}


def test_output_is_whole_or_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "fit.json"
    assert run(["fit", "example:alfworld", "--json", "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(target.read_text())["schema"] == "drsim.fit/1"
    before = target.read_bytes()
    assert run(["fit", "example:alfworld", "--json", "-o", str(target), "--margin", "7"]) == 2
    assert target.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["fit.json"]


def test_reader_that_leaves_early_gets_no_traceback() -> None:
    command = f"{sys.executable} -m drsim schema fit | head -n 1"
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "80"}
    )
    assert done.stdout.strip() == "{"
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["fit", "doctor", "bounds", "audit", "critic", "models", "simulate", "sweep"])
def test_every_document_has_a_schema_that_names_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", name]) == 0
    schema = json.loads(capsys.readouterr().out)
    names = [
        definition["properties"]["schema"].get("enum", definition["properties"]["schema"].get("const"))
        for definition in schema["$defs"].values()
        if "schema" in definition.get("properties", {})
    ]
    assert [f"drsim.{name}/1"] in names
