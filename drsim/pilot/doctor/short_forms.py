"""What counts and marginals can answer, and what only a file of runs can."""

from collections.abc import Iterable, Sequence

from drsim.errors import DataError
from drsim.pilot.arms import check_wanted
from drsim.pilot.cell import Cell, PairedBy, Tally
from drsim.pilot.doctor.blockers import span
from drsim.pilot.doctor.diagnosis import ArmSummary, CellSummary, Diagnosis, Estimand
from drsim.pilot.doctor.warnings import denominator_warnings
from drsim.pilot.evidence import Counts, Marginals
from drsim.pilot.records import BASELINE, CountsRow, MarginalsRow
from drsim.pilot.short_forms import cells_of_counts, cells_of_marginals

__all__ = ["examine_short_form"]

LOG_RUNS = "log one line a run (task_id, arm, trial, outcome)"

BEYOND_BOTH = {
    "timing": ("no steps", "interventions (t, mechanism)"),
    "critic": ("no scores", "steps (t, score) of the baseline runs"),
    "causal-effect": (
        "no forks and no propensities",
        "forked_from, or the propensity of each trigger and whether it was acted on",
    ),
    "cost": ("no costs", "cost (tokens or usd)"),
}
"""Estimand to what the short forms lack, and the fields of a run that hold it."""


def examine_short_form(
    evidence: Counts | Marginals, *, baseline: str = BASELINE, arms: Iterable[str] | None = None
) -> Diagnosis:
    """Say what counts or marginals can answer.

    Parameters
    ----------
    evidence : Counts or Marginals
        As read.
    baseline : str
        Arm without intervention; counts have none by name, since their rows are pairs already.
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
    wanted = None if arms is None else set(arms)
    check_wanted(wanted, (row.arm for row in evidence.rows), baseline=baseline)
    if isinstance(evidence, Counts):
        rows = [row for row in evidence.rows if wanted is None or row.arm in wanted]
        return _examine_counts(Counts(rows=tuple(rows), sources=evidence.sources))
    kept = [row for row in evidence.rows if wanted is None or row.arm in {baseline, *wanted}]
    return _examine_marginals(Marginals(rows=tuple(kept), sources=evidence.sources), baseline)


def _examine_counts(counts: Counts) -> Diagnosis:
    cells = [_cell_summary(cell) for cell in cells_of_counts(counts).cells]
    groups: dict[tuple[str, str], list[CountsRow]] = {}
    for row in sorted(counts.rows, key=lambda row: (row.agent, row.benchmark, row.arm)):
        groups.setdefault((row.agent, row.benchmark), []).append(row)
    summaries: list[ArmSummary] = []
    for rows in groups.values():
        widest = max(rows, key=_pairs)
        # Rows of one agent and benchmark share their baseline, as far as their pairs go; the longest shows most of it.
        summaries.append(_counted(widest, BASELINE, widest.b + widest.d))
        summaries += [_counted(row, row.arm, row.c + row.d) for row in rows]
    n_tasks = sum(max(cell.tasks for cell in cells if (cell.agent, cell.benchmark) == place) for place in groups)
    return Diagnosis(
        form="counts",
        baseline=BASELINE,
        arms=tuple(summaries),
        cells=tuple(cells),
        estimands=(
            *_counted_estimands(cells),
            *_beyond("counts", n_tasks, is_repeated=all(cell.tasks < cell.pairs for cell in cells)),
        ),
        warnings=tuple(denominator_warnings(cells)),
    )


def _pairs(row: CountsRow) -> int:
    return row.a + row.b + row.c + row.d


def _counted(row: CountsRow, arm: str, successes: int) -> ArmSummary:
    n = _pairs(row)
    return ArmSummary(
        agent=row.agent,
        benchmark=row.benchmark,
        arm=arm,
        is_baseline=arm == BASELINE,
        tasks=row.tasks or n,
        runs=n,
        trials=(1, 1) if row.tasks in (None, n) else None,
        tally=Tally(success=successes, fail=n - successes),
    )


def _counted_estimands(cells: Sequence[CellSummary]) -> tuple[Estimand, ...]:
    each = " a cell" if len(cells) > 1 else ""
    rates = [cell for cell in cells if cell.baseline_failures and cell.baseline_successes]
    flipped = [cell for cell in rates if cell.flips]
    return (
        Estimand(
            name="gain", answerable=True, why=f"{span(cell.pairs for cell in cells)} pairs{each}, as counted", fix=None
        ),
        _some(
            "recovery-disruption",
            rates,
            cells,
            "the baseline always ended alike, so r or d has no denominator",
            "add tasks that the baseline ends the other way",
        ),
        _some(
            "break-even",
            flipped,
            cells,
            "no pair ends differently in the two arms, or r or d has no denominator",
            f"double the pilot ({sum(cell.pairs for cell in cells if cell not in flipped):,} more pairs)",
        ),
    )


def _some(
    name: str, answered: Sequence[CellSummary], cells: Sequence[CellSummary], reason: str, remedy: str
) -> Estimand:
    n_blocked = len(cells) - len(answered)
    parts = [f"{len(answered)} of {len(cells)} cells" if len(cells) > 1 else _rests(name, cells[0])] if answered else []
    parts += [f"not in {n_blocked}: {reason}" if answered else reason] if n_blocked else []
    return Estimand(name=name, answerable=bool(answered), why="; ".join(parts), fix=remedy if n_blocked else None)


def _rests(name: str, cell: CellSummary) -> str:
    if name == "break-even":
        flips = f"the pairs that end differently, {cell.flips:g}"
        return f"it rests on {flips}, so it is known no better than the sign of the gain"
    return f"r rests on {cell.baseline_failures:g} failures, d on {cell.baseline_successes:g} successes"


def _beyond(form: str, n_tasks: int, *, is_repeated: bool) -> list[Estimand]:
    no_repeats = f"{form} do not say which runs share a task"
    rerun = f"{LOG_RUNS}, and run the baseline a second time on the same {n_tasks:,} tasks ({n_tasks:,} runs)"
    if is_repeated:
        rerun = f"{LOG_RUNS}: the {n_tasks:,} tasks were repeated already (no new runs)"
    found = [Estimand(name="churn", answerable=False, why=no_repeats, fix=rerun)]
    found += [
        Estimand(name=name, answerable=False, why=f"{form} hold {lack}", fix=f"{LOG_RUNS}, with {fields}")
        for name, (lack, fields) in BEYOND_BOTH.items()
    ]
    return [*found, Estimand(name="best-of-n", answerable=False, why=no_repeats, fix=rerun)]


def _examine_marginals(marginals: Marginals, baseline: str) -> Diagnosis:
    arms: dict[tuple[str, str, str], list[MarginalsRow]] = {}
    for row in sorted(marginals.rows, key=lambda row: (row.agent, row.benchmark, row.arm != baseline, row.arm)):
        arms.setdefault((row.agent, row.benchmark, row.arm), []).append(row)
    summaries = tuple(_totalled(rows, baseline) for rows in arms.values())
    try:
        cells = [_cell_summary(cell) for cell in cells_of_marginals(marginals, baseline).cells if cell.arm != baseline]
    except DataError:
        cells = []
    tasks: dict[tuple[str, str], int] = {}
    for arm in summaries:
        tasks[arm.place] = max(tasks.get(arm.place, 0), arm.tasks)
    n_tasks = sum(tasks.values())
    return Diagnosis(
        form="marginals",
        baseline=baseline,
        arms=summaries,
        cells=tuple(cells),
        estimands=(
            *_marginal_estimands(cells, summaries, baseline),
            *_beyond("marginals", n_tasks, is_repeated=_has_repeats(summaries)),
        ),
        warnings=(),
    )


def _has_repeats(arms: Sequence[ArmSummary]) -> bool:
    baselines = [arm for arm in arms if arm.is_baseline]
    return bool(baselines) and all(arm.runs > arm.tasks for arm in baselines)


def _totalled(rows: Sequence[MarginalsRow], baseline: str) -> ArmSummary:
    first, runs = rows[0], sum(row.n for row in rows)
    success = sum(row.successes for row in rows)
    return ArmSummary(
        agent=first.agent,
        benchmark=first.benchmark,
        arm=first.arm,
        is_baseline=first.arm == baseline,
        tasks=max(row.n for row in rows),
        runs=runs,
        trials=(len(rows), len(rows)),
        tally=Tally(success=success, fail=runs - success),
    )


def _marginal_estimands(
    cells: Sequence[CellSummary], arms: Sequence[ArmSummary], baseline: str
) -> tuple[Estimand, ...]:
    has_baseline = any(arm.is_baseline for arm in arms)
    if cells:
        compared = {(cell.agent, cell.benchmark) for cell in cells}
        left_out = sum(arm.place not in compared for arm in arms)
        alone = f"; {left_out} arms have nothing to be compared with" if left_out else ""
        gain = Estimand(
            name="gain",
            answerable=True,
            why=f"{len(cells)} {'cells' if len(cells) > 1 else 'cell'}, from unpaired totals{alone}",
            fix="add rows of the missing baseline or intervened arms" if left_out else None,
        )
        why = "totals without pairs leave only bounds on r and d"
    else:
        names = ", ".join(sorted({arm.arm for arm in arms}))
        why = "there are baseline rows only" if has_baseline else f"no row belongs to the arm {baseline!r}"
        if has_baseline and len({arm.is_baseline for arm in arms}) > 1:
            why = "no agent and benchmark has both a baseline row and one of another arm"
        fix = (
            "add rows of both arms for one agent and benchmark"
            if has_baseline
            else f"say which arm is without intervention: --baseline ARM, one of {names}"
        )
        gain = Estimand(name="gain", answerable=False, why=why, fix=fix)
    fix = f"{LOG_RUNS}: pairs of the same task and trial give r and d at no further run"
    return (
        gain,
        Estimand(name="recovery-disruption", answerable=False, why=why, fix=fix),
        Estimand(name="break-even", answerable=False, why=why, fix=fix),
    )


def _cell_summary(cell: Cell) -> CellSummary:
    a, b, c, d = cell.counts.values()
    limit = cell.stated_tasks or cell.n_paired
    return CellSummary(
        agent=cell.agent,
        benchmark=cell.benchmark,
        arm=cell.arm,
        pairing=cell.paired_by,
        pairs=cell.n_paired,
        tasks=cell.n_paired_tasks if cell.paired_by is not PairedBy.NONE else 0,
        baseline_failures=a + c,
        baseline_successes=b + d,
        flips=b + c,
        failure_tasks=min(limit, round(a + c)),
        success_tasks=min(limit, round(b + d)),
    )
