"""The door for claims: files in, checked rows out, or every mistake at once.

The digits of a figure say how sharp it is, so that numbers are never turned into binary fractions on the way.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from drsim.errors import DataError, Mistake
from drsim.pilot.claims.published import is_published, published_rows
from drsim.pilot.claims.records import FIGURE_LISTS, FIGURES, Claim, Claims, domain_of
from drsim.pilot.mistakes import Unreadable, mistakes_of, show, unknown_field
from drsim.pilot.sources import Source, expand, open_source

__all__ = ["SCHEMA", "read_claims"]

SCHEMA = "drsim.claims/1"

MAX_BYTES = 64 * 2**20
"""Far more than a publication can hold, and no memory."""

MAX_DIGITS = 30
"""More digits, or a larger exponent, is no printed figure, and exact arithmetic would choke on it."""

FIGURE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
FIGURE_RULE = "must be a figure as printed, such as 38.0 or '38.0'"

LISTS = ("seeds", "seed_successes", "interval", "delta_interval", "best_of", "pools")
COUNTS = ("n", "A", "B", "C", "D", "F", "S", "successes", "seed_successes", "comparisons")
FLAGS = ("one_sided", "significant", "is_best")


class _Document(Struct, forbid_unknown_fields=True):
    schema: str
    source: str
    note: str | None = None
    rows: list[Any] = []


class _Object(dict[str, Any]):
    """An object with the keys that it gave twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = sorted(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)


@dataclass(slots=True)
class _Sheet:
    """Rows of all files, and what was wrong with the rest."""

    rows: list[Claim] = field(default_factory=list)
    mistake_at: list[Callable[..., Mistake]] = field(default_factory=list)
    """For each row, a mistake in its place."""
    places: list[tuple[str, str]] = field(default_factory=list)
    """For each row its source, and its place there."""
    mistakes: list[Mistake] = field(default_factory=list)


def read_claims(paths: Sequence[str]) -> Claims:
    """Read reported figures.

    Parameters
    ----------
    paths : sequence of str
        Files, patterns, and `-` for standard input. Each is a JSON list of rows, a document
        `{"schema": "drsim.claims/1", "source": …, "rows": […]}`, CSV with the same names (lists within a cell are
        separated by `;`), or the tables of a publication in a layout that `published` knows.

    Returns
    -------
    Claims
        Rows in file order.

    Raises
    ------
    DataError
        A file cannot be read or holds no rows, or rows have mistakes; carries all of them.
    """
    sheet = _Sheet()
    names = expand(paths)
    for name in names:
        with open_source(name, max_bytes=MAX_BYTES) as source:
            n_before = len(sheet.rows), len(sheet.mistakes)
            _read_source(source, sheet)
            if n_before == (len(sheet.rows), len(sheet.mistakes)):
                raise DataError(f"{source.name} holds no rows")
    sheet.mistakes += _between(sheet)
    if sheet.mistakes:
        n = len(sheet.mistakes)
        raise DataError(f"{n} mistake{'s' if n > 1 else ''}; nothing was checked", sheet.mistakes)
    sources = tuple(dict.fromkeys(source for source, _ in sheet.places))
    places = (f"{source}: {place}" if len(sources) > 1 else place for source, place in sheet.places)
    return Claims(rows=tuple(sheet.rows), places=tuple(places), sources=sources)


def _read_source(source: Source, sheet: _Sheet) -> None:
    try:
        text = source.read_all().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source.name} must be UTF-8 text, got byte 0x{error.object[error.start]:02x}; save the file as UTF-8"
        ) from None
    if not text.lstrip().startswith(("[", "{")):
        sheet.mistakes += _add_rows(source, sheet, "line", _csv_rows(text, source.name, sheet.mistakes))
        return
    raw = _decoded(text, source)
    if isinstance(raw, list):
        sheet.mistakes += _add_rows(source, sheet, "row", enumerate(raw, 1))
    elif is_published(raw):
        sheet.mistakes += _add_rows(source, sheet, "", enumerate(_published(raw, source), 1))
    else:
        sheet.mistakes += _add_rows(source, sheet, "row", enumerate(_document_rows(raw, source), 1))


def _decoded(text: str, source: Source) -> Any:
    def integer(digits: str) -> int | Unreadable:
        return int(digits) if len(digits) <= MAX_DIGITS else Unreadable(digits)

    def number(digits: str) -> Decimal | Unreadable:
        return Decimal(digits) if len(digits) <= MAX_DIGITS + 10 and is_moderate(digits) else Unreadable(digits)

    def is_moderate(digits: str) -> bool:
        # Decimal itself fails on exponents of some twenty digits
        return re.search(r"[eE][+-]?[0-9]{4}", digits) is None

    decoder = json.JSONDecoder(
        object_pairs_hook=_Object, parse_float=number, parse_int=integer, parse_constant=Unreadable
    )
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:].removesuffix(' at')}"
        raise DataError(
            f"{source.name} is not sound JSON: {reason} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise DataError(f"{source.name} is not sound JSON: it is nested too deeply") from None


def _published(raw: dict[str, Any], source: Source) -> list[dict[str, Any]]:
    try:
        return published_rows(raw)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(
            f"{source.name} looks like the tables of a publication, but one of them has another layout ({error!r}); "
            f"write its rows as {SCHEMA}"
        ) from None


def _document_rows(raw: dict[str, Any], source: Source) -> list[Any]:
    if raw.get("schema") != SCHEMA:
        remedy = "give a list of rows, or name the schema beside `source` and `rows`"
        raise DataError(f"{source.name}: schema must be {SCHEMA}, got {show(raw.get('schema'))}; {remedy}")
    found = mistakes_of(raw | {"rows": []}, _Document, source=source.name, line=None)
    if not isinstance(raw.get("rows"), list):
        got = show(raw["rows"]) if "rows" in raw else ""
        found.append(Mistake(source=source.name, line=None, field="rows", value=got, rule="must be a list of rows"))
    if found:
        raise DataError(f"{source.name} is not a sound document", found)
    rows: list[Any] = raw["rows"]
    return rows


def _add_rows(source: Source, sheet: _Sheet, unit: str, rows: Iterable[tuple[int, Any]]) -> list[Mistake]:
    mistakes: list[Mistake] = []
    for line, raw in rows:
        at = partial(Mistake, source=source.name, line=line)
        claim, found = _checked_row(raw, at)
        mistakes += found
        if claim is not None:
            where = f"{unit} {line}" if unit else ""
            label = f" ({claim.label})" if claim.label and where else claim.label
            sheet.rows.append(claim)
            sheet.places.append((source.name, f"{where}{label}"))
            sheet.mistake_at.append(at)
    return mistakes


def _checked_row(raw: Any, at: "partial[Mistake]") -> tuple[Claim | None, list[Mistake]]:
    place = at.keywords
    if not isinstance(raw, dict):
        return None, mistakes_of(raw, Claim, **place)
    mistakes = [
        at(field=key, value="", rule="is given twice in one object; keep one") for key in getattr(raw, "twice", ())
    ]
    is_percent = raw.get("unit") == "percent"
    row: dict[str, Any] = {}
    for name, value in raw.items():
        row[name], found = _field(name, value, is_percent)
        mistakes += [at(field=path, value=show(_plain(got)), rule=rule) for path, got, rule in found]
    try:
        claim = msgspec.convert(row, Claim)
    except ValueError as error:
        found_by_type = mistakes_of(row, Claim, **place)
        return None, mistakes + (found_by_type or [at(field="", value="", rule=f"must be a row: {error}")])
    return (None if mistakes else claim), mistakes


def _field(name: str, value: Any, is_percent: bool) -> tuple[Any, list[tuple[str, object, str]]]:
    """The value that a field has in a record, and what is wrong with its figures; a wrong one is replaced by 0."""
    if value is None:
        return None, []
    if name in FIGURES:
        return _figure(name, name, value, is_percent)
    if name not in FIGURE_LISTS or (name == "seeds" and not isinstance(value, list)):
        return _plain(value), []
    if not isinstance(value, list) or (name != "seeds" and len(value) != 2):
        return None, [(name, value, "must be a list of two figures, the lower end first")]
    parsed = [_figure(name, f"{name}[{i}]", item, is_percent) for i, item in enumerate(value)]
    return [figure for figure, _ in parsed], [mistake for _, found in parsed for mistake in found]


def _figure(name: str, path: str, value: Any, is_percent: bool) -> tuple[Decimal, list[tuple[str, object, str]]]:
    nothing = Decimal(0)
    match value:
        case bool():
            return nothing, [(path, value, FIGURE_RULE)]
        case int() | Decimal():
            figure = Decimal(value)
        case str() if FIGURE.fullmatch(text := value.strip().replace("−", "-")):
            figure = Decimal(text)
        case _:
            return nothing, [(path, value, FIGURE_RULE)]
    low, high = domain_of(name, is_percent=is_percent)
    if not low <= figure <= high:
        remedy = "" if is_percent or not abs(figure) <= 100 else "; say unit: percent where figures are in per cent"
        return nothing, [(path, value, f"must lie in [{low}, {high}]{remedy}")]
    exponent = figure.as_tuple().exponent
    if len(figure.as_tuple().digits) > MAX_DIGITS or not isinstance(exponent, int) or exponent < -MAX_DIGITS:
        return nothing, [(path, value, f"must have at most {MAX_DIGITS} digits")]
    return figure, []


def _plain(value: Any) -> Any:
    """A value without decimal numbers, which only figures are."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def _between(sheet: _Sheet) -> Iterator[Mistake]:
    first_of: dict[str, int] = {}
    for i, row in enumerate(sheet.rows):
        if row.id is not None and first_of.setdefault(row.id, i) != i:
            rule = "is the id of another row; give each row its own"
            yield sheet.mistake_at[i](field="id", value=show(row.id), rule=rule)
    for i, row in enumerate(sheet.rows):
        for name in ("best_of", "pools"):
            for j, other in enumerate(getattr(row, name)):
                if other not in first_of or other == row.id:
                    rule = "must be the id of another row"
                    yield sheet.mistake_at[i](field=f"{name}[{j}]", value=show(other), rule=rule)


def _csv_rows(text: str, name: str, mistakes: list[Mistake]) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    known = [item.encode_name for item in msgspec.structs.fields(Claim)]
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if not set(header) & set(known):
            raise DataError(
                f"{name} is not JSON, and as CSV its header names no known field, got {show(','.join(header))}; "
                "name the columns in the first line, with commas: agent,benchmark,arm,base_success,arm_success,n"
            )
        wrong = list(_header_mistakes(header, known))
        mistakes += [Mistake(source=name, line=1, field=column, value="", rule=rule) for column, rule in wrong]
        for cells in [] if wrong else reader:
            if cells and len(cells) != len(header):
                rule = f"must have {len(header)} cells, as the header has"
                mistakes.append(Mistake(source=name, line=reader.line_num, field="", value=str(len(cells)), rule=rule))
            elif any(cells):
                given = zip(header, cells, strict=True)
                yield reader.line_num, {column: _cell(column, cell) for column, cell in given if cell.strip()}
    except csv.Error as error:
        raise DataError(f"{name}:{reader.line_num}: is not CSV: {str(error).partition(' - ')[0]}") from None


def _header_mistakes(header: Sequence[str], known: list[str]) -> Iterator[tuple[str, str]]:
    for column, n in Counter(header).items():
        if not column:
            yield "", "a column has no name; name it or leave it out"
        elif column not in known:
            yield column, unknown_field(column, known, f"known are {', '.join(known)}")
        elif n > 1:
            yield column, "two columns have this name; keep one"


def _cell(column: str, cell: str) -> Any:
    parts = [part.strip() for part in cell.split(";")] if column in LISTS else [cell.strip()]
    values: list[Any] = [_value(column, part) for part in parts]
    return values if column in LISTS else values[0]


def _value(column: str, text: str) -> Any:
    if column in COUNTS and re.fullmatch(r"[0-9]{1,30}", text):
        return int(text)
    if column in FLAGS:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    return text
