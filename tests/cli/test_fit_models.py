"""`drsim fit --model`: what the other models say, and when they refuse."""

from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.inference.posterior_file import load_posterior
from drsim.report.documents import FitDocument


def fit_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> FitDocument:
    assert run(["fit", *arguments, "--json"]) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=FitDocument)


@pytest.fixture(scope="module")
def several_cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two benchmarks of 40 tasks, of one arm."""
    folder = tmp_path_factory.mktemp("pilots")
    for name in ("example", "signals"):
        policy = {"example": "late", "signals": "score"}[name]
        request = ["simulate", name, "--policy", policy, "-n", "40", "--engine", "reference", "--quiet"]
        request += ["--seed", str(len(name))]
        assert run([*request, "-o", str(folder / f"{name}.jsonl")]) == 0
    return folder


def test_hierarchical_stands_beside_the_static_fit(several_cells: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(path) for path in sorted(several_cells.glob("*.jsonl"))]
    document = fit_json(capsys, *files, "--model", "hierarchical")
    assert document.model == "hierarchical"
    found = document.hierarchical
    assert found is not None
    assert found.is_reliable
    assert found.route == "laplace"
    prior = found.prior_predictive["gain"]
    assert prior.q2_5 is not None
    assert prior.q97_5 is not None
    assert prior.q2_5 < -0.15
    assert prior.q97_5 > 0.15
    assert len(found.cells) == len(document.cells) == 2
    for cell in found.cells:
        p, r, d, gain = (cell.quantities[name].mean for name in ("p", "r", "d", "gain"))
        assert p is not None
        assert r is not None
        assert d is not None
        assert gain is not None
        assert 0 < p < 1
        # Δ = p r − (1 − p) d holds draw by draw, and nearly in the means
        assert gain == pytest.approx(p * r - (1 - p) * d, abs=0.02)
        assert cell.static_gain is not None
    spread = [cell.quantities["gain"].mean or 0.0 for cell in found.cells]
    alone = [cell.static_gain.mean or 0.0 for cell in found.cells if cell.static_gain is not None]
    assert max(spread) - min(spread) < max(alone) - min(alone), "pooling draws the cells together"


def test_auto_says_what_it_takes_and_why(several_cells: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(path) for path in sorted(several_cells.glob("*.jsonl"))]
    assert run(["fit", *files, "--model", "auto"]) == 0
    assert capsys.readouterr().out.startswith("model: hierarchical, since 2 cells say more together\n")
    assert fit_json(capsys, files[0], "--model", "auto").model == "static"


def test_prior_scales_can_be_set_and_swept(
    several_cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(several_cells / "example.jsonl")
    priors = tmp_path / "priors.toml"
    priors.write_text("[hierarchical]\ngain_sd = 0.01\ngain_mean = 0.0\n", encoding="utf-8")
    narrow = fit_json(capsys, file, "--model", "hierarchical", "--priors", str(priors)).hierarchical
    wide = fit_json(capsys, file, "--model", "hierarchical", "--prior-sensitivity").hierarchical
    assert narrow is not None
    assert wide is not None
    assert narrow.priors["gain_sd"] == 0.01
    assert abs(narrow.cells[0].quantities["gain"].mean or 0.0) < abs(wide.cells[0].quantities["gain"].mean or 0.0)
    assert wide.cells[0].sensitivity is not None
    assert set(wide.cells[0].sensitivity) == {"0.5", "2"}
    assert wide.cells[0].sensitivity["0.5"] != 0.0


def test_timing_shows_curves_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    document = fit_json(capsys, "example:toy", "--model", "timing")
    found = document.timing
    assert found is not None
    (cell,) = found.cells
    assert sum(cell.r.pairs) + sum(cell.d.pairs) + cell.n_never == cell.n_pairs
    assert len(cell.r.mean) == len(cell.d.band_high) == len(cell.is_observed)
    assert found.priors["step"] == 0.3


@pytest.mark.parametrize(("model", "variable"), [("hierarchical", "gain"), ("timing", "recovery")])
def test_draws_go_to_a_file(model: str, variable: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fit.nc"
    assert run(["fit", "example:toy", "--model", model, "-o", str(path)]) == 0
    assert "toy-agent on toy, rollback" in capsys.readouterr().out
    stored = load_posterior(path)
    assert stored.model == model
    assert stored.is_reliable
    assert stored.coords["cell"] == ("toy-agent on toy, rollback",)
    assert stored.variables[variable].dims[0] == "cell"
    again = tmp_path / "again.nc"
    assert run(["fit", "example:toy", "--model", model, "-o", str(again)]) == 0
    assert load_posterior(again).data_hash == stored.data_hash
    assert run(["fit", "example:toy", "-o", str(tmp_path / "static.nc")]) == 2
    assert "takes draws of --model hierarchical or timing, got static" in capsys.readouterr().err
    assert not (tmp_path / "static.nc").exists()


@pytest.mark.parametrize("model", ["hierarchical", "timing"])
def test_text_fits_80_columns(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "example:toy", "--model", model]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ("[hierarchicle]\n", "hierarchicle is an unknown field; did you mean 'hierarchical'"),
        ("[timing]\nstepp = 1\n", "timing.stepp is an unknown field; did you mean 'step'"),
        ("[timing]\nstep = 0\n", "step must lie in (0, ∞), got 0"),
        ("[timing]\nstep = true\n", "timing.step must be a number, got True"),
        ("timing = 3\n", "timing must be a table of priors, got 3"),
        ("[timing\n", "must be TOML"),
    ],
)
def test_bad_priors_are_named(priors: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "priors.toml"
    path.write_text(priors, encoding="utf-8")
    assert run(["fit", "example:toy", "--model", "timing", "--priors", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_baseline_runs_alone_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "alone.jsonl"
    path.write_text('{"task_id": "a", "arm": "baseline", "outcome": "fail"}\n', encoding="utf-8")
    assert run(["fit", str(path), "--model", "hierarchical"]) == 2
    assert "a hierarchical fit compares arms, got baseline runs only" in capsys.readouterr().err


def test_timing_needs_runs_with_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "example:alfworld", "--model", "timing"]) == 2
    assert "timing needs runs with the steps of their interventions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "option"),
    [
        ("static", ("--priors", "x.toml")),
        ("static", ("--sampler", "nuts")),
        ("static", ("--prior-sensitivity",)),
        ("timing", ("--sampler", "laplace")),
        ("timing", ("--prior-sensitivity",)),
    ],
)
def test_options_that_the_model_does_not_read_are_refused(
    model: str, option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fit", "example:toy", "--model", model, *option]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{option[0]} is read by --model hierarchical" in said
    assert f"the model is {model}" in said
