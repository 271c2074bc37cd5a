"""A pilot while it runs: when its tasks are enough, and for what.

Tasks count in the order in which they are complete, each with the mean of its first K pairs. After every one the
capital of `betting` is compared with its levels, so that a pilot may be looked at as often as one likes: whatever the
looks, the chance of ever finding a benefit where there is none is at most α, and the confidence sequence holds at all
times together. That takes an order of tasks that does not depend on how they end: where quick runs are written first,
the first tasks are no sample. The posterior rule of `fit` stands beside it, with the chance that it errs under the same
looking. Futility is no error of either kind; it is read off the present state alone.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import special

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.inference.paired_table import JEFFREYS, PairedTable
from drsim.planning.betting import BENEFIT, HARM, N_BETS, factors, running_bounds, walk
from drsim.planning.pilot_rules import N_PURE, PilotRule, RuleKind, decided_tasks, posterior_moments, rule_limits
from drsim.planning.pilot_size import first_passage
from drsim.planning.verdict import DecisionKind, DecisionRule, decide

__all__ = ["Look", "MonitorRule", "Stop", "StopKind", "look", "posterior_error"]

N_FUTURES = 1_000
"""A chance of 0.05 has a standard error of 0.007."""
N_PATHS = 2_000
MOST_EXACT = 2_000
FUTURE_STREAM = 0x66_7574


class StopKind(StrEnum):
    """What a running pilot says."""

    GO_ON = "go-on"
    BENEFIT = "stop-benefit"
    HARM = "stop-harm"
    EQUIVALENT = "stop-equivalent"
    FUTILE = "futile"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorRule:
    """When a pilot may stop."""

    n_trials: int = 1
    """Pairs that make a task complete, ≥ 1."""
    alpha: float = 0.05
    """Chance of ever finding a benefit where there is none; the confidence sequence leaves out as much."""
    harm_alpha: float = 0.1
    """Chance of ever finding harm where there is none."""
    max_tasks: int = 1_000
    """Tasks beyond which the pilot is not taken, ≥ 1."""
    futility: float = 0.05
    """Chance of still finding a benefit below which going on is futile, in [0, 1)."""
    decision: DecisionRule = DecisionRule()  # noqa: RUF009 # frozen
    """Margin and region of equivalence of all stops; confidence of the posterior rule."""

    def __post_init__(self) -> None:
        """Check the domains."""
        checks = (
            ("n_trials", self.n_trials >= 1, "be at least 1"),
            ("max_tasks", 1 <= self.max_tasks <= 100_000, "be from 1 to 100,000"),
            ("alpha", 0 < self.alpha < 1, "lie between 0 and 1"),
            ("harm_alpha", 0 < self.harm_alpha < 1, "lie between 0 and 1"),
            ("futility", 0 <= self.futility < 1, "lie in [0, 1)"),
        )
        for name, is_allowed, rule in checks:
            if not is_allowed:
                raise ParameterError(f"{name} must {rule}, got {getattr(self, name)}")
        if not -1 < self.decision.margin < 1:
            raise ParameterError(f"margin must lie between -1 and 1, got {self.decision.margin}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The first stop of a pilot."""

    kind: StopKind
    n_tasks: int
    """Tasks that were complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A running pilot as it stands."""

    state: StopKind
    stop: Stop | None
    """What stopped it first; stays, whatever comes after."""
    n_tasks: int
    counts: tuple[int, int, int, int]
    """A, B, C, D over the pairs of complete tasks."""
    gain: float
    """Mean of the tasks; NaN without any."""
    e_benefit: float
    """Capital on Δ > margin: at least e with probability at most 1/e where Δ is at most the margin."""
    e_harm: float
    """Capital on Δ < min(margin, 0)."""
    interval: tuple[float, float]
    """Confidence sequence of Δ."""
    prob_gain: float
    """Posterior P(Δ > margin)."""
    posterior: DecisionKind
    """What the posterior rule says if this were the only look."""
    posterior_error: float | None
    """Chance that it says deploy at one of the looks up to `max_tasks` where Δ = 0; None with a margin."""
    prob_benefit: float
    """Chance of a stop for benefit within `max_tasks`, by the posterior."""


def look(tables: IntArray, rule: MonitorRule, *, seed: int) -> Look:
    """Say where a running pilot stands.

    Parameters
    ----------
    tables : IntArray
        (n, 4) pairs of kind A, B, C, D of each complete task, in the order in which they were complete; every row sums
        to `rule.n_trials`.
    rule : MonitorRule
        Levels, margin, region of equivalence.
    seed : int
        Seed of what is simulated, ≥ 0.

    Returns
    -------
    Look
        A pure function of its arguments: it does not matter how often anybody looked before.

    Raises
    ------
    ParameterError
        A row does not hold `rule.n_trials` pairs.

    References
    ----------
    THEORY section 8.
    """
    if tables.ndim != 2 or tables.shape[1:] != (4,) or (tables.sum(axis=1) != rule.n_trials).any():
        raise ParameterError(f"tables must be (n, 4), every row of {rule.n_trials} pairs; leave out incomplete tasks")
    k = rule.n_trials
    gains = np.arange(-k, k + 1) / k
    kinds = tables[:, 2] - tables[:, 1] + k
    margin = rule.decision.margin
    winning = _capital(kinds, factors(gains, margin, BENEFIT))
    losing = _capital(kinds, factors(-gains, -min(margin, 0.0), HARM))
    bounds = np.empty((len(kinds), 2))
    running_bounds(kinds, gains, rule.alpha, BENEFIT.sizes, bounds)
    stop = _first_stop(winning, losing, bounds, rule)
    prob_gain, posterior = _posterior(tables, rule)
    prob_benefit = _prob_benefit(kinds, gains, rule, stop, seed)
    state = stop.kind if stop is not None else StopKind.FUTILE if prob_benefit < rule.futility else StopKind.GO_ON
    a, b, c, d = (int(it) for it in tables.sum(axis=0))
    total = float(gains[kinds].sum())
    return Look(
        state=state,
        stop=stop,
        n_tasks=len(kinds),
        counts=(a, b, c, d),
        gain=total / len(kinds) if len(kinds) else float("nan"),
        e_benefit=float(winning[-1]) if len(kinds) else 1.0,
        e_harm=float(losing[-1]) if len(kinds) else 1.0,
        interval=(float(bounds[-1, 0]), float(bounds[-1, 1])) if len(kinds) else (-1.0, 1.0),
        prob_gain=prob_gain,
        posterior=posterior,
        posterior_error=None if margin else posterior_error(tables, rule, seed=seed),
        prob_benefit=prob_benefit,
    )


_DECISIONS = {
    0: DecisionKind.INCONCLUSIVE,
    1: DecisionKind.DEPLOY,
    -1: DecisionKind.DO_NOT_DEPLOY,
    2: DecisionKind.EQUIVALENT,
}


def posterior_error(tables: IntArray, rule: MonitorRule, *, seed: int) -> float:
    """Chance that the posterior rule, read after every task, says deploy at least once where the gain is 0.

    Parameters
    ----------
    tables : IntArray
        (n, 4) as for `look`: they say how many pairs flip, and how those of a task hang together.
    rule : MonitorRule
        Trials, most tasks, confidence; the margin must be 0.
    seed : int
        Seed of the simulated pilots.

    Returns
    -------
    float
        Exact for one pair a task and up to 2,000 tasks, else from 2,000 simulated pilots whose tasks are those at hand
        and the prior's, with the sign of the gain drawn.
    """
    k, n = rule.n_trials, rule.max_tasks
    sizes = np.abs(tables[:, 2] - tables[:, 1])
    if k == 1 and n <= MOST_EXACT:
        q = (sizes.sum() + N_PURE / 2) / (len(sizes) + N_PURE)
        m = np.arange(n + 1)
        read = PilotRule(kind=RuleKind.POSTERIOR, decision=DecisionRule(rope=0.0, confidence=rule.decision.confidence))
        return first_passage(rule_limits(read, n, m).deploy_from, m + 1, [0.0], [float(q)])[0][0]
    rng = np.random.default_rng([seed, FUTURE_STREAM])
    weights = np.bincount(sizes, minlength=k + 1) + N_PURE / 2 * np.isin(np.arange(k + 1), (0, k))
    edges = np.cumsum(weights / weights.sum())[:-1]
    total, square = np.zeros(N_PATHS), np.zeros(N_PATHS)
    is_wrong = np.zeros(N_PATHS, dtype=np.bool_)
    for i in range(1, n + 1):
        size = np.searchsorted(edges, rng.random(N_PATHS), side="right") / k
        total += np.where(rng.random(N_PATHS) < 0.5, -size, size)
        square += size**2
        is_wrong |= decided_tasks(rule.decision, i, total, square) == 1
    return float(is_wrong.mean())


def _capital(kinds: IntArray, grown: FloatArray) -> FloatArray:
    """(n,) mixed capital after every task; infinite where it is beyond the largest float."""
    logs = np.cumsum(np.log(grown)[kinds], axis=0)
    with np.errstate(over="ignore"):
        capital: FloatArray = np.exp(logs).mean(axis=1)
    return capital


def _first_stop(winning: FloatArray, losing: FloatArray, bounds: FloatArray, rule: MonitorRule) -> Stop | None:
    rope = rule.decision.rope
    reached = (
        (StopKind.HARM, losing >= 1 / rule.harm_alpha),
        (StopKind.BENEFIT, winning >= 1 / rule.alpha),
        (StopKind.EQUIVALENT, (bounds[:, 0] > -rope) & (bounds[:, 1] < rope)),
    )
    firsts = [(int(np.argmax(is_over)) + 1, kind) for kind, is_over in reached if is_over.any()]
    if not firsts:
        return None
    n_tasks, kind = min(firsts, key=lambda it: it[0])
    return Stop(kind=kind, n_tasks=n_tasks)


def _posterior(tables: IntArray, rule: MonitorRule) -> tuple[float, DecisionKind]:
    """P(Δ > margin) and the decision of `fit`: exact for one pair a task, else with the posterior taken for normal."""
    n, margin = len(tables), rule.decision.margin
    if rule.n_trials == 1:
        a, b, c, d = (float(it) for it in tables.sum(axis=0))
        table = PairedTable(a=a, b=b, c=c, d=d)
        return table.prob_gain_above(margin), decide(table, rule.decision)
    gains = (tables[:, 2] - tables[:, 1]) / rule.n_trials
    total, square = np.array([gains.sum()]), np.array([(gains**2).sum()])
    mean, sd = posterior_moments(n, total, square)
    decided = decided_tasks(rule.decision, n, total, square)
    return float(special.ndtr((mean[0] - margin) / sd[0])), _DECISIONS[int(decided[0])]


def _prob_benefit(kinds: IntArray, gains: FloatArray, rule: MonitorRule, stop: Stop | None, seed: int) -> float:
    """Share of futures, drawn from the posterior of the tasks, that stop for benefit in time."""
    if stop is not None:
        return float(stop.kind is StopKind.BENEFIT)
    left = rule.max_tasks - len(kinds)
    if left <= 0:
        return 0.0
    rng = np.random.default_rng([seed, FUTURE_STREAM, 1])
    alpha = np.bincount(kinds, minlength=len(gains)).astype(np.float64)
    # half a task on each pure table; two of the four have no gain
    alpha[[0, len(gains) // 2, len(gains) - 1]] += JEFFREYS * np.array([1.0, 2.0, 1.0])
    present = np.flatnonzero(alpha)
    populations = np.cumsum(rng.dirichlet(alpha[present], size=N_FUTURES), axis=1)[:, :-1]
    further = np.empty((N_FUTURES, left), dtype=np.int64)
    for i, edges in enumerate(populations):
        further[i] = present[np.searchsorted(edges, rng.random(left), side="right")]
    margin = rule.decision.margin
    up, down = factors(gains, margin, BENEFIT), factors(-gains, -min(margin, 0.0), HARM)
    start = np.stack([np.exp(np.log(grown)[kinds].sum(axis=0)) / N_BETS for grown in (up, down)])
    stops, sides = np.empty(N_FUTURES, dtype=np.int64), np.empty(N_FUTURES, dtype=np.int64)
    walk(further, up, down, start, np.array([1 / rule.alpha, 1 / rule.harm_alpha]), stops, sides)
    return float(np.mean(sides == 1))
