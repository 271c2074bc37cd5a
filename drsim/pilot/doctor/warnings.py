"""What a reader of a pilot should know before trusting it, though nothing is blocked by it."""

from collections.abc import Iterator, Sequence

from drsim.pilot.doctor.diagnosis import ArmSummary, CellSummary
from drsim.pilot.doctor.places import MIN_DENOMINATOR, Place
from drsim.pilot.remarks import bounds_warning, few, places_of, retry_warnings, unpaired_warning

__all__ = ["denominator_warnings", "pilot_warnings"]

Z = 1.959963984540054
"""97.5 % quantile of the standard normal law."""


def pilot_warnings(arms: Sequence[ArmSummary], places: Sequence[Place], cap_messages: Sequence[str]) -> Iterator[str]:
    """Yield the warnings of a pilot of runs, those that may change an answer first."""
    cells = [cell.summary for place in places for cell in place.cells]
    yield from cap_messages
    yield from retry_warnings((_name(arm), arm.retries) for arm in arms)
    yield from _one_sided_warnings(arms)
    yield from _task_set_warnings(cells)
    yield from unpaired_warning(cells)
    yield from bounds_warning(cells)
    yield from denominator_warnings(cells)


def _one_sided_warnings(arms: Sequence[ArmSummary]) -> Iterator[str]:
    for arm in arms:
        if not arm.is_baseline or not arm.tally.judged:
            continue
        if not arm.tally.success:
            yield (
                f"none of the {arm.tally.judged:,} judged runs of {_name(arm)} succeeded: d cannot be known, nor the "
                "failure rate if the runs were picked because they failed"
            )
        elif arm.tally.success == arm.tally.judged:
            yield f"all {arm.tally.judged:,} judged runs of {_name(arm)} succeeded: there is nothing to recover"


def _task_set_warnings(cells: Sequence[CellSummary]) -> Iterator[str]:
    unlike = [cell for cell in cells if cell.baseline_only_tasks or cell.arm_only_tasks]
    if unlike:
        shown = [
            f"{cell.name} ({cell.baseline_only_tasks:,} tasks in the baseline only, {cell.arm_only_tasks:,} in the arm)"
            for cell in unlike
        ]
        yield f"the two arms ran different tasks in {few(shown)}"


def denominator_warnings(cells: Sequence[CellSummary]) -> Iterator[str]:
    """Yield one warning for r and one for d where fewer than `MIN_DENOMINATOR` tasks are behind them."""
    for rate, ends, is_recovery in (("r", "failures", True), ("d", "successes", False)):
        sizes = [(cell.failure_tasks if is_recovery else cell.success_tasks, cell) for cell in cells]
        tiny = sorted(((n, cell) for n, cell in sizes if 0 < n < MIN_DENOMINATOR), key=lambda item: item[0])
        if not tiny:
            continue
        smallest, first = tiny[0]
        width = f"a 95 % interval is at least {Z**2 / (smallest + Z**2):.2f} wide"
        if len(tiny) == 1:
            n_pairs = first.baseline_failures if is_recovery else first.baseline_successes
            count = f"{smallest} {ends}" if n_pairs == smallest else f"the {ends} of {smallest} tasks"
            yield f"{rate} rests on {count} of the baseline in {first.name}: {width}, whatever happens"
        else:
            yield (
                f"{rate} rests on {ends} of fewer than {MIN_DENOMINATOR} tasks in {len(tiny)} cells: "
                f"{few(places_of([cell for _, cell in tiny]))}; on {smallest}, the fewest, {width}, whatever happens"
            )


def _name(arm: ArmSummary) -> str:
    return f"{arm.agent} on {arm.benchmark}, {arm.arm}"
