"""Whether a pilot answers the gain, r and d, p*, churn and Best-of-N: what the ends of its runs alone can say.

Whether an answer would be sharp is another matter: tiny denominators are warned of, not blocked.
"""

from collections.abc import Sequence

from drsim.pilot.cell import PairedBy
from drsim.pilot.doctor.blockers import Blocker, span
from drsim.pilot.doctor.diagnosis import CellSummary
from drsim.pilot.doctor.places import MIN_DENOMINATOR, Place, Seen, judged_by_task, runs_of
from drsim.pilot.retries import Retried

__all__ = [
    "add_failures",
    "add_successes",
    "best_of_found",
    "break_even_blocker",
    "break_even_found",
    "churn_blocker",
    "churn_found",
    "gain_blocker",
    "gain_found",
    "rates_blocker",
    "rates_found",
]

MIN_REPEATED_TASKS = 2
"""A variance between tasks takes two."""


def gain_blocker(cell: Seen) -> Blocker | None:
    """What keeps the gain of a cell from being known."""
    summary = cell.summary
    if cell.refusal is not None:
        return cell.refusal
    for name, tasks in (("baseline", cell.baseline), (summary.arm, cell.arm)):
        if not any(run.outcome.is_judged for run in runs_of(tasks)):
            return Blocker(
                reason=f"no run of {name} is judged",
                remedy=_judge_runs,
                key=(summary.agent, summary.benchmark, name),
                tasks=len(tasks),
                runs=len(runs_of(tasks)),
            )
    return None


def rates_blocker(cell: Seen) -> Blocker | None:
    """What keeps r and d of a cell from being known; whatever blocks the gain does."""
    blocker = gain_blocker(cell)
    if blocker is not None:
        return blocker
    summary = cell.summary
    key = (summary.agent, summary.benchmark, summary.arm)
    if summary.pairing is PairedBy.NONE:
        n_tasks = len(cell.baseline)
        return Blocker(
            reason="the two arms share no judged task", remedy=_run_shared_tasks, key=key, tasks=n_tasks, runs=n_tasks
        )
    if not summary.baseline_failures:
        return Blocker(reason="the baseline failed in no pair, so r has no denominator", remedy=add_failures, key=key)
    if not summary.baseline_successes:
        return Blocker(
            reason="the baseline succeeded in no pair, so d has no denominator", remedy=add_successes, key=key
        )
    return None


def break_even_blocker(cell: Seen) -> Blocker | None:
    """What keeps p* of a cell from being known; whatever blocks r and d does."""
    summary = cell.summary
    blocker = rates_blocker(cell)
    if blocker is None and not summary.flips:
        return Blocker(
            reason="no pair ends differently in the two arms, so p* is 0/0",
            remedy=_add_pairs,
            key=(summary.agent, summary.benchmark, summary.arm),
            tasks=summary.tasks,
            runs=2 * summary.pairs,
        )
    return blocker


def _each(cells: Sequence[CellSummary]) -> str:
    return " a cell" if len(cells) > 1 else ""


def gain_found(answered: Sequence[Seen]) -> str:
    """What the gain rests on, over the cells that know it."""
    cells = [cell.summary for cell in answered]
    paired = [cell for cell in cells if cell.pairs]
    parts = []
    if paired:
        ways = ", ".join(dict.fromkeys(_WAYS[cell.pairing] for cell in paired))
        parts.append(f"{span(cell.pairs for cell in paired)} pairs{_each(paired)}, {ways}")
    if len(cells) > len(paired):
        parts.append(f"unpaired, so less sharp, in {len(cells) - len(paired)}")
    return "; ".join(parts)


_WAYS = {
    PairedBy.FORK: "forked from one prefix",
    PairedBy.TRIAL: "by task and trial",
    PairedBy.ALL: "as task means, since no trial numbers match",
    PairedBy.COUNTS: "as counted",
}


def rates_found(answered: Sequence[Seen]) -> str:
    """What r and d rest on, over the cells that know them."""
    cells = [cell.summary for cell in answered]
    return (
        f"r rests on {span(cell.baseline_failures for cell in cells)} failures, d on "
        f"{span(cell.baseline_successes for cell in cells)} successes{_each(cells)}"
    )


def break_even_found(answered: Sequence[Seen]) -> str:
    """What p* rests on, over the cells that know it."""
    cells = [cell.summary for cell in answered]
    return (
        f"it rests on the pairs that end differently, {span(cell.flips for cell in cells)}{_each(cells)}, so it is "
        "known no better than the sign of the gain"
    )


def _repeats(place: Place) -> list[int]:
    """Judged baseline runs of each task that has at least two."""
    return [n for n in judged_by_task(place.baseline).values() if n > 1]


def churn_blocker(place: Place) -> Blocker | None:
    """What keeps churn, and with it Best-of-N, from being known."""
    n_tasks = len(place.baseline)
    if place.baseline_retries is not None and place.baseline_retries.after is Retried.FAILURE:
        n_single = sum(len(runs) == 1 for runs in place.baseline.values())
        return Blocker(
            reason="later baseline trials are retries of failed ones, not repeats",
            remedy=_repeat_the_rest,
            key=place.key,
            tasks=n_single,
            runs=n_single,
        )
    if len(_repeats(place)) < MIN_REPEATED_TASKS:
        return Blocker(
            reason="no baseline run is repeated", remedy=_rerun_baseline, key=place.key, tasks=n_tasks, runs=n_tasks
        )
    return None


def churn_found(answered: Sequence[Place]) -> str:
    """What churn rests on, over the baseline arms that know it."""
    repeats = [_repeats(place) for place in answered]
    return f"{_tasks_repeated(repeats)}: churn, ρ, and r and d beyond what reruns alone show"


def best_of_found(answered: Sequence[Place]) -> str:
    """What Best-of-N rests on, over the baseline arms that know it."""
    repeats = [_repeats(place) for place in answered]
    largest = max(max(runs) for runs in repeats)
    upto = f" up to Best-of-{largest}" if largest > 2 else ""
    return f"{_tasks_repeated(repeats)}: oracle Best-of-2{upto}"


def _tasks_repeated(repeats: Sequence[Sequence[int]]) -> str:
    runs = span(n for place in repeats for n in place)
    return f"{span(len(place) for place in repeats)} tasks with {runs} judged baseline runs each"


def _rerun_baseline(tasks: int, runs: int) -> str:
    return f"run the baseline a second time on the same {tasks:,} tasks ({runs:,} runs)"


def _repeat_the_rest(tasks: int, runs: int) -> str:
    return f"run the baseline again on the {tasks:,} tasks that were not retried ({runs:,} runs), each try from scratch"


def _run_shared_tasks(tasks: int, runs: int) -> str:
    return f"run the intervened arm on the baseline's {tasks:,} tasks ({runs:,} runs)"


def _judge_runs(_tasks: int, runs: int) -> str:
    return f"judge {runs:,} unjudged runs, or repeat those that the harness broke"


def add_failures(_tasks: int, _runs: int) -> str:
    """Remedy for a baseline that never fails."""
    return f"add harder tasks, until the baseline fails on at least {MIN_DENOMINATOR}"


def add_successes(_tasks: int, _runs: int) -> str:
    """Remedy for a baseline that never succeeds."""
    return f"add tasks, until the baseline succeeds on at least {MIN_DENOMINATOR}"


def _add_pairs(tasks: int, runs: int) -> str:
    return f"double the pilot: {tasks:,} more tasks in both arms ({runs:,} runs)"
