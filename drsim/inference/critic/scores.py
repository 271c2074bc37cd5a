"""Scored runs of a pilot as arrays: what the critic said, how the run ended, and which task it was.

A run's score is the highest of its steps' scores, since a policy with threshold τ fires on the run exactly when some
step scores above τ. Every scored step is labelled by the end of its run.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import DataError
from drsim.pilot.evidence import Evidence, Pilot
from drsim.pilot.records import BASELINE, Outcome, Run
from drsim.theory.roc import auroc

__all__ = [
    "Place",
    "ScoredArm",
    "ScoredItems",
    "Task",
    "baseline_ends",
    "index_tasks",
    "runs_of_evidence",
    "scored_arms",
]

type Place = tuple[str, str]
"""Agent and benchmark."""

type Task = tuple[str, str]
"""Benchmark and task_id: a task that several agents ran is one task still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredItems:
    """Scored runs or scored steps, in an order that does not depend on the file's."""

    scores: FloatArray
    """(n,) the critic's probability that the run fails, in [0, 1]."""
    failed: BoolArray
    """(n,) whether the run failed; capped counts as failed."""
    task: IntArray
    """(n,) number of the task."""
    place: IntArray
    """(n,) index into the arm's places."""

    @property
    def n_failed(self) -> int:
        """Items whose run failed."""
        return int(self.failed.sum())

    @property
    def has_both_ends(self) -> bool:
        """Whether some runs failed and some succeeded."""
        return 0 < self.n_failed < len(self.failed)

    def by_task(self, values: FloatArray, n_tasks: int) -> FloatArray:
        """(n_tasks, k) sums of (n, k) values over the items of each task."""
        return np.stack([np.bincount(self.task, weights=column, minlength=n_tasks) for column in values.T], axis=1)

    def keep(self, chosen: BoolArray) -> "ScoredItems":
        """The items where `chosen`, of shape (n,), is true."""
        return ScoredItems(
            scores=self.scores[chosen], failed=self.failed[chosen], task=self.task[chosen], place=self.place[chosen]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredArm:
    """The scores that a critic gave in one arm, over all its agents and benchmarks."""

    arm: str
    is_contaminated: bool
    """Whether the arm intervenes, so that the ends of its runs are not the ends that the scores predicted."""
    places: tuple[Place, ...]
    runs: ScoredItems
    steps: ScoredItems
    length_auroc: float
    """AUROC of the number of scored steps alone; NaN where all ends are alike. The highest of many scores is high."""
    unscored: int
    """Judged runs without a score, left out."""
    set_aside: dict[str, int]
    """Scored runs that ended as infra or unjudged, left out."""

    @property
    def n_tasks(self) -> int:
        """Tasks with a scored run."""
        return len(np.unique(self.runs.task))

    def at(self, place: Place) -> "ScoredArm":
        """The part of one agent and benchmark; length and what was left out are told for the whole arm only."""
        code = self.places.index(place)
        runs, steps = (items.keep(items.place == code) for items in (self.runs, self.steps))
        # A place's items keep no index but 0, that of the only place left.
        runs, steps = (replace(items, place=np.zeros_like(items.place)) for items in (runs, steps))
        return replace(
            self, places=(place,), runs=runs, steps=steps, length_auroc=float("nan"), unscored=0, set_aside={}
        )


def runs_of_evidence(evidence: Evidence) -> list[Run]:
    """Runs of a pilot.

    Parameters
    ----------
    evidence : Pilot, Counts or Marginals
        As read.

    Returns
    -------
    list of Run

    Raises
    ------
    DataError
        The evidence is one of the short forms, which carry no scores.
    """
    if isinstance(evidence, Pilot):
        return evidence.runs
    raise DataError(
        f"{', '.join(evidence.sources)} holds counts without runs, hence no critic's scores; give the runs themselves, "
        "with `score` in their `steps`"
    )


def index_tasks(runs: Iterable[Run]) -> dict[Task, int]:
    """Every task of the runs with its number, in an order that does not depend on the file's."""
    return {task: i for i, task in enumerate(sorted({(run.benchmark, run.task_id) for run in runs}))}


def scored_arms(
    runs: list[Run], *, baseline: str = BASELINE, arms: Iterable[str] | None = None
) -> tuple[ScoredArm, ...]:
    """Scores to judge, arm by arm.

    Parameters
    ----------
    runs : list of Run
        All runs of the pilot.
    baseline : str
        Name of the arm without intervention.
    arms : iterable of str, optional
        Arms whose scores are wanted; by default the baseline where it carries scores, else every arm that does.

    Returns
    -------
    tuple of ScoredArm
        In order of the arms' names.

    Raises
    ------
    DataError
        No judged run carries a score, or a wanted arm is missing or has none.
    """
    scored = Counter({run.arm: 0 for run in runs})
    scored.update(run.arm for run in runs if run.outcome.is_judged and _scores(run))
    found = ", ".join(f"{name} ({n})" for name, n in sorted(scored.items()))
    if not scored.total():
        raise DataError(
            f"no judged run carries a critic's score (runs with scores by arm: {found}); log `score`, the critic's "
            f"probability that the run fails, in the `steps` of the {baseline} runs: a critic can score their "
            "transcripts afterwards, without new runs"
        )
    wanted = sorted(set(arms)) if arms is not None else _default(scored, baseline)
    for name in wanted:
        if not scored[name]:
            raise DataError(f"--arm {name} names no arm with scores; arms found, with their scored runs: {found}")
    tasks = index_tasks(runs)
    return tuple(_arm([run for run in runs if run.arm == name], tasks, baseline) for name in wanted)


def baseline_ends(runs: Iterable[Run], scored: ScoredArm, tasks: dict[Task, int], *, baseline: str) -> FloatArray:
    """Ends of the judged baseline runs of the scored tasks.

    Parameters
    ----------
    runs : iterable of Run
        All runs of the pilot.
    scored : ScoredArm
        Names the agents, the benchmarks and the tasks.
    tasks : dict
        Number of every task.
    baseline : str
        Name of the arm without intervention.

    Returns
    -------
    FloatArray
        (n_tasks, 2) failed and succeeded runs of each task.
    """
    ends = np.zeros((len(tasks), 2))
    wanted = {(scored.places[place], task) for place, task in zip(scored.runs.place, scored.runs.task, strict=True)}
    for run in runs:
        task = tasks[run.benchmark, run.task_id]
        if run.arm == baseline and run.outcome.is_judged and ((run.agent, run.benchmark), task) in wanted:
            ends[task, int(_succeeded(run))] += 1
    return ends


def _default(scored: Counter[str], baseline: str) -> list[str]:
    return [baseline] if scored[baseline] else sorted(name for name, n in scored.items() if n)


def _scores(run: Run) -> list[float]:
    return [step.score for step in run.steps if step.score is not None]


def _arm(runs: list[Run], tasks: dict[Task, int], baseline: str) -> ScoredArm:
    with_scores = [(run, scores) for run in runs if (scores := _scores(run))]
    judged = [(run, scores) for run, scores in with_scores if run.outcome.is_judged]
    places = tuple(sorted({(run.agent, run.benchmark) for run, _ in judged}))
    rows = [
        (tasks[run.benchmark, run.task_id], places.index((run.agent, run.benchmark)), not _succeeded(run))
        for run, _ in judged
    ]
    n_steps = [len(scores) for _, scores in judged]
    labels = np.array(rows, dtype=np.int64).reshape(-1, 3)
    ends = Counter(run.outcome for run, _ in with_scores)
    return ScoredArm(
        arm=runs[0].arm,
        is_contaminated=runs[0].arm != baseline,
        places=places,
        runs=_items(np.array([max(scores) for _, scores in judged]), labels),
        steps=_items(np.array([score for _, scores in judged for score in scores]), np.repeat(labels, n_steps, axis=0)),
        length_auroc=auroc(n_steps, labels[:, 2]),
        unscored=sum(run.outcome.is_judged for run in runs) - len(judged),
        set_aside={outcome.value: ends[outcome] for outcome in (Outcome.INFRA, Outcome.UNJUDGED)},
    )


def _succeeded(run: Run) -> bool:
    return run.outcome is Outcome.SUCCESS


def _items(scores: FloatArray, labels: IntArray) -> ScoredItems:
    task, place, failed = labels.T
    # Items that tie in all four are exchangeable, so sums over this order have the same last bits for any file order.
    order = np.lexsort((scores, failed, place, task))
    return ScoredItems(scores=scores[order], failed=failed[order] == 1, task=task[order], place=place[order])
