"""Text for a terminal: tables and paragraphs of a given width."""

import io
import textwrap

from rich.console import Console
from rich.table import Table

__all__ = ["paragraph", "render"]


def render(table: Table, width: int) -> str:
    """A table as plain lines without trailing blanks or a final newline."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip("\n").split("\n"))


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
