"""`numba.njit` with types, which Numba does not ship, in the three forms that the engine uses."""

from collections.abc import Callable
from typing import cast

import numba

__all__ = ["compiled", "inlined", "parallel"]


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """For functions that others call."""
    return cast("Callable[P, R]", numba.njit(nogil=True)(function))


def inlined[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """For small functions: copied into every caller before anything is compiled."""
    return cast("Callable[P, R]", numba.njit(inline="always")(function))


def parallel[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """For the function that Python calls: loops by `prange` share the threads, and the code is kept between processes.

    What is kept is renewed when the file of the function changes, not when one does whose functions are compiled into
    it: after a change there, remove `__pycache__`; until then the tests of equal runs fail.
    """
    return cast("Callable[P, R]", numba.njit(parallel=True, nogil=True, cache=True)(function))
