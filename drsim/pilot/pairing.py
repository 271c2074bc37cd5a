"""Pairs of baseline and intervened runs, cell by cell, with an account of every run that is in no pair.

Three ways of pairing, the best that a cell allows (design: pilot record, section 1):

- `fork`: the intervened run names the baseline run whose prefix it shares;
- `trial`: both runs carry the same trial number of the same task;
- `all`: neither matches, so that a task's intervened runs are held against all of its baseline runs as task means.

Every task ends as one 2×2 table of shares that sum to 1, since the task, not the run, is the unit of inference.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from drsim.arrays import IntArray
from drsim.errors import DataError
from drsim.pilot.arms import check_wanted
from drsim.pilot.caps import check_caps
from drsim.pilot.cell import Cell, PairedBy, Pairing, Tally, Unpaired
from drsim.pilot.evidence import Pilot
from drsim.pilot.records import BASELINE, Outcome, Run
from drsim.pilot.retries import CHANCE, Retries, find_retries

__all__ = [
    "Pair",
    "RunsByTask",
    "group_runs",
    "intervened_arms",
    "matched_pairs",
    "pair",
    "pair_arms",
    "tally_of",
    "task_table",
]

type RunsByTask = dict[str, list[Run]]
type Pair = tuple[Run, Run]
"""A baseline run and an intervened run."""


def pair(pilot: Pilot, *, baseline: str = BASELINE, arms: Iterable[str] | None = None) -> Pairing:
    """Pair the runs of a pilot.

    Parameters
    ----------
    pilot : Pilot
        Runs as read.
    baseline : str
        Name of the arm without intervention.
    arms : iterable of str, optional
        Intervened arms to keep; all by default.

    Returns
    -------
    Pairing
        One cell for each agent, benchmark and intervened arm; for an agent and benchmark with baseline runs only, one
        cell without pairs.

    Raises
    ------
    DataError
        No judged run belongs to `baseline`, a wanted arm is not in the file, or two arms were stopped at different
        caps.
    """
    groups = group_runs(pilot.runs)
    _check_arms(groups, baseline, wanted := None if arms is None else tuple(arms))
    tallies = {(*place, name): tally_of(tasks) for place, by_arm in groups.items() for name, tasks in by_arm.items()}
    chance = CHANCE / max(1, len(tallies))
    cells: list[Cell] = []
    without: list[Unpaired] = []
    reasons: list[str] = []
    retries: list[tuple[str, Retries | None]] = []
    for (agent, benchmark), by_arm in sorted(groups.items()):
        names = [name for name in sorted(by_arm) if name != baseline and (wanted is None or name in wanted)]
        unjudged = [name for name in (baseline, *names) if not tallies.get((agent, benchmark, name), Tally()).judged]
        if unjudged:
            reason = f"{agent} on {benchmark} has no judged run of {', '.join(unjudged)}"
            reasons.append(reason)
            lost = [name for name in names if baseline in unjudged or name in unjudged]
            without += [Unpaired(arm=name, reason=reason, runs=_n_runs(by_arm[name])) for name in lost]
            names = [name for name in names if name not in lost]
        if baseline in unjudged:
            continue
        check_caps(f"{agent} on {benchmark}", {name: by_arm[name] for name in (baseline, *names)})
        retries += [
            (f"{agent} on {benchmark}, {name}", find_retries(by_arm[name], chance=chance))
            for name in (baseline, *names)
        ]
        if names:
            cells += [pair_arms(agent, benchmark, name, by_arm[baseline], by_arm[name]) for name in names]
        elif wanted is None:
            cells.append(pair_arms(agent, benchmark, baseline, by_arm[baseline], {}))
    if not cells:
        raise DataError(
            f"no arm can be compared: {'; '.join(reasons)}; judge the unjudged runs, or repeat those that the harness "
            "broke"
        )
    return Pairing(
        baseline=baseline,
        cells=tuple(cells),
        n_runs=len(pilot.runs),
        n_tasks=sum(len(set().union(*by_arm.values())) for by_arm in groups.values()),
        set_aside={
            "infra": sum(tally.infra for tally in tallies.values()),
            "unjudged": sum(tally.unjudged for tally in tallies.values()),
        },
        left_out=tuple(without),
        retries=tuple(retries),
    )


def task_table(baseline_success: float, arm_success: float) -> tuple[float, float, float, float]:
    """2×2 table of a task whose runs are not paired one to one: the product of its two success rates."""
    base_fail, arm_fail = 1 - baseline_success, 1 - arm_success
    return base_fail * arm_fail, baseline_success * arm_fail, base_fail * arm_success, baseline_success * arm_success


def group_runs(runs: Iterable[Run]) -> dict[tuple[str, str], dict[str, RunsByTask]]:
    """Runs by agent and benchmark, then by arm, then by task."""
    groups: dict[tuple[str, str], dict[str, RunsByTask]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for run in runs:
        groups[run.agent, run.benchmark][run.arm][run.task_id].append(run)
    return groups


def intervened_arms(
    runs: Iterable[Run], *, baseline: str, arms: Iterable[str] | None
) -> Iterator[tuple[str, str, str, RunsByTask, RunsByTask]]:
    """Intervened arms one after the other: agent, benchmark, arm, its runs, and those of the baseline, if any.

    Parameters
    ----------
    runs : iterable of Run
        As read.
    baseline : str
        Name of the arm without intervention.
    arms : iterable of str, optional
        Arms to keep; all by default.

    Yields
    ------
    tuple
        In order of agent, benchmark, arm.

    Raises
    ------
    DataError
        A wanted arm is not among the runs.
    """
    groups = group_runs(runs)
    wanted = None if arms is None else tuple(arms)
    check_wanted(wanted, {name for by_arm in groups.values() for name in by_arm}, baseline=baseline)
    for (agent, benchmark), by_arm in sorted(groups.items()):
        for arm, tasks in sorted(by_arm.items()):
            if arm != baseline and (wanted is None or arm in wanted):
                yield agent, benchmark, arm, tasks, by_arm.get(baseline, {})


def _check_arms(
    groups: dict[tuple[str, str], dict[str, RunsByTask]], baseline: str, wanted: Sequence[str] | None
) -> None:
    n_by_arm: dict[str, int] = defaultdict(int)
    for by_arm in groups.values():
        for name, tasks in by_arm.items():
            n_by_arm[name] += _n_runs(tasks)
    found = ", ".join(f"{name} ({n})" for name, n in sorted(n_by_arm.items()))
    if baseline not in n_by_arm:
        raise DataError(
            f"no run belongs to the arm {baseline!r}, against which gains are measured; arms found, with their runs: "
            f"{found}; name the arm without intervention with --baseline ARM"
        )
    check_wanted(wanted, n_by_arm, baseline=baseline)


def _n_runs(tasks: RunsByTask) -> int:
    return sum(len(runs) for runs in tasks.values())


def tally_of(tasks: RunsByTask) -> Tally:
    """Outcomes of one arm."""
    outcomes = [run.outcome for runs in tasks.values() for run in runs]
    return Tally(**{outcome.value: outcomes.count(outcome) for outcome in Outcome})


def pair_arms(agent: str, benchmark: str, arm: str, baseline_tasks: RunsByTask, arm_tasks: RunsByTask) -> Cell:
    """The cell of one intervened arm, whatever its caps are; `arm_tasks` is empty where there is none."""
    rows = _Rows.of(baseline_tasks, arm_tasks)
    paired_by = rows.pair()
    return Cell(
        agent=agent,
        benchmark=benchmark,
        arm=arm,
        paired_by=paired_by,
        multiplicity=np.ones(len(rows.baseline), dtype=np.int64),
        tables=np.array(rows.tables, dtype=np.float64).reshape(-1, 4),
        n_pairs=np.array(rows.n_pairs, dtype=np.int64),
        baseline_successes=_successes(rows.baseline),
        baseline_runs=np.array([len(runs) for runs in rows.baseline], dtype=np.int64),
        arm_successes=_successes(rows.arm),
        arm_runs=np.array([len(runs) for runs in rows.arm], dtype=np.int64),
        baseline_tally=tally_of(baseline_tasks),
        arm_tally=tally_of(arm_tasks),
        unpaired=rows.account(baseline_tasks, arm_tasks) if arm_tasks else (),
        gain_bounds=_gain_bounds(rows, baseline_tasks, arm_tasks),
        usd_per_pair=_usd_per_pair(baseline_tasks, arm_tasks),
        task_ids=rows.task_ids,
    )


def matched_pairs(baseline_tasks: RunsByTask, arm_tasks: RunsByTask) -> tuple[PairedBy, list[Pair]]:
    """The judged runs of two arms one to one, as the cell of the arm pairs them; none where it compares task means."""
    rows = _Rows.of(baseline_tasks, arm_tasks)
    paired_by = rows.pair()
    return paired_by, rows.pairs if paired_by in (PairedBy.FORK, PairedBy.TRIAL) else []


def _successes(rows: list[list[Run]]) -> IntArray:
    return np.array([sum(run.outcome is Outcome.SUCCESS for run in runs) for runs in rows], dtype=np.int64)


_NO_TABLE = (float("nan"),) * 4


@dataclass(slots=True, kw_only=True)
class _Rows:
    """Judged runs by task while they are being paired."""

    task_ids: tuple[str, ...]
    baseline: list[list[Run]]
    arm: list[list[Run]]
    tables: list[tuple[float, ...]] = field(default_factory=list)
    n_pairs: list[int] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    paired_by: PairedBy = PairedBy.NONE

    @classmethod
    def of(cls, baseline_tasks: RunsByTask, arm_tasks: RunsByTask) -> "_Rows":
        names = dict.fromkeys([*baseline_tasks, *arm_tasks])
        return cls(
            task_ids=tuple(names),
            baseline=[_judged(baseline_tasks.get(name, ())) for name in names],
            arm=[_judged(arm_tasks.get(name, ())) for name in names],
        )

    def pair(self) -> PairedBy:
        """Fill the tables by forks or trials, whichever joins more runs, and by task means when neither joins any."""
        forks = self._forked()
        trials = self._by_trial()
        n_forks, n_trials = (sum(len(pairs) for pairs in rows) for rows in (forks, trials))
        if n_forks and n_forks >= n_trials:
            # A stated fork says more than an equal trial number, which is 0 by default on both sides.
            self._take(PairedBy.FORK, forks)
        elif n_trials:
            self._take(PairedBy.TRIAL, trials)
        else:
            self._take_means()
        return self.paired_by

    def _forked(self) -> list[list[Pair]]:
        parents = {run.run_id: run for runs in self.baseline for run in runs if run.run_id is not None}
        return [
            [
                (parents[run.forked_from.run_id], run)
                for run in runs
                if run.forked_from is not None and run.forked_from.run_id in parents
            ]
            for runs in self.arm
        ]

    def _by_trial(self) -> list[list[Pair]]:
        rows: list[list[Pair]] = []
        for baseline, arm in zip(self.baseline, self.arm, strict=True):
            by_trial = {run.trial: run for run in baseline} if arm else {}
            rows.append([(by_trial[run.trial], run) for run in arm if run.trial in by_trial])
        return rows

    def _take(self, paired_by: PairedBy, rows: list[list[Pair]]) -> None:
        self.paired_by = paired_by
        for pairs in rows:
            table = [0, 0, 0, 0]
            for base, run in pairs:
                table[(base.outcome is Outcome.SUCCESS) + 2 * (run.outcome is Outcome.SUCCESS)] += 1
            self.pairs += pairs
            self.n_pairs.append(len(pairs))
            self.tables.append(tuple(share / len(pairs) for share in table) if pairs else _NO_TABLE)

    def _take_means(self) -> None:
        for baseline, arm in zip(self.baseline, self.arm, strict=True):
            n_pairs = min(len(baseline), len(arm))
            self.n_pairs.append(n_pairs)
            if not n_pairs:
                self.tables.append(_NO_TABLE)
                continue
            self.paired_by = PairedBy.ALL
            # Names every run once or more; all K₀·K₁ pairs would grow with the square of the trials.
            self.pairs += [(base, arm[0]) for base in baseline] + [(baseline[0], run) for run in arm]
            rates = [sum(run.outcome is Outcome.SUCCESS for run in runs) / len(runs) for runs in (baseline, arm)]
            self.tables.append(task_table(*rates))

    def account(self, baseline_tasks: RunsByTask, arm_tasks: RunsByTask) -> tuple[Unpaired, ...]:
        """Judged runs outside every pair, by arm and reason."""
        paired = {id(run) for pair in self.pairs for run in pair}
        n_judged = sum(map(len, self.baseline)) + sum(map(len, self.arm))
        if len(paired) == n_judged:
            return ()
        tally: dict[tuple[str, str], int] = defaultdict(int)
        for own_rows, other_rows, other_tasks in (
            (self.baseline, self.arm, arm_tasks),
            (self.arm, self.baseline, baseline_tasks),
        ):
            for own, other in zip(own_rows, other_rows, strict=True):
                for run in own:
                    if id(run) not in paired:
                        tally[run.arm, self._reason(run, other, other_tasks)] += 1
        return tuple(Unpaired(arm=arm, reason=reason, runs=n) for (arm, reason), n in sorted(tally.items()))

    def _reason(self, run: Run, other: list[Run], other_tasks: RunsByTask) -> str:
        if run.task_id not in other_tasks:
            return "the other arm has no run of the task"
        if not other:
            return "the other arm's runs of the task are infra or unjudged"
        if self.paired_by is PairedBy.FORK:
            return "not part of a fork whose two runs are in the input and judged"
        return "the other arm has no judged run of the same trial"


def _judged(runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if run.outcome.is_judged]


def _gain_bounds(rows: _Rows, baseline_tasks: RunsByTask, arm_tasks: RunsByTask) -> tuple[float, float] | None:
    """Worst and best gain over shared tasks that the runs set aside leave open; None when none was set aside."""
    judged = sum(len(runs) for runs in (*rows.baseline, *rows.arm))
    if judged == _n_runs(baseline_tasks) + _n_runs(arm_tasks):
        return None
    lows, highs = [], []
    for task_id in arm_tasks.keys() & baseline_tasks.keys():
        base_low, base_high = tally_of({task_id: baseline_tasks[task_id]}).success_bounds
        arm_low, arm_high = tally_of({task_id: arm_tasks[task_id]}).success_bounds
        lows.append(arm_low - base_high)
        highs.append(arm_high - base_low)
    # Sets have no order; an exact sum makes the bytes of the result independent of it.
    return (math.fsum(lows) / len(lows), math.fsum(highs) / len(highs)) if lows else None


def _usd_per_pair(baseline_tasks: RunsByTask, arm_tasks: RunsByTask) -> float | None:
    means = []
    for tasks in (baseline_tasks, arm_tasks):
        prices = [
            run.cost.usd + (run.cost.critic_usd or 0.0)
            for runs in tasks.values()
            for run in runs
            if run.cost is not None and run.cost.usd is not None
        ]
        if not prices:
            return None
        means.append(float(np.mean(prices)))
    return sum(means)
