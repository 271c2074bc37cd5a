"""Which run next: task × arm × trial, within a budget of money.

A move is a run (with its baseline run, where the task has none) that sharpens the gain of an arm: a task that is new to
the arm, or a repeat of the baseline or of the arm on a task that both know, which takes away noise within tasks
only. Top-two sampling says which two arms are in question; among their moves the one is taken that lowers the variance
of their difference most for its price. For net benefit it is the move, in the best number, whose expected value of
sample information is highest for its price.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.planning.arm_evidence import ArmEvidence
from drsim.planning.top_two import PRIOR_TASKS, best_shares, sample_value, top_two

__all__ = ["Allocation", "NetBenefit", "NextRun", "Sample", "allocate"]

N_DRAWS = 20_000
"""P(best) has a standard error of at most 0.0035."""
N_RESAMPLES = 64
BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
"""Tasks together of which a sample may be worth its price although the first one is not."""
MOST_RUNS = 10_000


class MoveKind(StrEnum):
    """What a run adds."""

    NEW_TASK = "new-task"
    REPEAT_BASELINE = "repeat-baseline"
    REPEAT_ARM = "repeat-arm"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetBenefit:
    """What a decision is worth in dollars."""

    volume: float
    """Runs that will be made with the arm that is chosen, > 0."""
    value: float
    """Dollars that one success is worth, > 0."""

    def __post_init__(self) -> None:
        """Check the domains."""
        for name in ("volume", "value"):
            if not 0 < getattr(self, name) < np.inf:
                raise ParameterError(f"{name} must be a positive number, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """A run to make."""

    task_id: str | None
    """None: any task that was not run yet."""
    arm: str
    trial: int
    usd: float
    kind: MoveKind
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Moves of one kind, made together before anything is decided."""

    n: int
    kind: MoveKind
    arm: str
    """Whose gain it sharpens."""
    value: float
    """Expected value in dollars."""
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What to run next, and where the arms stand."""

    evidence: ArmEvidence
    prob_best: dict[str, float]
    """By arm, the baseline included, before any further run."""
    runs: tuple[NextRun, ...]
    usd: float
    is_decided: bool
    """Whether one arm is the best with the wanted probability already, or no run is worth its price."""
    stopped: str
    """Why the list ends."""
    sample: Sample | None
    """The best first sample, for net benefit; None where the budget or the tasks allow none."""
    limit_share: float
    """Share of the variance between leader and challenger that repeats on the same tasks could take away."""


@dataclass(slots=True)
class _State:
    """The evidence, as it would be after the runs listed so far if the means stayed."""

    evidence: ArmEvidence
    mean: FloatArray
    cov: FloatArray
    n: FloatArray
    runs: IntArray
    trials: list[list[set[int]]]
    new_tasks: int
    listed: list[NextRun] = field(default_factory=list)
    usd: float = 0.0

    @classmethod
    def of(cls, evidence: ArmEvidence, new_tasks: int) -> "_State":
        return cls(
            evidence=evidence,
            mean=evidence.mean.copy(),
            cov=evidence.cov.copy(),
            n=evidence.n_tasks_of.copy(),
            runs=evidence.runs.copy(),
            trials=[[set(it) for it in row] for row in evidence.trials],
            new_tasks=new_tasks,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    kind: MoveKind
    arm: int
    """Whose gain it sharpens, from 1."""
    task: int | None
    share: float
    """Of the variance of that gain which it takes away."""
    usd: float
    most: int
    """Moves of this kind that there are tasks for; repeats can be made again and again."""
    limit: float
    """Share of the variance that any number of them takes away at most."""
    behind: float
    """Tasks, or runs that a repeat joins, which stand behind the gain already."""

    def share_of(self, n: int) -> float:
        """Share of the variance that n of them take away: repeats are alike until every task has one more."""
        return min(n * self.share, self.limit * n / (self.behind + n))


def allocate(
    evidence: ArmEvidence,
    prices: Mapping[str, float],
    *,
    budget: float,
    seed: int,
    most_runs: int = 10,
    confidence: float = 0.95,
    new_tasks: int = 0,
    benefit: NetBenefit | None = None,
) -> Allocation:
    """List the next runs.

    Parameters
    ----------
    evidence : ArmEvidence
        What the pilot says.
    prices : mapping of str to float
        Dollars of a run of each arm.
    budget : float
        Dollars to spend, ≥ 0.
    seed : int
        Seed of the draws, ≥ 0.
    most_runs : int
        Runs after which the list ends, ≥ 1.
    confidence : float
        P(best) at which the question is decided, in (0.5, 1).
    new_tasks : int
        Tasks that no arm has run yet, ≥ 0.
    benefit : NetBenefit, optional
        Go by the value of sample information; by top-two sampling when not given.

    Returns
    -------
    Allocation

    Raises
    ------
    ParameterError
        A parameter is outside its domain.

    References
    ----------
    THEORY section 8; D. Russo, Operations Research 68 (2020) 1625–1647.
    """
    if not 0 <= budget < np.inf or seed < 0 or not 1 <= most_runs <= MOST_RUNS or new_tasks < 0:
        raise ParameterError(
            f"budget, seed and new_tasks must be ≥ 0 and most_runs from 1 to {MOST_RUNS}, got {budget}, {seed}, "
            f"{new_tasks} and {most_runs}"
        )
    if not 0.5 < confidence < 1:
        raise ParameterError(f"confidence must lie between 0.5 and 1, got {confidence}; give a probability")
    rng = np.random.default_rng(seed)
    state = _State.of(evidence, new_tasks)
    shares = best_shares(state.mean, state.cov, rng.standard_normal((N_DRAWS, len(state.mean))))
    prob_best = dict(zip(evidence.arms, map(float, shares), strict=True))
    limit_share = _limit_share(state, shares)
    is_decided = benefit is None and float(shares.max()) >= confidence
    stopped = f"P(best) of {evidence.arms[int(shares.argmax())]} is at least {confidence:g}" if is_decided else ""
    first: Sample | None = None
    batch: list[tuple[MoveKind, int]] = []
    while not stopped:
        moves = _moves(state, prices)
        if benefit is None:
            move, stopped = _by_top_two(state, moves, rng)
        elif batch:
            # a sample is worth its price as a whole: the value of its rest alone leaves out what its beginning told
            (kind, arm), batch = batch[0], batch[1:]
            move = next(it for it in moves if (it.kind, it.arm) == (kind, arm))
        else:
            move, sample, stopped = _by_value(state, moves, prices, benefit, budget - state.usd)
            first = first or sample
            batch = [(move.kind, move.arm)] * (sample.n - 1) if move and sample else []
            is_decided = is_decided or (not state.listed and move is None and sample is not None)
        if move is None:
            break
        if state.usd + move.usd > budget * (1 + 1e-12):
            stopped = "the budget is spent"
            break
        _make(state, move, prices)
        if len(state.listed) >= most_runs:
            stopped = f"the list was to hold {most_runs} runs"
    return Allocation(
        evidence=evidence,
        prob_best=prob_best,
        runs=tuple(state.listed),
        usd=state.usd,
        is_decided=is_decided,
        stopped=stopped,
        sample=first,
        limit_share=limit_share,
    )


def _limit_share(state: _State, shares: FloatArray) -> float:
    """Share of the variance of the two likeliest arms' difference that is noise of runs within their tasks."""
    first, second = np.argsort(shares, kind="stable")[::-1][:2]
    chosen = [int(arm) - 1 for arm in (first, second) if arm > 0]
    signs = np.zeros(len(state.mean))
    for sign, arm in zip((1.0, -1.0), chosen, strict=False):
        signs[arm] = sign
    variance = float(signs @ state.cov @ signs)
    noise = 0.0
    for arm in chosen:
        noise += _noise_of(state, arm, arm + 1)
    if len(chosen) == 1:
        noise += _noise_of(state, chosen[0], 0)
    return min(1.0, noise / variance) if variance > 0 else 0.0


def _noise_of(state: _State, arm: int, column: int) -> float:
    """Variance of an arm's mean gain that comes from runs within tasks, of the arm itself or of the baseline (0)."""
    known = (state.runs[:, arm + 1] > 0) & (state.runs[:, 0] > 0)
    total = float((1.0 / state.runs[known, column]).sum())
    return float(state.evidence.within * total / (state.n[arm] + PRIOR_TASKS) ** 2)


def _moves(state: _State, prices: Mapping[str, float]) -> list[_Move]:
    """Every kind of move for every arm that there is a task for."""
    names, base = state.evidence.arms, prices[state.evidence.arms[0]]
    found = []
    for arm, name in enumerate(names[1:], 1):
        found += _new_task(state, arm, base, prices[name])
        for column, kind, price in (
            (0, MoveKind.REPEAT_BASELINE, base),
            (arm, MoveKind.REPEAT_ARM, prices[name]),
        ):
            found += _repeat(state, arm, column, kind, price)
    return found


def _new_task(state: _State, arm: int, base: float, price: float) -> list[_Move]:
    """A further task for an arm: one that lacks only its baseline run, only the arm's, or both."""
    has_arm, has_base = state.runs[:, arm] > 0, state.runs[:, 0] > 0
    ways = (
        (has_arm & ~has_base, 0, base),
        (~has_arm & has_base, 0, price),
        (~has_arm & ~has_base, state.new_tasks, base + price),
    )
    for is_open, further, usd in ways:
        known = np.flatnonzero(is_open)
        if len(known) + further:
            task = int(known[0]) if len(known) else None
            most = len(known) + further
            behind = float(state.n[arm - 1]) + PRIOR_TASKS
            return [
                _Move(
                    kind=MoveKind.NEW_TASK,
                    arm=arm,
                    task=task,
                    share=1 / (behind + 1),
                    usd=usd,
                    most=most,
                    limit=1.0,
                    behind=behind,
                )
            ]
    return []


def _repeat(state: _State, arm: int, column: int, kind: MoveKind, price: float) -> list[_Move]:
    """One run more on the task with the fewest of a column, among those that the arm and the baseline know."""
    known = np.flatnonzero((state.runs[:, arm] > 0) & (state.runs[:, 0] > 0))
    if not len(known):
        return []
    task = int(known[np.argmin(state.runs[known, column])])
    k = int(state.runs[task, column])
    variance = float(state.cov[arm - 1, arm - 1])
    less = state.evidence.within / (k * (k + 1)) / float(state.n[arm - 1] + PRIOR_TASKS) ** 2
    return [
        _Move(
            kind=kind,
            arm=arm,
            task=task,
            share=min(1.0, less / variance),
            usd=price,
            most=MOST_RUNS,
            limit=min(1.0, _noise_of(state, arm - 1, column) / variance),
            behind=float(state.runs[known, column].sum()),
        )
    ]


def _by_top_two(state: _State, moves: list[_Move], rng: np.random.Generator) -> tuple[_Move | None, str]:
    found = np.empty(2, dtype=np.int64)
    top_two(state.mean, state.cov, rng.standard_normal((N_RESAMPLES, len(state.mean))), found)
    # against another arm on the same tasks the baseline cancels, so that only one against the baseline gains by it
    against_baseline = 0 in found
    possible = [it for it in moves if it.arm in found and (against_baseline or it.kind is not MoveKind.REPEAT_BASELINE)]
    if not possible:
        return None, "there is no task left for the arms in question; allow new ones with --new-tasks"
    return max(possible, key=lambda it: it.share * state.cov[it.arm - 1, it.arm - 1] / it.usd), ""


def _by_value(
    state: _State, moves: list[_Move], prices: Mapping[str, float], benefit: NetBenefit, left: float
) -> tuple[_Move | None, Sample | None, str]:
    """The move with the highest value of sample information per dollar, in the best number.

    A sample without a move is one that is not worth its price.
    """
    names = state.evidence.arms
    scale = benefit.volume * benefit.value
    dearer = np.array([prices[name] - prices[names[0]] for name in names])
    values = scale * np.concatenate([[0.0], state.mean]) - benefit.volume * dearer
    best: tuple[float, Sample, _Move] | None = None
    for move in moves:
        variance = scale**2 * state.cov[move.arm - 1, move.arm - 1]
        for m in BATCHES:
            if m * move.usd > left or m > move.most:
                break
            worth = sample_value(values, move.arm, variance, move.share_of(m))
            ratio = worth / (m * move.usd)
            if best is None or ratio > best[0]:
                best = ratio, Sample(n=m, kind=move.kind, arm=names[move.arm], value=worth, usd=m * move.usd), move
    if best is None:
        return None, None, "the budget is spent" if moves else "there is no task left; allow new ones with --new-tasks"
    if best[0] < 1:
        return None, best[1], "no further run is worth its price"
    return best[2], best[1], ""


def _make(state: _State, move: _Move, prices: Mapping[str, float]) -> None:
    """List the runs of a move, and sharpen the gain of its arm as it may be expected to."""
    names = state.evidence.arms
    columns = [0] if move.kind is MoveKind.REPEAT_BASELINE else [move.arm]
    if move.kind is MoveKind.NEW_TASK:
        columns = [0, move.arm] if move.task is None else [it for it in (0, move.arm) if not state.runs[move.task, it]]
    task = move.task
    if task is None:
        state.new_tasks -= 1
        state.runs = np.vstack([state.runs, np.zeros_like(state.runs[:1])])
        state.trials.append([set() for _ in names])
        task = len(state.runs) - 1
    known = task < len(state.evidence.tasks)
    for column in columns:
        trial = _trial(state.trials[task], column)
        state.trials[task][column].add(trial)
        state.runs[task, column] += 1
        state.listed.append(
            NextRun(
                task_id=state.evidence.tasks[task] if known else None,
                arm=names[column],
                trial=trial,
                usd=prices[names[column]],
                kind=move.kind,
                why=_why(move, names),
            )
        )
        state.usd += prices[names[column]]
    if move.kind is MoveKind.NEW_TASK:
        state.n[move.arm - 1] += 1
    keep = np.sqrt(1 - move.share)
    state.cov[move.arm - 1] *= keep
    state.cov[:, move.arm - 1] *= keep


def _trial(taken: list[set[int]], column: int) -> int:
    """The first trial number that is free, one that makes a pair before others."""
    own = taken[column]
    partners = set().union(*(it for other, it in enumerate(taken) if other != column)) - own
    if column and (pairs := taken[0] - own):
        return min(pairs)
    if not column and partners:
        return min(partners)
    trial = 0
    while trial in own:
        trial += 1
    return trial


def _why(move: _Move, names: tuple[str, ...]) -> str:
    arm = names[move.arm]
    match move.kind:
        case MoveKind.NEW_TASK:
            return f"a further task for {arm}"
        case MoveKind.REPEAT_BASELINE:
            return f"reruns differ: a steadier baseline for {arm}"
    return f"reruns differ: a steadier {arm}"
