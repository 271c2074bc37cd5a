"""Temperature scaling judged on tasks that it was not fitted on."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.inference.critic.metrics import impossible
from drsim.inference.critic.scores import ScoredItems
from drsim.theory.calibration import (
    END,
    FitStatus,
    TemperatureFit,
    apply_temperature,
    brier,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
)

__all__ = ["HeldOut", "Temperature", "held_out_temperature", "scaled_scores", "split_tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Scores before and after scaling, each item with the temperature of the half that it is not in."""

    temperatures: tuple[float, float]
    """T fitted on each half of the tasks."""
    statuses: tuple[FitStatus, FitStatus]
    nll_before: float
    """inf where a score of exactly 0 or 1 was wrong."""
    nll_after: float
    brier_before: float
    brier_after: float
    ece_before: float
    ece_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperature:
    """The temperature of a critic."""

    fit: TemperatureFit
    """On all tasks: the one to use."""
    held_out: HeldOut | None
    """What scaling does to tasks that it has not seen; None with a single task."""


def split_tasks(items: ScoredItems, rng: np.random.Generator) -> BoolArray | None:
    """(n,) whether an item's task is in the first of two random halves; None with fewer than two tasks."""
    tasks = np.unique(items.task)
    if len(tasks) < 2:
        return None
    first = rng.permutation(tasks)[: len(tasks) // 2]
    return np.isin(items.task, first)


def scaled_scores(scores: FloatArray, temperature: float | FloatArray) -> FloatArray:
    """Scores after scaling; 0 and 1 are taken to lie 2⁻⁵³ off, as in the fit, or no temperature would move them."""
    return apply_temperature(np.clip(scores, END, 1.0 - END), temperature)


def held_out_temperature(items: ScoredItems, *, seed: tuple[int, ...]) -> Temperature:
    """Fit a temperature, and judge it across two halves of the tasks.

    Parameters
    ----------
    items : ScoredItems
        Scored runs or steps; the split is by task, since items of one task resemble each other.
    seed : tuple of int
        Key of the split.

    Returns
    -------
    Temperature

    References
    ----------
    Guo et al., ICML 2017, arXiv:1706.04599; THEORY section 3.
    """
    fit = fit_temperature(items.scores, items.failed)
    first = split_tasks(items, np.random.default_rng(seed))
    return Temperature(fit=fit, held_out=None if first is None else _judge(items, first))


def _judge(items: ScoredItems, first: BoolArray) -> HeldOut:
    fits = [fit_temperature(items.scores[half], items.failed[half]) for half in (first, ~first)]
    other = np.where(first, fits[1].temperature, fits[0].temperature)
    after = scaled_scores(items.scores, other)
    before = float("inf") if impossible(items) else negative_log_likelihood(items.scores, items.failed)
    return HeldOut(
        temperatures=(fits[0].temperature, fits[1].temperature),
        statuses=(fits[0].status, fits[1].status),
        nll_before=before,
        nll_after=negative_log_likelihood(after, items.failed),
        brier_before=brier(items.scores, items.failed),
        brier_after=brier(after, items.failed),
        ece_before=calibration_error(items.scores, items.failed).ece,
        ece_after=calibration_error(after, items.failed).ece,
    )
