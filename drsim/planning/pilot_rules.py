"""Rules by which a pilot is read, as limits on its discordant pairs.

Of m discordant pairs C speak for the intervention and B = m − C against it. Each rule says the same for all larger C
once it says deploy, and for all smaller C once it says do not deploy, so that it is three limits for each m. With
several pairs a task the posterior rule goes by the mean and the spread of the tasks' gains.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from scipy import special

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.inference.paired_table import JEFFREYS, PairedTable
from drsim.inference.task_groups import PURE_TABLES
from drsim.planning.betting import BENEFIT, HARM, Bets, log_capital
from drsim.planning.verdict import FEW_FLIPS, DecisionRule

__all__ = ["Limits", "PilotRule", "RuleKind", "decided_tasks", "posterior_moments", "rule_limits", "stopping_limits"]

N_PURE = JEFFREYS * len(PURE_TABLES)
"""Tasks that the prior stands for; half of them are discordant, one each way in all."""

SIGNS = np.array([-1.0, 1.0])


class RuleKind(StrEnum):
    """How a pilot is turned into a decision."""

    POSTERIOR = "posterior"
    """As `drsim fit` does."""
    POINT = "point"
    """Deploy when the estimated p exceeds the estimated p*, which is C > B; otherwise do not."""
    MCNEMAR = "mcnemar"
    """The two-sided mid-p McNemar test, all pairs taken for independent."""
    ANYTIME = "anytime"
    """The capital of `betting`, looked at after every task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotRule:
    """A rule with its levels."""

    kind: RuleKind = RuleKind.POSTERIOR
    decision: DecisionRule = field(default_factory=DecisionRule)
    """Of the posterior rule; its margin is that of the anytime rule too."""
    alpha: float = 0.05
    """Level of the McNemar test; chance that the anytime rule ever finds a benefit where there is none."""
    harm_alpha: float = 0.1
    """Chance that the anytime rule ever finds harm where there is none; a false alarm costs less than a collapse."""

    def __post_init__(self) -> None:
        """Check the levels."""
        for name in ("alpha", "harm_alpha"):
            if not 0 < getattr(self, name) < 1:
                raise ParameterError(f"{name} must lie between 0 and 1, got {getattr(self, name)}; such as 0.05")
        if self.decision.margin and self.kind in (RuleKind.POINT, RuleKind.MCNEMAR):
            raise ParameterError(f"the rule {self.kind} knows no margin, got {self.decision.margin}; use posterior")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Decisions by C for each number m of discordant pairs."""

    deploy_from: IntArray
    """(n_m,) least C that deploys; m + 1 where none does."""
    reject_to: IntArray
    """(n_m,) largest C that rejects; −1 where none does."""
    equivalent: tuple[IntArray, IntArray]
    """(n_m,) least and largest C that is equivalent, the least above the largest where none is; deploy and reject go
    before."""


def rule_limits(rule: PilotRule, n_pairs: int, m: IntArray) -> Limits:
    """Limits of a rule that reads n independent pairs once.

    Parameters
    ----------
    rule : PilotRule
        Posterior, point or McNemar.
    n_pairs : int
        Pairs, ≥ 1.
    m : IntArray
        (n_m,) discordant pairs, 0 to n_pairs.

    Returns
    -------
    Limits
        Exact, but for the posterior rule with 200 discordant pairs or more and a margin or region of equivalence, where
        the posterior is taken for normal.

    Raises
    ------
    ParameterError
        The rule is anytime.
    """
    none = np.ones_like(m), np.zeros_like(m)
    match rule.kind:
        case RuleKind.POINT:
            return Limits(deploy_from=m // 2 + 1, reject_to=m // 2, equivalent=none)
        case RuleKind.MCNEMAR:
            deploy_from = _first(lambda c: _midp_tail(m - c, m) <= rule.alpha / 2, m)
            return Limits(deploy_from=deploy_from, reject_to=m - deploy_from, equivalent=none)
        case RuleKind.POSTERIOR:
            above = _posterior(n_pairs, m, rule.decision.margin)
            confidence = rule.decision.confidence
            return Limits(
                deploy_from=_first(lambda c: above(c) >= confidence, m),
                reject_to=_first(lambda c: 1 - above(c) < confidence, m) - 1,
                equivalent=_equivalent(rule.decision, n_pairs, m),
            )
    raise ParameterError("the anytime rule reads a pilot after every pair; its limits are those of stopping_limits")


def stopping_limits(rule: PilotRule, n_pairs: int) -> tuple[IntArray, IntArray]:
    """Limits of the anytime rule at a margin of 0, one pair a task.

    Parameters
    ----------
    rule : PilotRule
        With its two levels.
    n_pairs : int
        Most discordant pairs.

    Returns
    -------
    tuple of ndarray
        (n_pairs + 1,) least C at which m = 0 … n_pairs discordant pairs stop for benefit, m + 1 where none does; and
        likewise least B that stops for harm.
    """
    m = np.arange(n_pairs + 1)

    def stops(alpha: float, bets: Bets) -> IntArray:
        limit = -np.log(alpha)
        return _first(lambda c: log_capital(np.stack([m - c, c], axis=-1) * 1.0, SIGNS, 0.0, bets) >= limit, m)

    return stops(rule.alpha, BENEFIT), stops(rule.harm_alpha, HARM)


def posterior_moments(n_tasks: int, total: FloatArray, square: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Exact mean and standard deviation of Δ under the posterior of the tasks' weights.

    Parameters
    ----------
    n_tasks : int
        Tasks.
    total, square : FloatArray
        Sums of the tasks' gains and of their squares.

    Returns
    -------
    tuple of ndarray
        In the shape of `total`.
    """
    n = n_tasks + N_PURE
    mean = total / n
    return mean, np.sqrt(((square + N_PURE / 2) / n - mean**2) / (n + 1))


def decided_tasks(rule: DecisionRule, n_tasks: int, total: FloatArray, square: FloatArray) -> IntArray:
    """The posterior rule on tasks with several pairs.

    Parameters
    ----------
    rule : DecisionRule
        Margin, region of equivalence, confidence.
    n_tasks : int
        Tasks.
    total, square : FloatArray
        (P,) sums of the tasks' gains and of their squares.

    Returns
    -------
    ndarray
        (P,) 1 deploy, −1 do not, 2 equivalent, 0 inconclusive; by the exact mean and variance of the posterior, taken
        for normal. `drsim fit` decides otherwise in about one pilot in fifty or fewer of three pairs a task where 30 %
        of pairs flip, but where 5 % do, all one way, in 4 % of pilots of 20 tasks and 16 % of 50: the
        posterior is skewed, and fit deploys more often (0.55 against 0.39 of the 50); with 200 tasks they agree there.
    """
    mean, sd = posterior_moments(n_tasks, total, square)
    above = special.ndtr((mean - rule.margin) / sd)
    within = special.ndtr((rule.rope - mean) / sd) - special.ndtr((-rule.rope - mean) / sd)
    conditions = [above >= rule.confidence, 1 - above >= rule.confidence, within >= rule.confidence]
    return np.select(conditions, [1, -1, 2], 0)


def _first(holds: Callable[[IntArray], BoolArray], m: IntArray) -> IntArray:
    """(n_m,) least C from 0 to m from which a condition holds, m + 1 where it never does."""
    low, high = np.full_like(m, -1), m + 1
    while np.any(high - low > 1):
        middle = np.clip((low + high) // 2, 0, m)
        is_open = high - low > 1
        met = holds(middle)
        high = np.where(is_open & met, middle, high)
        low = np.where(is_open & ~met, middle, low)
    return high


def _midp_tail(fewer: IntArray, m: IntArray) -> FloatArray:
    """P(X < k) + ½P(X = k) of Binomial(m, ½): half the mid-p-value where k is the smaller count; ½ at m = 0."""
    upto = special.bdtr(fewer, m, 0.5)
    below = np.where(fewer > 0, special.bdtr(np.maximum(fewer - 1, 0), m, 0.5), 0.0)
    half: FloatArray = 0.5 * (upto + below)
    return half


def _posterior(n_pairs: int, m: IntArray, margin: float) -> Callable[[IntArray], FloatArray]:
    """P(Δ > margin) as a function of C at each m."""
    if margin == 0:
        return lambda c: np.asarray(special.betainc(m - c + JEFFREYS, c + JEFFREYS, 0.5))

    def above(c: IntArray) -> FloatArray:
        mean, sd = posterior_moments(n_pairs, (2 * c - m).astype(np.float64), m.astype(np.float64))
        prob: FloatArray = special.ndtr((mean - margin) / sd)
        for i in np.flatnonzero(m < FEW_FLIPS):
            table = PairedTable(a=float(n_pairs - m[i]), b=float(m[i] - c[i]), c=float(c[i]), d=0.0)
            prob[i] = table.prob_gain_above(margin)
        return prob

    return above


def _equivalent(rule: DecisionRule, n_pairs: int, m: IntArray) -> tuple[IntArray, IntArray]:
    """Least and largest C whose posterior lies within the region; it lies so most at C = B, and symmetrically."""
    if rule.rope == 0:
        return np.ones_like(m), np.zeros_like(m)
    above_low, above_high = _posterior(n_pairs, m, -rule.rope), _posterior(n_pairs, m, rule.rope)
    at_best = above_low(m // 2) - above_high(m // 2)
    least, largest = np.ones_like(m), np.zeros_like(m)
    some = at_best >= rule.confidence
    if some.any():
        few = m[some]
        low, high = _posterior(n_pairs, few, -rule.rope), _posterior(n_pairs, few, rule.rope)

        def is_outside(c: IntArray) -> BoolArray:
            outside: BoolArray = (c > few // 2) & (low(c) - high(c) < rule.confidence)
            return outside

        largest[some] = _first(is_outside, few) - 1
        least[some] = few - largest[some]
    return least, largest
