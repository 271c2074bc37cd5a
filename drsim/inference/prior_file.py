"""Priors from a TOML file: a table for each model, its names those of the priors' fields."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from drsim.errors import DataError, ParameterError
from drsim.inference.hierarchical.priors import Priors
from drsim.inference.timing import TimingPriors
from drsim.pilot.mistakes import unknown_field

__all__ = ["PriorFile", "read_priors"]

LARGEST_FILE = 2**16

type PriorFile = tuple[Priors, TimingPriors]


def read_priors(path: Path) -> PriorFile:
    """Read priors.

    Parameters
    ----------
    path : Path
        TOML with the tables `hierarchical` and `timing`, both optional, as are their fields.

    Returns
    -------
    tuple of Priors and TimingPriors
        Defaults where the file says nothing.

    Raises
    ------
    DataError
        The file cannot be read, is no TOML, or names what is no prior; or a prior is outside its domain.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise DataError(f"{path} is larger than 64 KiB; a file of priors is short")
        document = tomllib.loads(raw.decode())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} must be TOML; {error}") from None
    tables = {"hierarchical": Priors, "timing": TimingPriors}
    for name in document:
        if name not in tables:
            rule = unknown_field(name, list(tables), "the tables are hierarchical, timing")
            raise DataError(f"{path}: {name} is an {rule}")
    try:
        return (
            Priors(**_numbers(document, "hierarchical", [field.name for field in fields(Priors)])),
            TimingPriors(**_numbers(document, "timing", [field.name for field in fields(TimingPriors)])),
        )
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from None


def _numbers(document: Mapping[str, object], table: str, known: list[str]) -> dict[str, float]:
    values = document.get(table, {})
    if not isinstance(values, dict):
        raise ParameterError(f"{table} must be a table of priors, got {values!r}")
    for name, value in values.items():
        if name not in known:
            rule = unknown_field(name, known, f"the priors are {', '.join(known)}")
            raise ParameterError(f"{table}.{name} is an {rule}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ParameterError(f"{table}.{name} must be a number, got {value!r}")
    return {name: float(value) for name, value in values.items()}
