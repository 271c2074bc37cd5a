"""`drsim bounds`: whether intervening can ever pay."""

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


@click.command(
    "bounds",
    epilog=example(
        "drsim bounds example:alfworld",
        "drsim bounds example:toy --auroc 0.9 --json",
        "drsim bounds --failure-rate 0.3 --recovery 0.2 --disruption 0.1",
        "drsim bounds --failure-rate 0.05 --recovery 0.2 --require-possible 0.02",
    ),
)
@pilot_arguments(required=False)
@click.option("--failure-rate", type=float, help="P(a baseline run fails), where there are no runs.")
@click.option("--recovery", type=float, help="P(success) of a would-fail run on which the mechanism fires.")
@click.option("--disruption", type=float, help="P(fail) of a would-succeed run on which it fires.")
@rho_option
@click.option(
    "--auroc", "aurocs", type=float, multiple=True, help="Of the critic; may be repeated.  [default: 0.6 to 0.95]"
)
@click.option("--margin", type=float, default=0.01, show_default=True, help="Gain that pays.")
@click.option("--n-max", type=int, default=8, show_default=True, help="Most attempts for Best-of-N.")
@click.option("--draws", type=int, default=20_000, show_default=True, help="Posterior draws.")
@click.option("--details", is_flag=True, help="A block for each cell instead of one table.")
@click.option("--require-possible", type=float, metavar="GAIN", help="Exit with 3 when no policy can gain as much.")
@common_options
def command(
    pilots: tuple[str, ...],
    baseline: str,
    arms: tuple[str, ...],
    failure_rate: float | None,
    recovery: float | None,
    disruption: float | None,
    rho: str | None,
    aurocs: tuple[float, ...],
    margin: float,
    n_max: int,
    draws: int,
    details: bool,
    require_possible: float | None,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say whether intervening can ever pay, before any critic exists.

    PILOT… are files of runs (baseline runs alone will do), of paired counts or of marginals, or example:NAME. Numbers
    stand in for what no run measures; what is neither measured nor given is swept, and named.

    Shows the gain of a perfect predictor and of critics at their best threshold, the smallest AUROC that pays, what an
    oracle over several attempts gains without any critic, and a map of where (p, ρ) intervening could win. Gains are in
    percentage points (pp).
    """
    if not pilots and rho is None and not aurocs and all(x is None for x in (failure_rate, recovery, disruption)):
        raise click.UsageError("Missing argument 'PILOT…', or numbers in its place, such as --failure-rate 0.3.")

    from drsim.inference.rho_prior import RhoPrior
    from drsim.planning.bounds.ceilings import bound
    from drsim.planning.bounds.evidence import evidence_warnings, settings_of_pairing
    from drsim.planning.bounds.inputs import DEFAULT_AUROCS, Given, Question, setting_of_numbers
    from drsim.report.bounds.fill import bounds_document
    from drsim.report.bounds.text import bounds_text
    from drsim.report.documents import encode

    question = Question(aurocs=aurocs or DEFAULT_AUROCS, margin=margin, n_max=n_max, required=require_possible)
    given = Given(
        failure_rate=failure_rate,
        recovery=recovery,
        disruption=disruption,
        rho=None if rho is None else RhoPrior.parse(rho),
    )
    if pilots:
        from drsim.pilot.cells import cells_of
        from drsim.pilot.reading import read

        pairing = cells_of(read(resolve(pilots)), baseline=baseline, arms=arms or None)
        settings = settings_of_pairing(pairing, given, seed=seed, n_draws=draws)
        warnings = tuple(evidence_warnings(pairing, given))
    else:
        settings, warnings = (setting_of_numbers(given, seed=seed, n_draws=draws),), ()
    bounds = bound(settings, question, seed=seed, n_draws=draws, warnings=warnings)
    text = encode(bounds_document(bounds)) if as_json else bounds_text(bounds, terminal_width(), details=details)
    write_result(text, output)
    warn(bounds.warnings, quiet=quiet or as_json)
    return 0 if require_possible is None or bounds.best.possible.is_met else REQUIREMENT_FAILED
