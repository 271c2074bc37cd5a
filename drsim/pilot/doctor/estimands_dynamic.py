"""Whether a pilot answers timing, the critic, causal effects and cost: what takes more of a run than its end."""

import math
from collections.abc import Sequence

from drsim.pilot.cell import PairedBy
from drsim.pilot.doctor.blockers import Blocker, span
from drsim.pilot.doctor.estimands_static import add_failures, add_successes, rates_blocker
from drsim.pilot.doctor.places import MIN_DENOMINATOR, Place, Seen, judged_by_task, runs_of
from drsim.pilot.pairing import RunsByTask
from drsim.pilot.records import Outcome, Run

__all__ = [
    "causal_blocker",
    "causal_found",
    "cost_blocker",
    "critic_blocker",
    "critic_found",
    "has_cost",
    "has_score",
    "timing_blocker",
    "timing_found",
]


def _first_steps(cell: Seen) -> list[int]:
    """Step of the first intervention of each judged run whose task the baseline ran, in order."""
    shared = judged_by_task(cell.baseline)
    acted = [
        run.acted_steps
        for task_id, runs in cell.arm.items()
        if task_id in shared
        for run in runs
        if run.interventions and run.outcome.is_judged
    ]
    return sorted(steps[0] for steps in acted if steps)


def timing_blocker(cell: Seen) -> Blocker | None:
    """Two spans of first steps, each with enough runs, are the least that a curve over steps takes."""
    blocker = rates_blocker(cell)
    if blocker is not None:
        return blocker
    summary, first = cell.summary, _first_steps(cell)
    place = (summary.agent, summary.benchmark)
    n_tasks = len(cell.baseline)
    if not first:
        return Blocker(
            reason="no run says at which step it was intervened",
            remedy=_log_interventions,
            key=(*place, summary.arm),
            tasks=n_tasks,
            runs=len(runs_of(cell.arm)),
        )
    n_fewer = _largest_minority(first)
    if not n_fewer:
        reason = f"the first intervention always comes at step {first[0]}, so r and d are known for that step only"
        if any(len(run.acted_steps) > 1 for run in runs_of(cell.arm)):
            reason += " (later ones follow it in the same runs)"
        return Blocker(reason=reason, remedy=_run_later, key=place, tasks=n_tasks, runs=n_tasks)
    if n_fewer >= MIN_DENOMINATOR:
        return None
    n_more = math.ceil(len(runs_of(cell.arm)) * (MIN_DENOMINATOR / n_fewer - 1))
    return Blocker(
        reason=f"no split into early and late leaves {MIN_DENOMINATOR} intervened runs on both sides",
        remedy=_run_more,
        key=(*place, summary.arm),
        tasks=n_tasks,
        runs=n_more,
    )


def _largest_minority(first: Sequence[int]) -> int:
    """Runs on the smaller side of the most even split of first steps, 0 when all are equal."""
    starts = [i for i in range(1, len(first)) if first[i] > first[i - 1]]
    return max((min(i, len(first) - i) for i in starts), default=0)


def timing_found(answered: Sequence[Seen]) -> str:
    """What r(t) and d(t) rest on, over the cells that know them."""
    steps = [_first_steps(cell) for cell in answered]
    return (
        f"first interventions at steps {span(step for first in steps for step in first)}, in "
        f"{span(len(first) for first in steps)} runs{' a cell' if len(steps) > 1 else ''}"
    )


def has_score(run: Run) -> bool:
    """Whether a step carries a critic's score."""
    return any(step.score is not None for step in run.steps)


def _scored_ends(place: Place) -> tuple[int, int]:
    """Failed and successful baseline runs with at least one scored step."""
    ends = [
        run.outcome is Outcome.SUCCESS for run in runs_of(place.baseline) if run.outcome.is_judged and has_score(run)
    ]
    return len(ends) - sum(ends), sum(ends)


def critic_blocker(place: Place) -> Blocker | None:
    """What keeps the operating points of a critic from being known."""
    runs = runs_of(place.baseline)
    judged = [run.outcome is Outcome.SUCCESS for run in runs if run.outcome.is_judged]
    if not any(judged):
        return Blocker(
            reason="no baseline run succeeded, so a score has nothing to tell failures from",
            remedy=add_successes,
            key=place.key,
        )
    if all(judged):
        return Blocker(
            reason="no baseline run failed, so a score has nothing to tell successes from",
            remedy=add_failures,
            key=place.key,
        )
    if min(_scored_ends(place)) > 0:
        return None
    reason = "no step of a baseline run has a score" if not any(map(has_score, runs)) else "scores on one end only"
    if any(has_score(run) for tasks in place.arms.values() for run in runs_of(tasks)):
        reason += "; those of intervened runs predict an end that the intervention changed"
    n_missing = sum(not has_score(run) for run in runs)
    return Blocker(reason=reason, remedy=_score_steps, key=place.key, tasks=len(place.baseline), runs=n_missing)


def critic_found(answered: Sequence[Place]) -> str:
    """What the critic is judged on, over the baseline arms where it is."""
    ends = [_scored_ends(place) for place in answered]
    failed, succeeded = (span(column) for column in zip(*ends, strict=True))
    return f"scored steps in {failed} failed and {succeeded} successful baseline runs"


def _randomised(cell: Seen) -> tuple[int, int]:
    """Triggers acted on and withheld by chance: those whose logged propensity lies strictly within (0, 1)."""
    acted = [
        trigger.acted
        for run in runs_of(cell.arm)
        if run.interventions and run.outcome.is_judged
        for trigger in run.interventions
        if trigger.propensity is not None and trigger.propensity < 1
    ]
    return sum(acted), len(acted) - sum(acted)


def causal_blocker(cell: Seen) -> Blocker | None:
    """What keeps the effect of acting, given the state at the trigger, from being known."""
    summary = cell.summary
    if cell.refusal is None and (summary.pairing is PairedBy.FORK or min(_randomised(cell)) > 0):
        return None
    runs = sum(judged_by_task(cell.baseline).values())
    return cell.refusal or Blocker(
        reason="no run is forked, and no trigger was acted on by a logged chance",
        remedy=_fork_or_randomise,
        key=(summary.agent, summary.benchmark),
        tasks=len(cell.baseline),
        runs=runs,
    )


def causal_found(answered: Sequence[Seen]) -> str:
    """What causal effects rest on, over the cells that know them."""
    forks = [cell.summary.pairs for cell in answered if cell.summary.pairing is PairedBy.FORK]
    triggers = [_randomised(cell) for cell in answered if cell.summary.pairing is not PairedBy.FORK]
    parts = []
    if forks:
        parts.append(f"r and d from {span(forks)} forked pairs")
    if triggers:
        acted, withheld = (span(column) for column in zip(*triggers, strict=True))
        parts.append(
            f"what acting gains, from {acted} acted and {withheld} withheld triggers; r and d apart only as far as the "
            "triggers' scores are calibrated"
        )
    return "; ".join(parts)


def has_cost(run: Run) -> bool:
    """Whether a run carries tokens or usd."""
    return run.cost is not None and (run.cost.tokens is not None or run.cost.usd is not None)


def cost_blocker(place: Place, name: str, tasks: RunsByTask, kind: str = "") -> Blocker | None:
    """What keeps the cost of one arm from being known; `kind` is `baseline ` or `intervened ` where both are asked."""
    runs = runs_of(tasks)
    if any(map(has_cost, runs)):
        return None
    return Blocker(
        reason=f"no {kind}run has tokens or usd",
        remedy=_log_cost,
        key=(*place.key, name),
        tasks=len(tasks),
        runs=len(runs),
    )


def _run_later(tasks: int, runs: int) -> str:
    return f"run one more arm whose first intervention comes later, on the same {tasks:,} tasks ({runs:,} runs)"


def _run_more(_tasks: int, runs: int) -> str:
    return f"run the intervened arm about {runs:,} times more, on further tasks where there are any"


def _log_interventions(_tasks: int, runs: int) -> str:
    return f"log `interventions` (t, mechanism) of the {runs:,} intervened runs"


def _score_steps(_tasks: int, runs: int) -> str:
    return f"let the critic score the steps of {runs:,} baseline runs from their transcripts (no new runs)"


def _fork_or_randomise(_tasks: int, runs: int) -> str:
    return (
        "in the next pilot, act on each trigger with probability 0.5 and log that propensity (no more runs than now), "
        f"or fork the {runs:,} baseline runs where the policy fires (up to {runs:,} runs)"
    )


def _log_cost(_tasks: int, runs: int) -> str:
    return f"log `cost` (tokens or usd) of {runs:,} runs"
