"""`drsim monitor`: when a running pilot may stop."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drsim.cli.options import REQUIREMENT_FAILED, common_options, example, resolve, terminal_width, warn, write_result

if TYPE_CHECKING:
    from drsim.planning.monitoring import MonitorState, WatchedCell
    from drsim.planning.sequential import MonitorRule

__all__ = ["command"]

STATES = ("go-on", "stop-benefit", "stop-harm", "stop-equivalent", "futile")


@click.command(
    "monitor",
    epilog=example(
        "drsim monitor example:toy --trials 2",
        "drsim monitor example:toy --trials 2 --max-tasks 200 --json",
    ),
)
@click.argument("pilot", metavar="PILOT")
@click.option("--baseline", default="baseline", show_default=True, metavar="ARM", help="Arm without intervention.")
@click.option("--arm", "arms", multiple=True, help="Only this intervened arm; may be repeated.")
@click.option(
    "--trials", type=click.IntRange(1, 64), default=1, show_default=True, help="Pairs that make a task complete."
)
@click.option("--margin", type=float, default=0.0, show_default=True, help="Gain that intervening must exceed.")
@click.option("--rope", type=float, default=0.01, show_default=True, help="Gains smaller than this count as none.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Chance of ever a false benefit.")
@click.option("--harm-alpha", type=float, default=0.1, show_default=True, help="Chance of ever a false harm.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the posterior rule beside it.")
@click.option("--futility", type=float, default=0.05, show_default=True, help="Futile below this chance of a benefit.")
@click.option("--max-tasks", type=int, default=1_000, show_default=True, help="Largest pilot that would be run.")
@click.option(
    "--state", "state_file", type=click.Path(dir_okay=False, path_type=Path), help="Go on from here, and write it back."
)
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Say in what the pilot departs from this plan.",
)
@click.option("--watch", is_flag=True, help="Go on reading until every arm has stopped.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.01),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds between looks.",
)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Stop watching after so many seconds.")
@click.option("--require", type=click.Choice(STATES), help="Exit with 3 unless every arm is in this state.")
@common_options
def command(
    pilot: str,
    baseline: str,
    arms: tuple[str, ...],
    trials: int,
    margin: float,
    rope: float,
    alpha: float,
    harm_alpha: float,
    confidence: float,
    futility: float,
    max_tasks: int,
    state_file: Path | None,
    plan: Path | None,
    watch: bool,
    every: float,
    timeout: float | None,
    require: str | None,
    as_json: bool,
    seed: int,
    quiet: bool,
    output: Path | None,
) -> int:
    """Say whether a running pilot may stop: for benefit, harm, equivalence, or since going on is futile.

    PILOT is a file of JSON Lines that runs are appended to. Tasks count in the order in which they are complete. The
    levels hold however often the file is looked at, and whatever the looks decide, as long as that order does not
    depend on how runs end. With --state the monitor remembers
    what it read, so that it may be stopped and started again.
    """
    from drsim.planning.monitoring import MonitorState, Settings, read_state, watched_cells
    from drsim.planning.sequential import MonitorRule
    from drsim.planning.verdict import DecisionRule
    from drsim.report.documents import encode
    from drsim.report.monitor.document import monitor_document
    from drsim.report.monitor.text import monitor_text, monitor_warnings, progress_line

    rule = MonitorRule(
        n_trials=trials,
        alpha=alpha,
        harm_alpha=harm_alpha,
        max_tasks=max_tasks,
        futility=futility,
        decision=DecisionRule(margin=margin, rope=rope, confidence=confidence),
    )
    settings = Settings(baseline=baseline, trials=trials, margin=margin, rope=rope, alpha=alpha, harm_alpha=harm_alpha)
    state = MonitorState(settings=settings)
    if state_file is not None and state_file.exists():
        state = read_state(state_file.read_bytes(), str(state_file), settings)
    (name,) = resolve([pilot])
    started, n_known, seen = time.monotonic(), -1, None
    cells: tuple[WatchedCell, ...] = ()
    while True:
        # a file as it was is not read again
        if (stamp := _stamp(name)) is None or stamp != seen:
            state, seen = _read(name, state, state_file), stamp
        if len(state.runs) != n_known:
            n_known = len(state.runs)
            cells = watched_cells(state, rule, arms=arms or None, seed=seed)
            if watch and not quiet:
                for cell in cells:
                    click.echo(progress_line(cell), err=True)
        if not watch or _is_over(cells, arms) or (timeout is not None and time.monotonic() - started >= timeout):
            break
        time.sleep(every)
    missing = _missing(cells, arms)
    warnings = monitor_warnings(cells, rule, missing)
    if plan is not None:
        warnings += _departures(plan, rule, cells)
    warn(warnings, quiet=quiet)
    document = monitor_document(cells, state, rule, seed=seed, warnings=warnings)
    write_result(encode(document) if as_json else monitor_text(cells, state, rule, terminal_width()), output)
    if require is not None and (missing or not cells or any(it.look.state != require for it in cells)):
        return REQUIREMENT_FAILED
    return 0


def _stamp(name: str) -> tuple[int, int] | None:
    """Size and time of a file; None where there is none, which reading it says."""
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _read(name: str, state: "MonitorState", state_file: Path | None) -> "MonitorState":
    """The state after what was appended, which is written down."""
    import msgspec

    from drsim.cli.options import whole_file
    from drsim.pilot.growing import read_further
    from drsim.planning.monitoring import add_runs

    runs, position = read_further(name, state.position)
    further = add_runs(state, runs, position)
    if state_file is not None and (further != state or not state_file.exists()):
        with whole_file(state_file) as stream:
            stream.write(msgspec.json.encode(further) + b"\n")
    return further


def _departures(plan: Path, rule: "MonitorRule", cells: "tuple[WatchedCell, ...]") -> list[str]:
    from drsim.planning.preregistration import monitor_deviations, read_plan

    registered = read_plan(plan.read_text(encoding="utf-8", errors="replace"), str(plan))
    n_tasks = {arm: max(it.look.n_tasks for it in cells if it.arm == arm) for arm in sorted({it.arm for it in cells})}
    return list(monitor_deviations(registered, rule, n_tasks))


def _missing(cells: "tuple[WatchedCell, ...]", arms: tuple[str, ...]) -> tuple[str, ...]:
    """Arms that were asked for, and of which no run was read yet."""
    return tuple(name for name in dict.fromkeys(arms) if name not in {it.arm for it in cells})


def _is_over(cells: "tuple[WatchedCell, ...]", arms: tuple[str, ...]) -> bool:
    return bool(cells) and not _missing(cells, arms) and all(it.look.stop is not None for it in cells)
