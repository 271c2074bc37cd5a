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


def known[T](value: T | None) -> T:
    """The value, which must be there."""
    assert value is not None
    return value


def test_auto_answers_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    document = simulate_json(capsys, "example")
    assert (document.engine, document.n, document.seed) == ("exact", None, None)
    (late,) = document.policies
    assert late.success == late.exact
    assert late.z is None
    baseline = document.baseline.exact
    for table in (known(late.joint).shared_prefix, known(late.joint).independent):
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
    assert late.z == pytest.approx((late.success.value - known(late.exact)) / known(late.success.se))
    assert isinstance(late.gain, EstimateDocument)
    assert abs(late.gain.value - known(late.exact_gain)) <= 5 * known(late.gain.se)


def test_engines_print_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    engines = ("numba", "jax", "reference")
    found = [simulate_json(capsys, "example", "--engine", engine, "-n", "3000") for engine in engines]
    assert found[0].policies == found[1].policies == found[2].policies
    assert found[0].baseline == found[1].baseline == found[2].baseline


@pytest.mark.parametrize("model", ["example", "signals"])
def test_text_fits_80_columns(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", model, "--engine", "reference", "-n", "1000"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "1,000 runs by reference, seed 1" in out


def test_what_looks_back_is_simulated_and_the_rest_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    document = simulate_json(capsys, "signals", "--engine", "reference", "-n", "2e4")
    found = {policy.name: policy for policy in document.policies}
    assert document.baseline.rho == pytest.approx(0.2, abs=0.05)
    for name in ("belief", "mean", "votes"):
        policy = found[name]
        assert (policy.exact, policy.z, policy.joint, policy.exact_gain) == (None, None, None, None)
        # r and d add up to the gain under either coupling, whatever makes them
        p = 1 - document.baseline.exact
        for r, d in ((policy.r.shared_prefix, policy.d.shared_prefix), (policy.r.independent, policy.d.independent)):
            assert isinstance(r, EstimateDocument)
            assert isinstance(d, EstimateDocument)
            assert isinstance(policy.gain, EstimateDocument)
            error = 5 * (known(policy.gain.se) + p * known(r.se) + (1 - p) * known(d.se))
            assert abs(p * r.value - (1 - p) * d.value - policy.gain.value) <= error
    for name in ("score", "every_third", "randomised"):
        assert abs(known(found[name].z)) <= 5
    for policy in document.policies:
        assert policy.histograms is not None
        assert sum(policy.histograms.steps.counts) == sum(policy.histograms.tokens.counts) == 20_000


def test_auto_simulates_only_when_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    exact = simulate_json(capsys, "signals", "--policy", "score", "--policy", "randomised")
    assert (exact.engine, exact.n) == ("exact", None)
    simulated = simulate_json(capsys, "signals", "--policy", "votes", "-n", "2000")
    assert (simulated.engine, simulated.n) == ("numba", 2000)


def test_counts_take_any_number_of_runs(capsys: pytest.CaptureFixture[str]) -> None:
    document = simulate_json(capsys, "example", "--engine", "counts", "-n", "1e10")
    (late,) = document.policies
    assert abs(known(late.z)) <= 5
    assert late.histograms is None
    assert isinstance(late.steps, EstimateDocument)
    assert known(late.steps.se) < 1e-3


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


def test_trials_of_a_task_share_the_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pilot = tmp_path / "pilot.jsonl"
    request = ["simulate", "signals", "--policy", "randomised", "--engine", "reference", "-n", "400", "--trials", "3"]
    assert run([*request, "-o", str(pilot)]) == 0
    evidence = read([str(pilot)])
    assert isinstance(evidence, Pilot)
    assert len(evidence.runs) == 400 * 3 * 2
    triggers = [it for record in evidence.runs for it in record.interventions or ()]
    acted = sum(it.acted for it in triggers)
    assert {it.propensity for it in triggers} == {0.5}
    assert abs(acted - len(triggers) / 2) <= 5 * len(triggers) ** 0.5 / 2
    capsys.readouterr()
    assert run(["fit", str(pilot), "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    model = simulate_json(capsys, "signals", "--policy", "randomised")
    (policy,) = model.policies
    assert isinstance(policy.exact_gain, float)
    assert abs(cell["gain"]["mean"] - policy.exact_gain) <= 5 * cell["gain"]["sd"]
    assert abs(cell["rho"]["mean"] - (model.baseline.rho or 0.0)) <= 5 * cell["rho"]["sd"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["example", "-n", "1.5"], "'1.5' is not a whole number from 1 to 1e12."),
        (["example", "-n", "many"], "'many' is not a whole number from 1 to 1e12."),
        (["example", "--policy", "lat"], "policy must be one of the model's, got 'lat'; did you mean 'late'?"),
        (["example", "--engine", "cuda"], "'cuda' is not one of 'auto', 'numba', 'jax', 'reference', 'counts'."),
        (["example", "--trials", "2"], "--trials 2 needs -o FILE.jsonl: it says how many runs of a task to write."),
        (["example", "--engine", "counts", "-o", "p.jsonl"], "--engine counts makes no runs to write to p.jsonl"),
        (
            ["signals", "--engine", "counts"],
            "policy must read the score of a step alone to be exact, got signal belief",
        ),
        (["example", "-o", "no/folder/pilot.jsonl"], "--output no/folder/pilot.jsonl cannot be written"),
    ],
)
def test_bad_requests_exit_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
