"""Options and output that commands share."""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import IO, Any

import click

from drsim.errors import ParameterError
from drsim.files import replacing

__all__ = [
    "REQUIREMENT_FAILED",
    "common_options",
    "example",
    "pilot_arguments",
    "resolve",
    "rho_option",
    "terminal_width",
    "warn",
    "whole_file",
    "write_result",
]

REQUIREMENT_FAILED = 3
"""Exit code of a command that is done, but a stated requirement did not hold or a contradiction was found."""

EXAMPLE = "example:"
DEFAULT_WIDTH = 80

type Command = Callable[..., Any]


def common_options(command: Command) -> Command:
    """`--json`, `--seed`, `--quiet`, `--output`."""
    for option in (
        click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the result to this file instead."),
        click.option("--quiet", is_flag=True, help="Nothing on stderr but errors."),
        click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of all draws."),
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
    ):
        command = option(command)
    return command


def pilot_arguments(*, required: bool = True) -> Callable[[Command], Command]:
    """`PILOT…`, `--baseline`, `--arm`; not `required` where numbers may stand in for a pilot."""

    def decorate(command: Command) -> Command:
        for option in (
            click.option("--arm", "arms", multiple=True, help="Only this intervened arm; may be repeated."),
            click.option(
                "--baseline", default="baseline", show_default=True, metavar="ARM", help="Arm without intervention."
            ),
            click.argument("pilots", nargs=-1, required=required, metavar="PILOT…" if required else "[PILOT]…"),
        ):
            command = option(command)
        return command

    return decorate


def rho_option(command: Command) -> Command:
    """`--rho`, which `RhoPrior.parse` reads."""
    return click.option(
        "--rho",
        metavar="RHO",
        help="Intraclass correlation where no baseline run was repeated: a number, or beta:A,B.  [default: beta:4.5,2]",
    )(command)


def example(*lines: str) -> str:
    """Epilog of a help text: commands that can be run as they stand."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def resolve(pilots: Sequence[str]) -> list[str]:
    """Arguments with `example:NAME` replaced by the shipped file.

    Raises
    ------
    ParameterError
        No such example.
    """
    return [_example_path(name.removeprefix(EXAMPLE)) if name.startswith(EXAMPLE) else name for name in pilots]


def _example_path(name: str) -> str:
    folder = resources.files("drsim.pilot") / "examples"
    found = {Path(entry.name).stem: str(entry) for entry in folder.iterdir()}
    if name not in found:
        raise ParameterError(f"{EXAMPLE}{name} is not shipped; there are {', '.join(sorted(found))}")
    return found[name]


def terminal_width() -> int:
    """Columns of the terminal, 80 where there is none."""
    return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns


def warn(messages: Iterable[str], *, quiet: bool) -> None:
    """Warnings on stderr, one paragraph each."""
    if not quiet:
        for message in messages:
            click.echo(f"warning: {message}", err=True)


def write_result(text: str, output: Path | None) -> None:
    """The result on stdout, or whole in a file: written beside it and renamed, so that no half file is ever seen.

    Raises
    ------
    ParameterError
        The file cannot be written.
    """
    if output is None:
        sys.stdout.write(text + "\n")
        return
    with whole_file(output) as stream:
        stream.write(text.encode() + b"\n")


@contextmanager
def whole_file(output: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of `output` once all is written, and leaves nothing behind before.

    Raises
    ------
    ParameterError
        The file cannot be written.
    """
    try:
        with replacing(output) as temporary, temporary.open("wb") as stream:
            yield stream
    except OSError as error:
        raise ParameterError(f"--output {output} cannot be written: {error.strerror}") from None
