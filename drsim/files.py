"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

__all__ = ["replacing"]

_asking = Lock()


def _umask() -> int:
    """Of this process; it can only be read by setting it, which two threads must not do at once."""
    with _asking:
        umask = os.umask(0o077)
        os.umask(umask)
    return umask


@contextmanager
def replacing(path: Path, *, prefix: str | None = None) -> Iterator[Path]:
    """A temporary file beside `path`, which takes its place once all is written and leaves nothing behind before.

    Parameters
    ----------
    path : Path
        What the file is called in the end; its folder exists.
    prefix : str, optional
        Beginning of the temporary name; by default a dot and the name.

    Yields
    ------
    Path
        The empty temporary file.

    Raises
    ------
    OSError
        The file cannot be made or renamed.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}." if prefix is None else prefix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files that only their owner can read; a result is an ordinary file.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
