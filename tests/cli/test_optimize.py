import json
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from planning.test_robust import drawn

from drsim.cli.app import run
from drsim.cli.source import SourceOptions
from drsim.planning.robust import robust
from drsim.planning.source import Source, SourceKind
from drsim.process.compile import compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.shipped import find_model
from drsim.process.stacks import stack_draws
from drsim.process.terms import Terms
from drsim.process.toml import format_model, parse_model, read_model
from drsim.report.optimize.document import OptimizeDocument


def optimize_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> OptimizeDocument:
    assert run(["optimize", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return msgspec.json.decode(captured.out, type=OptimizeDocument)


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = optimize_json(capsys, "ip_hotpotqa_minimax_m2_1", "--price-intervention", "0.002")
    assert (document.terms.budget, document.terms.cooldown, document.horizon) == (3, 0, 15)
    assert [len(row) for row in document.curve] == [15, 15, 15]
    assert list(document.curves) == ["rollback", "append"]
    assert all(it is None for it in document.curves["rollback"][2])
    assert document.curve == document.curves["append"]
    gains = {it.name: it.gain for it in document.ladder}
    assert gains["never"] == 0.0
    order = ["best constant threshold", "best threshold curve", "optimal belief policy", "full information"]
    assert [gains[it] for it in order] == sorted(gains[it] for it in order)
    assert document.value_of_information.state == pytest.approx(gains[order[3]] - gains[order[2]])
    assert document.value_of_information.parameters is None
    assert document.robust is None
    assert document.grid.points == 1001
    assert 0.0 < document.grid.error < 1e-5
    oracle = next(it.hindsight for it in document.ladder if it.name == "append")
    assert oracle is not None
    assert oracle.shared_prefix > 0.0


def test_the_policy_is_one_that_simulate_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = optimize_json(capsys, "example")
    policy = document.threshold_policy
    assert policy is not None
    path = tmp_path / "with_policy.toml"
    path.write_text(format_model(replace(find_model("example"), policies={})) + policy.toml)
    assert list(read_model(path).policies) == ["optimal"]
    assert run(["simulate", str(path), "--json"]) == 0
    (simulated,) = json.loads(capsys.readouterr().out)["policies"]
    assert simulated["gain"] == pytest.approx(policy.gain, abs=1e-12)
    curve = next(it.gain for it in document.ladder if it.kind == "best threshold curve")
    assert policy.gain == pytest.approx(curve, abs=1e-8)
    # the text of the command holds the same table
    assert run(["optimize", "example"]) == 0
    text = capsys.readouterr().out
    path.write_text(
        format_model(replace(find_model("example"), policies={})) + text[text.index("[policies.optimal]") :]
    )
    assert run(["simulate", str(path), "--json"]) == 0
    (again,) = json.loads(capsys.readouterr().out)["policies"]
    assert again["gain"] == simulated["gain"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["example", "--budget", "9"],
        ["ip_alfworld_qwen3_8b"],
        ["ip_hotpotqa_minimax_m2_1", "--price-critic", "0.001", "--mechanism", "append,rollback"],
        ["signals", "--typical", "--policy", "belief", "--policy", "randomised"],
        ["example", "--budget", "1", "--cooldown", "2"],
        ["example", "--price-intervention", "1"],
    ],
)
def test_text_fits_80_columns(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", *arguments]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", "example", "--price-intervention", "1"]) == 0
    assert "Intervening does not pay, not even for a policy that sees the state." in capsys.readouterr().out
    assert run(["optimize", "example", "--budget", "1"]) == 0
    out = capsys.readouterr().out
    assert "late *" in out
    assert "does not keep these terms" in out
    assert run(["optimize", "ip_alfworld_qwen3_8b"]) == 0
    out = capsys.readouterr().out
    assert "intervening does not pay everywhere above" in out
    assert run(["optimize", "signals", "--typical", "--policy", "belief"]) == 0
    out = capsys.readouterr().out
    assert "every task is the typical one" in out
    assert "belief †" in out
    assert "in the model as given these policies gain: best constant threshold" in " ".join(out.split())


def test_what_is_best_for_the_typical_task_gains_less_where_tasks_differ(capsys: pytest.CaptureFixture[str]) -> None:
    document = optimize_json(capsys, "signals", "--typical", "--policy", "score")
    assert document.as_given is not None
    assert document.threshold_policy is not None
    spec = find_model("signals")
    path = replace(spec, policies={})
    again = parse_model(format_model(path) + document.threshold_policy.toml, source="memory")
    exact = evaluate(compile_model(again), compile_policy(again, "optimal")).gain
    assert document.as_given["best threshold curve"] == pytest.approx(exact, abs=1e-8)
    assert exact < document.threshold_policy.gain
    gains = list(document.as_given.values())
    assert gains[0] == 0.0
    assert gains[-1] == max(gains)


def long_names(tmp_path: Path) -> Path:
    """The example with names that no table has room for, and two modes."""
    spec = find_model("example")
    name = "a mechanism whose name is rather long"
    mechanisms = {f"{name} {i}": spec.mechanisms["rollback"] for i in range(5)}
    policies = {f"{it} late": replace(spec.policies["late"], mechanism=it) for it in mechanisms}
    path = tmp_path / "long.toml"
    path.write_text(format_model(replace(spec, mechanisms=mechanisms, policies=policies)))
    return path


def test_long_names_and_long_horizons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", str(long_names(tmp_path)), "--grid", "101"]) == 0
    out = capsys.readouterr().out
    table = out[out.index("ladder") : out.index("As a policy")]
    assert max(len(line) for line in table.splitlines()) <= 80
    path = tmp_path / "long_horizon.toml"
    path.write_text(format_model(replace(find_model("example"), horizon=60, policies={})))
    assert run(["optimize", str(path), "--grid", "101"]) == 0
    out = capsys.readouterr().out
    assert "26 of 60 steps" in " ".join(out.split())
    assert max(len(line) for line in out.splitlines()) <= 80


def test_same_bytes_again(tmp_path: Path) -> None:
    for suffix in (".svg", ".png"):
        pictures = []
        for k in range(2):
            picture = tmp_path / f"{k}{suffix}"
            done = ["optimize", "example", "--grid", "101", "--plot", str(picture), "-o", str(tmp_path / f"{k}.txt")]
            assert run(done) == 0
            pictures.append(picture.read_bytes())
        assert pictures[0] == pictures[1]
        assert len(pictures[0]) > 10_000
    assert (tmp_path / "0.txt").read_bytes() == (tmp_path / "1.txt").read_bytes()
    assert sorted(it.name for it in tmp_path.iterdir()) == ["0.png", "0.svg", "0.txt", "1.png", "1.svg", "1.txt"]


def test_a_missing_matplotlib_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [it for it in sys.modules if it.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(["optimize", "example", "--grid", "101", "--plot", "x.svg"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert 'pip install "drsim[plot]"' in captured.err


def test_robust_over_draws(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    model, models = find_model("example"), drawn(12)
    source = Source(
        name="drawn",
        kind=SourceKind.PILOT,
        model=model,
        draws=stack_draws(models),
        specifications=(model,) * len(models),
        cell="agent on benchmark, arm",
        policy=None,
        matched=None,
        assumptions=("r and d are drawn",),
    )
    monkeypatch.setattr(SourceOptions, "read", lambda _self, _origin, *, seed, quiet: source)  # its signature
    document = optimize_json(capsys, "example", "--robust", "--grid", "101")
    found = document.robust
    assert found is not None
    assert document.assumptions == ["r and d are drawn"]
    assert (found.n_draws, found.varying) == (12, ["r and d"])
    assert found.regret >= 0.0
    assert document.value_of_information.parameters == found.perfect_knowledge > 0.0
    assert found.belief_gain is not None
    assert found.gain.mean is not None
    assert (found.belief_gain.mean or 0.0) > found.gain.mean
    expected = robust(models, Terms(budget=3), point=compile_model(model), starts=[compile_policy(model, "late")])
    assert found.gain.mean == pytest.approx(expected.mean, abs=1e-12)
    assert found.threshold_policy is not None
    assert run(["optimize", "example", "--robust", "--grid", "101"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert f"perfect knowledge would be worth {100 * expected.perfect_knowledge:.2f} pp" in out
    assert "assumed: r and d are drawn" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["example", "--mechanism", "rolback"], "got 'rolback'; did you mean 'rollback'?"),
        (["example", "--policy", "lat"], "did you mean 'late'?"),
        (["signals"], "take the typical model (--typical)"),
        (["example", "--robust"], "draws must be at least two to be robust against, got 1"),
        (["example", "--plot", "x.pdf"], "must name a file that ends in .svg or .png"),
        (["example", "--grid", "101", "--plot", "no/such/folder/x.svg"], "x.svg cannot be written"),
        (["exampel"], "did you mean 'example'?"),
    ],
)
def test_mistakes_exit_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_a_pilot_is_optimised_over_its_draws_by_its_own_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", "--from", "example:alfworld", "--draws", "20", "--grid", "101", "--robust", "--json"]) == 0
    captured = capsys.readouterr()
    document = msgspec.json.decode(captured.out, type=OptimizeDocument)
    assert list(document.curves) == ["rollback"]
    assert document.robust is not None
    assert document.robust.n_draws == 20
    assert any("coupling" in it for it in document.assumptions)
    both = [
        "optimize",
        "example:alfworld",
        "--draws",
        "20",
        "--grid",
        "101",
        "--mechanism",
        "rollback,append",
        "--json",
    ]
    assert run(both) == 0
    assert list(msgspec.json.decode(capsys.readouterr().out, type=OptimizeDocument).curves) == ["rollback", "append"]


def test_the_origin_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["example", "--from", "example"]):
        assert run(["optimize", *arguments]) == 2
        assert "name one model, posterior or pilot" in " ".join(capsys.readouterr().err.split())
