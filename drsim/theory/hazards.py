r"""Hazards of retrying: of the tasks still unsolved, the share that the next attempt solves (THEORY section 6).

Retrying stops at the first success, so that the tasks that are left are ever harder: hazards fall though every attempt
at a task is as good as the one before. With s ~ Beta(a, b) and fresh attempts the hazard of attempt j is
a/(a + b + j − 1): ρ alone makes it fall. In context a factor c on the odds of each next attempt makes it fall or rise
further.
"""

import numpy as np

from drsim.arrays import ArrayLike, FloatArray
from drsim.theory.beta_nodes import beta_logit_nodes
from drsim.theory.domain import check_positive, check_probability, check_shapes, check_whole

__all__ = ["retry_hazards"]


def retry_hazards(success: ArrayLike, rho: ArrayLike, contamination: ArrayLike, attempts: int) -> FloatArray:
    r"""Hazards of the first N attempts, each after only failures, at beta-distributed tasks.

    .. math:: h_j = \frac{E\bigl[s_j \prod_{i<j} (1 - s_i)\bigr]}{E\bigl[\prod_{i<j} (1 - s_i)\bigr]},
              \quad \frac{s_j}{1-s_j} = c^{j-1} \frac{s}{1-s}

    Parameters
    ----------
    success, rho : array_like
        E[s] of first attempts and ρ, in [0, 1].
    contamination : array_like
        c, positive; 1 for fresh attempts. All shapes broadcast.
    attempts : int
        N ≥ 1.

    Returns
    -------
    ndarray
        (…, N); NaN where no task is left.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    mean, between = check_probability("success", success), check_probability("rho", rho)
    factor = check_positive("contamination", contamination, "1 leaves the odds of the next attempt as they were")
    shape = check_shapes(success=mean, rho=between, contamination=factor)
    from scipy.special import expit

    n = int(check_whole("attempts", attempts, 1, "give a number of attempts"))
    mean, between, factor = (np.broadcast_to(it, shape).ravel() for it in (mean, between, factor))
    logits, left = beta_logit_nodes(mean, between)
    hazards = np.empty((mean.size, n))
    for j in range(n):
        at = logits + j * np.log(factor)[:, None]
        solved, remain = (left * expit(at)).sum(axis=1), left.sum(axis=1)
        hazards[:, j] = np.divide(solved, remain, out=np.full(mean.size, np.nan), where=remain > 0.0)
        left = left * expit(-at)
    return hazards.reshape(*shape, n)
