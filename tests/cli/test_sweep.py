import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from drsim.cli import sweep as command
from drsim.cli.app import run
from drsim.planning.sweep import Progress
from drsim.report.documents import encode
from drsim.report.sweep.document import SweepDocument
from drsim.report.sweep.table import TABLE_COLUMNS

HEAVY = ("jax", "pymc", "arviz", "matplotlib", "pandas", "pyarrow", "xarray", "h5py", "distributed", "dask")


def sweep_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> SweepDocument:
    assert run(["sweep", *arguments, "--json"]) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=SweepDocument)


def test_without_from_the_shipped_model_is_taken_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "--timing", "early-vs-late"]) == 0
    told = capsys.readouterr()
    assert told.err == "no --from: the shipped model ip_alfworld_qwen3_8b, which is not your agent\n"
    assert told.out.startswith("late, from step 2, append: +5.2 pp; early gains 0.2 pp\n")
    assert run(["sweep", "--timing", "early-vs-late", "--from", "ip_alfworld_qwen3_8b"]) == 0
    named = capsys.readouterr()
    assert (named.out, named.err) == (told.out, "")
    assert run(["sweep", "--quiet"]) == 0
    assert capsys.readouterr() == (told.out, "")


def test_json_agrees_with_simulate_policy_by_policy(capsys: pytest.CaptureFixture[str]) -> None:
    document = sweep_json(capsys, "--from", "ip_alfworld_qwen3_8b", "--mechanism", "rollback")
    (late,) = [it for it in document.cells if (it.first_step, it.last_step) == (4, 14)]
    assert run(["simulate", "ip_alfworld_qwen3_8b", "--policy", "rollback_late", "--json"]) == 0
    (policy,) = json.loads(capsys.readouterr().out)["policies"]
    for name in ("gain", "success", "tokens", "usd", "interventions", "capped"):
        assert getattr(late, name) == pytest.approx(policy[name], abs=1e-12), name
    assert late.r == pytest.approx(policy["r"]["shared_prefix"], abs=1e-12)
    assert late.d == pytest.approx(policy["d"]["shared_prefix"], abs=1e-12)
    assert document.best.cell in document.cells
    assert document.best.cell == document.cells[document.best.index]
    assert (document.method, document.n_draws, document.n_runs, document.n_cells) == ("exact", 1, None, 29)
    assert document.coupling == "shared_prefix"
    assert document.axes["timing"] == "early-vs-late"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--timing", "early-vs-late"],
        ["--timing", "window", "--mechanism", "append"],
        ["--timing", "first-step", "--budget", "1:3"],
        ["--timing", "fixed-frequency"],
        ["--timing", "delay", "--threshold", "0.4,0.6"],
        ["--threshold", "0.3:0.95:0.05", "--budget", "1:5", "--cooldown", "0:3", "--mechanism", "rollback,append"],
    ],
)
def test_text_fits_80_columns_and_starts_with_the_answer(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    request = ["--from", "ip_alfworld_qwen3_8b", *arguments]
    assert run(["sweep", *request]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    answer = sweep_json(capsys, *request).answer
    assert " ".join(out.split("\n\n")[0].split()) == answer
    assert " pp" in answer


@pytest.mark.parametrize("request_", [["--from", "example"], ["--from", "signals", "--policy", "votes", "-n", "500"]])
def test_json_is_one_document_of_the_stated_schema(request_: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", *request_, "--json"]) == 0
    out = capsys.readouterr().out
    assert encode(msgspec.json.decode(out, type=SweepDocument)) + "\n" == out


def test_what_looks_back_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    request = ("--from", "signals", "--policy", "belief", "--threshold", "0.4,0.6", "-n", "2000")
    document = sweep_json(capsys, *request)
    assert (document.method, document.n_runs, document.best.corrected_by) == ("monte-carlo", 2000, "runs")
    for cell in document.cells:
        assert cell.mc_se is not None
        gain = msgspec.to_builtins(cell.gain)
        assert gain == {"value": gain["value"], "se": cell.mc_se["gain"], "n": 2000}
        assert cell.leverage_break_even is None
    assert document == sweep_json(capsys, *request)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "nc"])
def test_tables_hold_all_cells(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"sweep.{suffix}"
    request = ["--from", "example", "--timing", "window", "--budget", "1:2"]
    assert run(["sweep", *request, "-o", str(path), "--json"]) == 0
    document = msgspec.json.decode(capsys.readouterr().out, type=SweepDocument)
    columns = table_of(path)
    assert tuple(columns) == TABLE_COLUMNS
    assert list(columns["mechanism"]) == ["rollback"] * 240
    for name in ("first_step", "last_step", "budget", "threshold"):
        assert [float(it) for it in columns[name]] == [getattr(cell, name) for cell in document.cells]
    for name in ("gain", "success", "tokens", "usd", "r", "d"):
        assert [float(it) for it in columns[f"{name}_mean"]] == [getattr(cell, name) for cell in document.cells]
    found = [None if it is None or it != it else float(it) for it in columns["leverage_break_even"]]
    assert found == [cell.leverage_break_even for cell in document.cells]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def table_of(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".csv":
        with path.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        return {name: [row[name] or None for row in rows] for name in rows[0]}
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return dict(parquet.read_table(path).to_pydict())
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf") as data:
        return {str(name): list(data[name].values) for name in data.data_vars}


def test_result_goes_to_any_other_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sweep.json"
    assert run(["sweep", "--from", "example", "--json", "-o", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert msgspec.json.decode(path.read_bytes(), type=SweepDocument).model == "example"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--timing", "early-vs-late"],
        ["--timing", "window"],
        ["--timing", "first-step", "--threshold", "0.3:0.9:0.1"],
        ["--threshold", "0.3:0.9:0.1", "--budget", "1:3"],
        ["--budget", "1:4"],
        ["--threshold", "0.5"],
    ],
)
def test_pictures_are_the_same_every_time(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.svg", "b.svg", "c.png"):
        assert run(["sweep", "--from", "example", *arguments, "--plot", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert "pp" in capsys.readouterr().out


LONG = """
[model]
name = "long"
source = "made up"
horizon = 60
[agent]
finish = 0.05
[agent.modes.off]
slip = 0.05
abandon = 0.02
self_recover = 0.03
[critic]
auroc = 0.85
[mechanisms.m]
recover = { off = 0.3 }
disrupt = 0.1
"""


@contextmanager
def one_core() -> Iterator[None]:
    """Processes that are started here get one core, so that a machine of many cannot finish before it is killed."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def test_three_kills_change_no_byte(tmp_path: Path) -> None:
    model, store = tmp_path / "long.toml", tmp_path / "store"
    model.write_text(LONG)
    axes = ["--timing", "window", "--threshold", "0.2:0.9:0.1", "--budget", "10:12"]
    request = [sys.executable, "-m", "drsim", "sweep", "--from", str(model), *axes, "--json"]

    def command_with(name: str, *more: str) -> list[str]:
        return [*request, "-o", str(tmp_path / f"{name}.csv"), *more]

    whole = subprocess.run(command_with("whole"), capture_output=True, check=True).stdout
    n_blocks = -(-1830 * 8 * 3 // (2**17 // 60))
    resumed = command_with("resumed", "--store", str(store), "--resume")
    n_found = 0
    for _ in range(3):
        n_wanted = n_found + 2
        with one_core(), subprocess.Popen(resumed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            until = time.monotonic() + 120
            while len(list(store.glob("block-*"))) < n_wanted and process.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        n_found = len(list(store.glob("block-*")))
        assert n_wanted <= n_found < n_blocks
        assert not (tmp_path / "resumed.csv").exists()
    done = subprocess.run(resumed, capture_output=True, check=True)
    assert len(list(store.glob("block-*"))) == n_blocks
    assert done.stdout == whole
    assert (tmp_path / "resumed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    # once more: nothing is left to do, and the answer is the same
    assert subprocess.run(resumed, capture_output=True, check=True).stdout == whole


def test_a_store_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "s")]
    assert run(["sweep", "--from", "example", *store]) == 0
    assert run(["sweep", "--from", "example", *store]) == 2
    assert "holds a sweep already; add --resume" in capsys.readouterr().err
    assert run(["sweep", "--from", "example", *store, "--resume", "--seed", "2"]) == 2
    assert "belongs to another sweep: seed differ" in capsys.readouterr().err
    assert run(["sweep", "--from", "signals", *store, "--resume", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "data"
    assert "axes" in error["message"]
    assert "draws" in error["message"]


def test_damaged_blocks_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = ["sweep", "--from", "example", "--store", str(tmp_path), "--resume"]
    assert run(request) == 0
    whole = capsys.readouterr().out
    (tmp_path / "block-00000000").write_bytes(b"x")
    assert run(request) == 0
    told = capsys.readouterr()
    assert told.out == whole
    assert told.err == f"warning: 1 damaged block in {tmp_path}: computed again\n"


def test_an_interrupt_tells_where_the_finished_blocks_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("drsim.planning.sweep.vector_of_block", stop)
    assert run(["sweep", "--from", "example", "--store", str(tmp_path)]) == 1
    assert f"finished blocks are kept in {tmp_path}; the same command with --resume goes on" in capsys.readouterr().err
    assert run(["sweep", "--from", "example"]) == 1
    assert "kept" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--timing", "sometimes"], "--timing must be one of early-vs-late, first-step, window"),
        (["--threshold", "60"], "threshold must lie in [0, 1], got 60; give a probability and not per cent"),
        (["--budget", "1:2:0.5"], "--budget must be whole numbers, got 1.5"),
        (["--mechanism", "undo"], "--mechanism must be one of the model's, got 'undo'; there are rollback"),
        (["--from", "exampel"], "got 'exampel'; did you mean 'example'?"),
        (["--from", "none.toml"], "none.toml cannot be read"),
        (["--resume"], "--resume needs --store DIR"),
        (["--plot", "sweep.pdf"], "--plot sweep.pdf must end in .svg or .png."),
        (["-n", "1"], "Invalid value for '-n'"),
        (["-o", "no/folder/sweep.csv"], "--output no/folder/sweep.csv cannot be written: there is no folder no/folder"),
        (
            ["--plot", "no/folder/sweep.svg"],
            "--plot no/folder/sweep.svg cannot be written: there is no folder no/folder",
        ),
        (["--dask", "nowhere"], "--dask must be local or the address of a scheduler"),
    ],
)
def test_bad_requests_exit_2_in_both_forms(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    request = ["sweep", *(arguments if "--from" in arguments else ["--from", "example", *arguments])]
    assert run(request) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert run([*request, "--json"]) == 2
    assert message in json.loads(capsys.readouterr().out)["error"]["message"]


@pytest.mark.parametrize(
    ("package", "arguments", "message"),
    [
        ("pyarrow", ["-o", "{}/s.parquet"], "-o FILE.parquet needs the package pyarrow; install drsim[files]"),
        ("h5netcdf", ["-o", "{}/s.nc"], "-o FILE.nc needs the package h5netcdf; install drsim[bayes]"),
        ("matplotlib", ["--plot", "{}/s.svg"], "--plot needs the package matplotlib; install drsim[plot]"),
        ("distributed", ["--dask", "local"], "--dask needs the package distributed; install drsim[dask]"),
    ],
)
def test_a_missing_extra_is_named(
    package: str,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    # told before anything is worked out
    monkeypatch.setattr("drsim.planning.sweep.vector_of_block", None)
    assert run(["sweep", "--from", "example", *(it.format(tmp_path) for it in arguments)]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_exact_sweep_loads_nothing_that_it_does_not_need() -> None:
    script = (
        "import sys\nfrom drsim.cli.app import run\nassert run(['sweep']) == 0\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {name.split(".")[0] for name in done.stderr.split()}.isdisjoint(HEAVY)


def test_progress_tells_cells_and_time_left_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command._progress(quiet=False) is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert command._progress(quiet=True) is None
    show = command._progress(quiet=False)
    assert show is not None
    show(Progress(n_done=5000, n_cells=1_000_000, seconds=1.0, seconds_left=199.0))
    show(Progress(n_done=1_000_000, n_cells=1_000_000, seconds=200.0, seconds_left=0.0))
    err = capsys.readouterr().err
    assert "5,000 of 1,000,000 cells, 0:03:19 left" in err
    assert err.endswith("\n")


def test_a_large_sweep_lists_the_best_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = ("--from", "example", "--timing", "window", "--threshold", "0.02:0.98:0.01", "--cooldown", "0:1")
    document = sweep_json(capsys, *request)
    assert (document.n_cells, len(document.cells)) == (120 * 97 * 2, 10_000)
    gains = [it.gain for it in document.cells if isinstance(it.gain, float)]
    assert max(gains) == document.best.gain
    path = tmp_path / "all.csv"
    assert run(["sweep", *request, "--quiet", "-o", str(path)]) == 0
    everything = sorted((float(it) for it in table_of(path)["gain_mean"]), reverse=True)
    assert sorted(gains, reverse=True) == everything[:10_000]
    # in the order of the product, not of the gain
    order = [(it.first_step, it.last_step, it.threshold, it.cooldown) for it in document.cells]
    assert order == sorted(order)


def test_a_pilot_and_its_kept_posterior_are_swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the runs themselves, and from the file of a fit: draws, assumptions, a correction of the winner."""
    file = tmp_path / "fit.nc"
    assert run(["fit", "example:alfworld", "--model", "hierarchical", "-o", str(file)]) == 0
    capsys.readouterr()
    for origin in ("example:alfworld", str(file)):
        assert run(["sweep", "--from", origin, "--draws", "20", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["source"].endswith(Path(origin).name.replace("example:", "") if origin == str(file) else ".json")
        assert any("coupling" in it for it in found["assumptions"])
        gain = found["best"]["gain"]
        assert gain["q2.5"] < gain["mean"] < gain["q97.5"]


def test_a_sweep_starts_from_the_policy_that_the_pilot_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "--from", "example:alfworld", "--draws", "5", "--ran", "rollback_late", "--json"]) == 0
    late = json.loads(capsys.readouterr().out)
    assert run(["sweep", "--from", "example:alfworld", "--draws", "5", "--json"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert any("rollback_late" in it for it in late["assumptions"])
    assert not any("policy rollback_late" in it for it in own["assumptions"])
    assert late["best"]["gain"] != own["best"]["gain"]


def test_the_best_cell_of_a_pilot_is_valued_by_tasks_that_did_not_pick_it(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sweep", "--from", "example:toy", "--base", "example", "--draws", "20"]
    assert run([*arguments, "--quiet"]) == 0
    assert "valued by tasks that did not pick it" in " ".join(capsys.readouterr().out.split())
    assert run([*arguments, "--folds", "0", "--quiet"]) == 0
    assert "valued by draws" in " ".join(capsys.readouterr().out.split())
    assert run([*arguments, "--folds", "20"]) == 0
    assert "too few tasks for 20 folds" in " ".join(capsys.readouterr().err.split())


def three_arms(path: Path) -> Path:
    """A pilot with three arms of 40 tasks."""
    rng = np.random.default_rng(3)
    rows = [
        {"task_id": f"t{i}", "arm": arm, "outcome": "success" if rng.random() < rate else "fail"}
        for i in range(40)
        for arm, rate in (("baseline", 0.5), ("rollback", 0.6), ("append", 0.55), ("late", 0.5))
    ]
    path.write_text("".join(json.dumps(it) + "\n" for it in rows))
    return path


def test_the_best_arm_of_a_pilot_is_corrected_as_in_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(three_arms(tmp_path / "p.jsonl"))
    arguments = ["sweep", "--from", path, "--base", "example", "--arm", "rollback", "--draws", "5", "--quiet"]
    assert run([*arguments, "--corrected", "--json"]) == 0
    swept = json.loads(capsys.readouterr().out)
    assert run(["fit", path, "--model", "static", "--corrected", "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    assert swept["corrected"] == fitted["corrected"]
    assert len(swept["corrected"]) == 1
    assert run([*arguments, "--corrected"]) == 0
    assert "without the luck of having been picked" in " ".join(capsys.readouterr().out.split())
    assert run([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["corrected"] is None


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        (["--from", "example"], "--corrected takes --from a pilot file with several arms, got example; leave it out"),
        ([], "got no --from; leave it out"),
        (
            ["--from", "example:toy", "--base", "example"],
            "takes two or more paired arms on one benchmark, got none; leave it out",
        ),
    ],
)
def test_what_has_no_arms_to_correct(origin: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", *origin, "--corrected", "--draws", "20", "--quiet"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in " ".join(captured.err.split())
