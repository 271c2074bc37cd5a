"""What a pilot can and cannot answer, told before anything is fitted.

The examination reports what a fit refuses: arms with unlike caps, a missing baseline, arms without a judged run.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from drsim.errors import DataError
from drsim.pilot.arms import check_wanted
from drsim.pilot.caps import check_caps, step_cap
from drsim.pilot.cell import Cell, PairedBy
from drsim.pilot.doctor.blockers import Blocker
from drsim.pilot.doctor.diagnosis import ArmSummary, Carried, CellSummary, Diagnosis
from drsim.pilot.doctor.estimands import pilot_estimands
from drsim.pilot.doctor.estimands_dynamic import has_cost, has_score
from drsim.pilot.doctor.places import Place, Seen, runs_of
from drsim.pilot.doctor.short_forms import examine_short_form
from drsim.pilot.doctor.warnings import pilot_warnings
from drsim.pilot.evidence import Evidence, Pilot
from drsim.pilot.pairing import RunsByTask, group_runs, pair_arms, tally_of
from drsim.pilot.records import BASELINE, Run
from drsim.pilot.retries import CHANCE, Retried, Retries, find_retries

__all__ = ["examine"]

type Arms = dict[tuple[str, str], dict[str, RunsByTask]]


def examine(evidence: Evidence, *, baseline: str = BASELINE, arms: Iterable[str] | None = None) -> Diagnosis:
    """Say what the evidence can answer.

    Parameters
    ----------
    evidence : Pilot, Counts or Marginals
        As read.
    baseline : str
        Name of the arm without intervention.
    arms : iterable of str, optional
        Intervened arms to look at; all by default.

    Returns
    -------
    Diagnosis

    Raises
    ------
    DataError
        A wanted arm is not in the file.
    """
    wanted = None if arms is None else tuple(arms)
    if not isinstance(evidence, Pilot):
        return examine_short_form(evidence, baseline=baseline, arms=wanted)
    groups = _keep(group_runs(evidence.runs), baseline, wanted)
    retries = _retries(groups)
    places = [_place(*place, by_arm, baseline, retries) for place, by_arm in groups.items()]
    summaries = tuple(
        _arm_summary(*place, name, tasks, baseline, retries[*place, name])
        for place, by_arm in groups.items()
        for name, tasks in by_arm.items()
    )
    return Diagnosis(
        form="runs",
        baseline=baseline,
        arms=summaries,
        cells=tuple(cell.summary for place in places for cell in place.cells),
        estimands=pilot_estimands(places, baseline=baseline),
        warnings=tuple(pilot_warnings(summaries, places, _cap_messages(groups))),
    )


def _keep(groups: Arms, baseline: str, wanted: tuple[str, ...] | None) -> Arms:
    """Wanted arms in order, the baseline first."""
    check_wanted(wanted, (name for by_arm in groups.values() for name in by_arm), baseline=baseline)
    kept: Arms = {}
    for place, by_arm in sorted(groups.items()):
        names = [name for name in sorted(by_arm) if name != baseline and (wanted is None or name in wanted)]
        if baseline in by_arm:
            names.insert(0, baseline)
        if names:
            kept[place] = {name: by_arm[name] for name in names}
    return kept


def _retries(groups: Arms) -> dict[tuple[str, str, str], Retries | None]:
    """Retries of each arm; the accepted chance of a false alarm is one for the whole file."""
    chance = CHANCE / max(1, sum(map(len, groups.values())))
    return {
        (*place, name): find_retries(tasks, chance=chance)
        for place, by_arm in groups.items()
        for name, tasks in by_arm.items()
    }


def _place(
    agent: str,
    benchmark: str,
    by_arm: dict[str, RunsByTask],
    baseline: str,
    retries: dict[tuple[str, str, str], Retries | None],
) -> Place:
    base = by_arm.get(baseline, {})
    intervened = {name: tasks for name, tasks in by_arm.items() if name != baseline}
    cells = []
    for name, tasks in intervened.items() if base else ():
        cell = pair_arms(agent, benchmark, name, base, tasks)
        refusal = _unlike_caps(cell, base, tasks, baseline) or _retried_pairs(
            cell, base, tasks, [retries[agent, benchmark, baseline], retries[agent, benchmark, name]]
        )
        cells.append(Seen(summary=_cell_summary(cell, base, tasks), baseline=base, arm=tasks, refusal=refusal))
    return Place(
        agent=agent,
        benchmark=benchmark,
        baseline=base,
        baseline_retries=retries.get((agent, benchmark, baseline)),
        arms=intervened,
        cells=tuple(cells),
    )


def _unlike_caps(cell: Cell, baseline: RunsByTask, arm: RunsByTask, name: str) -> Blocker | None:
    try:
        check_caps(f"{cell.agent} on {cell.benchmark}", {name: baseline, cell.arm: arm})
    except DataError as error:
        reason = str(error).partition(";")[0]
        runs = {name: len(runs_of(baseline)), cell.arm: len(runs_of(arm))}
        cheapest = min(runs, key=lambda arm: runs[arm])
        key = (cell.agent, cell.benchmark, cheapest)
        return Blocker(reason=reason, remedy=_rerun_with_one_cap, key=key, runs=runs[cheapest])
    return None


def _rerun_with_one_cap(_tasks: int, runs: int) -> str:
    return f"rerun one of the two arms with the other's cap ({runs:,} runs)"


def _retried_pairs(
    cell: Cell, baseline: RunsByTask, arm: RunsByTask, retries: Sequence[Retries | None]
) -> Blocker | None:
    """Pairs that hold a retry; an arm's retries that are in no pair do no harm."""
    is_retried = any(item is not None and item.after is Retried.FAILURE for item in retries)
    if not is_retried or (cell.paired_by is not PairedBy.ALL and int(cell.n_pairs.max()) < 2):
        return None
    n_first = sum(
        _first(baseline[task_id]).outcome.is_judged and _first(runs).outcome.is_judged
        for task_id, runs in arm.items()
        if task_id in baseline
    )
    return Blocker(
        reason="later trials are retries of failed ones, so that pairs of them are pairs of hard tasks",
        remedy=_keep_first_trials,
        key=(cell.agent, cell.benchmark, cell.arm),
        tasks=n_first,
    )


def _first(runs: Sequence[Run]) -> Run:
    return min(runs, key=lambda run: run.trial)


def _keep_first_trials(tasks: int, _runs: int) -> str:
    return f"keep the first trial of each task only ({tasks:,} pairs remain, no new runs)"


def _cap_messages(groups: Arms) -> list[str]:
    messages = []
    for (agent, benchmark), by_arm in groups.items():
        try:
            check_caps(f"{agent} on {benchmark}", by_arm)
        except DataError as error:
            messages.append(str(error))
    return messages


def _arm_summary(
    agent: str, benchmark: str, name: str, tasks: RunsByTask, baseline: str, retries: Retries | None
) -> ArmSummary:
    runs = runs_of(tasks)
    n_trials = [len(runs) for runs in tasks.values()]
    return ArmSummary(
        agent=agent,
        benchmark=benchmark,
        arm=name,
        is_baseline=name == baseline,
        tasks=len(tasks),
        runs=len(runs),
        trials=(min(n_trials), max(n_trials)),
        tally=tally_of(tasks),
        step_cap=step_cap(tasks),
        carried=_carried(runs),
        retries=retries,
    )


def _carried(runs: Sequence[Run]) -> Carried:
    n = len(runs)
    return Carried(
        n_steps=sum(run.n_steps is not None for run in runs) / n,
        steps=sum(bool(run.steps) for run in runs) / n,
        scores=sum(map(has_score, runs)) / n,
        rewards=sum(any(step.reward is not None for step in run.steps) for run in runs) / n,
        costs=sum(map(has_cost, runs)) / n,
        interventions=sum(bool(run.interventions) for run in runs) / n,
        propensities=sum(any(item.propensity is not None for item in run.interventions) for run in runs) / n,
        forks=sum(run.forked_from is not None for run in runs) / n,
    )


def _cell_summary(cell: Cell, baseline: RunsByTask, arm: RunsByTask) -> CellSummary:
    a, b, c, d = cell.counts.values()
    tables = np.nan_to_num(cell.tables)
    return CellSummary(
        agent=cell.agent,
        benchmark=cell.benchmark,
        arm=cell.arm,
        pairing=cell.paired_by,
        pairs=cell.n_paired,
        tasks=cell.n_paired_tasks,
        baseline_failures=a + c,
        baseline_successes=b + d,
        flips=b + c,
        failure_tasks=int(np.count_nonzero(tables[:, 0] + tables[:, 2])),
        success_tasks=int(np.count_nonzero(tables[:, 1] + tables[:, 3])),
        baseline_only_tasks=len(baseline.keys() - arm.keys()),
        arm_only_tasks=len(arm.keys() - baseline.keys()),
        unpaired=cell.unpaired,
        gain_bounds=cell.gain_bounds,
    )
