r"""Trying again instead of intervening: retry until accepted, retry in context, abort and restart (THEORY section 6).

All are for one task with success probability s per attempt. For tasks that differ take means over tasks of the results;
results of a mean s are wrong, as for Best-of-N.
"""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import ArrayLike, FloatArray
from drsim.theory.domain import check_positive, check_probability, check_shapes, check_whole
from drsim.theory.topscore import any_of

__all__ = ["RestartOutcome", "RetryOutcome", "abort_and_restart", "retry_in_context", "retry_until_accepted"]

MAX_SUMMED = 10_000
"""Most attempts in context: each is computed from the one before, so that the time grows with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOutcome:
    """What retrying gives; every field has the broadcast shape."""

    success: FloatArray
    """P(the attempt that is kept succeeded)."""
    accepted: FloatArray
    """P(the verifier accepted the attempt that is kept)."""
    attempts: FloatArray
    """Expected attempts, from 1 to N."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartOutcome:
    """What aborting and restarting gives; every field has the broadcast shape."""

    success: FloatArray
    """P(the run that ends on its own succeeded)."""
    runs: FloatArray
    """Expected runs started, from 1 to R + 1."""
    cost: FloatArray
    """Expected cost in whole runs: a killed run counts by the fraction that was spent."""


def retry_until_accepted(success: ArrayLike, attempts: ArrayLike, tpr: ArrayLike, fpr: ArrayLike) -> RetryOutcome:
    r"""Fresh attempts until a verifier accepts one; the last of N is kept whatever the verifier says.

    With q = s·TPR + (1−s)·FPR and G(n) = (1 − (1−q)ⁿ)/q, the success is s·TPR·G(N−1) + (1−q)^{N−1}·s and the expected
    number of attempts G(N).

    Parameters
    ----------
    success : array_like
        s, in [0, 1].
    attempts : array_like
        N, whole numbers from 1 on.
    tpr, fpr : array_like
        P(accepted | the attempt succeeded) and P(accepted | it failed), in [0, 1]; all shapes broadcast.

    Returns
    -------
    RetryOutcome
        Success, acceptance and expected attempts.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    s, hit, slip = _rates(success, tpr, fpr)
    n = check_whole("attempts", attempts, 1, "give a number of attempts")
    check_shapes(success=s, attempts=n, tpr=hit, fpr=slip)
    accept = s * hit + (1.0 - s) * slip
    rejected_before_last = np.power(1.0 - accept, n - 1.0)
    return RetryOutcome(
        success=s * hit * _tries(accept, n - 1.0) + rejected_before_last * s,
        accepted=any_of(accept, n),
        attempts=_tries(accept, n),
    )


def retry_in_context(
    success: ArrayLike, attempts: ArrayLike, tpr: ArrayLike, fpr: ArrayLike, contamination: ArrayLike
) -> RetryOutcome:
    r"""Attempts that see the failed ones before them, until a verifier accepts one; the last of N is kept.

    Each next attempt has the odds of success of the one before, times the contamination factor:

    .. math:: \frac{s_j}{1-s_j} = c^{j-1} \frac{s}{1-s}

    Parameters
    ----------
    success : array_like
        s, of the first attempt, in [0, 1].
    attempts : array_like
        N, whole numbers from 1 to 10 000.
    tpr, fpr : array_like
        P(accepted | the attempt succeeded) and P(accepted | it failed), in [0, 1].
    contamination : array_like
        c, positive and finite: below 1 earlier failures mislead, 1 is `retry_until_accepted`, above 1 they teach; all
        shapes broadcast.

    Returns
    -------
    RetryOutcome
        Success, acceptance and expected attempts.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    from scipy.special import expit, logit

    s, hit, slip = _rates(success, tpr, fpr)
    n = check_whole("attempts", attempts, 1, "give a number of attempts", upper=MAX_SUMMED)
    factor = check_positive("contamination", contamination, "1 leaves the odds of the next attempt as they were")
    shape = check_shapes(success=s, attempts=n, tpr=hit, fpr=slip, contamination=factor)
    first, step = logit(s), np.log(factor)
    going = np.ones(shape)
    succeeded, expected = np.zeros(shape), np.zeros(shape)
    accepted = np.zeros(shape)
    for j in range(int(np.max(n, initial=0.0))):
        now = expit(first + j * step)
        is_last = n == j + 1.0
        expected = expected + going
        succeeded = succeeded + going * now * np.where(is_last, 1.0, hit)
        accept = now * hit + (1.0 - now) * slip
        accepted = accepted + going * accept
        going = np.where(is_last, 0.0, going * (1.0 - accept))
    return RetryOutcome(success=succeeded[()], accepted=accepted[()], attempts=expected[()])


def abort_and_restart(
    success: ArrayLike, restarts: ArrayLike, tpr: ArrayLike, fpr: ArrayLike, spent: ArrayLike
) -> RestartOutcome:
    r"""A critic kills the runs on which it fires, and a fresh run starts: a rollback to step 0.

    After R restarts the critic is switched off and the last run ends on its own. With k = (1−s)·TPR + s·FPR and
    G(n) = (1 − kⁿ)/(1−k), the success is s·(1−FPR)·G(R) + k^R·s, the runs started G(R+1), and the cost
    (1 − k + k·spent)·G(R) + k^R.

    Parameters
    ----------
    success : array_like
        s, in [0, 1].
    restarts : array_like
        R, whole numbers from 0 on.
    tpr, fpr : array_like
        Shares of would-fail and would-succeed runs on which the critic fires, in [0, 1].
    spent : array_like
        Fraction of a whole run's cost that a killed run has used up, in [0, 1]; all shapes broadcast.

    Returns
    -------
    RestartOutcome
        Success, expected runs and expected cost.

    Raises
    ------
    ParameterError
        A value is outside its domain or NaN, or the shapes do not fit.

    References
    ----------
    THEORY section 6.
    """
    s, hit, false_alarm = _rates(success, tpr, fpr)
    r = check_whole("restarts", restarts, 0, "give a number of restarts")
    used = check_probability("spent", spent)
    shape = check_shapes(success=s, restarts=r, tpr=hit, fpr=false_alarm, spent=used)
    kill = (1.0 - s) * hit + s * false_alarm
    keep = (1.0 - s) * (1.0 - hit) + s * (1.0 - false_alarm)
    watched = _tries(keep, r)
    killed_always = np.power(kill, r)
    return RestartOutcome(
        success=np.broadcast_to(s * (1.0 - false_alarm) * watched + killed_always * s, shape)[()],
        runs=np.broadcast_to(watched + killed_always, shape)[()],
        cost=(keep + kill * used) * watched + killed_always,
    )


def _rates(success: ArrayLike, tpr: ArrayLike, fpr: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    return check_probability("success", success), check_probability("tpr", tpr), check_probability("fpr", fpr)


def _tries(stop: FloatArray, n: FloatArray) -> FloatArray:
    """Expected tries, at most n, of which each is the last with probability `stop`: the sum of (1−stop)^j for j < n."""
    some = any_of(stop, n)
    tries: FloatArray = np.where(stop > 0.0, some / np.where(stop > 0.0, stop, 1.0), n)[()]
    return tries
