"""The door for evidence: files in, checked records out, or every mistake at once.

Each line goes through a typed decoder, which is about all that a sound file pays for. A line that fails is read again,
slowly, for an account of what is wrong with it.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Any, cast

import msgspec
import numpy as np
from msgspec import Meta, Struct

from drsim.errors import MAX_MISTAKES_SHOWN, DataError, Mistake
from drsim.pilot.consistency import Places, between_counts, between_marginals, between_runs
from drsim.pilot.evidence import Counts, Evidence, Marginals, Pilot
from drsim.pilot.mistakes import gives_a_key_twice, mistakes_in_json, mistakes_of, show
from drsim.pilot.records import CountsRow, MarginalsRow, Run, record_type
from drsim.pilot.sources import MAX_BYTES, MAX_LINE, Source, expand, open_source
from drsim.pilot.tabular import PARQUET_MAGIC, Table, open_csv, open_parquet

__all__ = ["read"]

JSON_SPACE = b" \t\r\n"
UTF8_BOM = b"\xef\xbb\xbf"
OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""First bytes of UTF-16 and UTF-32 text."""

FORM_NAMES: dict[type[Struct], str] = {Run: "runs", CountsRow: "counts", MarginalsRow: "marginals"}


N_LOOKED_AT = 1000
"""Lines of a file that are all looked at for names given twice; takes some 20 ms."""

DOCUMENTS: dict[str, type[Struct]] = {"drsim.counts/1": CountsRow, "drsim.marginals/1": MarginalsRow}
"""Form of the rows in a document, by its schema."""


class _Document(Struct, forbid_unknown_fields=True):
    schema: str
    source: Annotated[str, Meta(min_length=1)]
    rows: list[Any]
    note: str | None = None


class _Rows(Struct):
    rows: list[msgspec.Raw]


class _EnoughMistakes(Exception):  # noqa: N818 # ends the reading; it is no error
    """As many mistakes were found as are shown."""


class _Sheet:
    """Records of all files, with their places, and what was wrong with the rest."""

    def __init__(self) -> None:
        self.sources: list[str] = []
        self.form: type[Struct] | None = None
        self.records: list[Any] = []
        self.source_of = array("q")
        self.line_of = array("q")
        self.mistakes: list[Mistake] = []

    def begin(self, source: str, form: type[Struct]) -> None:
        """Settle the form that the records of `source` have."""
        if self.form is not None and form is not self.form:
            raise DataError(
                f"{source} holds {FORM_NAMES[form]}, but {self.sources[0]} holds {FORM_NAMES[self.form]}; "
                "read one form at a time"
            )
        self.form = form

    def blame(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes += mistakes
        if len(self.mistakes) >= MAX_MISTAKES_SHOWN:
            raise _EnoughMistakes

    def places(self) -> Places:
        return Places(
            sources=tuple(self.sources),
            source_of=np.array(self.source_of, dtype=np.int64),
            line_of=np.array(self.line_of, dtype=np.int64),
        )


def read(paths: Sequence[str], *, max_bytes: int = MAX_BYTES, max_line: int = MAX_LINE) -> Evidence:
    """Read pilot evidence.

    Parameters
    ----------
    paths : sequence of str
        Files, patterns, and `-` for standard input; all of one form (runs, counts or marginals). Each is JSON Lines,
        a JSON list, a counts or marginals document, CSV or Parquet, plain or packed with gzip or zstd, which its
        content tells.
    max_bytes : int
        Most bytes to read from all files together, unpacked.
    max_line : int
        Most bytes in one line.

    Returns
    -------
    Pilot, Counts or Marginals
        Records in file order.

    Raises
    ------
    DataError
        A file cannot be read or holds no records, forms are mixed, or records have mistakes; carries up to 20 of them.
    """
    sheet = _Sheet()
    try:
        _read_sources(expand(paths), sheet, max_bytes, max_line)
        places = sheet.places()
        if sheet.form is not None:
            sheet.blame(islice(_between(sheet, places), MAX_MISTAKES_SHOWN - len(sheet.mistakes)))
    except _EnoughMistakes:
        found = sheet.mistakes[:MAX_MISTAKES_SHOWN]
        raise DataError(f"reading stopped at {len(found)} mistakes; nothing was computed", found) from None
    if sheet.mistakes:
        n = len(sheet.mistakes)
        raise DataError(f"{n} mistake{'s' if n > 1 else ''}; nothing was computed", sheet.mistakes)
    return _evidence(sheet, places)


def _read_sources(names: Sequence[str], sheet: _Sheet, max_bytes: int, max_line: int) -> None:
    try:
        for name in names:
            with open_source(name, max_bytes=max_bytes) as source:
                _read_source(source, sheet, max_bytes, max_line)
            max_bytes -= source.n_bytes
    except DataError as error:  # ends the reading, but what was found before it is worth showing too
        raise DataError(str(error), sheet.mistakes) from None


def _between(sheet: _Sheet, places: Places) -> Iterator[Mistake]:
    rules: dict[object, Callable[[Any, Places], Iterator[Mistake]]] = {
        Run: between_runs,
        CountsRow: between_counts,
        MarginalsRow: between_marginals,
    }
    return rules[sheet.form](sheet.records, places)


def _evidence(sheet: _Sheet, places: Places) -> Evidence:
    if sheet.form is CountsRow:
        return Counts(rows=tuple(cast(list[CountsRow], sheet.records)), sources=places.sources)
    if sheet.form is MarginalsRow:
        return Marginals(rows=tuple(cast(list[MarginalsRow], sheet.records)), sources=places.sources)
    return Pilot(
        runs=cast(list[Run], sheet.records),
        sources=places.sources,
        source_of=places.source_of,
        line_of=places.line_of,
    )


def _read_source(source: Source, sheet: _Sheet, max_bytes: int, max_line: int) -> None:
    index, n_before = len(sheet.sources), len(sheet.line_of)
    n_mistakes = len(sheet.mistakes)
    sheet.sources.append(source.name)
    start = source.head.removeprefix(UTF8_BOM).lstrip(JSON_SPACE)
    if source.head.startswith(OTHER_BOMS):
        raise DataError(f"{source.name} is UTF-16 or UTF-32 text; save it as UTF-8")
    if source.head.startswith(PARQUET_MAGIC):
        _read_table(open_parquet(source, max_bytes=max_bytes), source, sheet)
    elif start.startswith(b"["):
        _read_list(source, sheet)
    elif start.startswith(b"{") or not start:
        _read_lines(source, sheet, max_line)
    else:
        _read_table(open_csv(source, max_line=max_line), source, sheet)
    n_records = len(sheet.line_of) - n_before
    if not n_records and len(sheet.mistakes) == n_mistakes:
        raise DataError(f"{source.name} holds no runs")
    sheet.source_of.extend(array("q", [index]) * n_records)


def _read_table(table: Table, source: Source, sheet: _Sheet) -> None:
    sheet.begin(source.name, table.record)
    for row in table.rows:
        if isinstance(row, Mistake):
            sheet.blame([row])
            continue
        line, fields = row
        try:
            sheet.records.append(msgspec.convert(fields, table.record))
            sheet.line_of.append(line)
        except (ValueError, RecursionError) as error:
            found = mistakes_of(fields, table.record, source=source.name, line=line)
            sheet.blame(found or [_unexplained(source, line, error)])


def _unexplained(source: Source, line: int | None, error: Exception) -> Mistake:
    return Mistake(source=source.name, line=line, field="", value="", rule=f"must be a record: {error}")


def _read_list(source: Source, sheet: _Sheet) -> None:
    try:
        rows = msgspec.json.decode(source.read_all().removeprefix(UTF8_BOM), type=list[msgspec.Raw])
    except (ValueError, RecursionError) as error:
        raise _not_json(source, error) from None
    _read_records(source, sheet, enumerate(map(bytes, rows), 1))


def _not_json(source: Source, error: Exception) -> DataError:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return DataError(f"{source.name} is not a sound JSON file: {reason}")


def _read_lines(source: Source, sheet: _Sheet, max_line: int) -> None:
    blocks = source.line_blocks(max_line=max_line)
    first = next(blocks, b"").removeprefix(UTF8_BOM)
    if _is_document(first):
        _read_document(source, first + b"".join(blocks), sheet)
    else:
        lines = chain.from_iterable(block.removesuffix(b"\n").split(b"\n") for block in chain([first], blocks))
        _read_records(source, sheet, enumerate(lines, 1))


def _is_document(block: bytes) -> bool:
    """Whether the file is one JSON object: it says so in its first line, or that line ends within an object."""
    lines = (line for line in block.split(b"\n") if line.strip(JSON_SPACE))
    names = _names_in(next(lines, b""))
    if names is None:
        return next(lines, b"").lstrip(JSON_SPACE).startswith(b'"')
    return "rows" in names or ("schema" in names and "task_id" not in names)


def _names_in(text: bytes) -> set[str] | None:
    """Field names of a JSON object, None when it is none."""
    try:
        return set(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
    except (ValueError, RecursionError):
        return None


def _read_document(source: Source, text: bytes, sheet: _Sheet) -> None:
    try:
        raw = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        if "trailing characters" in str(error):
            raise _over_several_lines(source) from None
        raise _not_json(source, error) from None
    if not {"rows", "schema"} & set(raw):
        raise _over_several_lines(source)
    schema = raw.get("schema")
    if not isinstance(schema, str) or schema not in DOCUMENTS:
        raise DataError(f"{source.name}: schema must be one of {', '.join(DOCUMENTS)}, got {show(schema)}")
    sheet.begin(source.name, DOCUMENTS[schema])
    found = mistakes_in_json(text, _Document, source=source.name, line=None)
    sheet.blame(found)
    if not found:
        rows = msgspec.json.decode(text, type=_Rows).rows
        _decode_records(source, sheet, enumerate(map(bytes, rows), 1), DOCUMENTS[schema])


def _over_several_lines(source: Source) -> DataError:
    return DataError(f"{source.name} holds objects that go over several lines; put each run on one line (jq -c does)")


def _read_records(source: Source, sheet: _Sheet, numbered: Iterable[tuple[int, bytes]]) -> None:
    """Decode texts of one record each; the first that is an object tells the form of all."""
    rest = iter(numbered)
    for line, text in rest:
        names = _names_in(text)
        if names is not None:
            form = record_type(names)
            sheet.begin(source.name, form)
            _decode_records(source, sheet, chain([(line, text)], rest), form)
        elif text.strip(JSON_SPACE):
            sheet.blame(mistakes_in_json(text, Run, source=source.name, line=line))


def _decode_records(source: Source, sheet: _Sheet, numbered: Iterable[tuple[int, bytes]], form: type[Struct]) -> None:
    decode = msgspec.json.Decoder(form).decode
    sound_sizes: set[int] = set()
    add_record, add_line = sheet.records.append, sheet.line_of.append
    for line, text in numbered:
        try:
            record = decode(text)
        except (ValueError, RecursionError) as error:
            if text.strip(JSON_SPACE):
                found = mistakes_in_json(text, form, source=source.name, line=line)
                sheet.blame(found or [_unexplained(source, line, error)])
            continue
        # The decoder silently keeps the last of two values. To look at each name takes longer than to decode, so a long
        # file is spared where a line has as many names as a line that was looked at: one given twice is one too many.
        n_names = text.count(b'":')
        if line <= N_LOOKED_AT or n_names not in sound_sizes:
            if gives_a_key_twice(text):
                sheet.blame(mistakes_in_json(text, form, source=source.name, line=line))
                continue
            sound_sizes.add(n_names)
        add_record(record)
        add_line(line)
