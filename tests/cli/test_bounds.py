import json
import re
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.report.bounds.document import BoundsCellDocument, BoundsDocument
from drsim.report.documents import Number
from drsim.theory.critic import best_operating_point

NUMBERS = ["--failure-rate", "0.3", "--recovery", "0.2", "--disruption", "0.1"]


def bounds_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> BoundsDocument:
    assert run(["bounds", *arguments, "--json"]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return msgspec.json.decode(captured.out, type=BoundsDocument, strict=True)


def bounds_text(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["bounds", *arguments]) == code
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    return out


def answer_of(text: str) -> str:
    """The last paragraph on one line."""
    return " ".join(text.strip().split("\n\n")[-1].split())


def number(figure: object) -> Number:
    assert isinstance(figure, Number)
    return figure


def test_numbers_alone_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    out = bounds_text(capsys, *NUMBERS, "--rho", "0.5")
    for line in (
        "numbers as given: no runs",
        "failure rate p  0.300                  given: 0.3",
        "correlation ρ   0.500                  given: 0.5",
        "AUROC           assumed: swept: 0.6, 0.7, 0.8, 0.9, 0.95",
        "margin          assumed: 0.01",
        "perfect predictor, p·ρ_m     6.0",
        "critic of AUROC 0.9          3.6",
        "smallest AUROC for 1 pp      0.66",
        "threshold η*                 0.333",
        "Best-of-2                    10.5",
        "Best-of-8",
        "reruns alone would show r 0.350 and d 0.150",
    ):
        assert line in out
    assert answer_of(out) == (
        "it can pay: a perfect predictor gains at most 6.0 pp; a critic needs AUROC ≥ 0.66 for 1 pp; "
        "Best-of-2 with an oracle gains 10.5 pp without any critic"
    )


def test_numbers_alone_as_json_are_exact(capsys: pytest.CaptureFixture[str]) -> None:
    document = bounds_json(capsys, *NUMBERS, "--rho", "0.5", "--n-max", "4", "--auroc", "0.9")
    assert document.schema == "drsim.bounds/1"
    assert document.failure_rate == 0.3
    assert document.rho == 0.5
    assert document.oracle_intervention is None
    assert set(document.best_of) == {"2", "3", "4"}
    assert document.best_of["2"] == pytest.approx(0.105)
    assert isinstance(document.smallest_auroc, float)
    assert best_operating_point(0.3, 0.2, 0.1, document.smallest_auroc).gain == pytest.approx(0.01)
    assert document.threshold == pytest.approx(1 / 3)
    assert document.churn.r0 == pytest.approx(0.35)
    assert document.churn.d0 == pytest.approx(0.15)
    assert document.possible.gain == pytest.approx(0.06)
    assert document.possible.is_met
    (cell,) = document.cells
    assert [critic.auroc for critic in cell.critics] == [0.9]
    assert cell.cases == []
    assert cell.answer == document.answer
    assert len(cell.map.rows) == len(cell.map.rho)
    assert {len(row) for row in cell.map.rows} == {len(cell.map.failure_rate)}
    assert set("".join(cell.map.rows)) <= set(cell.map.legend)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--failure-rate", "0.3"],
        ["--recovery", "0.2"],
        ["--disruption", "0.2"],
        ["--rho", "beta:2,2"],
        ["--auroc", "0.8", "--auroc", "0.95"],
        ["--failure-rate", "0"],
        ["--failure-rate", "1", "--recovery", "0", "--disruption", "0"],
    ],
)
def test_any_subset_of_numbers_is_enough(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "Best-of-2" in bounds_text(capsys, *arguments)
    (cell,) = bounds_json(capsys, *arguments).cells
    named = {item.name: item for item in cell.assumptions}
    assert set(named) == {"failure_rate", "rho", "recovery", "disruption", "auroc", "margin"}
    given = {name.removeprefix("--").replace("-", "_") for name in arguments[::2]}
    assert {name for name, item in named.items() if item.source == "given"} == given


def test_published_pilot_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    out = bounds_text(capsys, "example:alfworld")
    for line in (
        "Qwen-3-8B on ALFWorld, rollback: 150 pairs of 50 tasks, by counts",
        "assumed: beta:4.5,2",
        "arm rollback, per run, not",
        "; counted: 10.7",
        "of it beyond reruns",
        "@ here (C)",
        "beyond reruns",
    ):
        assert line in out
    assert re.fullmatch(
        r"it can pay: a perfect predictor gains at most 11\.\d pp \[4\.\d, 21\.\d\]; always firing gains 1 pp "
        r"without a critic \(AUROC needed: 0\.50 \[0\.50, 0\.\d\d\]\); Best-of-2 with an oracle "
        r"gains 3\.\d pp \[0\.\d, 8\.\d\] without any critic",
        answer_of(out),
    )


def test_published_pilot_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = bounds_json(capsys, "example:alfworld")
    (cell,) = document.cells
    assert cell.observed.oracle_intervention == pytest.approx(16 / 150)
    assert cell.observed.best_of == {}
    assert number(document.oracle_intervention) == number(cell.perfect_critic)
    assert number(document.failure_rate).mean == pytest.approx(0.88, abs=0.005)
    assert document.possible.gain == number(cell.perfect_critic).q97_5
    assert number(document.smallest_auroc).q50 == 0.5
    assert document.cell == "Qwen-3-8B on ALFWorld, rollback"


def test_toy_measures_churn(capsys: pytest.CaptureFixture[str]) -> None:
    (cell,) = bounds_json(capsys, "example:toy").cells
    assert {item.name: item.source for item in cell.assumptions}["rho"] == "measured"
    assert cell.observed.best_of["2"] == pytest.approx(number(cell.churn.best_of_two).mean or 0.0, abs=0.002)
    assert "as counted" in bounds_text(capsys, "example:toy")


def test_baseline_runs_alone(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "taubench-airline-repeats.jsonl")
    document = bounds_json(capsys, path)
    (cell,) = document.cells
    assert cell.arm is None
    assert document.oracle_intervention is None
    assert len(cell.cases) == 9
    assert isinstance(cell.perfect_critic, tuple)
    assert isinstance(document.smallest_auroc, tuple)
    assert set(cell.observed.best_of) == {"2", "3", "4"}
    for n, gain in cell.observed.best_of.items():
        figure = number(cell.best_of[n])
        assert figure.q2_5 is not None
        assert figure.q97_5 is not None
        assert figure.q2_5 <= gain <= figure.q97_5
    out = bounds_text(capsys, path)
    assert "recovery ρ_m    0.100 to 0.500         assumed: swept: 0.1, 0.3, 0.5" in out
    assert "for a recovery of 0.1 to 0.5; for 1 pp at best firing always is enough, at worst AUROC ≥ 0.8" in answer_of(
        out
    )
    (narrow,) = bounds_json(capsys, path, "--recovery", "0.3", "--disruption", "0.3").cells
    middle = cell.cases[4]
    assert narrow.cases == []
    assert (narrow.perfect_critic, narrow.smallest_auroc) == (middle.perfect_critic, middle.smallest_auroc)


def test_forty_samples_name_their_baseline(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "game24-samples.jsonl")
    assert run(["bounds", path]) == 2
    assert "name the arm without intervention with --baseline ARM" in capsys.readouterr().err
    (cell,) = bounds_json(capsys, path, "--baseline", "io").cells
    assert len(cell.observed.best_of) == 39
    for n in range(2, 9):
        figure, gain = number(cell.best_of[str(n)]), cell.observed.best_of[str(n)]
        assert figure.q2_5 is not None
        assert figure.q97_5 is not None
        assert figure.q2_5 <= gain <= figure.q97_5


@pytest.mark.parametrize("name", ["intercode-sql", "ldb-debugger", "mint-gpt35-append", "reflexion-programming"])
def test_pilots_of_many_cells(name: str, shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / f"{name}.jsonl")
    document = bounds_json(capsys, path)
    best = max(document.cells, key=lambda cell: cell.possible.gain)
    assert document.possible == best.possible
    assert document.best_of == best.best_of
    assert any("the one with the largest ceiling looks better than it is" in line for line in document.warnings)
    out = bounds_text(capsys, path)
    assert f"1 pp is possible in {len(document.cells)} of {len(document.cells)} cells" in answer_of(out)
    assert bounds_text(capsys, path, "--details").count("who gains most") == len(document.cells)


def test_marginals_say_two_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "marginals.csv"
    table.write_text("agent,benchmark,arm,successes,n\nq,x,baseline,57,100\nq,x,rollback,50,100\n")
    document = bounds_json(capsys, str(table))
    assert isinstance(document.oracle_intervention, tuple)
    (cell,) = document.cells
    assert isinstance(document.smallest_auroc, tuple)
    assert document.smallest_auroc[1] is None
    assert len(cell.cases) == 3
    out = bounds_text(capsys, str(table))
    assert "measured: bounds from arm rollback, unpaired" in " ".join(out.split())
    assert "at worst no critic is enough" in answer_of(out)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([*NUMBERS, "--require-possible", "0.02"], 0),
        ([*NUMBERS, "--require-possible", "0.07"], 3),
        (["--failure-rate", "0.05", "--recovery", "0.2", "--require-possible", "0.02"], 3),
        (["--failure-rate", "0.05", "--require-possible", "0.02"], 0),
        (["--failure-rate", "0.01", "--require-possible", "0.02"], 3),
        (["--failure-rate", "0.001"], 0),
        (["example:alfworld", "--require-possible", "0.02"], 0),
        (["example:alfworld", "--require-possible", "0.3"], 3),
    ],
)
def test_require_possible(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    document = bounds_json(capsys, *arguments, code=code)
    if "--require-possible" in arguments:
        assert document.possible.is_met is (code == 0)
    assert answer_of(bounds_text(capsys, *arguments, code=code)).startswith(
        "it can pay" if document.possible.is_met else "it cannot pay: a perfect predictor gains less than"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--failure-rate", "30"], "failure_rate must lie in [0, 1], got 30; give a probability, not per cent"),
        (["--recovery", "-1"], "recovery must lie in [0, 1], got -1; give a probability, not per cent"),
        (["--auroc", "0.4"], "auroc must lie in [0.5, 1], got 0.4; a critic below one half is used with its scores"),
        (["--rho", "2"], "rho must lie in [0, 1], got 2; give an intraclass correlation"),
        (["--rho", "high"], "rho must be a number in [0, 1] or beta:A,B, got 'high'; write 0.45 or beta:4.5,2"),
        ([*NUMBERS, "--margin", "5"], "margin must lie in [0, 1], got 5; give a probability, not per cent"),
        ([*NUMBERS, "--n-max", "1"], "n_max must be a whole number from 2 to 64, got 1"),
        ([*NUMBERS, "--draws", "10"], "n_draws must be at least 1000, got 10"),
        (
            [*NUMBERS, "--require-possible", "2"],
            "require_possible must lie in [0, 1], got 2; give a probability, not per cent",
        ),
        (
            ["example:alfworld", "--failure-rate", "0.3"],
            "failure_rate is measured by the runs, got 0.3 as well; leave out one of the two",
        ),
        (["example:alfworld", "--arm", "undo"], "--arm undo names no intervened arm; arms found: rollback"),
    ],
)
def test_wrong_input_exits_2_with_the_remedy(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bounds", *arguments]) == 2
    plain = capsys.readouterr()
    assert plain.out == ""
    assert plain.err.startswith(f"drsim: {message}")
    assert run(["bounds", *arguments, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["message"].startswith(message)


def test_neither_runs_nor_numbers_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    message = "Missing argument 'PILOT…', or numbers in its place, such as --failure-rate 0.3."
    assert run(["bounds"]) == 2
    plain = capsys.readouterr()
    assert plain.out == ""
    assert message in plain.err
    assert run(["bounds", "--margin", "0.02", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == {"kind": "usage", "message": message, "details": []}


def test_same_seed_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for seed in ("3", "3", "4"):
        assert run(["bounds", "example:toy", "--json", "--seed", seed]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_warnings_are_on_stderr_and_can_be_silenced(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "taubench-airline-repeats.jsonl")
    assert run(["bounds", path, "--rho", "0.45"]) == 0
    assert "--rho 0.45 is not used in 1 cells whose repeated baseline runs measure ρ" in capsys.readouterr().err
    assert run(["bounds", path, "--rho", "0.45", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_every_document_field_of_the_contract_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bounds", *NUMBERS, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {
        "failure_rate",
        "rho",
        "oracle_intervention",
        "best_of",
        "smallest_auroc",
        "threshold",
        "churn",
        "possible",
    } <= set(document)
    assert {"r0", "d0"} <= set(document["churn"])
    assert set(document["best_of"]["2"]) == {"mean", "sd", "q2.5", "q50", "q97.5"}
    assert run(["schema", "bounds"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert BoundsCellDocument.__name__ in schema["$defs"]
    assert set(schema["$defs"]["BoundsDocument"]["properties"]) == set(document)


def test_a_long_name_keeps_to_the_width(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "counts.csv"
    rows = [f"q,{'b' * 40},{'an arm of many words ' * 4}{i},11,9,16,7\n" for i in range(2)]
    for n in (1, 2):
        table.write_text("agent,benchmark,arm,A,B,C,D\n" + "".join(rows[:n]))
        bounds_text(capsys, str(table))
