r"""What a pilot plan will say, before it is run: its operating characteristics, its size, its split, its price.

A pair is of kind C with probability (q + Δ)/2, of kind B with (q − Δ)/2, where q is the discordance. The pairs of one
task hang together: its table is Dirichlet around the population's, with their intraclass correlation. For one pair a
task

.. math:: P(\text{decision}) = \sum_m \mathrm{Bin}(m \mid n, q)\; P(C \text{ within the rule's limits for } m),
          \quad C \mid m \sim \mathrm{Bin}(m, (q + Δ)/2q)

is exact. With more, pilots are simulated: a pilot is how many of its tasks showed each table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.planning.betting import BENEFIT, HARM, N_BETS, factors, walk
from drsim.planning.pilot_rules import PilotRule, RuleKind, decided_tasks, rule_limits, stopping_limits
from drsim.planning.pilot_world import PilotPlan, PilotWorld, table_probabilities

__all__ = [
    "SEARCH_PILOTS",
    "OperatingPoint",
    "detectable_gain",
    "first_passage",
    "operating_points",
    "tasks_needed",
]

MOST_EXACT_STOPS = 2_000
"""Pairs up to which stopping is followed exactly; the work grows with their square."""

TAIL_SDS = 9.0
"""Discordant pairs further from their mean have a probability below 1e-15 together, unless they are few."""
FEW = 40
"""Discordant pairs that are always looked at beyond that."""

DEFAULT_PILOTS = 50_000
"""A probability has a standard error of at most 0.0022."""
SEARCH_PILOTS = 20_000
WALKS = 4_000
WALKED_AT_ONCE = 2**23
"""Tasks of simulated sequences held at once (64 MiB)."""

SIZE_PRECISION = 0.005
GAIN_PRECISION = 1e-4
"""A hundredth of a percentage point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """What a plan says where the gain is known."""

    gain: float
    """True Δ."""
    discordance: float
    """Share of pairs that flip."""
    p_deploy: float
    p_reject: float
    p_equivalent: float
    p_wrong: float
    """P(deploy) where Δ ≤ margin, P(do not deploy) where it is above."""
    expected_tasks: float
    """Tasks run; fewer than planned where the rule may stop."""
    n_pilots: int | None
    """Simulated pilots; None where the numbers are exact."""

    @property
    def se(self) -> float:
        """Largest standard error of the probabilities, 0 where they are exact."""
        if self.n_pilots is None:
            return 0.0
        worst = max(p * (1 - p) for p in (self.p_deploy, self.p_reject, self.p_equivalent))
        return float(np.sqrt(worst / self.n_pilots))

    def p_right(self, margin: float) -> float:
        """Probability of the decision that suits the gain."""
        return self.p_deploy if self.gain > margin else self.p_reject


def operating_points(
    world: PilotWorld,
    plan: PilotPlan,
    rule: PilotRule,
    gains: Sequence[float],
    *,
    seed: int,
    n_pilots: int = DEFAULT_PILOTS,
) -> tuple[OperatingPoint, ...]:
    """Operating characteristics of a plan.

    Parameters
    ----------
    world : PilotWorld
        Failure rate, discordance and clustering.
    plan : PilotPlan
        Tasks, trials and pairing.
    rule : PilotRule
        How the pilot will be read.
    gains : sequence of float
        True gains, each at most the discordance in size.
    seed : int
        Seed of what is simulated, ≥ 0; all gains share the draws.
    n_pilots : int
        Pilots simulated where nothing is exact, ≥ 1.

    Returns
    -------
    tuple of OperatingPoint
        In the order of `gains`; exact for one trial a task (for the anytime rule up to 2,000 tasks and a margin of 0).

    Raises
    ------
    ParameterError
        A gain is larger than its discordance allows, or `seed` or `n_pilots` is outside its domain.

    References
    ----------
    THEORY section 8.
    """
    if seed < 0 or n_pilots < 1:
        raise ParameterError(f"seed must be ≥ 0 and n_pilots ≥ 1, got {seed} and {n_pilots}")
    quantities = [world.discordance_at(gain, plan.pairing) for gain in gains]
    is_anytime = rule.kind is RuleKind.ANYTIME
    if plan.n_trials == 1 and not is_anytime:
        shares = _exact(rule, plan.n_tasks, gains, quantities)
    elif plan.n_trials == 1 and plan.n_tasks <= MOST_EXACT_STOPS and rule.decision.margin == 0:
        shares = first_passage(*stopping_limits(rule, plan.n_tasks), gains, quantities)
    else:
        simulate: Callable[..., tuple[float, float, float, float]] = _simulated_stops if is_anytime else _simulated
        n_pilots = min(n_pilots, WALKS) if is_anytime else n_pilots
        shares = [
            simulate(world, plan, rule, gain, q, seed, n_pilots) for gain, q in zip(gains, quantities, strict=True)
        ]
        return tuple(map(_point(rule, n_pilots), gains, quantities, shares))
    return tuple(map(_point(rule, None), gains, quantities, shares))


def tasks_needed(
    world: PilotWorld,
    plan: PilotPlan,
    rule: PilotRule,
    gain: float,
    *,
    power: float,
    seed: int,
    max_tasks: int = 100_000,
) -> int | None:
    """The fewest tasks with which the right decision has the wanted probability.

    Parameters
    ----------
    world, plan, rule
        As for `operating_points`; the plan's number of tasks is not read.
    gain : float
        True gain, not the margin.
    power : float
        In (0, 1).
    seed : int
        Seed of what is simulated.
    max_tasks : int
        Tasks beyond which nothing is looked for.

    Returns
    -------
    int or None
        Exact to the task below 200, to 0.5 % above; None where no size up to `max_tasks` reaches the power. Where all
        pairs flip, power falls and rises with the size, and a tenth fewer or a few more tasks may be the limit.

    Raises
    ------
    ParameterError
        As `operating_points`, or the gain equals the margin, or the power is outside its domain.
    """
    margin = rule.decision.margin
    if not 0 < power < 1:
        raise ParameterError(f"power must lie between 0 and 1, got {power}; give a probability such as 0.8")
    if gain == margin:
        raise ParameterError(
            f"gain must differ from the margin {margin:g}: no size tells them apart; name another gain"
        )

    def reaches(n_tasks: int) -> bool:
        sized = replace(plan, n_tasks=n_tasks)
        (point,) = operating_points(world, sized, rule, [gain], seed=seed, n_pilots=SEARCH_PILOTS)
        return point.p_right(margin) >= power

    low, high = 0, min(8, max_tasks)
    while not reaches(high):
        if high >= max_tasks:
            return None
        low, high = high, min(2 * high, max_tasks)
    while high - low > max(1, SIZE_PRECISION * high):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def detectable_gain(
    world: PilotWorld, plan: PilotPlan, rule: PilotRule, *, power: float, seed: int, sign: int = 1
) -> float | None:
    """The smallest gain that the plan finds with the wanted probability.

    Parameters
    ----------
    world, plan, rule
        As for `operating_points`.
    power : float
        In (0, 1).
    seed : int
        Seed of what is simulated.
    sign : int
        1 for gains above the margin, −1 for losses below it.

    Returns
    -------
    float or None
        Gain to 0.01 pp, a possible one whatever the margin; None where the largest possible one is not found.
    """
    margin = rule.decision.margin
    # a margin beyond what is possible leaves a distance to the nearest gain that is
    low = max(0.0, -sign * margin - world.largest_gain(plan.pairing, -sign))
    high = world.largest_gain(plan.pairing, sign) - sign * margin

    def reaches(size: float) -> bool:
        (point,) = operating_points(world, plan, rule, [margin + sign * size], seed=seed, n_pilots=SEARCH_PILOTS)
        return point.p_right(margin) >= power

    if high <= 0 or not reaches(high):
        return None
    while high - low > GAIN_PRECISION:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return margin + sign * high


def _point(
    rule: PilotRule, n_pilots: int | None
) -> Callable[[float, float, tuple[float, float, float, float]], OperatingPoint]:
    margin = rule.decision.margin

    def make(gain: float, discordance: float, shares: tuple[float, float, float, float]) -> OperatingPoint:
        deploy, reject, equivalent, tasks = shares
        return OperatingPoint(
            gain=float(gain),
            discordance=discordance,
            p_deploy=deploy,
            p_reject=reject,
            p_equivalent=equivalent,
            p_wrong=reject if gain > margin else deploy,
            expected_tasks=tasks,
            n_pilots=n_pilots,
        )

    return make


def _exact(
    rule: PilotRule, n: int, gains: Sequence[float], discordances: Sequence[float]
) -> list[tuple[float, float, float, float]]:
    """P(deploy), P(do not), P(equivalent) and tasks, one pair a task; all gains by the same limits."""
    bands = [_band(n, q) for q in discordances]
    first = min(it.start for it in bands)
    m = np.arange(first, max(it.stop for it in bands))
    limits = rule_limits(rule, n, m)
    found = []
    for gain, q, band in zip(gains, discordances, bands, strict=True):
        part = slice(band.start - first, band.stop - first)
        some, up = m[part], (q + gain) / (2 * q) if q > 0 else 0.5
        weight = stats.binom.pmf(some, n, q)
        deploy_from, reject_to = limits.deploy_from[part], limits.reject_to[part]
        least = np.maximum(limits.equivalent[0][part], reject_to + 1)
        largest = np.minimum(limits.equivalent[1][part], deploy_from - 1)
        within = stats.binom.cdf(largest, some, up) - stats.binom.cdf(least - 1, some, up)
        shares = (
            stats.binom.sf(deploy_from - 1, some, up),
            stats.binom.cdf(reject_to, some, up),
            np.where(least <= largest, within, 0.0),
        )
        deploy, reject, equivalent = (float(weight @ it) for it in shares)
        found.append((deploy, reject, equivalent, float(n)))
    return found


def _band(n: int, q: float) -> range:
    """Discordant pairs that are looked at."""
    reach = TAIL_SDS * np.sqrt(n * q * (1 - q)) + FEW
    return range(max(0, int(n * q - reach)), min(n, int(n * q + reach)) + 1)


def first_passage(
    benefit_from: IntArray, harm_from: IntArray, gains: Sequence[float], discordances: Sequence[float]
) -> list[tuple[float, float, float, float]]:
    """Chances that looking after every pair ever stops, exactly, one pair a task.

    Parameters
    ----------
    benefit_from, harm_from : IntArray
        (n + 1,) least C, and least B, that stops at m = 0 … n discordant pairs, m + 1 where none does.
    gains, discordances : sequence of float
        Δ and q, as many of each.

    Returns
    -------
    list of tuple
        For each gain P(benefit), P(harm), 0 and the expected pairs, of n at most.
    """
    n = len(benefit_from) - 1
    q = np.array(discordances, dtype=np.float64)
    up = np.divide(q + np.array(gains), 2 * q, out=np.full_like(q, 0.5), where=q > 0)[:, None]
    state = np.zeros((len(q), n + 2))
    state[:, 0] = 1.0
    stopped = np.zeros((len(q), 2, n + 1))
    for m in range(1, n + 1):
        state[:, 1 : m + 1] = state[:, 1 : m + 1] * (1 - up) + state[:, :m] * up
        state[:, 0] *= 1 - up[:, 0]
        c = np.arange(m + 1)
        for side, is_over in enumerate((c >= benefit_from[m], m - c >= harm_from[m])):
            stopped[:, side, m] = state[:, : m + 1] @ is_over
            state[:, : m + 1][:, is_over] = 0.0
    reached = np.cumsum(stopped, axis=2)
    found = []
    for i, share in enumerate(q):
        weight = stats.binom.pmf(np.arange(n + 1), n, share)
        # a pilot has not stopped after t pairs with the probability of that after as many discordant ones as it has
        running = 1 - reached[i].sum(axis=0)
        expected = sum(float(_binomial(t, share) @ running[: t + 1]) for t in range(n))
        found.append((float(weight @ reached[i, 0]), float(weight @ reached[i, 1]), 0.0, expected))
    return found


def _binomial(n: int, q: float) -> FloatArray:
    pmf: FloatArray = stats.binom.pmf(np.arange(n + 1), n, q)
    return pmf


def _simulated(
    world: PilotWorld, plan: PilotPlan, rule: PilotRule, gain: float, q: float, seed: int, n_pilots: int
) -> tuple[float, float, float, float]:
    """The same for several pairs a task."""
    flips, chances = table_probabilities(gain, q, world.pair_correlation, plan.n_trials)
    rng = np.random.default_rng(seed)
    tasks = rng.multinomial(plan.n_tasks, chances, size=n_pilots)
    decided = _read(rule, plan, tasks, flips)
    shares = [float(np.mean(decided == kind)) for kind in (1, -1, 2)]
    return shares[0], shares[1], shares[2], float(plan.n_tasks)


def _read(rule: PilotRule, plan: PilotPlan, tasks: IntArray, flips: IntArray) -> IntArray:
    """(P,) decisions on pilots of (P, n_tables) tasks: 1, −1, 2 or 0."""
    if rule.kind is RuleKind.POSTERIOR:
        gains = (flips[:, 1] - flips[:, 0]) / plan.n_trials
        return decided_tasks(rule.decision, plan.n_tasks, tasks @ gains, tasks @ gains**2)
    down, up = tasks @ flips[:, 0], tasks @ flips[:, 1]
    m = np.arange(int((down + up).max()) + 1)
    limits = rule_limits(rule, plan.n_tasks * plan.n_trials, m)
    return np.select([up >= limits.deploy_from[down + up], up <= limits.reject_to[down + up]], [1, -1], 0)


def _simulated_stops(
    world: PilotWorld, plan: PilotPlan, rule: PilotRule, gain: float, q: float, seed: int, n_pilots: int
) -> tuple[float, float, float, float]:
    """The same for the anytime rule."""
    flips, chances = table_probabilities(gain, q, world.pair_correlation, plan.n_trials)
    gains, margin = (flips[:, 1] - flips[:, 0]) / plan.n_trials, rule.decision.margin
    up, down = factors(gains, margin, BENEFIT), factors(-gains, -margin, HARM)
    rng = np.random.default_rng(seed)
    stops, sides = np.empty(n_pilots, dtype=np.int64), np.empty(n_pilots, dtype=np.int64)
    edges = np.cumsum(chances)[:-1]
    even, limits = np.full((2, N_BETS), 1 / N_BETS), np.array([1 / rule.alpha, 1 / rule.harm_alpha])
    step = max(1, WALKED_AT_ONCE // plan.n_tasks)
    for start in range(0, n_pilots, step):
        part = slice(start, min(start + step, n_pilots))
        kinds = np.searchsorted(edges, rng.random((part.stop - start, plan.n_tasks)), side="right")
        walk(kinds, up, down, even, limits, stops[part], sides[part])
    return float(np.mean(sides == 1)), float(np.mean(sides == -1)), 0.0, float(stops.mean())
