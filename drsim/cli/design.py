"""`drsim design`: what a pilot plan will say, before it is run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drsim.cli.options import common_options, example, terminal_width, warn, write_result

if TYPE_CHECKING:
    from drsim.report.design.answer import Answer

__all__ = ["command"]

RULES = ("posterior", "point", "mcnemar", "anytime")


@click.command(
    "design",
    epilog=example(
        "drsim design --tasks 50 --trials 3 --failure-rate 0.89",
        "drsim design --tasks 50 --discordance 0.25 --gain 0.028 --rule mcnemar",
        "drsim design --tasks 200 --discordance 0.3 --gain 0.05 --fires 0.4",
        "drsim design --tasks 300 --failure-rate 0.4 --prior 0.02,0.05",
        "drsim design --tasks 50 --discordance 0.35 --gain -0.255 --json",
    ),
)
@click.option("--tasks", "n_tasks", type=click.IntRange(min=1), required=True, help="Tasks of the plan.")
@click.option("--trials", "n_trials", type=click.IntRange(1, 64), default=1, show_default=True, help="Pairs of a task.")
@click.option(
    "--arms", "n_arms", type=click.IntRange(1, 1000), help="Arms beside the baseline.  [default: those named, or 1]"
)
@click.option("--failure-rate", type=float, metavar="P", help="Of the baseline; needed without --discordance.")
@click.option("--discordance", type=float, metavar="Q", help="Share of pairs that flip.  [default: of reruns]")
@click.option("--rho", type=float, default=0.69, show_default=True, help="Intraclass correlation of a task's runs.")
@click.option("--clustering", type=float, help="Of a task's pairs, likewise; 0: the same gain in all.  [default: RHO]")
@click.option("--fork", is_flag=True, help="Pairs share one run up to the first firing.")
@click.option("--fires", type=float, default=1.0, show_default=True, help="Share of runs in which the policy fires.")
@click.option(
    "--rule", "kind", type=click.Choice(RULES), default="posterior", show_default=True, help="How it is read."
)
@click.option("--gain", "wanted", type=float, multiple=True, help="Count the tasks that find this gain; may repeat.")
@click.option("--at", "gains", type=float, multiple=True, help="Read the plan at this gain; may repeat.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of the right decision.")
@click.option("--margin", type=float, default=0.0, show_default=True, help="Gain that intervening must exceed.")
@click.option("--rope", type=float, default=0.01, show_default=True, help="Gains smaller than this count as none.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="That the posterior rule needs.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Level of mcnemar, of anytime's benefit.")
@click.option("--harm-alpha", type=float, default=0.1, show_default=True, help="Level of anytime's harm.")
@click.option("--prior", metavar="MEAN,SD", help="Belief about the gain, for the plan's assurance.")
@click.option("--price-run", type=float, metavar="USD", help="One run.  [default: prices are counted in runs]")
@click.option("--price-task", type=float, default=0.0, show_default=True, metavar="USD", help="One further task.")
@click.option("--max-tasks", type=click.IntRange(min=1), default=100_000, show_default=True, help="Largest pilot.")
@click.option("--arm", "arm_names", multiple=True, help="Name of an intervened arm, for the plan; may be repeated.")
@click.option(
    "--preregister", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan, with its hash (TOML)."
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Curves over the gain as .svg or .png.")
@click.option("--no-published", is_flag=True, help="Without the table of published effects.")
@common_options
def command(
    n_tasks: int,
    n_trials: int,
    n_arms: int | None,
    failure_rate: float | None,
    discordance: float | None,
    rho: float,
    clustering: float | None,
    fork: bool,
    fires: float,
    kind: str,
    wanted: tuple[float, ...],
    gains: tuple[float, ...],
    power: float,
    margin: float,
    rope: float,
    confidence: float,
    alpha: float,
    harm_alpha: float,
    prior: str | None,
    price_run: float | None,
    price_task: float,
    max_tasks: int,
    arm_names: tuple[str, ...],
    preregister: Path | None,
    plot: Path | None,
    no_published: bool,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say what a pilot will tell, how large it must be, and what it costs.

    A plan is tasks × trials × arms. For each true gain the command gives the probability that the pilot ends in deploy,
    do-not-deploy or neither, and that its sign is wrong: exactly for one trial a task, by simulation otherwise. Gains
    are probabilities, 0.028 for 2.8 pp.
    """
    from drsim.planning.pilot_rules import PilotRule, RuleKind
    from drsim.planning.pilot_split import DEFAULT_TRIALS
    from drsim.planning.pilot_world import PairingPlan, PilotPlan, PilotWorld, Prices
    from drsim.planning.verdict import DecisionRule
    from drsim.report.design.answer import answer_design, default_gains
    from drsim.report.design.document import design_document
    from drsim.report.design.text import design_text
    from drsim.report.documents import encode

    decision = DecisionRule(margin=margin, rope=rope, confidence=confidence, power=power)
    rule = PilotRule(kind=RuleKind(kind), decision=decision, alpha=alpha, harm_alpha=harm_alpha)
    world = PilotWorld(failure_rate=failure_rate, rho=rho, clustering=clustering, discordance=discordance, fires=fires)
    pairing = PairingPlan.FORK if fork else PairingPlan.RERUN
    plan = PilotPlan(n_tasks=n_tasks, n_trials=n_trials, n_arms=_n_arms(n_arms, arm_names), pairing=pairing)
    if fork and fires == 1.0:
        warn(["--fork without --fires: where the policy fires in every run, forks save nothing"], quiet=quiet)
    if price_task and price_run is None:
        raise click.UsageError("--price-task needs --price-run: in runs alone a task has no price.")
    answer = answer_design(
        world,
        plan,
        rule,
        prices=Prices(run=1.0 if price_run is None else price_run, task=price_task),
        is_priced=price_run is not None,
        power=power,
        gains=tuple(gains) or default_gains(world, plan, margin),
        wanted=tuple(dict.fromkeys(wanted)),
        trials=sorted({*DEFAULT_TRIALS, n_trials}),
        prior=None if prior is None else _prior(prior),
        max_tasks=max_tasks,
        with_published=not no_published,
        seed=seed,
    )
    if plot is not None:
        from drsim.report.design.plot import plot_design

        plot_design(answer, plot)
    plan_hash = None
    if preregister is not None:
        plan_hash = _register(answer, tuple(dict.fromkeys(arm_names)), preregister)
        warn([f"the plan stands in {preregister}, hash {plan_hash}"], quiet=quiet or as_json)
    text = encode(design_document(answer, plan_hash)) if as_json else design_text(answer, terminal_width())
    write_result(text, output)
    return 0


def _n_arms(n_arms: int | None, names: tuple[str, ...]) -> int:
    """Arms as counted, or as named.

    Raises
    ------
    ParameterError
        The two contradict each other.
    """
    from drsim.errors import ParameterError

    n_names = len(set(names))
    if n_arms is not None and names and n_arms != n_names:
        raise ParameterError(f"arms must be the number of those named, {n_names}, got {n_arms}; leave out --arms")
    return n_arms or n_names or 1


def _register(answer: "Answer", names: tuple[str, ...], path: Path) -> str:
    from drsim.cli.options import whole_file
    from drsim.planning.preregistration import format_plan, preregister

    plan = preregister(answer.world, answer.plan, answer.rule, arm_names=names, power=answer.power, seed=answer.seed)
    with whole_file(path) as stream:
        stream.write(format_plan(plan).encode())
    return plan.hash


def _prior(text: str) -> tuple[float, float]:
    """Mean and sd from `0.02,0.05`.

    Raises
    ------
    ParameterError
        `text` is not two numbers.
    """
    from drsim.errors import ParameterError

    try:
        mean, sd = (float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(f"prior must be MEAN,SD, got {text!r}; write 0.02,0.05") from None
    return mean, sd
