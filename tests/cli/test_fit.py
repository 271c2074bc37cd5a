import gzip
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.report.documents import FitDocument

PILOTS = (
    "intercode-sql",
    "ldb-debugger",
    "mint-gpt35-append",
    "reflexion-programming",
    "taubench-airline-repeats",
    "who-and-when-errors",
)


def fit_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> FitDocument:
    assert run(["fit", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return msgspec.json.decode(captured.out, type=FitDocument)


def test_published_pilot_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "example:alfworld"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for line in (
        "failure rate p   0.893",
        "recovery r       0.119",
        "disruption d    0.5625",
        "break-even p*    0.825",
        "gain Δ (pp)      +4.67",
        "P(gain > 0) = 0.919896 if all pairs are independent",
        "            = 0.789326 if the trials of each of the 50 tasks end alike",
        "d rests on 16 successes; of r and d reruns alone would make 0.034 and 0.27",
        "r rests on 134 failures; ρ assumed: beta:4.5,2",
        "verdict: inconclusive",
        "more pairs",
    ):
        assert line in captured.out
    assert max(len(line) for line in captured.out.splitlines()) <= 80


def test_published_pilot_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = fit_json(capsys, "example:alfworld", "--frequentist")
    (cell,) = document.cells
    assert document.input.runs == 300
    assert document.input.tasks == 50
    assert (cell.n_tasks, cell.n_pairs, cell.pairing, cell.method) == (50, 150, "counts", "exact")
    assert cell.prob_gain is not None
    assert round(cell.prob_gain, 6) == 0.919896
    assert cell.decision == "inconclusive"
    assert cell.next is not None
    assert cell.next.usd is None
    assert cell.rho_source == "assumed"
    assert cell.rho_prior == "beta:4.5,2"
    assert len(cell.excess_band) == 3
    assert cell.frequentist is not None
    assert round(cell.frequentist["mcnemar_exact"], 4) == 0.2295


@pytest.mark.parametrize("name", PILOTS)
def test_real_pilots_give_a_document(name: str, shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / f"{name}.jsonl")
    document = fit_json(capsys, path)
    assert document.input.runs == len(Path(path).read_bytes().splitlines())
    assert document.cells
    assert run(["fit", path]) == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 80


def test_pilot_without_a_baseline_says_how_to_name_it(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "game24-samples.jsonl")
    assert run(["fit", path]) == 2
    assert "arms found, with their runs: io (4000); name the arm without intervention with --baseline ARM" in (
        capsys.readouterr().err
    )
    (cell,) = fit_json(capsys, path, "--baseline", "io").cells
    assert cell.decision is None
    assert cell.rho_source == "measured"
    assert cell.n_tasks == 100


def test_same_seed_same_bytes_whatever_the_order_of_lines(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (shared_data / "pilots" / "reflexion-programming.jsonl").read_bytes().splitlines(keepends=True)
    shuffled = tmp_path / "shuffled.jsonl.gz"
    shuffled.write_bytes(gzip.compress(b"".join(reversed(lines))))
    assert run(["fit", str(shared_data / "pilots" / "reflexion-programming.jsonl"), "--json", "--seed", "3"]) == 0
    first = capsys.readouterr().out
    assert run(["fit", str(shuffled), "--json", "--seed", "3"]) == 0
    assert capsys.readouterr().out == first


def test_a_cell_does_not_depend_on_its_neighbours(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "mint-gpt35-append.jsonl")
    together = {(cell.benchmark, cell.arm): cell for cell in fit_json(capsys, path).cells}
    for cell in fit_json(capsys, path, "--arm", "append-gpt-4-0613").cells:
        assert cell == together[cell.benchmark, cell.arm]


def test_require_exits_3_unless_every_cell_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "example:alfworld", "--require", "deploy"]) == 3
    assert "verdict: inconclusive" in capsys.readouterr().out
    assert run(["fit", "example:alfworld", "--require", "inconclusive"]) == 0


def test_quiet_silences_warnings_only(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "intercode-sql.jsonl")
    assert run(["fit", path]) == 0
    loud = capsys.readouterr()
    assert "warning: up to 2 arms were compared on the same tasks" in loud.err
    assert run(["fit", path, "--quiet"]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert quiet.out == loud.out


def test_rho_is_used_where_nothing_measures_it_and_refused_elsewhere(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fit", "example:alfworld", "--rho", "0.45"]) == 0
    assert "ρ 0.45 assumed" in capsys.readouterr().out
    path = str(shared_data / "pilots" / "taubench-airline-repeats.jsonl")
    assert run(["fit", path, "--rho", "0.45"]) == 0
    assert "--rho 0.45 is not used in 1 cells whose repeated baseline runs measure ρ" in capsys.readouterr().err


def test_details_show_a_block_for_each_cell(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "pilots" / "intercode-sql.jsonl")
    assert run(["fit", path, "--details"]) == 0
    out = capsys.readouterr().out
    assert out.count("reruns alone would make") == 2
    assert out.count("verdict:") == 2


def test_counts_in_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "counts.csv"
    table.write_text("agent,benchmark,arm,A,B,C,D,tasks\nq,ALFWorld,rollback,118,9,16,7,50\n")
    (cell,) = fit_json(capsys, str(table)).cells
    assert cell.prob_gain is not None
    assert round(cell.prob_gain, 6) == 0.919896


def test_marginals_say_bounds_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "marginals.csv"
    table.write_text("agent,benchmark,arm,successes,n\nq,x,baseline,57,100\nq,x,rollback,50,100\n")
    (cell,) = fit_json(capsys, str(table)).cells
    assert cell.r is None
    assert cell.r_bounds == pytest.approx((0.0, 1.0))
    assert cell.pairing == "none"
    assert run(["fit", str(table)]) == 0
    assert "between 0.123 and 0.877, unpaired" in capsys.readouterr().out


def test_marginals_of_a_baseline_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "marginals.csv"
    table.write_text("arm,successes,n\nbaseline,57,100\n")
    (cell,) = fit_json(capsys, str(table)).cells
    assert cell.decision is None
    assert cell.plug_in.p == pytest.approx(0.43)
    assert run(["fit", str(table)]) == 0
    assert "100 runs of 100 tasks, baseline only" in capsys.readouterr().out
    table.write_text("arm,successes,n\nio,57,100\n")
    assert run(["fit", str(table)]) == 2
    assert capsys.readouterr().err == (
        "drsim: no row belongs to the arm 'baseline'; arms found: io; "
        "name the arm without intervention with --baseline ARM\n"
    )
