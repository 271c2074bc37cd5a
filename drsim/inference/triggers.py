r"""What acting on a trigger is worth, by its step, from triggers that were acted on by chance.

Runs whose first trigger came in step t are alike until then, and chance alone decides which of them is intervened in.
So given the trigger, no weights by propensity are needed:

.. math:: e(t) = P(\mathrm{success} \mid \mathrm{trigger\ at\ } t, \mathrm{acted})
               - P(\mathrm{success} \mid \mathrm{trigger\ at\ } t, \mathrm{withheld})

Both success rates are random walks over the steps on the logit scale, as in `drsim.inference.timing`, fitted apart.

**What is assumed.** The coin is independent of all but what it was told to depend on: the step, here. The effect is
that of acting on the first trigger and leaving later ones to their own chance. r(t) and d(t) cannot be told from it:
no run is seen both ways.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import DataError
from drsim.inference.importance import is_trusted
from drsim.inference.latent_field import sample_field
from drsim.inference.timing import Curve, TimingPriors, counts_by_step, own_logits, walk_field
from drsim.pilot.triggers import FirstTriggers

__all__ = ["TriggerCell", "TriggerFit", "fit_triggers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCell:
    """One arm, T steps."""

    triggers: FirstTriggers
    acted: Curve
    """Success of runs that were intervened in; events are successes, trials runs."""
    withheld: Curve
    """Success of runs that were left alone at that trigger."""
    effect: FloatArray
    """(T,) posterior mean of e(t)."""
    low: FloatArray
    """(T,) lower end of its 95 % interval."""
    high: FloatArray
    """(T,) upper end."""
    prob_helps: FloatArray
    """(T,) P(e(t) > 0)."""
    is_observed: BoolArray
    """(T,) whether both kinds of runs were seen in that step."""
    overall: tuple[float, float, float]
    """Mean and 95 % interval of the effect averaged over the observed triggers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFit:
    """All arms with randomised triggers, fitted together."""

    cells: tuple[TriggerCell, ...]
    priors: TimingPriors
    seed: int
    effective: tuple[float, float]
    """Draws that the weighted ones are worth, for acted and withheld runs."""
    pareto_k: tuple[float, float]
    """Tail of the importance weights, likewise."""

    @property
    def is_reliable(self) -> bool:
        """Whether the draws can be relied on."""
        return is_trusted(max(self.pareto_k), min(self.effective))


def fit_triggers(
    cells: Sequence[FirstTriggers], *, seed: int, priors: TimingPriors | None = None, n_draws: int = 4_000
) -> TriggerFit:
    """Fit e(t) of arms together.

    Parameters
    ----------
    cells : sequence of FirstTriggers
        At least one.
    seed : int
        ≥ 0.
    priors : TimingPriors, optional
        Those of the class when not given; `middle` is taken as 0, since these are success rates.
    n_draws : int
        Posterior draws, ≥ 1000.

    Returns
    -------
    TriggerFit

    Raises
    ------
    DataError
        There is no arm with randomised triggers.
    """
    if not cells:
        raise DataError(
            "randomised triggers are needed, some acted on and some withheld, with their propensity; none was found: "
            "log them as {t, mechanism, acted, propensity}"
        )
    priors = priors or TimingPriors()
    horizon = 1 + max(int(triggers.step.max()) for triggers in cells)
    counts = {kind: [_by_step(triggers, horizon, kind) for triggers in cells] for kind in (True, False)}
    acted, withheld = (
        sample_field(walk_field(counts[kind], horizon, priors, middle=0.0), seed=seed + k, draws=n_draws)
        for k, kind in enumerate((True, False))
    )
    fitted = tuple(
        _cell(
            triggers,
            Curve.of(own_logits(acted, c, horizon), *counts[True][c]),
            Curve.of(own_logits(withheld, c, horizon), *counts[False][c]),
        )
        for c, triggers in enumerate(cells)
    )
    return TriggerFit(
        cells=fitted,
        priors=priors,
        seed=seed,
        effective=(acted.effective, withheld.effective),
        pareto_k=(acted.pareto_k, withheld.pareto_k),
    )


def _by_step(triggers: FirstTriggers, horizon: int, acted: bool) -> tuple[IntArray, IntArray]:
    """Successes and runs (T,) by the step of the first trigger, of those that were acted on or not."""
    return counts_by_step(triggers.step, triggers.acted == acted, triggers.success, horizon)


def _cell(triggers: FirstTriggers, acted: Curve, withheld: Curve) -> TriggerCell:
    draws = acted.draws - withheld.draws
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    seen = acted.trials + withheld.trials
    overall = draws @ seen / seen.sum()
    ends = np.quantile(overall, [0.025, 0.975])
    return TriggerCell(
        triggers=triggers,
        acted=acted,
        withheld=withheld,
        effect=draws.mean(axis=0),
        low=low,
        high=high,
        prob_helps=(draws > 0.0).mean(axis=0),
        is_observed=(acted.trials > 0) & (withheld.trials > 0),
        overall=(float(overall.mean()), float(ends[0]), float(ends[1])),
    )
