import json
import sys
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.report.design.document import DesignDocument


def design_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> DesignDocument:
    assert run(["design", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return msgspec.json.decode(captured.out, type=DesignDocument)


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = design_json(
        capsys, "--tasks", "50", "--discordance", "0.25", "--gain", "0.028", "--rule", "mcnemar", "--at", "0.028"
    )
    (point,) = document.points
    assert point.p_deploy == pytest.approx(0.0517, abs=1e-4)
    assert (point.tasks, point.trials, point.expected_pairs) == (50, 1, 50)
    (needed,) = document.needed
    assert needed.tasks == needed.pairs
    assert 2450 < (needed.tasks or 0) < 2550
    assert [it.is_cheapest for it in document.splits].count(True) == 1
    assert (document.plan.usd, document.plan.runs) == (None, 100)
    priced = design_json(capsys, "--tasks", "50", "--discordance", "0.25", "--price-run", "0.5", "--gain", "0.028")
    assert (priced.plan.usd, priced.plan.runs) == (50, None)
    assert [it.usd for it in priced.splits] != [None] * len(priced.splits)
    assert [it.usd for it in document.splits] == [None] * len(document.splits)
    published = {it.name: it for it in document.published}
    collapse = published["MiniMax-M2.1, HotPotQA, rollback"]
    assert collapse.power["50"] == pytest.approx(0.912, abs=1e-3)
    assert published["Qwen-3-8B, ALFWorld, best arm"].power["50"] == pytest.approx(0.052, abs=1e-3)
    assert (document.detectable.gain or 0) == pytest.approx(-(document.detectable.loss or 0), abs=1e-3)


def test_simulated_numbers_carry_their_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", "--tasks", "30", "--trials", "2", "--failure-rate", "0.5", "--at", "0", "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert set(point["p_deploy"]) == {"value", "se", "n"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tasks", "50", "--trials", "3", "--arms", "4", "--failure-rate", "0.89", "--gain", "0.05"],
        ["--tasks", "100000", "--discordance", "0.25", "--rope", "0.02", "--fork", "--fires", "0.5", "--gain", "-0.01"],
        ["--tasks", "60", "--failure-rate", "0.4", "--rule", "anytime", "--prior", "0.02,0.05"],
        ["--tasks", "60", "--failure-rate", "0.4", "--rule", "point", "--at", "0.1"],
    ],
)
def test_text_fits_80_columns(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", *arguments]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", "--tasks", "200", "--discordance", "0.3", "--gain", "0.05", "--fires", "0.4"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "To find +5.0 pp with probability 0.8 takes 736 tasks." in out
    assert "forking saves 73 % of the price of the cheapest split of reruns" in out
    assert "MiniMax-M2.1, HotPotQA, rollback -25.5 0.35* 0.912" in out
    assert "assumed: runs that fire flip as often as all runs do" in out
    several = ["design", "--tasks", "20", "--trials", "2", "--discordance", "0.1", "--at", "0", "--no-published"]
    for rule, is_normal in (("posterior", True), ("mcnemar", False)):
        assert run([*several, "--rule", rule]) == 0
        assert ("the posterior is taken for normal" in " ".join(capsys.readouterr().out.split())) is is_normal


@pytest.mark.parametrize("margin", ["-0.6", "0.6"])
def test_a_margin_out_of_reach_is_answered(margin: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = design_json(capsys, "--tasks", "50", "--discordance", "0.2", "--margin", margin, "--no-published")
    assert [it.gain for it in document.points] == [0.0]


def test_without_a_pilot_the_prior_is_cut_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["design", "--tasks", "200", "--discordance", "0.1", "--prior", "0.1,0.2", "--no-published"]
    assert run(arguments) == 0
    assert "without one +0.80 pp" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "50"], "discordance or the failure rate must be given"),
        (["--tasks", "50", "--discordance", "25"], "discordance must lie in (0, 1]"),
        (["--tasks", "50", "--discordance", "0.2", "--at", "0.3"], "within the +0.2"),
        (["--tasks", "50", "--discordance", "0.2", "--prior", "0.1"], "prior must be MEAN,SD"),
        (["--tasks", "50", "--discordance", "0.2", "--gain", "0"], "must differ from the margin"),
        (["--tasks", "50", "--discordance", "0.2", "--power", "80"], "power must lie between 0 and 1"),
    ],
)
def test_mistakes_exit_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["design", "--tasks", "60", "--discordance", "0.3", "--at", "0", "--no-published", "--plot"]
    for suffix in (".svg", ".png"):
        pictures = []
        for k in range(2):
            path = tmp_path / f"{k}{suffix}"
            assert run([*arguments, str(path)]) == 0
            pictures.append(path.read_bytes())
        assert pictures[0] == pictures[1]
        assert len(pictures[0]) > 5_000
    assert sorted(it.name for it in tmp_path.iterdir()) == ["0.png", "0.svg", "1.png", "1.svg"]
    for name, message in (("x.pdf", "ends in .svg or .png"), ("no/such/x.svg", "cannot be written")):
        capsys.readouterr()
        assert run([*arguments, str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    for name in [it for it in sys.modules if it.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run([*arguments, str(tmp_path / "x.svg")]) == 2
    assert 'pip install "drsim[plot]"' in capsys.readouterr().err
