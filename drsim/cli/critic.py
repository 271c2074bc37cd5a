"""`drsim critic`: what a critic's scores tell, and what firing on them gains."""

from pathlib import Path

import click

from drsim.cli.options import (
    REQUIREMENT_FAILED,
    common_options,
    example,
    resolve,
    rho_option,
    terminal_width,
    warn,
    write_result,
)

__all__ = ["command"]


@click.command(
    "critic",
    epilog=example(
        "drsim critic example:toy",
        "drsim critic example:toy --recovery 0.3 --disruption 0.2 --json",
        "drsim critic example:toy --require-gain 0.02 --confidence 0.9",
    ),
)
@click.argument("pilots", nargs=-1, required=True, metavar="PILOT…")
@click.option("--baseline", default="baseline", show_default=True, metavar="ARM", help="Arm without intervention.")
@click.option(
    "--arm",
    "arms",
    multiple=True,
    help="Arm whose scores to judge; may be repeated.  [default: the baseline if it has scores, else every arm]",
)
@click.option(
    "--rates-from", metavar="ARM", help="Intervened arm whose pairs tell recovery and disruption given firing."
)
@click.option("--recovery", type=float, metavar="RATE", help="Recovery given firing, instead of that of the pairs.")
@click.option("--disruption", type=float, metavar="RATE", help="Disruption given firing, likewise.")
@rho_option
@click.option(
    "--require-gain",
    type=float,
    metavar="GAIN",
    help="Exit with 3 unless some threshold gains more than this with the confidence stated.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Posterior probability required.")
@click.option("--draws", type=int, default=4_000, show_default=True, help="Posterior draws.")
@common_options
def command(
    pilots: tuple[str, ...],
    baseline: str,
    arms: tuple[str, ...],
    rates_from: str | None,
    recovery: float | None,
    disruption: float | None,
    rho: str | None,
    require_gain: float | None,
    confidence: float,
    draws: int,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Judge a critic by what acting on its scores gains, not by its AUROC alone.

    PILOT… are files of runs whose steps carry scores, the critic's probability that the run fails (JSON Lines, Parquet;
    .gz, .zst); globs, `-` for standard input, and example:NAME for a shipped one.

    Shows AUROC, Brier, NLL, calibration and temperature with intervals over tasks; then for each trigger rate the
    threshold τ (the critic fires on a run when a step scores above it), TPR, FPR and the gain p·TPR·ρ − (1−p)·FPR·δ,
    where ρ and δ are recovery and disruption given firing: as stated, else of the pairs that were acted on, less what
    reruns alone flip.
    """
    from drsim.inference.rho_prior import RhoPrior
    from drsim.pilot.reading import read
    from drsim.planning.critic.assessment import judge_critics
    from drsim.planning.critic.judgement import CriticRule
    from drsim.report.critic.fill import critic_document
    from drsim.report.critic.text import critic_text
    from drsim.report.documents import encode

    assessment = judge_critics(
        read(resolve(pilots)),
        seed=seed,
        baseline=baseline,
        arms=arms or None,
        rates_from=rates_from,
        recovery=recovery,
        disruption=disruption,
        rho_prior=None if rho is None else RhoPrior.parse(rho),
        rule=CriticRule(margin=require_gain or 0.0, confidence=confidence),
        n_draws=draws,
    )
    text = encode(critic_document(assessment)) if as_json else critic_text(assessment, terminal_width())
    write_result(text, output)
    warn(assessment.warnings, quiet=quiet or as_json)
    return REQUIREMENT_FAILED if require_gain is not None and not assessment.is_met else 0
