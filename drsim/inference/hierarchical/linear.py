"""Cholesky factors and triangular systems of many small matrices, compiled by Numba.

LAPACK and BLAS give other last bits for another number of threads, and so other draws for the same seed; these do not.
"""

import numba
import numpy as np

from drsim.arrays import BoolArray, FloatArray

__all__ = ["factorise", "product", "solve_lower", "solve_upper"]


@numba.njit(cache=True, nogil=True)
def _factorise(matrices: FloatArray, least: float, roots: FloatArray, is_definite: BoolArray) -> None:
    """What is 0 below a pivot is left alone: effects of one block say nothing of another's, given those they share."""
    size = matrices.shape[1]
    below = np.empty(size, dtype=np.int64)
    for point in range(len(matrices)):
        rest = matrices[point].copy()
        root = roots[point]
        root[:, :] = 0.0
        is_definite[point] = True
        for k in range(size):
            if not rest[k, k] >= least:
                is_definite[point] = False
                break
            pivot = np.sqrt(rest[k, k])
            root[k, k] = pivot
            n_below = 0
            for i in range(k + 1, size):
                if rest[i, k] != 0.0:
                    root[i, k] = rest[i, k] / pivot
                    below[n_below] = i
                    n_below += 1
            for a in range(n_below):
                i = below[a]
                factor = root[i, k]
                for b in range(a + 1):
                    rest[i, below[b]] -= factor * root[below[b], k]


@numba.njit(cache=True, nogil=True)
def _solve_lower(roots: FloatArray, vectors: FloatArray) -> None:
    """In place; one root for all vectors, or one for each."""
    size = vectors.shape[1]
    for point in range(len(vectors)):
        root, x = roots[min(point, len(roots) - 1)], vectors[point]
        for i in range(size):
            total = x[i]
            for j in range(i):
                total -= root[i, j] * x[j]
            x[i] = total / root[i, i]


@numba.njit(cache=True, nogil=True)
def _solve_upper(roots: FloatArray, vectors: FloatArray) -> None:
    """With the transposed roots, in place."""
    size = vectors.shape[1]
    for point in range(len(vectors)):
        root, x = roots[min(point, len(roots) - 1)], vectors[point]
        for i in range(size - 1, -1, -1):
            x[i] /= root[i, i]
            for j in range(i):
                x[j] -= root[i, j] * x[i]


def product(left: FloatArray, right: FloatArray) -> FloatArray:
    """(n, m) left·rightᵀ of (n, k) and (m, k)."""
    total: FloatArray = np.einsum("nk,mk->nm", left, right, optimize=False)
    return total


def factorise(matrices: FloatArray, least: float) -> tuple[FloatArray, BoolArray]:
    """Lower Cholesky factors.

    Parameters
    ----------
    matrices : FloatArray
        (n, size, size), symmetric.
    least : float
        Pivots below it (squared diagonal elements of the factor) make a matrix indefinite.

    Returns
    -------
    tuple of FloatArray, BoolArray
        (n, size, size) factors, and (n,) whether each is complete.
    """
    roots, is_definite = np.empty(matrices.shape), np.empty(len(matrices), dtype=np.bool_)
    _factorise(np.ascontiguousarray(matrices), least, roots, is_definite)
    return roots, is_definite


def solve_lower(roots: FloatArray, vectors: FloatArray) -> FloatArray:
    """(n, size) solutions of L x = v, for (n or 1, size, size) lower factors L."""
    solutions = np.array(vectors, order="C")
    _solve_lower(roots, solutions)
    return solutions


def solve_upper(roots: FloatArray, vectors: FloatArray) -> FloatArray:
    """(n, size) solutions of Lᵀ x = v, for (n or 1, size, size) lower factors L."""
    solutions = np.array(vectors, order="C")
    _solve_upper(roots, solutions)
    return solutions
