"""A figure that becomes a file: the same figure the same bytes, whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drsim.errors import ParameterError
from drsim.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["picture"]

SUFFIXES = (".svg", ".png")


@contextmanager
def picture(path: Path, size: tuple[float, float]) -> "Iterator[Figure]":
    """A figure to draw on, which is written to `path` in the end.

    Parameters
    ----------
    path : Path
        `.svg` or `.png`.
    size : tuple of float
        Width and height in inches.

    Yields
    ------
    matplotlib.figure.Figure

    Raises
    ------
    ParameterError
        matplotlib is missing, the file has another ending, or it cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise ParameterError(f"--plot must name a file that ends in .svg or .png, got {path}; rename it")
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise ParameterError(f'--plot must find matplotlib, got {missing}; pip install "drsim[plot]"') from missing
    kind = path.suffix.removeprefix(".")
    # equal pictures are equal files
    with mpl.rc_context({"svg.hashsalt": "drsim", "font.size": 9}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        try:
            with replacing(path) as temporary:
                figure.savefig(temporary, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
        except OSError as error:
            raise ParameterError(f"--plot {path} cannot be written: {error.strerror}") from None
