r"""A rate by step that departs from a known curve only as far as counts say so.

.. math:: \mathrm{logit}\, q(t) = \mathrm{logit}\, q_0(t) + \alpha + \sum_{s \le t} z_s, \qquad
          \alpha \sim N(0, \sigma_\alpha^2), \quad z_s \sim N(0, \sigma_{step}^2)

Where nothing was counted the curve keeps the shape of q₀; `drsim.inference.timing` has the same walk around a level
line.
"""

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.inference.latent_field import LatentField, sample_field
from drsim.inference.timing import TimingPriors

__all__ = ["based_curve"]


def based_curve(
    events: IntArray,
    trials: IntArray,
    base_logit: FloatArray,
    *,
    seed: int,
    draws: int,
    priors: TimingPriors | None = None,
) -> FloatArray:
    """Posterior draws of the logits of a rate by step.

    Parameters
    ----------
    events, trials : ndarray
        (T,) counts; 0 trials where nothing was seen.
    base_logit : ndarray
        (T,) logit q₀, finite.
    seed : int
        ≥ 0.
    draws : int
        ≥ 100.
    priors : TimingPriors, optional
        `spread` of α and `step` of the walk; those of the class when not given.

    Returns
    -------
    ndarray
        (draws, T).

    References
    ----------
    THEORY section 7.
    """
    priors = priors or TimingPriors()
    horizon = base_logit.size
    walk = np.tril(np.ones((horizon, horizon)))[:, 1:]
    field = LatentField(
        successes=events,
        trials=trials,
        offset=base_logit,
        design=np.concatenate([np.full((horizon, 1), priors.spread), walk], axis=1),
        group=np.array([-1] + [0] * (horizon - 1), dtype=np.int64),
        scales=np.array([priors.step] if horizon > 1 else []),
    )
    return sample_field(field, seed=seed, draws=draws).logits
