"""`drsim doctor`: what a pilot can and cannot answer."""

from pathlib import Path

import click

from drsim.cli.options import (
    REQUIREMENT_FAILED,
    common_options,
    example,
    pilot_arguments,
    resolve,
    terminal_width,
    write_result,
)

__all__ = ["command"]

ESTIMANDS = (
    "gain",
    "recovery-disruption",
    "break-even",
    "churn",
    "timing",
    "critic",
    "causal-effect",
    "cost",
    "best-of-n",
)


@click.command(
    "doctor",
    epilog=example(
        "drsim doctor example:alfworld",
        "drsim doctor example:toy --json",
        "drsim doctor example:toy --require gain --require churn",
    ),
)
@pilot_arguments()
@click.option(
    "--require",
    "required",
    type=click.Choice(ESTIMANDS),
    multiple=True,
    metavar="ESTIMAND",
    help=f"Exit with 3 unless this is answerable in at least one cell; may be repeated: {', '.join(ESTIMANDS)}.",
)
@common_options
def command(
    pilots: tuple[str, ...],
    baseline: str,
    arms: tuple[str, ...],
    required: tuple[str, ...],
    as_json: bool,
    seed: int,  # part of every command's contract; nothing is drawn here
    quiet: bool,  # likewise: warnings are this command's result
    output: Path | None,
) -> int:
    """Say what pilot runs can and cannot answer, before anything is fitted.

    PILOT… are files of runs (JSON Lines, CSV, Parquet; .gz, .zst), of paired counts or of marginals; globs, `-` for
    standard input, and example:NAME for a shipped one.

    Shows the arms with their outcomes, how pairs were made, and what runs carry; then for each estimand whether it is
    answerable (yes, no, or partly: in some cells only), why, and the cheapest fix where it is not.
    """
    from drsim.pilot.doctor import examine
    from drsim.pilot.reading import read
    from drsim.report.doctor import doctor_document, doctor_text
    from drsim.report.documents import encode

    diagnosis = examine(read(resolve(pilots)), baseline=baseline, arms=arms or None)
    text = encode(doctor_document(diagnosis)) if as_json else doctor_text(diagnosis, terminal_width())
    write_result(text, output)
    is_met = all(diagnosis.estimand(name).answerable for name in required)
    return 0 if is_met else REQUIREMENT_FAILED
