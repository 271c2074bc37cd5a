"""Posterior draws on disk: an ArviZ-style tree in netCDF, which says what it is and is read without PyMC or ArviZ.

The group `posterior` holds every variable with the axes chain (of length 1), draw, and its own. The attributes of the
root carry what is needed to know where the draws come from: model, data, priors, seed, version, diagnostics.

The file ends in a mark and the SHA-256 of all before it, which readers of netCDF pass over. It is checked before
anything else looks at the bytes: the readers of HDF5 can hang on a damaged file, and take changed draws for draws.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import DataError, DrsimError, ParameterError
from drsim.files import replacing

__all__ = ["StoredPosterior", "StoredVariable", "data_hash", "load_posterior", "save_posterior"]

SCHEMA = "drsim.posterior/1"
GROUP = "posterior"
JSON_FIELDS = ("priors", "diagnostics", "assumptions")
RESERVED = ("chain", "draw")
MODELS = ("static", "hierarchical", "timing")
MARK = b"drsim/sha256\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVariable:
    """Draws of one quantity."""

    values: FloatArray
    """(n_draws, …)."""
    dims: tuple[str, ...] = ()
    """Names of the axes after the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPosterior:
    """Draws of a model, and where they come from."""

    model: str
    """`static`, `hierarchical` or `timing`."""
    variables: Mapping[str, StoredVariable]
    """By name; all with the same number of draws."""
    coords: Mapping[str, tuple[str, ...]]
    """Labels along each named axis."""
    data_hash: str
    """Of what was fitted; see `data_hash`."""
    priors: Mapping[str, float]
    seed: int
    version: str
    """Of drsim."""
    diagnostics: Mapping[str, float | None]
    is_reliable: bool
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ParameterError(f"model must be one of {', '.join(MODELS)}, got {self.model!r}; name what was fitted")
        for name in (*self.variables, *self.coords):
            if not name or "/" in name:
                raise ParameterError(f"names of variables and axes must be text without a slash, got {name!r}")
        n_draws = {len(variable.values) for variable in self.variables.values()}
        if len(n_draws) != 1:
            raise ParameterError(
                f"variables must have one number of draws, got {sorted(n_draws)}; give one fit's draws"
            )
        for name, variable in self.variables.items():
            expected = tuple(len(self.coords.get(dim, ())) for dim in variable.dims)
            if variable.values.shape[1:] != expected or set(variable.dims) & set(RESERVED):
                raise ParameterError(
                    f"{name} must have the axes {variable.dims} of lengths {expected}, got shape "
                    f"{variable.values.shape[1:]}; give coords for every axis"
                )


def data_hash(rows: Iterable[bytes]) -> str:
    """SHA-256 of rows in whatever order, in hexadecimal."""
    digest = hashlib.sha256()
    for row in sorted(rows):
        digest.update(len(row).to_bytes(8, "big") + row)
    return digest.hexdigest()


def save_posterior(posterior: StoredPosterior, path: Path) -> None:
    """Write draws, whole or not at all.

    Parameters
    ----------
    posterior : StoredPosterior
        What to write.
    path : Path
        Written to a temporary name beside it and renamed.

    Raises
    ------
    DataError
        The file cannot be written.
    DrsimError
        xarray or h5netcdf is not installed.
    """
    xr = _xarray()
    arrays = {
        name: (("chain", "draw", *variable.dims), variable.values[None])
        for name, variable in posterior.variables.items()
    }
    used = {dim for variable in posterior.variables.values() for dim in variable.dims}
    n_draws = len(next(iter(posterior.variables.values())).values)
    coords = {"chain": [0], "draw": np.arange(n_draws)} | {dim: list(posterior.coords[dim]) for dim in sorted(used)}
    attributes: dict[str, Any] = {
        "schema": SCHEMA,
        "model": posterior.model,
        "data_hash": posterior.data_hash,
        "seed": str(posterior.seed),
        "version": posterior.version,
        "is_reliable": int(posterior.is_reliable),
        "priors": json.dumps(dict(posterior.priors)),
        "diagnostics": json.dumps(dict(posterior.diagnostics)),
        "assumptions": json.dumps(list(posterior.assumptions)),
    }
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attributes), f"/{GROUP}": xr.Dataset(arrays, coords=coords)})
    try:
        with replacing(path) as temporary:
            tree.to_netcdf(temporary, engine="h5netcdf", mode="w")
            with temporary.open("r+b") as stream:
                digest = hashlib.sha256(stream.read()).digest()
                stream.write(MARK + digest)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None


def load_posterior(path: Path) -> StoredPosterior:
    """Read draws.

    Parameters
    ----------
    path : Path
        Written by `save_posterior`.

    Returns
    -------
    StoredPosterior
        Equal to what was written, to the bit.

    Raises
    ------
    DataError
        The file cannot be read, or is not one of drsim's posteriors.
    DrsimError
        xarray or h5netcdf is not installed.
    """
    xr = _xarray()
    _check_whole(path)
    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            attributes = dict(tree.attrs)
            if attributes.get("schema") != SCHEMA:
                raise DataError(f"{path} must be a posterior of drsim ({SCHEMA}), got {attributes.get('schema')!r}")
            dataset = tree[GROUP].to_dataset().load()
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, IndexError, EOFError) as error:
        # whatever a damaged file makes of the readers
        raise DataError(f"{path} must be a netCDF file that drsim fit -o FILE.nc wrote; {error}") from None
    return _stored(path, attributes, dataset)


def _check_whole(path: Path) -> None:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    length = hashlib.sha256().digest_size
    body, mark, digest = content[: -length - len(MARK)], content[-length - len(MARK) : -length], content[-length:]
    if mark != MARK:
        raise DataError(
            f"{path} must be a posterior of drsim ({SCHEMA}) that drsim fit -o FILE.nc wrote; it is not, or cut"
        )
    if hashlib.sha256(body).digest() != digest:
        raise DataError(f"{path} was changed or damaged since it was written; fit again")


def _stored(path: Path, attributes: dict[str, Any], dataset: Any) -> StoredPosterior:
    try:
        priors, diagnostics, assumptions = (json.loads(str(attributes[name])) for name in JSON_FIELDS)
        variables = {
            str(name): StoredVariable(
                values=np.asarray(array.values[0], dtype=np.float64), dims=tuple(str(it) for it in array.dims[2:])
            )
            for name, array in dataset.data_vars.items()
        }
        return StoredPosterior(
            model=str(attributes["model"]),
            variables=variables,
            coords={
                str(name): tuple(str(it) for it in values.values)
                for name, values in dataset.coords.items()
                if name not in RESERVED
            },
            data_hash=str(attributes["data_hash"]),
            priors=priors,
            seed=int(attributes["seed"]),
            version=str(attributes["version"]),
            diagnostics=diagnostics,
            is_reliable=bool(attributes["is_reliable"]),
            assumptions=tuple(assumptions),
        )
    except (KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
        raise DataError(f"{path} must hold all that a posterior of drsim holds; {error!r}") from None


def _xarray() -> Any:
    try:
        import h5netcdf  # type: ignore[import-untyped] # noqa: F401 # xarray looks for it by name, late
        import xarray
    except ModuleNotFoundError as missing:
        raise DrsimError(
            f'netCDF files need xarray and h5netcdf, got {missing}; pip install "drsim[bayes]"'
        ) from missing
    return xarray
