"""Every mistake in one record, in words.

A typed decoder stops at the first thing that is wrong, which is right for speed and wrong for people. So a record that
failed is decoded again without types, and walked along the type it should have had.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import Struct, inspect

from drsim.errors import Mistake

__all__ = ["Unreadable", "gives_a_key_twice", "mistakes_in_json", "mistakes_of", "show", "unknown_field"]

SHOWN = 40
"""Most characters of a value that a message shows."""

type Found = Iterator[tuple[str, object, str]]
"""Field path, value that was got (`NOTHING` when none was), rule."""

NOTHING = object()


class Unreadable:
    """A number that no Python number stands for: NaN, an infinity, or one with too many digits."""

    def __init__(self, text: str) -> None:
        self.text = text


class JsonObject(dict[str, Any]):
    """An object as it stood in the text, with the keys that it gave twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = sorted(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)


def mistakes_in_json(text: bytes, record: type[Struct], *, source: str, line: int | None) -> list[Mistake]:
    """List every mistake of one record that stands as JSON.

    Parameters
    ----------
    text : bytes
        The record; a syntax mistake is the only one then.
    record : type
        What it should have been.
    source, line
        Where it stands, as in `Mistake`.

    Returns
    -------
    list of Mistake
        Empty when nothing is wrong.
    """
    mistake = partial(Mistake, source=source, line=line, field="")
    try:
        raw = _decode(text.decode())
    except UnicodeDecodeError as error:
        byte = f"byte 0x{text[error.start]:02x} at column {error.start + 1}"
        return [mistake(value=byte, rule="must be UTF-8 text; save the file as UTF-8")]
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:].removesuffix(' at')} at column {error.pos + 1}"
        return [mistake(value="", rule=f"must hold one JSON object; {reason}")]
    except RecursionError:
        return [mistake(value="", rule="must hold one JSON object; this one is nested too deeply")]
    return mistakes_of(raw, record, source=source, line=line)


def gives_a_key_twice(text: bytes) -> bool:
    """Whether any object in sound JSON names a key twice, so that a decoder would drop a value."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) < len(pairs)

    json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)
    return found


def _decode(text: str) -> object:
    decoder = json.JSONDecoder(
        object_pairs_hook=JsonObject, parse_constant=Unreadable, parse_int=_integer, parse_float=_number
    )
    return decoder.decode(text)


def _integer(text: str) -> int | Unreadable:
    # Python refuses to read integers of more than 4300 digits, and so does msgspec.
    return int(text) if len(text) <= 4300 else Unreadable(text)


def _number(text: str) -> float | Unreadable:
    value = float(text)
    return value if math.isfinite(value) else Unreadable(text)


def mistakes_of(raw: object, record: type[Struct], *, source: str, line: int | None) -> list[Mistake]:
    """List every mistake of one decoded record.

    Parameters
    ----------
    raw : object
        Plain dicts, lists, text, numbers; numbers that cannot be held as `Unreadable`.
    record : type
        What it should have been.
    source, line
        Where it stands, as in `Mistake`.

    Returns
    -------
    list of Mistake
        Empty when nothing is wrong.
    """
    kind = _kind_of(record)
    found = list(_walk_struct(kind, raw, "", "labels" in record.__struct_fields__))
    if isinstance(raw, dict):
        found += _broken_rules(kind, raw, {re.split(r"[.\[]", path, maxsplit=1)[0] for path, _, _ in found})
    return [
        Mistake(source=source, line=line, field=path, value="" if got is NOTHING else show(got), rule=rule)
        for path, got, rule in found
    ]


@cache
def _kind_of(record: type[Struct]) -> inspect.StructType:
    kind = inspect.type_info(record)
    assert isinstance(kind, inspect.StructType)  # noqa: S101 # tells the type checker what `record` being a Struct implies
    return kind


def show(value: object) -> str:
    """Give a value in at most about 40 printable characters, as JSON would write it."""
    if isinstance(value, Unreadable):
        return _cut(value.text)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict | list | tuple):
        noun = "an object" if isinstance(value, dict) else "a list"
        return f"{noun} of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**SHOWN:
        return f"an integer of {int(value.bit_length() * math.log10(2)) + 1} digits"
    if isinstance(value, str):
        return _cut(repr(value[: SHOWN + 1])[: -1 if len(value) > SHOWN else None])
    return _cut(repr(value))


def _cut(text: str) -> str:
    # repr escapes what cannot be printed, but numbers and foreign types come as they are.
    clean = "".join(c if c.isprintable() else "?" for c in text[: SHOWN + 1])
    return clean if len(clean) <= SHOWN else clean[: SHOWN - 1] + "…"


def _join(path: str, key: str) -> str:
    name = key if key.isprintable() and 0 < len(key) <= SHOWN else show(key)
    return f"{path}.{name}" if path else name


def _walk(kind: inspect.Type, value: object, path: str, has_labels: bool) -> Found:
    match kind:
        case inspect.UnionType():
            yield from _walk_union(kind, value, path, has_labels)
        case inspect.StructType():
            yield from _walk_struct(kind, value, path, has_labels)
        case inspect.VarTupleType() | inspect.ListType():
            if not isinstance(value, list | tuple):
                yield path, value, "must be a list"
                return
            for i, item in enumerate(value):
                yield from _walk(kind.item_type, item, f"{path}[{i}]", has_labels)
        case inspect.DictType():
            yield from _walk_dict(kind, value, path, has_labels)
        case _:
            if rule := _broken(kind, value):
                yield path, value, rule


def _walk_union(kind: inspect.UnionType, value: object, path: str, has_labels: bool) -> Found:
    members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
    if value is None and len(members) < len(kind.types):
        return
    if len(members) == 1 and not isinstance(members[0], inspect.BoolType):
        yield from _walk(members[0], value, path, has_labels)
    elif all(_broken(member, value) for member in members):
        yield path, value, _alternatives(members, value)


def _alternatives(members: list[inspect.Type], value: object) -> str:
    if len(members) == 1:
        return "must be true, false or null"
    return _broken_text(value) if isinstance(value, str) else "must be text, a finite number, true or false"


def _walk_dict(kind: inspect.DictType, value: object, path: str, has_labels: bool) -> Found:
    if not isinstance(value, dict):
        yield path, value, "must be an object"
        return
    yield from _given_twice(value, path)
    for key, item in value.items():
        if rule := _broken(kind.key_type, key):
            yield _join(path, str(key)), NOTHING, f"the name {rule}"
        yield from _walk(kind.value_type, item, _join(path, str(key)), has_labels)


def _walk_struct(kind: inspect.StructType, value: object, path: str, has_labels: bool) -> Found:
    if not isinstance(value, dict):
        yield path, value, "must be an object"
        return
    yield from _given_twice(value, path)
    fields = {field.encode_name: field for field in kind.fields}
    for key in value:
        if key not in fields:
            remedy = "put anything else under `labels`" if has_labels else f"known are {', '.join(fields)}"
            yield _join(path, str(key)), NOTHING, unknown_field(str(key), list(fields), remedy)
    for name, field in fields.items():
        if name in value:
            yield from _walk(field.type, value[name], _join(path, name), has_labels)
        elif field.required:
            yield _join(path, name), NOTHING, "is required, but missing"


def _given_twice(value: Mapping[str, object], path: str) -> Found:
    if isinstance(value, JsonObject):
        for key in value.twice:
            yield _join(path, key), NOTHING, "is given twice in one object; keep one"


def unknown_field(name: str, known: list[str], remedy: str) -> str:
    """Rule for a field that no record has, with the nearest one that it may have meant."""
    near = get_close_matches(name[:SHOWN], known, n=1)
    if near:
        return f"unknown field; did you mean {near[0]!r}? {remedy[0].upper()}{remedy[1:]}"
    return f"unknown field; {remedy}"


def _broken(kind: inspect.Type, value: object) -> str:
    """Rule for a plain value, empty when it holds."""
    match kind:
        case inspect.StrType():
            return _broken_text(value) or ("must not be empty" if kind.min_length and not value else "")
        case inspect.IntType():
            return _broken_integer(kind, value)
        case inspect.FloatType():
            return _broken_number(kind, value)
        case inspect.BoolType():
            return "" if isinstance(value, bool) else "must be true or false"
        case inspect.EnumType() | inspect.LiteralType():
            allowed = _values(kind)
            return "" if isinstance(value, str) and value in allowed else f"must be one of {', '.join(allowed)}"
    return ""


def _values(kind: inspect.EnumType | inspect.LiteralType) -> list[str]:
    return [str(value) for value in (kind.cls if isinstance(kind, inspect.EnumType) else kind.values)]


def _broken_text(value: object) -> str:
    if not isinstance(value, str):
        return "must be text"
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can write "\\ud800", but nothing can store or print it
        return "must be valid Unicode, without lone surrogates"
    return ""


def _broken_integer(kind: inspect.IntType, value: object) -> str:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if is_integer and kind.le is not None and value > kind.le:  # type: ignore[operator] # is_integer
        return f"must be an integer ≤ {kind.le}"
    if is_integer and (kind.ge is None or value >= kind.ge):  # type: ignore[operator] # is_integer
        return ""
    return "must be an integer" if kind.ge is None else f"must be an integer ≥ {kind.ge}"


def _broken_number(kind: inspect.FloatType, value: object) -> str:
    low = kind.ge if kind.ge is not None else kind.gt
    if kind.le is None:
        allowed = "a finite number" if low is None else f"a finite number ≥ {low:g}"
    else:
        allowed = f"in {'[' if kind.gt is None else '('}{low:g}, {kind.le:g}]"
    number = _as_float(value)
    if number is None:
        return f"must be {allowed}" if kind.le is None else f"must be a number {allowed}"
    if (low is None or number > low or number == kind.ge) and (kind.le is None or number <= kind.le):
        return ""
    if kind.le is None:
        return f"must be {allowed}"
    return f"must lie {allowed}" + (", a probability and not per cent" if kind.le < number <= 100 else "")


def _as_float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _broken_rules(kind: inspect.StructType, raw: dict[str, Any], wrong: set[str]) -> Found:
    """Rules between fields, tried on the record without its fields that are wrong in themselves."""
    sound = {
        field.encode_name: raw.get(field.encode_name) if field.encode_name not in wrong else _stand_in(field.type)
        for field in kind.fields
        if (field.encode_name in raw and field.encode_name not in wrong) or field.required
    }
    try:
        msgspec.convert(sound, kind.cls)
    except msgspec.ValidationError as error:
        rule = str(error)
        if not wrong & set(re.findall(r"`(\w+)`", rule)):
            named = re.fullmatch(r"`(\w+)` (.+)", rule)
            yield (named[1], NOTHING, named[2]) if named else ("", NOTHING, rule)


def _stand_in(kind: inspect.Type) -> object:
    """Give a value that a required field may have, for one that is missing or wrong."""
    match kind:
        case inspect.StrType():
            return "x"
        case inspect.IntType():
            return kind.ge or 0
        case inspect.ListType():
            return []
    return None
