import json
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.errors import ParameterError
from drsim.process.compile import compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.shipped import find_model, models_folder, shipped_models
from drsim.report.models import ModelsDocument

ROOT = Path(__file__).parents[2]


def document_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> ModelsDocument:
    assert run(["models", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return msgspec.json.decode(out, type=ModelsDocument, strict=True)


def test_list_names_every_shipped_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    names = [path.stem for path in sorted((ROOT / "models").glob("*.toml"))]
    assert "example" in names
    assert all(f"\n{name}: " in f"\n{out}" for name in names)
    assert [model.name for model in document_of([], capsys).models] == names


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_model_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", name]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    (shown,) = document_of([name], capsys).models
    model = find_model(name)
    assert shown.name == model.name == name
    assert shown.source == model.source


def test_the_example_is_shown_with_its_exact_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "example"]) == 0
    out = capsys.readouterr().out
    assert "rollback disrupts       0.600  0.072" in out
    assert "late    rollback     score>0.6  4-14        3      0    0.839     +2.7" in out
    (shown,) = document_of(["example"], capsys).models
    model = find_model("example")
    exact = evaluate(compile_model(model), compile_policy(model, "late"))
    assert (shown.baseline, shown.policies[0].success) == (exact.baseline, exact.success)
    assert shown.policies[0].gain == exact.gain
    assert shown.specification["mechanisms"]["rollback"]["disrupt"] == {"from": 0.6, "to": 0.05, "half_life": 3}


def test_a_file_is_checked_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    text = (ROOT / "models" / "example.toml").read_text(encoding="utf-8")
    path.write_text(
        text.replace('name = "example"', 'name = "mine"').replace("threshold = 0.6", f"threshold = {[0.6] * 15}")
    )
    assert run(["models", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("mine: 15 steps, ")
    assert "score>τ(t)" in out
    path.write_text(text.replace("finish = 0.18", "finish = 18"))
    assert run(["models", str(path), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "data"
    assert [(it["field"], it["value"]) for it in error["details"]] == [("agent.finish", "18")]


def test_a_model_without_policies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bare.toml"
    path.write_text(
        'model = { name = "bare", source = "none", horizon = 1 }\ncritic = { auroc = 0.8 }\n'
        "[agent]\nfinish = 0.5\nmodes.off = { slip = 0, abandon = 0, self_recover = 0 }\n"
    )
    assert run(["models", str(path)]) == 0
    assert capsys.readouterr().out.startswith("bare: 1 step, off-track off, no mechanism, 0 policies; baseline success")


def test_another_name_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "exampel"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "model must be a shipped one or the path of a .toml file, got 'exampel'; did you mean 'example'?" in err


def test_output_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "models.json"
    assert run(["models", "--json", "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(target.read_text())["schema"] == "drsim.models/1"


def test_models_are_found_in_a_wheel_before_a_checkout(tmp_path: Path) -> None:
    package = tmp_path / "drsim"
    package.mkdir()
    with pytest.raises(ParameterError, match="no models are shipped with"):
        models_folder(package)
    (tmp_path / "models").mkdir()
    assert models_folder(package) == tmp_path / "models"
    (package / "models_data").mkdir()
    assert models_folder(package) == package / "models_data"
    assert models_folder() == ROOT / "models"
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert build["force-include"] == {"models": "drsim/models_data"}


def test_showing_models_needs_no_compiler() -> None:
    script = "import sys\nfrom drsim.cli.app import run\nassert run(['models', 'example']) == 0\n"
    script += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()).isdisjoint({"numba", "jax", "pymc", "arviz", "matplotlib", "scipy.stats"})
