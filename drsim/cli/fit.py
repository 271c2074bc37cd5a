"""`drsim fit`: from a pilot to a verdict."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from drsim.inference.posterior_file import StoredPosterior
    from drsim.pilot.evidence import Evidence
    from drsim.planning.assessment import Assessment
    from drsim.report.documents import FitDocument

__all__ = ["command"]

POSTERIOR_SUFFIX = ".nc"
MODELS = ("static", "hierarchical", "timing", "auto")
DECISIONS = ("deploy", "do-not-deploy", "equivalent", "inconclusive", "unanswerable")


@click.command(
    "fit",
    epilog=example(
        "drsim fit example:alfworld",
        "drsim fit example:toy --json --seed 7",
        "drsim fit example:alfworld --rho 0.45 --frequentist",
        "drsim fit example:toy --model hierarchical",
        "drsim fit example:toy --model timing",
    ),
)
@pilot_arguments()
@click.option(
    "--model",
    type=click.Choice(MODELS),
    default="static",
    show_default=True,
    help="static: each cell on its own. hierarchical: all cells together, tasks shared by their arms. timing: r and d"
    " by the step of the first intervention. auto: hierarchical where there are several cells, else static.",
)
@click.option(
    "--priors",
    type=click.Path(dir_okay=False, path_type=Path),
    help="For --model hierarchical and timing: TOML file with tables of these names, for other priors.",
)
@click.option(
    "--sampler",
    type=click.Choice(["auto", "laplace", "nuts"]),
    default="auto",
    show_default=True,
    help="For --model hierarchical. auto: Laplace's method with importance weights, and NUTS (drsim[bayes]) where those"
    " cannot be relied on.",
)
@click.option(
    "--prior-sensitivity",
    is_flag=True,
    help="For --model hierarchical: fit again under half and double prior scales.",
)
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
@click.option("--corrected", is_flag=True, help="The best of several arms without the luck of having been picked.")
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Say in what the pilot departs from this plan (drsim design --preregister).",
)
@click.option("--details", is_flag=True, help="A block for each cell instead of one table.")
@click.option("--require", type=click.Choice(DECISIONS), help="Exit with 3 unless every cell ends in this decision.")
@common_options
def command(
    pilots: tuple[str, ...],
    baseline: str,
    arms: tuple[str, ...],
    model: str,
    priors: Path | None,
    sampler: str,
    prior_sensitivity: bool,
    margin: float,
    rope: float,
    confidence: float,
    max_pairs: int,
    rho: str | None,
    draws: int,
    frequentist: bool,
    corrected: bool,
    plan: Path | None,
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

    -o FILE.nc writes the posterior draws of the hierarchical or the timing model (netCDF, drsim[bayes]); any other FILE
    takes the result.

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
    evidence = read(resolve(pilots))
    pairing = cells_of(evidence, baseline=baseline, arms=arms or None)
    assessment = assess(pairing, seed=seed, rule=rule, rho_prior=prior, n_draws=draws, with_companions=frequentist)
    if plan is not None:
        assessment = _held_against(plan, assessment)
    chosen, why = _choose(model, assessment)
    _refuse_unread(chosen, why, priors=priors, sampler=sampler, prior_sensitivity=prior_sensitivity)
    if chosen == "static":
        document = fit_document(assessment, model_why=why)
        text = fit_text(assessment, terminal_width(), details=details)
        answer = _Answer(document=document, text=text, is_reliable=True, decisions=_decisions(assessment))
    elif chosen == "hierarchical":
        answer = _pooled(assessment, priors, seed, sampler, prior_sensitivity, why)
    else:
        answer = _timed(assessment, evidence, baseline, arms, priors, seed, why)
    if model == "auto" and not as_json:
        answer = replace(answer, text=f"model: {chosen}, since {why}\n\n{answer.text}")
    if corrected:
        answer = _with_winners(answer, assessment)
    if output is not None and output.suffix == POSTERIOR_SUFFIX:
        _save(answer, output, chosen)
        output = None
    write_result(encode(answer.document) if as_json else answer.text, output)
    warn(assessment.warnings, quiet=quiet or as_json)
    is_met = require is None or answer.decisions == {require}
    return 0 if is_met and answer.is_reliable else REQUIREMENT_FAILED


def _with_winners(answer: "_Answer", assessment: "Assessment") -> "_Answer":
    """The answer with the corrected gain of the best arm of every benchmark."""
    import msgspec

    from drsim.planning.corrected_winner import corrected_winners
    from drsim.report.corrected import corrected_document, corrected_text

    found = corrected_winners(assessment.pairing.cells, seed=assessment.seed)
    documents = [corrected_document(it) for it in found]
    return replace(
        answer,
        document=msgspec.structs.replace(answer.document, corrected=documents),
        text="\n\n".join([answer.text, *(corrected_text(it, terminal_width()) for it in found)]),
    )


def _held_against(plan: Path, assessment: "Assessment") -> "Assessment":
    """The assessment with every departure from its plan among its warnings."""
    from drsim.planning.preregistration import fit_deviations, read_plan

    registered = read_plan(plan.read_text(encoding="utf-8", errors="replace"), str(plan))
    found = fit_deviations(registered, assessment.pairing.cells, assessment.rule, seed=assessment.seed)
    return replace(assessment, warnings=(*assessment.warnings, *found))


def _refuse_unread(model: str, why: str, *, priors: Path | None, sampler: str, prior_sensitivity: bool) -> None:
    """An option that the model does not read is a misunderstanding, not a wish to be passed over."""
    given = {
        "--priors": (priors is not None, ("hierarchical", "timing")),
        "--sampler": (sampler != "auto", ("hierarchical",)),
        "--prior-sensitivity": (prior_sensitivity, ("hierarchical",)),
    }
    for option, (is_given, readers) in given.items():
        if is_given and model not in readers:
            raise click.UsageError(
                f"{option} is read by --model {' or '.join(readers)}, and the model is {model} ({why})."
            )


def _save(answer: "_Answer", output: Path, model: str) -> None:
    from drsim.inference.posterior_file import save_posterior

    if answer.stored is None:
        raise click.UsageError(f"-o {output} takes draws of --model hierarchical or timing, got {model}.")
    save_posterior(answer.stored, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one model says; `stored` is what goes into a .nc file."""

    document: "FitDocument"
    text: str
    is_reliable: bool
    decisions: set[str | None]
    stored: "StoredPosterior | None" = None


def _choose(model: str, assessment: "Assessment") -> tuple[str, str]:
    """The model, and why it was taken."""
    if model != "auto":
        return model, "asked for"
    n_cells = sum(cell.decision is not None for cell in assessment.cells)
    if n_cells > 1:
        return "hierarchical", f"{n_cells} cells say more together"
    return "static", "one cell has none to borrow from; --model timing shows r and d by step where steps are known"


def _decisions(assessment: "Assessment") -> set[str | None]:
    return {None if cell.decision is None else cell.decision.kind.value for cell in assessment.cells}


def _pooled(
    assessment: "Assessment", priors: Path | None, seed: int, sampler: str, with_sensitivity: bool, why: str
) -> _Answer:
    from drsim.inference.hierarchical.fit import DEFAULT_DRAWS
    from drsim.inference.hierarchical.priors import Priors
    from drsim.inference.prior_file import read_priors
    from drsim.inference.stored import stored_hierarchical
    from drsim.planning.pooling import Sampler, assess_pooled
    from drsim.report.fit import fit_document
    from drsim.report.hierarchical import hierarchical_document, hierarchical_text

    chosen = Priors() if priors is None else read_priors(priors)[0]
    found = assess_pooled(
        assessment,
        seed=seed,
        priors=chosen,
        n_draws=DEFAULT_DRAWS,
        with_sensitivity=with_sensitivity,
        sampler=Sampler(sampler),
    )
    return _Answer(
        document=fit_document(
            assessment, model="hierarchical", model_why=why, hierarchical=hierarchical_document(found)
        ),
        text=hierarchical_text(found, terminal_width()),
        is_reliable=found.fit.diagnostics.is_good,
        decisions={cell.decision.kind.value for cell in found.cells},
        stored=stored_hierarchical(found.fit),
    )


def _timed(
    assessment: "Assessment",
    evidence: "Evidence",
    baseline: str,
    arms: tuple[str, ...],
    priors: Path | None,
    seed: int,
    why: str,
) -> _Answer:
    from drsim.errors import DataError
    from drsim.inference.prior_file import read_priors
    from drsim.inference.stored import stored_timing
    from drsim.inference.timing import TimingPriors, fit_timing
    from drsim.inference.triggers import fit_triggers
    from drsim.pilot.evidence import Pilot
    from drsim.pilot.timed import timed_pairs
    from drsim.pilot.triggers import first_triggers
    from drsim.report.fit import fit_document
    from drsim.report.timing import timing_document, timing_text

    if not isinstance(evidence, Pilot):
        raise DataError("timing needs runs with the steps of their interventions, got counts; give a file of runs")
    chosen = TimingPriors() if priors is None else read_priors(priors)[1]
    fit = fit_timing(timed_pairs(evidence, baseline=baseline, arms=arms or None), seed=seed, priors=chosen)
    randomised = first_triggers(evidence, baseline=baseline, arms=arms or None)
    triggers = fit_triggers(randomised, seed=seed, priors=chosen) if randomised else None
    confidence = assessment.rule.confidence
    return _Answer(
        document=fit_document(
            assessment, model="timing", model_why=why, timing=timing_document(fit, triggers, confidence)
        ),
        text=timing_text(fit, triggers, confidence, terminal_width()),
        is_reliable=fit.is_reliable and (triggers is None or triggers.is_reliable),
        decisions=_decisions(assessment),
        stored=stored_timing(fit),
    )
