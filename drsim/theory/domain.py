"""Domains of parameters: each public function of the theory checks its arguments here, once."""

from collections.abc import Callable

import numpy as np

from drsim.arrays import ArrayLike, BoolArray, FloatArray
from drsim.errors import ParameterError

__all__ = [
    "check_beta",
    "check_between",
    "check_inside",
    "check_positive",
    "check_probability",
    "check_sample",
    "check_shapes",
    "check_whole",
    "ratio",
    "shown",
]

NOT_PER_CENT = "give a probability, not per cent"

LARGEST_EXACT_WHOLE = 2**53
"""Above it float64 no longer holds every whole number."""


def check_probability(name: str, value: ArrayLike) -> FloatArray:
    """`value` as float64 after checking that it lies in [0, 1].

    Parameters
    ----------
    name : str
        Name of the parameter, as the caller's user knows it.
    value : array_like
        Any shape.

    Returns
    -------
    ndarray
        Shape of `value`.

    Raises
    ------
    ParameterError
        An entry is no number, NaN or outside [0, 1]; the first one is shown.
    """
    return check_between(name, value, 0.0, 1.0, NOT_PER_CENT)


def check_between(name: str, value: ArrayLike, lower: float, upper: float, remedy: str) -> FloatArray:
    """`value` as float64 after checking that it lies in [lower, upper].

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : array_like
        Any shape.
    lower, upper : float
        Ends of the domain, both included.
    remedy : str
        Last part of the message: what to give instead.

    Returns
    -------
    ndarray
        Shape of `value`.

    Raises
    ------
    ParameterError
        An entry is no number, NaN or outside the domain.
    """
    rule = f"lie in [{shown(lower)}, {shown(upper)}]"
    return _checked(name, value, lambda x: (x >= lower) & (x <= upper), rule, remedy)


def check_inside(name: str, value: ArrayLike, remedy: str) -> FloatArray:
    """`value` as float64 after checking that it lies strictly between 0 and 1.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : array_like
        Any shape.
    remedy : str
        Last part of the message.

    Returns
    -------
    ndarray
        Shape of `value`.

    Raises
    ------
    ParameterError
        An entry is no number, NaN, 0, 1 or beyond.
    """
    return _checked(name, value, lambda x: (x > 0.0) & (x < 1.0), "lie in (0, 1)", remedy)


def check_positive(name: str, value: ArrayLike, remedy: str) -> FloatArray:
    """`value` as float64 after checking that it is positive and finite.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : array_like
        Any shape.
    remedy : str
        Last part of the message.

    Returns
    -------
    ndarray
        Shape of `value`.

    Raises
    ------
    ParameterError
        An entry is no number, NaN, infinite, zero or negative.
    """
    return _checked(name, value, lambda x: (x > 0.0) & (x < np.inf), "be positive and finite", remedy)


def check_beta(a: ArrayLike, b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Shapes of a beta distribution as float64 after checking that they are positive and finite.

    Parameters
    ----------
    a, b : array_like
        Any shapes.

    Returns
    -------
    a, b : ndarray
        Each in its own shape.

    Raises
    ------
    ParameterError
        An entry is no number, NaN, infinite, zero or negative.
    """
    remedy = "give a shape of the beta distribution of success"
    return check_positive("a", a, remedy), check_positive("b", b, remedy)


def check_whole(
    name: str, value: ArrayLike, lower: int, remedy: str, *, upper: int = LARGEST_EXACT_WHOLE
) -> FloatArray:
    """`value` as float64 after checking that it is a whole number from `lower` to `upper`.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : array_like
        Any shape.
    lower : int
        Smallest number allowed.
    remedy : str
        Last part of the message.
    upper : int
        Largest number allowed.

    Returns
    -------
    ndarray
        Shape of `value`; float64, since it enters formulas with fractions.

    Raises
    ------
    ParameterError
        An entry is no number, NaN, a fraction, below `lower` or above `upper`.
    """

    def is_whole(x: FloatArray) -> BoolArray:
        # floor(inf) is inf, so the upper limit has to say no to it
        whole: BoolArray = (x >= lower) & (x <= upper) & (np.floor(x) == x)
        return whole

    end = "on" if upper == LARGEST_EXACT_WHOLE else f"to {upper}"
    return _checked(name, value, is_whole, f"be a whole number from {lower} {end}", remedy)


def check_shapes(**arrays: FloatArray) -> tuple[int, ...]:
    """The common shape of `arrays` under NumPy's broadcasting.

    Parameters
    ----------
    **arrays : ndarray
        By the names that the caller's user knows.

    Returns
    -------
    tuple of int
        The broadcast shape.

    Raises
    ------
    ParameterError
        The shapes do not fit together.
    """
    try:
        return np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        names = ", ".join(arrays)
        shapes = ", ".join(str(array.shape) for array in arrays.values())
        raise ParameterError(
            f"{names} must have shapes that broadcast, got {shapes}; give scalars or arrays of one shape"
        ) from None


def check_sample(scores: ArrayLike, failed: ArrayLike) -> tuple[FloatArray, BoolArray]:
    """Critic scores and the outcomes they predicted, after checking that they belong together.

    Parameters
    ----------
    scores : array_like
        (n,) finite numbers, n ≥ 1; high means that the critic expects failure.
    failed : array_like
        (n,) whether the run failed: booleans, or 0 and 1.

    Returns
    -------
    scores : ndarray
        (n,) float64.
    failed : ndarray
        (n,) bool.

    Raises
    ------
    ParameterError
        An entry is not allowed, or the two are not lists of one equal, positive length.
    """
    values = _checked("scores", scores, np.isfinite, "be finite", "leave out steps without a score")
    outcome = _checked("failed", failed, lambda x: (x == 0.0) | (x == 1.0), "be 0 or 1", "set aside unjudged runs")
    if values.ndim != 1 or values.shape != outcome.shape or values.size == 0:
        raise ParameterError(
            f"scores and failed must be two lists of one length, 1 or more, got shapes {values.shape} and "
            f"{outcome.shape}; give one score and one outcome for each"
        )
    return values, outcome == 1.0


def ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """`part` / `whole`, NaN where `whole` is not positive: a share of nothing is not known.

    Parameters
    ----------
    part, whole : ndarray
        Checked values whose shapes broadcast.

    Returns
    -------
    ndarray or float
        Broadcast shape; a number when both are.
    """
    shape = np.broadcast_shapes(np.shape(part), np.shape(whole))
    # [()] turns a 0-d array into the number that scalar arguments ask for
    quotient: FloatArray = np.divide(part, whole, out=np.full(shape, np.nan), where=np.greater(whole, 0.0))[()]
    return quotient


def shown(value: float) -> str:
    """A number in full precision for a message, whole numbers without the point.

    Parameters
    ----------
    value : float
        Any number.

    Returns
    -------
    str
        The shortest digits that give `value` back: a rounded 1.0000001 would read as a lawful 1.
    """
    return repr(float(value)).removesuffix(".0")


def _checked(
    name: str, value: ArrayLike, is_allowed: Callable[[FloatArray], BoolArray], rule: str, remedy: str
) -> FloatArray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be a number or an array of numbers, got {value!r}; {remedy}") from None
    allowed = is_allowed(array)
    if not np.all(allowed):
        first = float(array[~allowed].flat[0])
        raise ParameterError(f"{name} must {rule}, got {shown(first)}; {remedy}")
    return array
