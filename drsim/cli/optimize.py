"""`drsim optimize`: the best times to intervene in a modelled agent."""

from pathlib import Path

import click

from drsim.cli.options import common_options, example, terminal_width, warn, write_result
from drsim.cli.source import ORIGIN_HELP, SourceOptions, considered_mechanisms, source_options

__all__ = ["command"]

DEFAULT_BUDGET = 3


@click.command(
    "optimize",
    epilog=example(
        "drsim optimize example",
        "drsim optimize example --budget 1 --price-intervention 0.01",
        "drsim optimize ip_hotpotqa_minimax_m2_1 --mechanism append",
        "drsim optimize signals --typical --policy score",
        "drsim optimize --from example:alfworld --draws 50 --robust",
        "drsim optimize example --json",
    ),
)
@click.argument("origin", metavar="[ORIGIN]", required=False)
@click.option("--from", "given_from", metavar="ORIGIN", help=ORIGIN_HELP)
@click.option("--budget", type=click.IntRange(min=0), help="Most interventions in one run.  [default: of the policies]")
@click.option(
    "--cooldown",
    type=click.IntRange(min=0),
    help="Steps without a firing after an intervention.  [default: of the policies]",
)
@click.option("--mechanism", "mechanisms", multiple=True, metavar="NAME[,…]", help="Choose among these only.")
@click.option("--policy", "policies", multiple=True, help="Only this policy of the model on the ladder; may repeat.")
@click.option(
    "--price-intervention",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="X",
    help="In units of success: 0.01 is a percentage point.",
)
@click.option(
    "--price-critic",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="X",
    help="Of scoring one step, likewise.",
)
@click.option(
    "--grid",
    "n_points",
    type=click.IntRange(3, 20_001),
    default=1001,
    show_default=True,
    metavar="N",
    help="Most points on which beliefs are held.",
)
@click.option(
    "--typical", "is_typical", is_flag=True, help="Take all tasks for alike and scores of a run for independent."
)
@click.option("--robust", "is_robust", is_flag=True, help="Maximise the mean over draws of the parameters.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Ladder and curve as .svg or .png.")
@common_options
@source_options
def command(
    origin: str | None,
    given_from: str | None,
    budget: int | None,
    cooldown: int | None,
    mechanisms: tuple[str, ...],
    policies: tuple[str, ...],
    price_intervention: float,
    price_critic: float,
    n_points: int,
    is_typical: bool,
    is_robust: bool,
    plot: Path | None,
    origin_options: SourceOptions,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say when to intervene in a modelled agent, and what the best policies can gain.

    ORIGIN, or --from ORIGIN, is a model, a posterior or a pilot. A finite-horizon programme on the belief that a run is
    off track gives the best policy that goes by scores: the curve b* of P(off track) from which intervening pays, by
    step and interventions left. Beside it stands the ladder: never, the model's policies, the best constant threshold,
    the best threshold of every step, the best policy on beliefs, and one that sees the state.

    Of a pilot or posterior only the mechanism that it tried is considered, unless --mechanism names others, whose
    effects are then the base model's.

    The best plain thresholds are printed as a policy that drsim simulate reads.
    """
    from drsim.planning.as_given import gains_as_given
    from drsim.planning.ladder import ladder
    from drsim.planning.robust import robust
    from drsim.planning.threshold_policies import is_start
    from drsim.process.belief_programme import typical
    from drsim.process.compile import compile_model, compile_policy
    from drsim.process.terms import Terms
    from drsim.report.documents import encode
    from drsim.report.optimize.answer import Answer
    from drsim.report.optimize.document import optimize_document
    from drsim.report.optimize.text import optimize_text

    source = origin_options.read(_one_of(origin, given_from), seed=seed, quiet=quiet)
    model, draws = source.model, source.draws
    compiled = compile_model(model)
    chosen = considered_mechanisms(source, mechanisms)
    own = [name for name, it in model.policies.items() if chosen is None or it.mechanism in chosen]
    rules = {name: compile_policy(model, name) for name in dict.fromkeys(policies or own)}
    terms = Terms(
        budget=max((it.budget for it in rules.values()), default=DEFAULT_BUDGET) if budget is None else budget,
        cooldown=min((it.cooldown for it in rules.values()), default=0) if cooldown is None else cooldown,
        intervention_price=price_intervention,
        critic_price=price_critic,
        mechanisms=None if chosen is None else tuple(sorted(list(model.mechanisms).index(name) for name in chosen)),
    )
    assumptions = [] if source.cell is None else list(source.assumptions)
    given = compiled
    is_surrogate = is_typical and (given.tasks is not None or given.run_sd > 0.0)
    if is_surrogate:
        assumptions.append("every task is the typical one, and scores of one run are independent given its state")
        compiled = typical(given)
    found = ladder(compiled, rules, terms, seed=seed, n_points=n_points)
    over_draws = None
    if is_robust:
        starts = [it for it in rules.values() if is_start(it, terms, len(model.mechanisms))]
        over_draws = robust(draws, terms, point=compiled, starts=starts, runs_belief=True)
    answer = Answer(
        model=model,
        compiled=compiled,
        ladder=found,
        robust=over_draws,
        assumptions=tuple(assumptions),
        as_given=gains_as_given(given, compiled, found) if is_surrogate else None,
    )
    if not model.mechanisms:
        warn([f"{model.name} has no mechanisms, so that nothing can be done"], quiet=quiet)
    if plot is not None:
        from drsim.report.optimize.plot import plot_answer

        plot_answer(answer, plot)
    write_result(
        encode(optimize_document(answer, seed)) if as_json else optimize_text(answer, terminal_width()), output
    )
    return 0


def _one_of(origin: str | None, given_from: str | None) -> str:
    """The origin, named once."""
    named = [name for name in (origin, given_from) if name is not None]
    if len(named) != 1:
        raise click.UsageError("name one model, posterior or pilot, as drsim optimize ORIGIN or with --from ORIGIN.")
    return named[0]
