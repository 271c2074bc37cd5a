"""`drsim next`: which run to make next."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drsim.cli.options import (
    REQUIREMENT_FAILED,
    common_options,
    example,
    pilot_arguments,
    resolve,
    terminal_width,
    warn,
    write_result,
)

if TYPE_CHECKING:
    from drsim.planning.allocation import NetBenefit

__all__ = ["command"]

DEFAULT_VALUE = 1.0


@click.command(
    "next",
    epilog=example(
        "drsim next example:toy --budget 0.2",
        "drsim next example:toy --budget 1 --new-tasks 50 --runs 12",
        "drsim next example:toy --budget 5 --objective net-benefit --volume 90000",
        "drsim next example:toy --budget 1 --price rollback=0.02 --json",
    ),
)
@pilot_arguments()
@click.option("--budget", type=float, required=True, metavar="USD", help="Money to spend; runs, where none has a cost.")
@click.option(
    "--runs", "most_runs", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Runs to list."
)
@click.option("--agent", help="Of the pilot, where it holds several.")
@click.option("--benchmark", help="Of the pilot, where it holds several.")
@click.option("--new-tasks", type=click.IntRange(min=0), default=0, show_default=True, help="Tasks nobody ran yet.")
@click.option("--price", "given", multiple=True, metavar="ARM=USD", help="Of a run.  [default: mean cost]")
@click.option(
    "--objective",
    type=click.Choice(["best-arm", "net-benefit"]),
    default="best-arm",
    show_default=True,
    help="best-arm: top-two sampling. net-benefit: value of sample information per dollar.",
)
@click.option("--volume", type=float, help="For net-benefit: runs to be made with the chosen arm.")
@click.option("--value", type=float, metavar="USD", help="For net-benefit: worth of one success.  [default: 1]")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="P(best) that decides.")
@click.option("--require-decided", is_flag=True, help="Exit with 3 unless nothing more needs to be run.")
@common_options
def command(
    pilots: tuple[str, ...],
    baseline: str,
    arms: tuple[str, ...],
    budget: float,
    most_runs: int,
    agent: str | None,
    benchmark: str | None,
    new_tasks: int,
    given: tuple[str, ...],
    objective: str,
    volume: float | None,
    value: float | None,
    confidence: float,
    require_decided: bool,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say which task, arm and trial to run next, within a budget.

    PILOT… are runs of the baseline and of several arms (mechanisms, timings, thresholds). Runs go where they tell most
    about which arm is best; where reruns of a task end differently and tasks are few, that may be the baseline again.
    """
    from drsim.errors import DataError, ParameterError
    from drsim.pilot.evidence import Pilot
    from drsim.pilot.reading import read
    from drsim.planning.allocation import allocate
    from drsim.planning.arm_evidence import arm_evidence, run_prices
    from drsim.report.documents import encode
    from drsim.report.next.document import next_document
    from drsim.report.next.text import next_text

    benefit = _benefit(objective, volume, value)
    pilot = read(resolve(pilots))
    if not isinstance(pilot, Pilot):
        raise DataError("the next run takes runs, one a line: counts and marginals do not say which tasks were run")
    evidence = arm_evidence(pilot, baseline=baseline, arms=arms or None, place=(agent, benchmark))
    prices, is_priced = run_prices(pilot, evidence.arms, _prices(given))
    if benefit is not None and not is_priced:
        raise ParameterError(
            "net benefit weighs runs against dollars, and no run has a cost; give --price ARM=USD for every arm"
        )
    found = allocate(
        evidence,
        prices,
        budget=budget,
        seed=seed,
        most_runs=most_runs,
        confidence=confidence,
        new_tasks=new_tasks,
        benefit=benefit,
    )
    if not evidence.is_rho_measured:
        warn(["no task has two baseline runs, so that ρ is assumed: repeat some to measure it"], quiet=quiet)
    if not is_priced:
        warn(["no run has a cost, so that the budget counts runs: give --price ARM=USD for dollars"], quiet=quiet)
    document = next_document(
        found, prices, benefit, is_priced=is_priced, budget=budget, confidence=confidence, seed=seed
    )
    text = next_text(found, prices, terminal_width(), is_priced=is_priced)
    write_result(encode(document) if as_json else text, output)
    return REQUIREMENT_FAILED if require_decided and not found.is_decided else 0


def _benefit(objective: str, volume: float | None, value: float | None) -> "NetBenefit | None":
    """What a decision is worth; None where only the best arm is asked for.

    Raises
    ------
    ParameterError
        The numbers do not fit the objective.
    """
    from drsim.errors import ParameterError
    from drsim.planning.allocation import NetBenefit

    if objective == "best-arm":
        if volume is not None or value is not None:
            raise ParameterError("--volume and --value are for --objective net-benefit; add it, or leave them out")
        return None
    if volume is None:
        raise ParameterError("--objective net-benefit needs --volume RUNS, the runs that the choice is for; give it")
    return NetBenefit(volume=volume, value=DEFAULT_VALUE if value is None else value)


def _prices(given: tuple[str, ...]) -> dict[str, float]:
    """Prices by arm.

    Raises
    ------
    ParameterError
        A text is not `ARM=USD`.
    """
    from drsim.errors import ParameterError

    found = {}
    for text in given:
        arm, _, usd = text.rpartition("=")
        try:
            found[arm] = float(usd)
        except ValueError:
            raise ParameterError(f"price must be ARM=USD, got {text!r}; write rollback=0.02") from None
    return found
