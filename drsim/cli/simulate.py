"""`drsim simulate`: policies on a model of the step process."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drsim.cli.options import common_options, example, terminal_width, warn, write_result

if TYPE_CHECKING:
    from drsim.process.spec import Model

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
        "drsim simulate example --json",
    ),
)
@click.argument("model", metavar="MODEL")
@click.option("--policy", "policies", multiple=True, help="Only this policy of the model; may be repeated.")
@click.option("-n", "n", callback=_count, default="1e5", show_default=True, metavar="N", help="Runs of each policy.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "numba", "jax", "reference"]),
    default="auto",
    show_default=True,
    help="auto answers exactly; the others run, all with the same runs.",
)
@common_options
def command(
    model: str,
    policies: tuple[str, ...],
    n: int,
    engine: str,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say what the policies of a model do: success, gain, steps, interventions, cost, r and d.

    MODEL is a shipped model (drsim models lists them) or a model file (.toml). Threshold policies are answered exactly;
    with an engine, runs are simulated and stand beside the exact values, with z the distance in standard errors.

    -o FILE.jsonl writes N simulated tasks as a pilot that drsim fit reads, each arm with runs of its own; any other
    FILE takes the result.
    """
    from drsim.process.compile import compile_model, compile_policy, never
    from drsim.process.exact import evaluate
    from drsim.process.shipped import find_model
    from drsim.report.documents import encode
    from drsim.report.simulate import Answer, simulate_document, simulate_text

    spec = find_model(model)
    compiled = compile_model(spec)
    rules = {name: compile_policy(spec, name) for name in dict.fromkeys(policies or spec.policies)}
    exact = {"baseline": evaluate(compiled, never(compiled))}
    exact |= {name: evaluate(compiled, rule) for name, rule in rules.items()}
    simulation = None
    if engine != "auto":
        from drsim.engine.simulate import Engine, simulate

        show = None if quiet else _progress(n)
        simulation = simulate(compiled, rules, n=n, seed=seed, engine=Engine(engine), progress=show)
        if simulation.n < n:
            warn([f"interrupted after {simulation.n:,} of {n:,} runs; what follows is of those"], quiet=quiet)
    if output is not None and output.suffix == PILOT_SUFFIX:
        _write_pilot(output, spec, tuple(rules), n=n, seed=seed, engine="numba" if engine == "auto" else engine)
        output = None
    answer = Answer(model=spec, exact=exact, simulation=simulation)
    write_result(encode(simulate_document(answer)) if as_json else simulate_text(answer, terminal_width()), output)
    return 0


def _progress(n: int) -> Callable[[int], None] | None:
    """A line on stderr that counts runs; none where stderr is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(done: int) -> None:
        click.echo(f"\r{done:,} of {n:,} runs" + ("\n" if done == n else ""), err=True, nl=False)

    return show


def _write_pilot(path: Path, spec: "Model", names: tuple[str, ...], *, n: int, seed: int, engine: str) -> None:
    import msgspec

    from drsim.engine.records import simulated_runs
    from drsim.engine.simulate import Engine
    from drsim.errors import ParameterError
    from drsim.process.compile import compile_model, compile_policy

    arms = {name: (compile_policy(spec, name), spec.policies[name].mechanism) for name in names}
    encoder = msgspec.json.Encoder()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            for run in simulated_runs(compile_model(spec), arms, name=spec.name, n=n, seed=seed, engine=Engine(engine)):
                stream.write(encoder.encode(run) + b"\n")
        temporary.replace(path)
    except OSError as error:
        raise ParameterError(f"--output {path} cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
