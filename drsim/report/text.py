"""Text for a terminal: columns and paragraphs of a given width."""

import textwrap
from collections.abc import Sequence

__all__ = ["columns", "paragraph"]


def columns(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), gap: int = 2) -> str:
    """Rows in aligned columns, the first of them a heading with a rule below.

    Parameters
    ----------
    rows : sequence of sequence of str
        Cells by row; all rows have as many.
    right : sequence of int
        Columns that are set flush right.
    gap : int
        Blanks between columns.

    Returns
    -------
    str
        Lines without trailing blanks or a final newline.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        (" " * gap)
        .join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])


def paragraph(text: str, width: int, indent: int = 2) -> str:
    """Text wrapped to `width` columns, continued lines set in by two more."""
    return textwrap.fill(
        text,
        width=width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
