"""`drsim plan`: what to spend on, intervening or more attempts."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drsim.cli.options import common_options, example, rho_option, terminal_width, warn, write_result
from drsim.cli.source import ORIGIN_HELP, SourceOptions, cell_options, considered_mechanisms

if TYPE_CHECKING:
    from drsim.arrays import FloatArray
    from drsim.inference.rho_prior import RhoPrior
    from drsim.planning.alternatives import Item
    from drsim.planning.prices import Prices
    from drsim.planning.source import Source
    from drsim.process.spec import Cost

__all__ = ["command"]


@click.command(
    "plan",
    epilog=example(
        "drsim plan",
        "drsim plan --from example --budget 0.01:0.05usd",
        "drsim plan --from example --budget 60seconds --selector-auroc 0.75",
        "drsim plan --from example --second-success 0.9 --second-price 0.03usd",
        "drsim plan --failure-rate 0.4 --recovery 0.3 --disruption 0.1 --rho 0.5",
        "drsim plan --from example:toy --draws 200 --quiet",
        "drsim plan --from example --rho 0.4 --volume 10000 --json",
    ),
)
@click.option("--from", "given", metavar="ORIGIN", help=f"{ORIGIN_HELP} Without it a published case is shown.")
@click.option("--failure-rate", type=float, help="P(a plain run fails), in the place of a model.")
@click.option("--recovery", type=float, help="Beside it: P(success) of an intervened run that would have failed.")
@click.option("--disruption", type=float, help="Beside it: P(fail) of an intervened run that would have succeeded.")
@click.option(
    "--run-tokens", type=click.FloatRange(min=0, min_open=True), help="Beside it: tokens of a run.  [default: 1]"
)
@click.option("--run-seconds", type=click.FloatRange(min=0), help="Beside it: time of a run.")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="AMOUNT",
    help="A task: 0.05usd, 20000tokens, 60seconds, or LOW:HIGH[:N]usd; may be repeated.  [default: those that matter]",
)
@click.option("--deadline", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Of a task, mean.")
@click.option("--volume", type=click.IntRange(min=1), metavar="TASKS", help="Tasks to run in deployment.")
@click.option("--n-max", type=click.IntRange(2, 64), default=8, show_default=True, help="Most attempts at a task.")
@click.option("--policy", "policies", multiple=True, help="Only this policy of the model; may be repeated.")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    metavar="NAME[,…]",
    help="Compare these.  [default: all of a model, of a pilot or posterior the one that it tried]",
)
@click.option(
    "--interventions", type=click.IntRange(min=0), help="Most in one run, for the best timings.  [default: of policies]"
)
@rho_option
@click.option("--selector-auroc", type=float, help="Of what chooses among attempts; 1 is perfect.  [default: 0.8]")
@click.option("--selector-shared", type=float, help="Share of its errors that like attempts share.  [default: 0.3]")
@click.option("--verifier-tpr", type=float, help="P(it accepts a success).  [default: 0.9]")
@click.option("--verifier-fpr", type=float, help="P(it accepts a failure).  [default: 0.1]")
@click.option("--contamination", type=float, help="Factor on the odds of a retry in context.  [default: 0.7]")
@click.option("--second-success", type=click.FloatRange(0, 1), help="Of a second agent, on the same tasks.")
@click.option("--second-price", metavar="AMOUNT", help="Of one of its runs.")
@click.option("--second-seconds", type=click.FloatRange(min=0), help="Of one of its runs.  [default: as the first's]")
@click.option("--price-tokens", type=click.FloatRange(min=0), metavar="USD", help="Of a million tokens.")
@click.option("--price-critic", metavar="AMOUNT", help="Of scoring one step, in usd or tokens.")
@click.option("--price-intervention", metavar="AMOUNT", help="Of one intervention, beside its tokens.")
@click.option("--price-selector", metavar="AMOUNT", help="Of scoring one attempt.")
@click.option("--price-verifier", metavar="AMOUNT", help="Of verifying one attempt.")
@click.option("--rope", type=float, default=0.01, show_default=True, help="Differences in success that do not count.")
@click.option("--confidence", type=float, default=0.9, show_default=True, help="Probability that a verdict needs.")
@click.option(
    "--draws", type=click.IntRange(2, 100_000), default=1000, show_default=True, help="Of the posterior, and of ρ."
)
@click.option("--all", "is_whole", is_flag=True, help="Every alternative in the table.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Frontiers and maps as .svg or .png.")
@common_options
@cell_options
def command(
    given: str | None,
    failure_rate: float | None,
    recovery: float | None,
    disruption: float | None,
    run_tokens: float | None,
    run_seconds: float | None,
    budgets: tuple[str, ...],
    deadline: float | None,
    volume: int | None,
    n_max: int,
    policies: tuple[str, ...],
    mechanisms: tuple[str, ...],
    interventions: int | None,
    rho: str | None,
    selector_auroc: float | None,
    selector_shared: float | None,
    verifier_tpr: float | None,
    verifier_fpr: float | None,
    contamination: float | None,
    second_success: float | None,
    second_price: str | None,
    second_seconds: float | None,
    price_tokens: float | None,
    price_critic: str | None,
    price_intervention: str | None,
    price_selector: str | None,
    price_verifier: str | None,
    rope: float,
    confidence: float,
    draws: int,
    is_whole: bool,
    plot: Path | None,
    origin_options: SourceOptions,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say what a budget should be spent on: intervening, more attempts, another agent, or nothing.

    Compares one plain run with intervening (the model's policies, and the best timing of each mechanism), ending runs
    that seem lost, restarting them, retrying until a verifier accepts, retrying in context, Best-of-N with a selector,
    intervening inside each attempt, and escalating to a second agent. Tasks differ, so that attempts at one hang
    together; what failed attempts cost is counted.

    What no run of the agent measures is taken from a printed default and swept; where the answer hangs on it, the
    verdict is UNANSWERABLE and says what to measure. Without --from a published case is shown.
    """
    from drsim.report.documents import encode
    from drsim.report.plan.document import case_document, plan_document
    from drsim.report.plan.text import case_text, plan_text

    if given is None and failure_rate is None:
        _refuse_options()
        document = case_document(seed)
        write_result(encode(document) if as_json else case_text(document, terminal_width()), output)
        return 0

    from drsim.inference.rho_prior import RhoPrior
    from drsim.planning.alternatives import Item
    from drsim.planning.assumed import assumed
    from drsim.planning.basis import basis_of_model, basis_of_numbers
    from drsim.planning.frontier import Rule
    from drsim.planning.plan import Question, make_plan
    from drsim.planning.prices import Unit, parse_budgets

    prior = None if rho is None else RhoPrior.parse(rho)
    if given is not None:
        _refuse_both(failure_rate, recovery, disruption, run_tokens, run_seconds)
        options = replace(origin_options, rho=rho, draws=draws)
        source = options.read(given, seed=seed, quiet=quiet)
        basis = basis_of_model(
            source.model,
            source.draws,
            policies=policies,
            mechanisms=considered_mechanisms(source, mechanisms),
            interventions=interventions,
            rho=_rho(source, options, given, prior, seed),
            n_max=n_max,
            n_draws=draws,
            seed=seed,
        )
        basis = replace(basis, assumptions=(*source.assumptions, *basis.assumptions))
    elif failure_rate is not None:
        basis = basis_of_numbers(
            failure_rate,
            recovery=recovery,
            disruption=disruption,
            run_tokens=1.0 if run_tokens is None else run_tokens,
            run_seconds=run_seconds or 0.0,
            rho=prior,
            n_max=n_max,
            n_draws=draws,
            seed=seed,
        )
    knobs = assumed(
        {
            "selector_auroc": selector_auroc,
            "selector_shared": selector_shared,
            "verifier_tpr": verifier_tpr,
            "verifier_fpr": verifier_fpr,
            "contamination": contamination,
        }
    )
    told = {
        Item.CRITIC_CALLS: price_critic,
        Item.INTERVENTIONS: price_intervention,
        Item.SELECTOR_CALLS: price_selector,
        Item.VERIFIER_CALLS: price_verifier,
        Item.SECOND_RUNS: second_price,
    }
    prices = _prices(basis.cost, told, price_tokens, second_seconds)
    unit, asked = parse_budgets(budgets) if budgets else (prices.money, ())
    question = Question(
        unit=Unit(unit),
        budgets=asked,
        deadline=deadline,
        volume=volume,
        n_max=n_max,
        rule=Rule(rope=rope, confidence=confidence),
        second_success=second_success,
    )
    plan = make_plan(basis, question, prices, knobs)
    if plot is not None:
        from drsim.report.plan.plot import plot_plan

        plot_plan(plan, plot)
    text = encode(plan_document(plan, seed)) if as_json else plan_text(plan, terminal_width(), is_whole=is_whole)
    write_result(text, output)
    warn(basis.warnings, quiet=quiet)
    return 0


def _refuse_options() -> None:
    """Options of a plan mean nothing without a model.

    Raises
    ------
    click.UsageError
        One of them was given.
    """
    context = click.get_current_context()
    kept = {"seed", "as_json", "quiet", "output", "given"}
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in kept and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} needs a model: give --from MODEL, or --failure-rate.")


def _refuse_both(*numbers: float | None) -> None:
    """A model has its own rates.

    Raises
    ------
    click.UsageError
        Numbers were given beside it.
    """
    if any(it is not None for it in numbers):
        raise click.UsageError("Numbers of a run stand in the place of a model: leave out --from, or the numbers.")


def _rho(
    source: "Source", options: SourceOptions, given: str, prior: "RhoPrior | None", seed: int
) -> "RhoPrior | FloatArray | None":
    """How tasks differ: as repeated baseline runs of a pilot show, else by the prior."""
    from drsim.planning.source import SourceKind

    # standard input is gone once it is read
    measured = options.rho_draws(given, seed=seed) if source.kind is SourceKind.PILOT and given != "-" else None
    return prior if measured is None else measured


def _prices(
    cost: "Cost", told: "dict[Item, str | None]", price_tokens: float | None, second_seconds: float | None
) -> "Prices":
    """Prices of the model, with those given in their place."""
    from drsim.planning.prices import NAMES, parse_amount, prices_of

    amounts = {item: parse_amount(f"--{NAMES[item]}", text) for item, text in told.items() if text is not None}
    return prices_of(cost, amounts, usd_per_million_tokens=price_tokens, second_seconds=second_seconds)
