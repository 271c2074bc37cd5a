import json
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.pilot.evidence import Pilot
from drsim.pilot.reading import read
from drsim.report.simulate import EstimateDocument, SimulateDocument


def simulate_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> SimulateDocument:
    assert run(["simulate", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return msgspec.json.decode(captured.out, type=SimulateDocument)


def test_auto_answers_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    document = simulate_json(capsys, "example")
    assert (document.engine, document.n, document.seed) == ("exact", None, None)
    (late,) = document.policies
    assert late.success == late.exact
    assert late.z is None
    baseline = document.baseline.exact
    for table in (late.joint.shared_prefix, late.joint.independent):
        (fail_fail, fail_success), (success_fail, success_success) = table
        assert fail_fail + fail_success + success_fail + success_success == pytest.approx(1, abs=1e-12)
        assert success_fail + success_success == pytest.approx(baseline, abs=1e-12)
        assert fail_success - success_fail == pytest.approx(late.exact_gain, abs=1e-12)


@pytest.mark.parametrize("engine", ["numba", "jax", "reference"])
def test_engines_stand_beside_the_exact_values(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = simulate_json(capsys, "example", "--engine", engine, "-n", "2e4", "--seed", "3")
    assert (document.engine, document.n, document.seed) == (engine, 20_000, 3)
    (late,) = document.policies
    assert isinstance(late.success, EstimateDocument)
    assert late.z is not None
    assert abs(late.z) <= 5
    assert late.z == pytest.approx((late.success.value - late.exact) / late.success.se)
    assert isinstance(late.gain, EstimateDocument)
    assert abs(late.gain.value - late.exact_gain) <= 5 * late.gain.se


def test_engines_print_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    engines = ("numba", "jax", "reference")
    found = [simulate_json(capsys, "example", "--engine", engine, "-n", "3000") for engine in engines]
    assert found[0].policies == found[1].policies == found[2].policies
    assert found[0].baseline == found[1].baseline == found[2].baseline


def test_text_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "example", "--engine", "reference", "-n", "1000"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "1,000 runs by reference, seed 1" in out


def test_simulated_pilot_closes_the_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pilot = tmp_path / "pilot.jsonl"
    assert run(["simulate", "example", "-o", str(pilot), "-n", "300", "--engine", "reference"]) == 0
    assert "late" in capsys.readouterr().out
    evidence = read([str(pilot)])
    assert isinstance(evidence, Pilot)
    assert len(evidence.runs) == 600
    assert {record.arm for record in evidence.runs} == {"baseline", "late"}
    assert run(["fit", str(pilot), "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert cell["n_pairs"] == 300
    assert [entry.name for entry in tmp_path.iterdir()] == ["pilot.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["example", "-n", "1.5"], "'1.5' is not a whole number from 1 to 1e12."),
        (["example", "-n", "many"], "'many' is not a whole number from 1 to 1e12."),
        (["example", "--policy", "lat"], "policy must be one of the model's, got 'lat'; did you mean 'late'?"),
        (["example", "--engine", "cuda"], "'cuda' is not one of 'auto', 'numba', 'jax', 'reference'."),
        (["example", "-o", "no/folder/pilot.jsonl"], "--output no/folder/pilot.jsonl cannot be written"),
    ],
)
def test_bad_requests_exit_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
