"""Posterior files: what is written comes back, and nothing else is taken for one."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.errors import DataError, ParameterError
from drsim.inference.posterior_file import (
    StoredPosterior,
    StoredVariable,
    data_hash,
    load_posterior,
    save_posterior,
)


def posterior() -> StoredPosterior:
    rng = np.random.default_rng(1)
    gain = rng.normal(size=(50, 2))
    gain[0, 1] = np.nan
    return StoredPosterior(
        model="hierarchical",
        variables={
            "gain": StoredVariable(values=gain, dims=("cell",)),
            "sd baseline agent": StoredVariable(values=rng.random(50)),
        },
        coords={"cell": ("ä on b, m", "a on c, m")},
        data_hash=data_hash([b"x", b"y"]),
        priors={"gain_sd": 1.0},
        seed=2**63,
        version="0.1",
        diagnostics={"ess": 1e3, "rhat": None},
        is_reliable=True,
        assumptions=("tasks are exchangeable",),
    )


def is_equal(a: StoredPosterior, b: StoredPosterior) -> bool:
    names = ("model", "coords", "data_hash", "priors", "seed", "version", "diagnostics", "is_reliable", "assumptions")
    return all(getattr(a, name) == getattr(b, name) for name in names) and all(
        np.array_equal(a.variables[name].values, b.variables[name].values, equal_nan=True)
        and a.variables[name].dims == b.variables[name].dims
        for name in a.variables.keys() | b.variables.keys()
    )


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    save_posterior(posterior(), path)
    assert is_equal(load_posterior(path), posterior())
    save_posterior(replace(posterior(), model="static"), path)
    assert load_posterior(path).model == "static"
    assert [it.name for it in tmp_path.iterdir()] == ["fit.nc"]


def test_arviz_reads_it(tmp_path: Path) -> None:
    arviz = pytest.importorskip("arviz")
    path = tmp_path / "fit.nc"
    save_posterior(posterior(), path)
    tree = arviz.from_netcdf(path)
    assert tree.posterior["gain"].dims == ("chain", "draw", "cell")


def test_it_is_read_without_pymc_or_arviz(tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    save_posterior(posterior(), path)
    code = (
        "import sys; from pathlib import Path; from drsim.inference.posterior_file import load_posterior;"
        "load_posterior(Path(sys.argv[1])); print(sorted({'pymc', 'arviz', 'nutpie', 'jax'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@settings(deadline=None, max_examples=30)
@given(st.binary(max_size=200), st.integers(0, 4_000))
def test_any_bytes_end_in_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, noise: bytes, length: int) -> None:
    whole, cut = tmp_path_factory.getbasetemp() / "whole.nc", tmp_path_factory.getbasetemp() / "cut.nc"
    if not whole.exists():
        save_posterior(posterior(), whole)
    cut.write_bytes(whole.read_bytes()[:length] + noise)
    with pytest.raises(DataError):
        load_posterior(cut)


def test_other_files_are_refused(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    path = tmp_path / "other.nc"
    xarray.Dataset({"x": ("t", [1.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(DataError, match=r"must be a posterior of drsim \(drsim.posterior/1\) that drsim fit"):
        load_posterior(path)
    with pytest.raises(DataError, match="No such file"):
        load_posterior(tmp_path / "none.nc")
    with pytest.raises(DataError, match="cannot be written"):
        save_posterior(posterior(), tmp_path / "no" / "fit.nc")


@pytest.mark.parametrize("at", [100, 3_000, -60])
def test_one_changed_byte_is_noticed(at: int, tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    save_posterior(posterior(), path)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="changed or damaged since it was written"):
        load_posterior(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xarray = pytest.importorskip("xarray")
    path = tmp_path / "fit.nc"
    save_posterior(posterior(), path)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(xarray.DataTree, "to_netcdf", full)
    with pytest.raises(DataError, match="no space left"):
        save_posterior(replace(posterior(), model="static"), path)
    assert load_posterior(path).model == "hierarchical"
    assert [it.name for it in tmp_path.iterdir()] == ["fit.nc"]


def test_shapes_and_names_are_checked() -> None:
    with pytest.raises(ParameterError, match="model must be one of static, hierarchical, timing, got 'zzz'"):
        replace(posterior(), model="zzz")
    with pytest.raises(ParameterError, match="names of variables and axes must be text without a slash, got 'a/b'"):
        replace(posterior(), variables={"a/b": StoredVariable(values=np.zeros(3))})
    with pytest.raises(ParameterError, match="gain must have the axes"):
        replace(posterior(), coords={"cell": ("one",)})
    short = {"x": StoredVariable(values=np.zeros(3)), "y": StoredVariable(values=np.zeros(4))}
    with pytest.raises(ParameterError, match="variables must have one number of draws"):
        replace(posterior(), variables=short)


def test_the_hash_does_not_know_the_order() -> None:
    assert data_hash([b"a", b"bc"]) == data_hash([b"bc", b"a"])
    assert data_hash([b"a", b"bc"]) != data_hash([b"ab", b"c"])
