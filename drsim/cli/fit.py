"""`drsim fit`: from a pilot to a verdict."""

from pathlib import Path

import click

from drsim.cli.options import (
    REQUIREMENT_FAILED,
    common_options,
    example,
    pilot_arguments,
    resolve,
    rho_option,
    terminal_width,
    warn,
    write_result,
)

__all__ = ["command"]

DECISIONS = ("deploy", "do-not-deploy", "equivalent", "inconclusive", "unanswerable")


@click.command(
    "fit",
    epilog=example(
        "drsim fit example:alfworld",
        "drsim fit example:toy --json --seed 7",
        "drsim fit example:alfworld --rho 0.45 --frequentist",
    ),
)
@pilot_arguments()
@click.option("--margin", type=float, default=0.0, show_default=True, help="Gain that intervening must exceed.")
@click.option("--rope", type=float, default=0.01, show_default=True, help="Gains smaller than this count as none.")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Posterior probability that a decision needs."
)
@click.option(
    "--max-pairs", type=int, default=100_000, show_default=True, help="Largest pilot that would still be run."
)
@rho_option
@click.option("--draws", type=int, default=20_000, show_default=True, help="Posterior draws where no closed form is.")
@click.option("--frequentist", is_flag=True, help="Add mid-p McNemar, Wilson, Newcombe and Tango.")
@click.option("--details", is_flag=True, help="A block for each cell instead of one table.")
@click.option("--require", type=click.Choice(DECISIONS), help="Exit with 3 unless every cell ends in this decision.")
@common_options
def command(
    pilots: tuple[str, ...],
    baseline: str,
    arms: tuple[str, ...],
    margin: float,
    rope: float,
    confidence: float,
    max_pairs: int,
    rho: str | None,
    draws: int,
    frequentist: bool,
    details: bool,
    require: str | None,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Fit pilot runs and say whether the intervention pays.

    PILOT… are files of runs (JSON Lines, CSV, Parquet; .gz, .zst), of paired counts or of marginals; globs, `-` for
    standard input, and example:NAME for a shipped one. Runs of the arm `baseline` are paired with each other arm by
    agent, benchmark, task and trial.

    Rates are probabilities; gains are in percentage points (pp). Every cell ends as deploy, do-not-deploy, equivalent,
    inconclusive (with the pairs still needed) or unanswerable.
    """
    from drsim.inference.rho_prior import RhoPrior
    from drsim.pilot.cells import cells_of
    from drsim.pilot.reading import read
    from drsim.planning.assessment import assess
    from drsim.planning.verdict import DecisionRule
    from drsim.report.documents import encode
    from drsim.report.fit import fit_document, fit_text

    rule = DecisionRule(margin=margin, rope=rope, confidence=confidence, max_pairs=max_pairs)
    prior = None if rho is None else RhoPrior.parse(rho)
    pairing = cells_of(read(resolve(pilots)), baseline=baseline, arms=arms or None)
    assessment = assess(pairing, seed=seed, rule=rule, rho_prior=prior, n_draws=draws, with_companions=frequentist)
    text = encode(fit_document(assessment)) if as_json else fit_text(assessment, terminal_width(), details=details)
    write_result(text, output)
    warn(assessment.warnings, quiet=quiet or as_json)
    decisions = {None if cell.decision is None else cell.decision.kind.value for cell in assessment.cells}
    return REQUIREMENT_FAILED if require is not None and decisions != {require} else 0
