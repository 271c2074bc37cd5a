"""`drsim simulate`: policies on a model of the step process."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drsim.cli.options import common_options, example, terminal_width, warn, whole_file, write_result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drsim.pilot.records import Run
    from drsim.process.exact import Exact

__all__ = ["command"]


PILOT_SUFFIX = ".jsonl"


def _count(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """A whole number, also as 1e6."""
    try:
        number = float(value)
        is_whole = number == int(number) and 1 <= number <= 1e12
    except (ValueError, OverflowError):
        is_whole = False
    if not is_whole:
        raise click.BadParameter(f"{value!r} is not a whole number from 1 to 1e12.")
    return int(number)


@click.command(
    "simulate",
    epilog=example(
        "drsim simulate example",
        "drsim simulate example --policy late -n 1e4 --engine reference --seed 1",
        "drsim simulate example --engine counts -n 1e9",
        "drsim simulate signals --policy votes -n 1e4 --engine reference",
        "drsim simulate example --json",
    ),
)
@click.argument("model", metavar="MODEL")
@click.option("--policy", "policies", multiple=True, help="Only this policy of the model; may be repeated.")
@click.option("-n", "n", callback=_count, default="1e5", show_default=True, metavar="N", help="Runs of each policy.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "numba", "jax", "reference", "counts"]),
    default="auto",
    show_default=True,
    help="auto answers exactly where it can. numba, jax and reference simulate the same runs; counts moves groups of"
    " runs, whatever their number, and gives means only.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="With -o FILE.jsonl: runs of each task and arm.",
)
@common_options
def command(
    model: str,
    policies: tuple[str, ...],
    n: int,
    engine: str,
    trials: int,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say what the policies of a model do: success, gain, steps, interventions, cost, r and d.

    MODEL is a shipped model (drsim models lists them) or a model file (.toml). Policies that fire on the score of a
    step are answered exactly, also where tasks differ; one whose signal looks back on the run (belief, mean, votes) is
    simulated. With an engine, runs are simulated and stand beside the exact values, with z the distance in standard
    errors.

    -o FILE.jsonl writes N simulated tasks as a pilot that drsim fit reads, each arm with runs of its own; any other
    FILE takes the result.
    """
    from drsim.process.compile import compile_model, compile_policy, never
    from drsim.process.exact import evaluate
    from drsim.process.shipped import find_model
    from drsim.report.documents import encode
    from drsim.report.simulate import Answer, simulate_document, simulate_text

    is_pilot = output is not None and output.suffix == PILOT_SUFFIX
    if trials > 1 and not is_pilot:
        raise click.UsageError(
            f"--trials {trials} needs -o FILE{PILOT_SUFFIX}: it says how many runs of a task to write."
        )
    if is_pilot and engine == "counts":
        raise click.UsageError(f"--engine counts makes no runs to write to {output}; take another engine.")
    spec = find_model(model)
    compiled = compile_model(spec)
    rules = {name: compile_policy(spec, name) for name in dict.fromkeys(policies or spec.policies)}
    exact: dict[str, Exact | None] = {"baseline": evaluate(compiled, never(compiled))}
    exact |= {name: evaluate(compiled, rule) if rule.history is None else None for name, rule in rules.items()}
    simulation = None
    if engine != "auto" or None in exact.values():
        from drsim.engine.simulate import Engine, simulate

        show = None if quiet else _progress(n)
        kind = Engine.NUMBA if engine == "auto" else Engine(engine)
        if kind is Engine.NUMBA:
            _tell_of_compiling(quiet=quiet)
        simulation = simulate(compiled, rules, n=n, seed=seed, engine=kind, progress=show)
        if simulation.n < n:
            warn([f"interrupted after {simulation.n:,} of {n:,} runs; what follows is of those"], quiet=quiet)
    if output is not None and is_pilot:
        from drsim.engine.records import simulated_runs
        from drsim.engine.simulate import Engine

        arms = {name: (rule, spec.policies[name].mechanism) for name, rule in rules.items()}
        kind = Engine.NUMBA if engine == "auto" else Engine(engine)
        runs = simulated_runs(compiled, arms, name=spec.name, n=n, trials=trials, seed=seed, engine=kind)
        _write_records(output, runs)
        output = None
    answer = Answer(model=spec, exact=exact, simulation=simulation)
    write_result(encode(simulate_document(answer)) if as_json else simulate_text(answer, terminal_width()), output)
    return 0


def _tell_of_compiling(*, quiet: bool) -> None:
    """A line on stderr where the first use of the engine will take a while; none where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        return
    from drsim.engine.numba import is_compiled

    if not is_compiled():
        click.echo("compiling the engine, once: some 20 s", err=True)


def _progress(n: int) -> Callable[[int], None] | None:
    """A line on stderr that counts runs; none where stderr is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(done: int) -> None:
        click.echo(f"\r{done:,} of {n:,} runs" + ("\n" if done == n else ""), err=True, nl=False)

    return show


def _write_records(path: Path, runs: "Iterable[Run]") -> None:
    import msgspec

    encoder = msgspec.json.Encoder()
    with whole_file(path) as stream:
        for run in runs:
            stream.write(encoder.encode(run) + b"\n")
