"""All cells of a sweep as a table: CSV, Parquet or netCDF, written block by block."""

import csv
import io
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import DrsimError, ParameterError
from drsim.planning.axes import Cells
from drsim.planning.sweep import Sweep
from drsim.planning.sweep_cells import COLUMNS, SPREAD

__all__ = ["TABLE_COLUMNS", "check_table", "write_table"]

SETTINGS = ("mechanism", "threshold", "first_step", "last_step", "every", "budget", "cooldown")
USD = tuple(f"usd_{part}" for part in SPREAD)
PACKAGES = {
    ".parquet": (("pyarrow", "files"), ("pyarrow.parquet", "files")),
    ".nc": (("h5netcdf", "bayes"), ("h5py", "bayes")),
}
"""Modules that write a kind of table, and the extras that bring them."""
TABLE_COLUMNS = (*SETTINGS, *COLUMNS, *USD)
"""Of every table, in order. What is undefined is empty in CSV, null in Parquet and NaN in netCDF."""


def check_table(suffix: str) -> None:
    """See that a kind of table can be written here.

    Raises
    ------
    DrsimError
        The package that writes it is not installed.
    """
    for module, extra in PACKAGES.get(suffix, ()):
        _need(module, extra, suffix)


def write_table(sweep: Sweep, stream: IO[bytes], suffix: str) -> None:
    """Write every cell, in memory that does not grow with their number.

    Parameters
    ----------
    sweep : Sweep
        Finished.
    stream : binary file
        Open for writing.
    suffix : str
        `.csv`, `.parquet` or `.nc`.

    Raises
    ------
    ParameterError
        Another suffix.
    DrsimError
        The package that writes it is not installed.
    """
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".nc": _write_netcdf}
    if suffix not in writers:
        raise ParameterError(f"a table must end in {', '.join(writers)}, got {suffix!r}; choose one of them")
    writers[suffix](sweep, stream)


def _parts(sweep: Sweep) -> Iterator[tuple[list[str], dict[str, FloatArray], dict[str, np.ndarray]]]:
    """Mechanisms, floats and whole numbers of each block, by column."""
    price = sweep.inputs.draws.usd_per_token
    for cells, rows in sweep.blocks():
        floats = {"threshold": cells.threshold} | {name: rows[:, i] for i, name in enumerate(COLUMNS)}
        floats |= {f"usd_{part}": price * rows[:, COLUMNS.index(f"tokens_{part}")] for part in SPREAD}
        yield _names(sweep, cells), floats, {name: getattr(cells, name) for name in SETTINGS[2:]}


def _names(sweep: Sweep, cells: Cells) -> list[str]:
    return [sweep.inputs.axes.mechanisms[int(m)] for m in cells.mechanism]


def _write_csv(sweep: Sweep, stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TABLE_COLUMNS)
    for names, floats, wholes in _parts(sweep):
        columns = [names if name == "mechanism" else _texts(floats, wholes, name) for name in TABLE_COLUMNS]
        writer.writerows(zip(*columns, strict=True))
    text.detach()


def _texts(floats: dict[str, FloatArray], wholes: dict[str, np.ndarray], name: str) -> list[Any]:
    """Whole numbers as they are, and floats in the shortest digits that give them back."""
    if name in wholes:
        return list(wholes[name].tolist())
    return ["" if value != value else value for value in floats[name].tolist()]  # NaN alone


def _write_parquet(sweep: Sweep, stream: IO[bytes]) -> None:
    arrow, parquet = (_need(*it, ".parquet") for it in PACKAGES[".parquet"])
    kinds = {"mechanism": arrow.string()} | dict.fromkeys(SETTINGS[2:], arrow.int64())
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in TABLE_COLUMNS])
    with parquet.ParquetWriter(stream, schema) as writer:
        for names, floats, wholes in _parts(sweep):
            columns = {"mechanism": names, **floats, **wholes}
            arrays = [arrow.array(columns[it.name], type=it.type, from_pandas=True) for it in schema]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _write_netcdf(sweep: Sweep, stream: IO[bytes]) -> None:
    h5netcdf, h5py = (_need(*it, ".nc") for it in PACKAGES[".nc"])
    with tempfile.TemporaryDirectory(prefix="drsim-sweep-") as folder:
        path = Path(folder) / "sweep.nc"
        with h5netcdf.File(path, "w") as file:
            file.dimensions = {"cell": sweep.n_cells}
            file.attrs.update(schema="drsim.sweep/1", source=sweep.inputs.source, coupling="shared_prefix")
            kinds = {"mechanism": h5py.string_dtype()} | dict.fromkeys(SETTINGS[2:], np.dtype("i8"))
            for name in TABLE_COLUMNS:
                file.create_variable(name, ("cell",), dtype=kinds.get(name, np.dtype("f8")))
            start = 0
            for names, floats, wholes in _parts(sweep):
                stop = start + len(names)
                for name, column in {"mechanism": np.array(names, dtype=object), **floats, **wholes}.items():
                    file[name][start:stop] = column
                start = stop
        with path.open("rb") as written:
            shutil.copyfileobj(written, stream)


def _need(module: str, extra: str, suffix: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise DrsimError(f"-o FILE{suffix} needs the package {package}; install drsim[{extra}]") from None
