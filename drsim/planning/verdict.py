"""From the posterior of a gain to a decision, and from an open decision to its price.

The pairs still needed follow from the posterior itself: draw a population from it, draw the further tasks of a larger
pilot from that population, form the posterior which that pilot would end with, and decide. The smallest pilot that ends
in a decision with the wanted probability is the answer.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import special

from drsim.arrays import BoolArray, FloatArray
from drsim.errors import ParameterError
from drsim.inference.paired_table import JEFFREYS
from drsim.inference.posterior import GainPosterior
from drsim.inference.task_groups import PURE_TABLES, TaskGroups

__all__ = ["Decision", "DecisionKind", "DecisionRule", "NextPilot", "decide", "next_pilot"]

N_PILOTS = 2_000
"""Simulated pilots for each size: the probability of a decision near 0.8 has a standard error of 0.009."""

SIZE_PRECISION = 0.02
"""Relative precision of the size; finer would be below the simulation's own error, some 4 % of the size."""

FEW_FLIPS = 200
"""Discordant pairs up to which P(Δ > 0) of pure tables is taken exactly; beyond, the normal form errs by under 0.001
where that probability is near 0.95."""

FUTURE_STREAM = 0x7069_6C6F
"""Keeps these draws apart from those of the posteriors under the same seed."""


class DecisionKind(StrEnum):
    """What a pilot says."""

    DEPLOY = "deploy"
    DO_NOT_DEPLOY = "do-not-deploy"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    UNANSWERABLE = "unanswerable"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """When a posterior is sharp enough to act on."""

    margin: float = 0.0
    """Gain that intervening must exceed, in [−1, 1]."""
    rope: float = 0.01
    """Gains below this size count as none (region of practical equivalence), in [0, 1]."""
    confidence: float = 0.95
    """Posterior probability that a decision needs, in (0.5, 1)."""
    power: float = 0.8
    """Probability of ending in a decision that the next pilot should have, in (0, 1)."""
    max_pairs: int = 100_000
    """Pairs beyond which no pilot is worth it, ≥ 1."""

    def __post_init__(self) -> None:
        """Check the domains."""
        not_per_cent = "; give a probability, not per cent"
        checks = (
            ("margin", -1 <= self.margin <= 1, "lie in [-1, 1]", not_per_cent),
            ("rope", 0 <= self.rope <= 1, "lie in [0, 1]", not_per_cent),
            ("confidence", 0.5 < self.confidence < 1, "lie between 0.5 and 1", not_per_cent),
            ("power", 0 < self.power < 1, "lie between 0 and 1", not_per_cent),
            ("max_pairs", self.max_pairs >= 1, "be at least 1", ""),
        )
        for name, is_allowed, rule, remedy in checks:
            if not is_allowed:
                raise ParameterError(f"{name} must {rule}, got {getattr(self, name)}{remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPilot:
    """What an open question still costs."""

    pairs: int
    """Pairs in all, those at hand included."""
    more_pairs: int
    usd: float | None
    """Price of the further pairs; None where the runs carry no price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict with its reason and its price."""

    kind: DecisionKind
    why: str
    next: NextPilot | None = None
    """None once the question is decided, or where no pilot up to the cap decides it."""


def decide(posterior: GainPosterior, rule: DecisionRule) -> DecisionKind:
    """Deploy, do not deploy, equivalent, or inconclusive.

    Parameters
    ----------
    posterior : GainPosterior
        Posterior of Δ.
    rule : DecisionRule
        Margin, region of equivalence and confidence; the first condition that holds in the order above decides.

    Returns
    -------
    DecisionKind
        Never `unanswerable`: that takes a simulation of the next pilot.
    """
    above = posterior.prob_gain_above(rule.margin)
    if above >= rule.confidence:
        return DecisionKind.DEPLOY
    if 1 - above >= rule.confidence:
        return DecisionKind.DO_NOT_DEPLOY
    within = posterior.prob_gain_above(-rule.rope) - posterior.prob_gain_above(rule.rope)
    return DecisionKind.EQUIVALENT if within >= rule.confidence else DecisionKind.INCONCLUSIVE


def next_pilot(
    groups: TaskGroups, rule: DecisionRule, *, pairs_per_task: float, usd_per_pair: float | None, seed: int
) -> NextPilot | None:
    """The smallest pilot that probably ends in a decision, if the current posterior is right.

    Parameters
    ----------
    groups : TaskGroups
        Tasks of the cell with the prior's, each group with its table.
    rule : DecisionRule
        The rule that the larger pilot will be read by.
    pairs_per_task : float
        Pairs that each further task brings, as now, > 0.
    usd_per_pair : float or None
        Price of one pair.
    seed : int
        Seed of the simulation.

    Returns
    -------
    NextPilot or None
        None when no pilot of up to `rule.max_pairs` pairs reaches the wanted probability.
    """
    future = _Future.of(groups, seed)
    largest = int(rule.max_pairs // pairs_per_task)
    low = high = round(future.n_tasks)
    # The probability rises with the size up to simulation error: double until it is reached, then bisect.
    while high < largest:
        low, high = high, min(max(high + 1, 2 * high), largest)
        if future.prob_decided(high, rule) >= rule.power:
            break
    else:
        return None
    while high - low > max(1, SIZE_PRECISION * high):
        middle = (low + high) // 2
        low, high = (low, middle) if future.prob_decided(middle, rule) >= rule.power else (middle, high)
    pairs = int(np.ceil(high * pairs_per_task))
    more = pairs - round(future.n_tasks * pairs_per_task)
    return NextPilot(pairs=pairs, more_pairs=more, usd=None if usd_per_pair is None else more * usd_per_pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Future:
    """Larger pilots drawn from the current posterior."""

    alpha: FloatArray
    """(n_groups,) weight of each kind of task, the prior's included."""
    gains: FloatArray
    """(n_groups,) gain of each kind of task."""
    n_tasks: float
    """Tasks at hand."""
    populations: FloatArray
    """(N_PILOTS, n_groups) make-up of each drawn population, the same for every size to be compared on equal terms."""
    seed: int

    @classmethod
    def of(cls, groups: TaskGroups, seed: int) -> "_Future":
        paired = groups.is_paired > 0
        alpha = groups.n_tasks[paired]
        rng = np.random.default_rng([seed, FUTURE_STREAM])
        return cls(
            alpha=alpha,
            gains=groups.gains[paired],
            n_tasks=groups.total_paired - JEFFREYS * len(PURE_TABLES),
            populations=rng.dirichlet(alpha, size=N_PILOTS),
            seed=seed,
        )

    def prob_decided(self, n_tasks: int, rule: DecisionRule) -> float:
        """Share of pilots with `n_tasks` tasks in all that end in a decision."""
        rng = np.random.default_rng([self.seed, FUTURE_STREAM, 1])
        further = rng.multinomial(max(0, round(n_tasks - self.n_tasks)), self.populations)
        return float(np.mean(self._is_decided(self.alpha + further, rule)))

    def _is_decided(self, alpha: FloatArray, rule: DecisionRule) -> BoolArray:
        total = alpha.sum(axis=1)
        mean = alpha @ self.gains / total
        sd = np.sqrt((alpha @ self.gains**2 / total - mean**2) / (total + 1))
        above = special.ndtr((mean - rule.margin) / sd)
        if rule.margin == 0 and np.isin(self.gains, (-1.0, 0.0, 1.0)).all():
            down, up = (alpha[:, self.gains == sign].sum(axis=1) for sign in (-1.0, 1.0))
            few = down + up < FEW_FLIPS
            above[few] = special.betainc(down[few], up[few], 0.5)
        within = special.ndtr((rule.rope - mean) / sd) - special.ndtr((-rule.rope - mean) / sd)
        decided: BoolArray = np.maximum(np.maximum(above, 1 - above), within) >= rule.confidence
        return decided
