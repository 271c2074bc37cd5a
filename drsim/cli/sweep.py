"""`drsim sweep`: every policy of a product of axes, on a model of the step process."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drsim.cli.options import common_options, example, terminal_width, warn, whole_file, write_result
from drsim.cli.source import ORIGIN_HELP, SourceOptions, source_options
from drsim.errors import ParameterError

if TYPE_CHECKING:
    from drsim.planning.corrected_winner import Corrected
    from drsim.planning.source import Source
    from drsim.planning.sweep import Progress, Runner, Sweep
    from drsim.planning.sweep_cells import Fold, SweepInputs
    from drsim.report.sweep.answer import Answer

__all__ = ["command"]

DEFAULT_MODEL = "ip_alfworld_qwen3_8b"
TABLES = (".csv", ".parquet", ".nc")
"""Suffixes of --output that ask for all cells as a table."""
PICTURES = (".svg", ".png")


@click.command(
    "sweep",
    epilog=example(
        "drsim sweep --timing early-vs-late",
        "drsim sweep --from example:alfworld --draws 50",
        "drsim sweep --from example --timing window --budget 1:3 --json",
        "drsim sweep --from example --threshold 0.3:0.95:0.05 --cooldown 0:3",
    ),
)
@click.option(
    "--timing",
    metavar="FAMILY",
    help="early-vs-late: only before, or only from step k, for every k. first-step: the late half alone. window: only"
    " in steps k1 to k2. fixed-frequency: after every n steps, whatever the score. delay: only after k steps without"
    " interruption, at the start as after an intervention.  [default: early-vs-late where no axis is given]",
)
@click.option(
    "--from",
    "origin",
    metavar="ORIGIN",
    help=f"{ORIGIN_HELP}  [default: the ALFWorld model]",
)
@click.option("--mechanism", metavar="NAMES", help="Mechanisms, separated by commas.  [default: all of the model]")
@click.option("--threshold", metavar="RANGE", help="Thresholds, such as 0.3:0.95:0.05 or 0.5,0.7.")
@click.option("--budget", metavar="RANGE", help="Most interventions in a run, such as 1:5.")
@click.option("--cooldown", metavar="RANGE", help="Steps in which nothing fires after an intervention, such as 0:3.")
@click.option("--policy", metavar="NAME", help="Policy of the model to start from.  [default: its first one]")
@click.option(
    "-n",
    "n_runs",
    type=click.IntRange(min=2),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Runs of each cell and draw where the policy's signal looks back on a run, so that it cannot be exact.",
)
@click.option(
    "--folds",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    metavar="K",
    help="Folds of a pilot's tasks, by which the best cell is valued on tasks that did not pick it; 0: none.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep finished blocks of cells here.  [default: a folder for the while]",
)
@click.option(
    "--corrected", is_flag=True, help="Also the best arm of a pilot without the luck of having been picked, as in fit."
)
@click.option("--resume", is_flag=True, help="Go on with what --store holds.")
@click.option("--dask", metavar="ADDRESS", help="Work on a dask.distributed cluster; local starts one here.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="A picture: FILE.svg or FILE.png.")
@common_options
@source_options
def command(
    timing: str | None,
    origin: str | None,
    mechanism: str | None,
    threshold: str | None,
    budget: str | None,
    cooldown: str | None,
    policy: str | None,
    n_runs: int,
    folds: int,
    store: Path | None,
    corrected: bool,
    resume: bool,
    dask: str | None,
    plot: Path | None,
    origin_options: SourceOptions,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say when to intervene: the gain of every policy of a product of axes, and of the best one after correction.

    The axes are timing, mechanism, threshold, budget and cooldown; what is not given is that of the policy that the
    sweep starts from. Cells are exact, unless the policy's signal looks back on a run (belief, mean, votes).

    -o FILE.csv, FILE.parquet or FILE.nc writes all cells as a table; any other FILE takes the result, in which --json
    lists all cells up to 10,000, and of more the best. A long sweep with --store goes on after any interruption with
    --resume, and ends in the same bytes.
    """
    if resume and store is None:
        raise click.UsageError("--resume needs --store DIR: it says where the finished blocks are.")
    if plot is not None and plot.suffix not in PICTURES:
        raise click.UsageError(f"--plot {plot} must end in {' or '.join(PICTURES)}.")
    _check_targets(output, plot)
    from drsim.planning.sweep import run_sweep
    from drsim.report.documents import encode
    from drsim.report.sweep.answer import answer_of
    from drsim.report.sweep.document import sweep_document
    from drsim.report.sweep.text import sweep_text

    axes = {
        "timing": timing,
        "threshold": threshold,
        "budget": budget,
        "cooldown": cooldown,
        "mechanism": mechanism,
        "policy": policy,
    }
    source = _source(origin, origin_options, seed=seed, quiet=quiet)
    winners = _winners(source, origin, origin_options, seed=seed) if corrected else None
    if policy is None and source.policy is not None:
        axes["policy"] = source.policy
    inputs = _inputs(source, axes, seed=seed, n_runs=n_runs)
    if origin is not None and origin != "-" and inputs.axes.is_exact:  # standard input is gone once it is read
        inputs = replace(inputs, folds=_folds(source, origin, origin_options, n_folds=folds, seed=seed, quiet=quiet))
    _tell_of_compiling(quiet=quiet)
    with (
        _told_where(store, quiet=quiet),
        _runner(dask) as runner,
        run_sweep(inputs, folder=store, resume=resume, runner=runner, progress=_progress(quiet=quiet)) as sweep,
    ):
        if sweep.recomputed:
            n = len(sweep.recomputed)
            blocks = "1 damaged block" if n == 1 else f"{n} damaged blocks"
            warn([f"{blocks} in {store}: computed again"], quiet=quiet)
        answer = answer_of(sweep)
        if as_json:
            text = encode(sweep_document(answer, winners))
        else:
            text = sweep_text(answer, terminal_width(), winners or ())
        if plot is not None:
            _draw(answer, plot)
        if output is not None and output.suffix in TABLES:
            _write_table(sweep, output)
            output = None
    write_result(text, output)
    return 0


def _check_targets(output: Path | None, plot: Path | None) -> None:
    """Refuse before a long sweep what could not be written after it."""
    for option, target in (("--output", output), ("--plot", plot)):
        if target is not None and not target.parent.is_dir():
            raise ParameterError(f"{option} {target} cannot be written: there is no folder {target.parent}")
    if output is not None and output.suffix in TABLES:
        from drsim.report.sweep.table import check_table

        check_table(output.suffix)
    if plot is not None:
        from drsim.report.sweep.plot import check_plot

        check_plot()


def _source(origin: str | None, origin_options: SourceOptions, *, seed: int, quiet: bool) -> "Source":
    """What --from names; the shipped ALFWorld model, which stderr tells, where it is not given."""
    if origin is None and not quiet:
        click.echo(f"no --from: the shipped model {DEFAULT_MODEL}, which is not your agent", err=True)
    return origin_options.read(origin or DEFAULT_MODEL, seed=seed, quiet=quiet)


def _folds(
    source: "Source", origin: str, origin_options: SourceOptions, *, n_folds: int, seed: int, quiet: bool
) -> "tuple[Fold, ...]":
    """Folds of the tasks where the origin is a pilot."""
    from drsim.planning.source import SourceKind

    if source.kind is not SourceKind.PILOT or source.policy is None or n_folds == 0:
        return ()
    found = origin_options.folds(origin, n_folds=n_folds, seed=seed)
    if not found:
        warn([f"the pilot names too few tasks for {n_folds} folds: the best cell keeps the pilot's luck"], quiet=quiet)
    return found


def _winners(
    source: "Source", origin: str | None, origin_options: SourceOptions, *, seed: int
) -> "tuple[Corrected, ...]":
    """The best arm of the pilot that the sweep starts from, corrected.

    Raises
    ------
    ParameterError
        It starts from something else, or from standard input, which is gone once it is read.
    """
    from drsim.planning.source import SourceKind

    if origin is None or origin == "-" or source.kind is not SourceKind.PILOT:
        raise ParameterError(
            f"--corrected takes --from a pilot file with several arms, got {origin or 'no --from'}; leave it out"
        )
    return origin_options.winners(origin, seed=seed)


def _inputs(source: "Source", axes: dict[str, str | None], *, seed: int, n_runs: int) -> "SweepInputs":
    from drsim.planning.axes_text import axes_of
    from drsim.planning.sweep_cells import SweepInputs

    return SweepInputs(
        model=source.model,
        draws=source.draws,
        axes=axes_of(source.model, **axes),
        seed=seed,
        n_runs=n_runs,
        source=source.name,
        assumptions=source.assumptions,
    )


def _runner(dask: str | None) -> "AbstractContextManager[Runner | None]":
    """Threads of this process where --dask is not given."""
    if dask is None:
        return nullcontext()
    from drsim.planning.cluster import with_cluster

    return with_cluster(dask)


def _tell_of_compiling(*, quiet: bool) -> None:
    """A line on stderr where the first use of the recursion will take a while; none where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        return
    from drsim.process.coupled_many import is_compiled

    if not is_compiled():
        click.echo("compiling the recursion, once: some 15 s", err=True)


@contextmanager
def _told_where(store: Path | None, *, quiet: bool) -> Iterator[None]:
    """On an interrupt, say that what was done is kept."""
    try:
        yield
    except KeyboardInterrupt:
        if store is not None:
            warn([f"finished blocks are kept in {store}; the same command with --resume goes on"], quiet=quiet)
        raise


def _progress(*, quiet: bool) -> Callable[["Progress"], None] | None:
    """A line on stderr with the cells done and the time left; none where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        return None

    def show(it: "Progress") -> None:
        end = "\n" if it.n_done == it.n_cells else ""
        left = f"{timedelta(seconds=round(it.seconds_left))} left"
        click.echo(f"\r{it.n_done:,} of {it.n_cells:,} cells, {left}   {end}", err=True, nl=False)

    return show


def _write_table(sweep: "Sweep", output: Path) -> None:
    from drsim.report.sweep.table import write_table

    with whole_file(output) as stream:
        write_table(sweep, stream, output.suffix)


def _draw(answer: "Answer", plot: Path) -> None:
    from drsim.report.sweep.plot import draw_sweep

    with whole_file(plot) as stream:
        draw_sweep(answer, stream, plot.suffix.removeprefix("."))
