"""The `drsim` command: its list of commands, and how every failure ends.

Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 done but a stated requirement did not hold.
"""

import difflib
import importlib
import json
import os
import sys
from collections.abc import Sequence

import click

from drsim import __version__
from drsim.errors import ConvergenceError, DrsimError

__all__ = ["COMMANDS", "main", "run"]

COMMANDS = {
    "fit": "From a pilot to a verdict: recovery, disruption, gain, churn.",
    "doctor": "What a pilot can and cannot answer, before anything is fitted.",
    "bounds": "Whether intervening can ever pay, before any critic exists.",
    "audit": "Contradictions among figures that somebody reports.",
    "critic": "What a critic's scores tell, and what acting on them gains.",
    "models": "Models of agents, step by step: those shipped, or one in a file.",
    "simulate": "What policies do to a modelled agent, exactly or run by run.",
    "sweep": "When to intervene: the gain of every timing, threshold and budget.",
    "optimize": "When to intervene in a modelled agent, and what is left to gain.",
    "plan": "Intervene, retry or Best-of-N: what a budget should buy.",
    "design": "What a pilot plan will say, and how large it must be.",
    "monitor": "Whether a running pilot may stop, looked at as often as you like.",
    "next": "Which task, arm and trial to run next, within a budget.",
    "schema": "JSON Schema of a command's output or of an input file.",
}
"""Command to help line: kept here so that `drsim --help` loads no command."""


class _LazyCommands(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"drsim.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


EPILOG = """\b
Start here:
  drsim fit example:alfworld
  drsim doctor example:toy
"""


@click.group(cls=_LazyCommands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="drsim %(version)s")
def app() -> None:
    """Say whether an agent should be interrupted while it works, how, and when.

    drsim reads pilot runs of an agent with and without an intervention and says what the intervention gains, how sure
    that is, how much of it reruns alone would show, and what a sharper answer costs.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str
        What follows `drsim`.

    Returns
    -------
    int
        The exit code.
    """
    is_json = "--json" in arguments
    try:
        code = app.main(list(arguments), prog_name="drsim", standalone_mode=False)
    except click.ClickException as error:
        return _usage_failure(error, is_json=is_json)
    except DrsimError as error:
        return _failure(
            error.kind, str(error), error.details(), 1 if isinstance(error, ConvergenceError) else 2, is_json
        )
    except (click.Abort, KeyboardInterrupt):
        return _failure("interrupted", "interrupted; nothing was written", [], 1, is_json)
    except MemoryError:
        return _failure("memory", "not enough memory for this input; split it by benchmark or agent", [], 1, is_json)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the installed command."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has left; without this the interpreter reports it once more while it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _usage_failure(error: click.ClickException, *, is_json: bool) -> int:
    if not is_json:
        error.show(sys.stderr)
        return error.exit_code
    return _failure("usage", error.format_message(), [], error.exit_code, is_json)


def _failure(kind: str, message: str, details: list[dict[str, object]], code: int, is_json: bool) -> int:
    if is_json:
        click.echo(json.dumps({"error": {"kind": kind, "message": message, "details": details}}, indent=2))
    click.echo(f"drsim: {message}", err=True)
    return code
