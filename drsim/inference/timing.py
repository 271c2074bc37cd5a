r"""Recovery and disruption rate by the step of the first intervention.

.. math::

    \mathrm{logit}\, r_c(t) = \alpha + a_c + \sum_{s \le t} z_s, \qquad
    a_c \sim N(0, \sigma_{cell}^2), \quad z_s \sim N(0, \sigma_{step}^2)

and d likewise: a random walk over the steps, shared by cells that differ by a level. A pair belongs to the step of its
first intervention; of its flips the later interventions of the same run are part. Pairs that never fire say nothing
about r(t) and d(t) and are counted apart.

**What is assumed.** Pairs are independent given the curves; with several pairs a task they are not quite, and the bands
are then too narrow. In forked pairs r and d are causal. In pairs of independent runs they hold churn (THEORY section
2), and more: a critic fires on runs that go badly, which their baseline runs know nothing of, so that d(t) is high and
r(t) low even for an intervention that does nothing. `drsim.inference.triggers` has no such fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import expit

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import DataError, ParameterError
from drsim.inference.importance import is_trusted
from drsim.inference.latent_field import FieldPosterior, LatentField, sample_field
from drsim.pilot.timed import TimedPairs
from drsim.theory.domain import ratio

__all__ = [
    "Curve",
    "TimingCell",
    "TimingFit",
    "TimingPriors",
    "counts_by_step",
    "fit_timing",
    "own_logits",
    "walk_field",
]

BAND = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingPriors:
    """Priors on the logit scale."""

    middle: float = -1.0
    """Mean of α: a rate of .27."""
    spread: float = 1.5
    """Sd of α: rates of .02 to .86 are within 1.96 of it."""
    cell: float = 0.7
    """Scale of the half-normal spread of cells."""
    step: float = 0.3
    """Scale of the half-normal spread of one step of the walk."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "middle":
                if not np.isfinite(value):
                    raise ParameterError(f"middle must be finite, got {value}; give a logit such as -1")
            elif not 0.0 < value < np.inf:
                raise ParameterError(f"{field.name} must lie in (0, ∞), got {value}; give a scale such as 0.5")

    def to_dict(self) -> dict[str, float]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A rate by step, T steps."""

    draws: FloatArray
    """(draws, T)."""
    mean: FloatArray
    """(T,)."""
    low: FloatArray
    """(T,) lower end of the 95 % interval of each step."""
    high: FloatArray
    """(T,) upper end."""
    band_low: FloatArray
    """(T,) lower end of the band that holds the whole curve with probability .95."""
    band_high: FloatArray
    """(T,) upper end."""
    events: IntArray
    """(T,) flips."""
    trials: IntArray
    """(T,) pairs that could have flipped."""

    @classmethod
    def of(cls, logits: FloatArray, events: IntArray, trials: IntArray) -> "Curve":
        """From draws (draws, T) of the logits."""
        rates = expit(logits)
        middle, sd = logits.mean(axis=0), logits.std(axis=0)
        largest = np.max(np.abs(logits - middle) / sd, axis=1)
        reach = float(np.quantile(largest, BAND))
        low, high = np.quantile(rates, [0.5 - BAND / 2, 0.5 + BAND / 2], axis=0)
        return cls(
            draws=rates,
            mean=rates.mean(axis=0),
            low=low,
            high=high,
            band_low=expit(middle - reach * sd),
            band_high=expit(middle + reach * sd),
            events=events,
            trials=trials,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingCell:
    """One cell's curves."""

    pairs: TimedPairs
    recovery: Curve
    disruption: Curve
    is_observed: BoolArray
    """(T,) whether any pair of the cell fired first in that step; elsewhere the walk fills in or goes on."""
    n_never: int
    """Pairs in which nothing fired."""
    prob_safe: FloatArray
    """(T,) P(p > d(s)/(r(s) + d(s)) for every s from t to the last observed step); NaN after it."""
    failure_rate: FloatArray
    """(draws,) p of the pairs' baseline runs."""
    early_share: FloatArray
    """(T,) share of disruptions that first interventions up to step t make, given when they came; posterior mean."""

    def safe_from(self, confidence: float) -> int | None:
        """First observed step from which intervening pays with the given probability; None where there is none."""
        safe = np.flatnonzero((self.prob_safe >= confidence) & self.is_observed)
        return int(safe[0]) if safe.size else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingFit:
    """Curves of all cells, fitted together."""

    cells: tuple[TimingCell, ...]
    priors: TimingPriors
    seed: int
    n_draws: int
    effective: tuple[float, float]
    """Draws that the weighted ones are worth, for r and for d."""
    pareto_k: tuple[float, float]
    """Tail of the importance weights, likewise."""

    @property
    def is_reliable(self) -> bool:
        """Whether the draws can be relied on."""
        return is_trusted(max(self.pareto_k), min(self.effective))


def fit_timing(
    cells: Sequence[TimedPairs], *, seed: int, priors: TimingPriors | None = None, n_draws: int = 4_000
) -> TimingFit:
    """Fit r(t) and d(t) of cells together.

    Parameters
    ----------
    cells : sequence of TimedPairs
        At least one.
    seed : int
        ≥ 0.
    priors : TimingPriors, optional
        Those of the class when not given.
    n_draws : int
        Posterior draws, ≥ 1000.

    Returns
    -------
    TimingFit

    Raises
    ------
    DataError
        No pair has an intervention whose step is known.
    """
    if not cells:
        raise DataError(
            "timing needs pairs, by fork or trial, whose interventions carry their step; none has one: "
            "log interventions as {t, mechanism}, or fit without --model timing"
        )
    priors = priors or TimingPriors()
    horizon = 1 + max(int(pairs.first_step.max()) for pairs in cells)
    recovered = [_by_step(pairs, horizon, baseline_success=False) for pairs in cells]
    disrupted = [_by_step(pairs, horizon, baseline_success=True) for pairs in cells]
    recovery, disruption = (
        sample_field(walk_field(counts, horizon, priors, middle=priors.middle), seed=seed + k, draws=n_draws)
        for k, counts in enumerate((recovered, disrupted))
    )
    rng = np.random.default_rng(seed)
    fitted = tuple(
        _cell(
            pairs, recovered[c], disrupted[c], own_logits(recovery, c, horizon), own_logits(disruption, c, horizon), rng
        )
        for c, pairs in enumerate(cells)
    )
    return TimingFit(
        cells=fitted,
        priors=priors,
        seed=seed,
        n_draws=n_draws,
        effective=(recovery.effective, disruption.effective),
        pareto_k=(recovery.pareto_k, disruption.pareto_k),
    )


def _by_step(pairs: TimedPairs, horizon: int, *, baseline_success: bool) -> tuple[IntArray, IntArray]:
    """Flips and pairs (T,) by the step of the first intervention, of baseline runs that ended in one way."""
    chosen = (pairs.first_step >= 0) & (pairs.baseline_success == baseline_success)
    return counts_by_step(pairs.first_step, chosen, pairs.arm_success != baseline_success, horizon)


def counts_by_step(step: IntArray, chosen: BoolArray, happened: BoolArray, horizon: int) -> tuple[IntArray, IntArray]:
    """Events and trials (T,) by step, of the chosen among n cases."""
    events, trials = (np.bincount(step[it], minlength=horizon) for it in (chosen & happened, chosen))
    return events.astype(np.int64), trials.astype(np.int64)


def walk_field(
    counts: Sequence[tuple[IntArray, IntArray]], horizon: int, priors: TimingPriors, *, middle: float
) -> LatentField:
    """Counts (events, trials) of cells by step, as a field: α around `middle`, the walk's steps, and the cells' levels.

    Parameters
    ----------
    counts : sequence of (ndarray, ndarray)
        (T,) events and trials of each cell.
    horizon : int
        T ≥ 1.
    priors : TimingPriors
        Scales.
    middle : float
        Mean of α.

    Returns
    -------
    LatentField
        Cell by cell and step by step.
    """
    n_cells = len(counts)
    walk = np.tril(np.ones((horizon, horizon)))[:, 1:]
    parts = [np.full((n_cells * horizon, 1), priors.spread), np.tile(walk, (n_cells, 1))]
    group = [-1] + [0] * (horizon - 1)
    scales = [priors.step] if horizon > 1 else []
    if n_cells > 1:
        parts.append(np.repeat(np.eye(n_cells), horizon, axis=0))
        group += [len(scales)] * n_cells
        scales.append(priors.cell)
    return LatentField(
        successes=np.concatenate([events for events, _ in counts]),
        trials=np.concatenate([trials for _, trials in counts]),
        offset=np.full(n_cells * horizon, middle),
        design=np.concatenate(parts, axis=1),
        group=np.array(group, dtype=np.int64),
        scales=np.array(scales),
    )


def own_logits(posterior: FieldPosterior, cell: int, horizon: int) -> FloatArray:
    """(draws, T) logits of one cell of a `walk_field`."""
    return posterior.logits[:, cell * horizon : (cell + 1) * horizon]


def _cell(
    pairs: TimedPairs,
    recovered: tuple[IntArray, IntArray],
    disrupted: tuple[IntArray, IntArray],
    recovery_logits: FloatArray,
    disruption_logits: FloatArray,
    rng: np.random.Generator,
) -> TimingCell:
    recovery, disruption = Curve.of(recovery_logits, *recovered), Curve.of(disruption_logits, *disrupted)
    fired = recovery.trials + disruption.trials
    n_fail = int(np.sum(~pairs.baseline_success))
    # Jeffreys' prior, as the static fit has it
    failure_rate = rng.beta(n_fail + 0.5, pairs.baseline_success.size - n_fail + 0.5, len(recovery.draws))
    return TimingCell(
        pairs=pairs,
        recovery=recovery,
        disruption=disruption,
        is_observed=fired > 0,
        n_never=int(np.sum(pairs.first_step < 0)),
        failure_rate=failure_rate,
        prob_safe=_prob_safe(failure_rate, recovery.draws, disruption.draws, int(np.flatnonzero(fired)[-1])),
        early_share=_early_share(disruption),
    )


def _prob_safe(failure_rate: FloatArray, recovery: FloatArray, disruption: FloatArray, last: int) -> FloatArray:
    pays = failure_rate[:, None] * recovery > (1.0 - failure_rate)[:, None] * disruption
    from_here = np.logical_and.accumulate(pays[:, last::-1], axis=1)[:, ::-1]
    prob = np.full(recovery.shape[1], np.nan)
    prob[: last + 1] = from_here.mean(axis=0)
    return prob


def _early_share(disruption: Curve) -> FloatArray:
    harm = np.cumsum(disruption.draws * disruption.trials, axis=1)
    share: FloatArray = ratio(harm, harm[:, -1:])
    return share.mean(axis=0)
