"""Where input comes from: arguments to names, names to plain bytes, bytes to blocks of whole lines.

Compression is told from the first bytes, never from the name. What is unpacked is counted while it is read, so that a
small file that unpacks to a huge one ends in a message and not in a full memory.
"""

import glob
import gzip
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from drsim.errors import DataError

if TYPE_CHECKING:
    import zstandard

__all__ = ["MAX_BYTES", "MAX_LINE", "Source", "expand", "open_source"]

MAX_BYTES = 8 * 2**30
"""Most bytes that one call reads, unpacked: a pilot of some ten million runs, and the memory of a large workstation."""

MAX_LINE = 64 * 2**20
"""Most bytes in one line; a run of 100,000 steps takes about a tenth of it."""

BLOCK = 2**20
"""Bytes read at once: long enough that the work per block is lost in that per line, short enough to stay in cache."""

ZSTD_PIECE = 1024
"""Packed bytes handed to zstandard at once: 4 of them can stand for 128 KiB, so this unpacks to 32 MiB at most."""

STDIN = "<stdin>"

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
FOREIGN = {
    b"PK\x03\x04": "is a ZIP archive or a spreadsheet; unpack it, or export it as CSV",
    b"BZh": "is packed with bzip2; unpack it, or pack it with gzip or zstd",
    b"\xfd7zXZ\x00": "is packed with xz; unpack it, or pack it with gzip or zstd",
}
"""First bytes of files that people give by accident, and the remedy."""


class ByteStream(Protocol):
    """What `Source` needs of a file."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, empty at the end."""


class Source:
    """One input, unpacked.

    Parameters
    ----------
    name : str
        As the user gave it; `<stdin>` for standard input.
    stream : ByteStream
        Unpacked bytes.
    max_bytes : int
        Most bytes that may be read.

    Attributes
    ----------
    head : bytes
        The first block; all of a small input.
    n_bytes : int
        Bytes read so far.
    """

    def __init__(self, name: str, stream: ByteStream, *, max_bytes: int) -> None:
        self.name = name
        self.n_bytes = 0
        self._stream = stream
        self._max_bytes = max_bytes
        self.head = self._next(BLOCK)

    def _next(self, size: int) -> bytes:
        try:
            block = self._stream.read(size)
        except EOFError:
            raise DataError(f"{self.name} ends in the middle of its packed data; copy or pack it again") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{self.name} holds damaged gzip data ({error}); copy or pack it again") from None
        except OSError as error:
            raise DataError(f"{self.name} cannot be read: {error.strerror or error}") from None
        self.n_bytes += len(block)
        if self.n_bytes > self._max_bytes:
            raise DataError(f"{self.name} takes the input beyond {self._max_bytes} bytes unpacked; split it")
        return block

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """Yield all bytes, from the first, in blocks of about `size`."""
        for start in range(0, len(self.head), size):
            yield self.head[start : start + size]
        while block := self._next(size):
            yield block

    def read_all(self) -> bytes:
        """Return all bytes, from the first."""
        return b"".join(self.blocks())

    def line_blocks(self, *, max_line: int) -> Iterator[bytes]:
        r"""Yield all bytes in blocks that end at a line end (`\n`); the last may lack it.

        Raises
        ------
        DataError
            A line is longer than `max_line` bytes.
        """
        rest: list[bytes] = []
        n_rest = n_lines = 0
        # A block is no longer than a line may be: only a line that goes on from block to block can be too long.
        for block in self.blocks(min(BLOCK, max_line)):
            first, last = block.find(b"\n"), block.rfind(b"\n") + 1
            if n_rest + (len(block) if first < 0 else first) > max_line:
                raise DataError(
                    f"{self.name}:{n_lines + 1}: the line is longer than {max_line} bytes; put each run on its own line"
                )
            if last:
                whole = b"".join([*rest, block[:last]])
                n_lines += whole.count(b"\n")
                yield whole
                rest, n_rest = [], 0
            rest.append(block[last:])
            n_rest += len(block) - last
        if n_rest:
            yield b"".join(rest)


def expand(arguments: Sequence[str]) -> tuple[str, ...]:
    """Names of the inputs that the arguments stand for.

    Parameters
    ----------
    arguments : sequence of str
        Files, patterns (`*`, `?`, `[…]`, `**`), and `-` for standard input.

    Returns
    -------
    tuple of str
        In the order of the arguments, the matches of a pattern sorted; `-` stays.

    Raises
    ------
    DataError
        No argument, a directory, a missing file, a pattern that matches no file, or an input named twice.
    """
    if not arguments:
        raise DataError("no input was named; give a pilot file, or - for standard input")
    names = [name for argument in arguments for name in _expand_one(argument)]
    seen: set[Path | str] = set()
    for name in names:
        place = name if name == "-" else Path(name).resolve()
        if place in seen:
            raise DataError(f"{_shown(name)} is named twice; name each input once")
        seen.add(place)
    return tuple(names)


def _expand_one(argument: str) -> list[str]:
    if argument == "-":
        return [argument]
    if os.path.isdir(argument):  # noqa: PTH112 # unlike Path, it takes any text
        raise DataError(f"{argument} is a directory; name its files, for example {Path(argument) / '*.jsonl'}")
    if os.path.exists(argument):  # noqa: PTH110 # as above
        return [argument]
    if not glob.has_magic(argument):
        raise DataError(f"{argument!r} does not exist; check the path")
    names = sorted(name for name in glob.glob(argument, recursive=True) if Path(name).is_file())  # noqa: PTH207 # keeps `./`
    if not names:
        raise DataError(f"{argument!r} matches no file; check the pattern")
    return names


def _shown(name: str) -> str:
    return STDIN if name == "-" else name


@contextmanager
def open_source(name: str, *, max_bytes: int = MAX_BYTES) -> Iterator[Source]:
    """Open one input and unpack it if it is packed with gzip or zstd.

    Parameters
    ----------
    name : str
        A file, or `-` for standard input.
    max_bytes : int
        Most bytes that may be read, unpacked.

    Yields
    ------
    Source
        Closed at the end of the block, standard input excepted.

    Raises
    ------
    DataError
        The file cannot be read or unpacked, or is longer than `max_bytes`.
    """
    shown = _shown(name)
    if name == "-":
        yield Source(shown, _unpacked(sys.stdin.buffer, shown), max_bytes=max_bytes)
        return
    with _opened(name) as file:
        yield Source(shown, _unpacked(file, shown), max_bytes=max_bytes)


def _opened(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from None


def _unpacked(file: ByteStream, name: str) -> ByteStream:
    try:
        magic = file.read(6)
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from None
    for first_bytes, remedy in FOREIGN.items():
        if magic.startswith(first_bytes):
            raise DataError(f"{name} {remedy}")
    whole = _Rewound(magic, file)
    if magic.startswith(GZIP_MAGIC):
        return gzip.GzipFile(fileobj=cast(BinaryIO, whole))  # it calls nothing but read()
    if magic.startswith(ZSTD_MAGIC):
        return _zstd_stream(whole, name)
    return whole


class _Rewound:
    """A stream, such as a pipe, of which the first bytes were read already."""

    def __init__(self, first: bytes, file: ByteStream) -> None:
        self._first = first
        self._file = file

    def read(self, size: int, /) -> bytes:
        first, self._first = self._first[:size], self._first[size:]
        return first + self._file.read(size - len(first)) if len(first) < size else first


def _zstd_stream(file: ByteStream, name: str) -> ByteStream:
    try:
        import zstandard
    except ImportError:
        raise DataError(
            f'{name} is packed with zstd, which takes the package zstandard; pip install "drsim[files]"'
        ) from None
    return _ZstdStream(file, name, zstandard.ZstdDecompressor(), zstandard.ZstdError)


class _ZstdStream:
    """Unpacks frame after frame; unlike the package's own reader, a frame that is cut short is an error."""

    def __init__(
        self, file: ByteStream, name: str, decompressor: "zstandard.ZstdDecompressor", error: type[Exception]
    ) -> None:
        self._file = file
        self._name = name
        self._decompressor = decompressor
        self._error = error
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._packed = b""
        self._ready = bytearray()

    def read(self, size: int, /) -> bytes:
        while len(self._ready) < size and self._unpack():
            pass
        block = bytes(self._ready[:size])
        del self._ready[:size]
        return block

    def _unpack(self) -> bool:
        packed = self._packed or self._file.read(ZSTD_PIECE)
        if not packed:
            if self._frame is not None:
                raise EOFError
            return False
        if self._frame is None:
            self._frame = self._decompressor.decompressobj()
        try:
            self._ready += self._frame.decompress(packed)
        except self._error as error:
            raise DataError(f"{self._name} holds damaged zstd data ({error}); copy or pack it again") from None
        self._packed = b""
        if self._frame.eof:
            self._packed = self._frame.unused_data
            self._frame = None
        return True
