"""A pilot file that is still being written: its whole lines, from where the last reading ended."""

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from drsim.errors import MAX_MISTAKES_SHOWN, DataError, Mistake
from drsim.pilot.mistakes import gives_a_key_twice, mistakes_in_json
from drsim.pilot.records import Run

__all__ = ["Position", "read_further"]

_RUN = msgspec.json.Decoder(Run)


class Position(Struct, frozen=True, kw_only=True):
    """How far a file was read."""

    n_bytes: int = 0
    n_lines: int = 0
    digest: str = hashlib.sha256(b"").hexdigest()
    """SHA-256 of what was read, so that a file which was rewritten meanwhile is noticed."""


def read_further(name: str, position: Position) -> tuple[list[Run], Position]:
    """Runs that were appended to a file.

    Parameters
    ----------
    name : str
        A plain file of JSON Lines.
    position : Position
        Where the last reading ended.

    Returns
    -------
    runs : list of Run
        In file order. A last line without its end is taken only when it is a whole record.
    position : Position
        Where this reading ended.

    Raises
    ------
    DataError
        The file cannot be read, is shorter or other than before, or a line is no run; nothing is taken then.
    """
    try:
        text = Path(name).read_bytes()
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}; check the path") from None
    before = text[: position.n_bytes]
    if len(before) < position.n_bytes or hashlib.sha256(before).hexdigest() != position.digest:
        raise DataError(
            f"{name} is not the file that was read before: its first {position.n_bytes} bytes changed; "
            "only append to it, or start with a new state"
        )
    further = text[position.n_bytes :]
    end = further.rfind(b"\n") + 1
    lines, tail = further[:end].split(b"\n")[:-1], further[end:]
    runs, mistakes = _decoded(name, lines, position.n_lines)
    if mistakes:
        raise DataError(f"{len(mistakes)} mistakes in {name}; nothing was taken from it", mistakes)
    last, unfinished = _decoded(name, [tail], position.n_lines + len(lines))
    if last and not unfinished:
        runs += last
        end += len(tail)
    done = text[: position.n_bytes + end]
    return runs, Position(
        n_bytes=len(done), n_lines=position.n_lines + len(lines), digest=hashlib.sha256(done).hexdigest()
    )


def _decoded(name: str, lines: list[bytes], n_before: int) -> tuple[list[Run], list[Mistake]]:
    runs: list[Run] = []
    mistakes: list[Mistake] = []
    for line, text in enumerate(lines, n_before + 1):
        if not text.strip():
            continue
        try:
            run = _RUN.decode(text)
        except (ValueError, RecursionError):
            mistakes += mistakes_in_json(text, Run, source=name, line=line)
        else:
            if gives_a_key_twice(text):
                mistakes += mistakes_in_json(text, Run, source=name, line=line)
            runs.append(run)
        if len(mistakes) >= MAX_MISTAKES_SHOWN:
            break
    return runs, mistakes
