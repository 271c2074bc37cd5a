"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing"]


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
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
