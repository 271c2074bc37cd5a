r"""What intervening, and what trying again, could gain at most: closed forms over posterior draws and sweeps.

A perfect predictor of failure gains p·ρ_m, a critic of stated AUROC what its best threshold leaves of that, an oracle
that picks the best of N attempts E[1−(1−s)^N] − E[s]. Nothing here is simulated; draws carry the uncertainty of the
rates through the formulas, and what nobody knows is swept.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.inference.posterior import QUANTILES, Uncertain
from drsim.planning.bounds.inputs import Question, Rates, Reruns, Setting
from drsim.planning.bounds.winner_map import WinnerMap, winner_map
from drsim.theory.churn import beta_from_rho
from drsim.theory.critic import best_operating_point, calibrated_threshold, smallest_auroc
from drsim.theory.domain import ratio
from drsim.theory.selection import best_of_n, best_of_n_beta
from drsim.theory.tradeoff import gain

__all__ = [
    "Bounds",
    "Case",
    "Ceilings",
    "CriticCeiling",
    "Figure",
    "Possible",
    "RerunFigures",
    "best_of_n_gain",
    "bound",
    "ceilings",
]

AUROC_DRAWS = 1_000
"""Draws for the smallest AUROC, each of which is bisected: the Monte Carlo error of a 95 % limit is below a tenth of
the posterior's sd, and the answer is read to two digits."""

END = 1e-15
"""So near to 0 or 1 the limit stands for p and ρ: nothing that it changes would show, and shapes of Beta(a, b) overflow
further out."""

type Single = float | Uncertain
"""An exact number or a posterior; a wanted AUROC is infinite where no critic reaches the gain."""

type Figure = Single | tuple[float, float]
"""The same, or the ends that swept assumptions leave, each a posterior mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticCeiling:
    """A binormal critic at its best threshold."""

    auroc: float
    gain: Single
    """Δ*."""
    trigger_rate: Single
    """Share of runs in which it fires there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Ceilings under one combination of rates."""

    failure_rate: Single
    recovery: Single
    disruption: Single
    perfect_critic: Single
    """p·ρ_m."""
    random_critic: Single
    """max(0, p·ρ_m − (1−p)·δ_m): the better of always and never firing."""
    critics: tuple[CriticCeiling, ...]
    smallest_auroc: Single
    """Smallest AUROC whose Δ* reaches the margin; infinite where even a perfect critic falls short."""
    threshold: Single
    """η*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunFigures:
    """What reruns alone show."""

    recovery: Figure
    """r₀."""
    disruption: Figure
    """d₀."""
    churn: Figure
    """χ."""
    best_of_two: Figure
    """χ/2, the gain of an oracle over two attempts, without a distribution of s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Possible:
    """The largest gain that intervening could reach, and whether it is enough."""

    gain: float
    """Upper 97.5 % end of the perfect predictor's gain; with a recovery of 1 where nothing limits it."""
    required: float
    is_met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The bounds of one setting; what the evidence cannot speak of is None."""

    setting: Setting
    failure_rate: Figure
    rho: Single
    oracle_intervention: Figure | None
    """C/n of the arm."""
    oracle_excess: Figure | None
    """C/n − χ/2, for pairs that are independent given the task."""
    cases: tuple[Case, ...]
    best_of: dict[int, Figure]
    """Gain of an oracle over N attempts with s ~ Beta(a, b), by N."""
    reruns: RerunFigures
    possible: Possible
    map: WinnerMap

    def over_cases(self, figure_of: Callable[[Case], Single]) -> Figure:
        """A figure of the only case, or its ends over all of them."""
        return _spanned([figure_of(case) for case in self.cases])

    @property
    def smallest_auroc(self) -> Figure:
        """That of the only case, or its ends over all of them, each a median."""
        return _spanned([case.smallest_auroc for case in self.cases], by=_median)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of every setting."""

    cells: tuple[Ceilings, ...]
    question: Question
    seed: int
    n_draws: int
    warnings: tuple[str, ...]

    @property
    def best(self) -> Ceilings:
        """The setting in which most is possible; the first of equals."""
        return max(self.cells, key=lambda cell: cell.possible.gain)


def bound(
    settings: Sequence[Setting], question: Question, *, seed: int, n_draws: int, warnings: Sequence[str] = ()
) -> Bounds:
    """Bounds of all settings.

    Parameters
    ----------
    settings : sequence of Setting
        At least one.
    question : Question
        What is asked of each.
    seed, n_draws : int
        What the settings were drawn with.
    warnings : sequence of str
        What a reader should know of the evidence.

    Returns
    -------
    Bounds
    """
    return Bounds(
        cells=tuple(ceilings(setting, question) for setting in settings),
        question=question,
        seed=seed,
        n_draws=n_draws,
        warnings=tuple(warnings),
    )


def ceilings(setting: Setting, question: Question) -> Ceilings:
    """Bounds of one setting.

    Parameters
    ----------
    setting : Setting
        Rates as the evidence, the caller or an assumption gives them.
    question : Question
        What is asked of them: AUROCs, margin, attempts, required gain.

    Returns
    -------
    Ceilings

    References
    ----------
    THEORY sections 2, 3, 5 and 6; arXiv:2602.03338, table 10, reports both oracles.
    """
    largest = _figure(setting.perfect_ceiling)
    upper = largest.q97_5 if isinstance(largest, Uncertain) else largest
    required = question.margin if question.required is None else question.required
    rho = _figure(setting.reruns[0].rho)
    failure_rates = [_figure(reruns.cell_failure_rate) for reruns in setting.reruns]
    return Ceilings(
        setting=setting,
        failure_rate=_spanned(failure_rates),
        rho=rho,
        oracle_intervention=_maybe_spanned(setting.oracle),
        oracle_excess=_maybe_spanned(setting.oracle_excess),
        cases=tuple(_case(rates, question) for rates in setting.cases),
        best_of={
            n: _spanned([_figure(best_of_n_gain(reruns.failure_rate, reruns.rho, n)) for reruns in setting.reruns])
            for n in range(2, question.n_max + 1)
        },
        reruns=_rerun_figures(setting.reruns),
        possible=Possible(gain=upper, required=required, is_met=upper >= required),
        map=winner_map(
            setting.mapped,
            failure_rate=_range(failure_rates[0]) if len(failure_rates) == 1 else None,
            rho=_range(rho),
            auroc=question.mapped_auroc,
            margin=question.margin,
        ),
    )


def best_of_n_gain(failure_rate: FloatArray, rho: FloatArray, attempts: int) -> FloatArray:
    r"""Gain of an oracle over N attempts at tasks with s ~ Beta(a, b), with the limits at ρ = 0 and ρ = 1.

    .. math:: 1 - B(a, b+N)/B(a, b) - (1 - p), \quad \rho = 0:\ 1 - p^N - (1 - p), \quad \rho = 1:\ 0

    Parameters
    ----------
    failure_rate, rho : ndarray
        p and ρ, in [0, 1]; shapes that broadcast.
    attempts : int
        N ≥ 1.

    Returns
    -------
    ndarray
        Broadcast shape, in [0, p].

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN.

    References
    ----------
    THEORY section 6.
    """
    p, between = np.broadcast_arrays(np.asarray(failure_rate, np.float64), np.asarray(rho, np.float64))
    varies = _is_inside(p) & _is_inside(between)
    a, b = beta_from_rho(np.where(varies, p, 0.5), np.where(varies, between, 0.5))
    limit = np.where(between > 0.5, 1.0 - p, best_of_n(1.0 - p, attempts))
    answer: FloatArray = np.where(varies, best_of_n_beta(a, b, attempts), limit) - (1.0 - p)
    return answer[()]


def _is_inside(values: FloatArray) -> BoolArray:
    inside: BoolArray = (values > END) & (values < 1.0 - END)
    return inside


def _case(rates: Rates, question: Question) -> Case:
    p, r, d = rates.failure_rate, rates.recovery, rates.disruption
    wanted = smallest_auroc(_few(p), _few(r), _few(d), question.margin)
    return Case(
        failure_rate=_figure(p),
        recovery=_figure(r),
        disruption=_figure(d),
        perfect_critic=_figure(p * r),
        random_critic=_figure(np.maximum(0.0, gain(p, r, d))),
        critics=tuple(_critic(rates, auroc) for auroc in question.aurocs),
        smallest_auroc=_figure(np.where(np.isnan(wanted), np.inf, wanted)),
        threshold=_figure(calibrated_threshold(r, d)),
    )


def _critic(rates: Rates, auroc: float) -> CriticCeiling:
    p = rates.failure_rate
    best = best_operating_point(p, rates.recovery, rates.disruption, auroc)
    return CriticCeiling(
        auroc=auroc, gain=_figure(best.gain), trigger_rate=_figure(p * best.tpr + (1.0 - p) * best.fpr)
    )


def _rerun_figures(reruns: Sequence[Reruns]) -> RerunFigures:
    return RerunFigures(
        recovery=_spanned([_figure(ratio(x.shown, x.cell_failure_rate)) for x in reruns]),
        disruption=_spanned([_figure(ratio(x.shown, 1.0 - x.cell_failure_rate)) for x in reruns]),
        churn=_spanned([_figure(2.0 * x.within_variance) for x in reruns]),
        best_of_two=_spanned([_figure(x.within_variance) for x in reruns]),
    )


def _few(values: FloatArray) -> FloatArray:
    return values[:AUROC_DRAWS] if values.ndim else values


def _figure(values: FloatArray) -> Single:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        return float(array)
    if np.isfinite(array).all():
        return Uncertain.from_draws(array)
    # interpolation between a number and infinity is neither
    low, middle, high = np.quantile(array, QUANTILES, method="inverted_cdf")
    return Uncertain(mean=math.nan, sd=math.nan, q2_5=float(low), q50=float(middle), q97_5=float(high))


def _mean(figure: Single) -> float:
    return figure.mean if isinstance(figure, Uncertain) else figure


def _median(figure: Single) -> float:
    return figure.q50 if isinstance(figure, Uncertain) else figure


def _spanned(figures: Sequence[Single], by: Callable[[Single], float] = _mean) -> Figure:
    if all(figure == figures[0] for figure in figures):
        return figures[0]
    middles = [by(figure) for figure in figures]
    return min(middles), max(middles)


def _maybe_spanned(values: tuple[FloatArray, ...]) -> Figure | None:
    return _spanned([_figure(value) for value in values]) if values else None


def _range(figure: Single) -> tuple[float, float, float]:
    """Lower end, middle and upper end."""
    if isinstance(figure, Uncertain):
        return figure.q2_5, figure.mean, figure.q97_5
    return figure, figure, figure
