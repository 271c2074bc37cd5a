"""Tables: CSV and Parquet as rows of plain values, each with its place.

A table names the flat fields of a record in its header. `cost.tokens`, `forked_from.t` and the like name a field within
a field, `labels.anything` a label. An empty cell and a null are a missing field.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct, inspect

from drsim.errors import DataError, Mistake
from drsim.pilot.mistakes import Unreadable, show, unknown_field
from drsim.pilot.records import Run, record_type
from drsim.pilot.sources import Source

__all__ = ["PARQUET_MAGIC", "Row", "Table", "open_csv", "open_parquet"]

PARQUET_MAGIC = b"PAR1"

BATCH = 8192
"""Parquet rows turned into Python values at once."""

type Row = tuple[int, dict[str, object]]
"""Line or row from 1, and the fields."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one file, read while they are asked for."""

    record: type[Struct]
    """What each row should be, told by the header."""
    rows: Iterator[Row | Mistake]


def open_csv(source: Source, *, max_line: int) -> Table:
    """Read a CSV file with a header.

    Parameters
    ----------
    source : Source
        UTF-8 text.
    max_line : int
        Most bytes in one line.

    Returns
    -------
    Table
        Cells as the values that their column asks for; a cell that cannot be one stays text.

    Raises
    ------
    DataError
        The text is not UTF-8 or holds no header that names a known field.
    """
    reader = csv.reader(_text_lines(source, max_line), strict=True)
    try:
        header = next((cells for cells in reader if cells), None)
    except csv.Error as error:
        raise DataError(
            f"{source.name}:{reader.line_num}: the header is not CSV: {str(error).partition(' - ')[0]}"
        ) from None
    if header is None:
        raise DataError(f"{source.name} holds no runs")
    record = record_type(header)
    columns = _columns(record)
    known = {name: column for name in header if (column := _column(name, columns))}
    if not known:
        raise DataError(
            f"{source.name} is neither JSON nor Parquet, and as CSV its header names no known field, "
            f"got {show(','.join(header))}; name the columns in the first line, with commas: task_id,arm,outcome"
        )
    place = partial(Mistake, source=source.name, line=reader.line_num, value="")
    rows = _csv_rows(reader, source.name, header, known)
    return _checked_header(header, columns, record, place, rows)


def _text_lines(source: Source, max_line: int) -> Iterator[str]:
    n_lines = 0
    for block in source.line_blocks(max_line=max_line):
        try:
            text = block.decode("utf-8" if n_lines else "utf-8-sig")
        except UnicodeDecodeError as error:
            line = n_lines + block.count(b"\n", 0, error.start) + 1
            byte = f"byte 0x{block[error.start]:02x}"
            raise DataError(f"{source.name}:{line}: must be UTF-8 text, got {byte}; save the file as UTF-8") from None
        n_lines += block.count(b"\n")
        # Unlike str.splitlines, this takes U+2028 and the like for text.
        yield from io.StringIO(text, newline="\n")


def _columns(record: type[Struct]) -> dict[str, inspect.Type]:
    """Fields that a cell can hold, by column name; `labels.` stands for any label."""
    columns: dict[str, inspect.Type] = {}
    for field in msgspec.structs.fields(record):
        name, kind = field.encode_name, _present(inspect.type_info(field.type))
        if isinstance(kind, inspect.StructType):
            columns |= {f"{name}.{inner.encode_name}": _present(inner.type) for inner in kind.fields}
        elif isinstance(kind, inspect.DictType):
            columns[f"{name}."] = kind.value_type
        elif not isinstance(kind, inspect.VarTupleType):
            columns[name] = kind
    return columns


def _present(kind: inspect.Type) -> inspect.Type:
    """Type of a field where it is given."""
    if isinstance(kind, inspect.UnionType):
        members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        return members[0] if len(members) == 1 else kind
    return kind


def _column(name: str, columns: Mapping[str, inspect.Type]) -> inspect.Type | None:
    if name.startswith("labels.") and name != "labels.":
        return columns.get("labels.")
    return columns.get(name) if not name.endswith(".") else None


def _checked_header(
    header: Sequence[str],
    columns: Mapping[str, inspect.Type],
    record: type[Struct],
    mistake: Callable[..., Mistake],
    rows: Iterator[Row | Mistake],
) -> Table:
    """Rows after the mistakes of their header; none at all under a header that does not say what they hold."""
    unknown = [
        mistake(field=name if name.isprintable() else show(name), rule=_unknown_column(name, columns))
        for name in dict.fromkeys(header)
        if name and not _column(name, columns)
    ]
    unusable = list(_header_mistakes(header, record, mistake))
    return Table(record, chain(unusable, unknown, () if unusable else rows))


def _header_mistakes(header: Sequence[str], record: type[Struct], mistake: Callable[..., Mistake]) -> Iterator[Mistake]:
    for i, name in enumerate(header):
        if not name:
            yield mistake(field="", rule=f"column {i + 1} has no name; name it or leave it out")
    for name in [name for name, n in Counter(header).items() if name and n > 1]:
        yield mistake(field=name if name.isprintable() else show(name), rule="two columns have this name; keep one")
    for field in msgspec.structs.fields(record):
        if field.required and field.encode_name not in header:
            yield mistake(field=field.encode_name, rule="this column is required, but missing")
    if record is Run and not {"outcome", "success"} & set(header):
        yield mistake(field="outcome", rule="this column is missing, and so is `success`; give one of them")


def _unknown_column(name: str, columns: Mapping[str, inspect.Type]) -> str:
    if name in {"steps", "interventions", "cost", "forked_from", "labels"}:
        return "unknown field; a cell cannot hold it, so write JSON Lines, or flat columns such as cost.tokens"
    known = [column for column in columns if column != "labels."]
    return unknown_field(
        name, known, "name anything else `labels.NAME`" if "labels." in columns else f"known are {', '.join(known)}"
    )


def _csv_rows(
    reader: Any, source: str, header: list[str], known: Mapping[str, inspect.Type]
) -> Iterator[Row | Mistake]:
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            reason = str(error).partition(" - ")[0]
            rule = f"is not CSV: {reason}; within a quoted cell, write a quote twice"
            yield Mistake(source=source, line=line, field="", value="", rule=rule)
            continue
        if cells is None:
            return
        if cells and len(cells) != len(header):
            rule = f"must have {len(header)} cells, as the header has"
            yield Mistake(source=source, line=line, field="", value=str(len(cells)), rule=rule)
        elif cells:
            given = ((name, cell) for name, cell in zip(header, cells, strict=True) if cell and name in known)
            yield line, _nested({name: _cell_value(cell, known[name]) for name, cell in given})


def _nested(flat: dict[str, object]) -> dict[str, object]:
    row: dict[str, object] = {}
    for name, value in flat.items():
        outer, dot, inner = name.partition(".")
        holder = row.setdefault(outer, {}) if dot else row
        if isinstance(holder, dict):
            holder[inner if dot else name] = value
    return row


def _cell_value(cell: str, kind: inspect.Type) -> object:
    """Give the value that a cell means; text that means none, such as `nan`, stays text and fails the check."""
    match kind:
        case inspect.StrType() | inspect.EnumType():
            return cell
        case inspect.BoolType():
            return {"true": True, "1": True, "false": False, "0": False}.get(cell.strip().lower(), cell)
        case inspect.IntType():
            return _integer(cell.strip(), cell)
        case inspect.FloatType():
            return _number(cell.strip(), cell)
    return _label_value(cell)


def _integer(text: str, otherwise: object) -> object:
    # int() would also take "1_000" and digits of other scripts; 4300 is the most that it reads.
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,4300}", text) else otherwise


def _number(text: str, otherwise: object) -> object:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return otherwise
    number = float(text)
    return number if math.isfinite(number) else otherwise


def _label_value(cell: str) -> object:
    if cell.lower() in {"true", "false"}:
        return cell.lower() == "true"
    if re.fullmatch(r"[+-]?0[0-9].*", cell):  # an identifier such as 007 would lose its zeros
        return cell
    return _integer(cell, _number(cell, cell))


def open_parquet(source: Source, *, max_bytes: int) -> Table:
    """Read a Parquet file; columns may be flat as in CSV, or nested as in JSON.

    Parameters
    ----------
    source : Source
        The file.
    max_bytes : int
        Most bytes that its columns may take in memory.

    Returns
    -------
    Table
        Rows without their nulls.

    Raises
    ------
    DataError
        The file is damaged or too large, or the package pyarrow is missing.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f'{source.name} is Parquet, which takes the package pyarrow; pip install "drsim[files]"'
        ) from None
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(source.read_all()))
        header = list(file.schema_arrow.names)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _damaged(source, error) from None
    record = record_type(header)
    columns = _columns(record) | {field.encode_name: inspect.AnyType() for field in msgspec.structs.fields(record)}
    place = partial(Mistake, source=source.name, line=None, value="")
    known = [name for name in header if _column(name, columns)]
    return _checked_header(header, columns, record, place, _parquet_rows(file, source, known, max_bytes))


def _parquet_rows(file: Any, source: Source, known: list[str], max_bytes: int) -> Iterator[Row]:
    import pyarrow

    maps = [field.name for field in file.schema_arrow if pyarrow.types.is_map(field.type)]
    n_rows = n_bytes = 0
    try:
        for batch in file.iter_batches(batch_size=BATCH, columns=known):
            n_bytes += batch.nbytes
            if n_bytes > max_bytes:
                raise DataError(f"{source.name} takes the input beyond {max_bytes} bytes unpacked; split it")
            for n_rows, row in enumerate(batch.to_pylist(), n_rows + 1):  # noqa: B020 # goes on counting
                row |= {name: dict(row[name]) for name in maps if row.get(name) is not None}
                yield n_rows, _nested(_plain(row))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _damaged(source, error) from None


def _damaged(source: Source, error: Exception) -> DataError:
    reason = str(error).partition("\n")[0]
    return DataError(f"{source.name} holds damaged Parquet data ({reason}); copy or write it again")


def _plain(value: Any) -> Any:
    """Leave out nulls, and mark what JSON could not hold."""
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items() if item is not None}
        case list():
            return [_plain(item) for item in value]
        case Decimal():
            return _plain(float(value))
        case float() if not math.isfinite(value):
            return Unreadable(str(value))
    return value
