"""Factors and triangular systems against NumPy, and draws that do not depend on the number of threads."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from drsim.inference.hierarchical.linear import factorise, product, solve_lower, solve_upper


def test_factors_equal_numpy() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((6, 17, 17))
    matrices = a @ np.swapaxes(a, 1, 2) + np.eye(17)
    roots, is_definite = factorise(matrices, 0.0)
    assert is_definite.all()
    np.testing.assert_allclose(roots, np.linalg.cholesky(matrices), rtol=1e-10, atol=1e-12)
    vectors = rng.standard_normal((6, 17))
    solved = solve_upper(roots, solve_lower(roots, vectors))
    np.testing.assert_allclose(np.einsum("nij,nj->ni", matrices, solved), vectors, atol=1e-8)
    shared = solve_lower(roots[:1], vectors)
    np.testing.assert_allclose(product(shared, roots[0]), vectors, atol=1e-12)


def test_indefinite_matrices_are_told_apart() -> None:
    matrices = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0]), np.diag([1.0, 0.01, 1.0]), np.full((3, 3), np.nan)])
    assert factorise(matrices, 0.05)[1].tolist() == [True, False, False, False]


def test_nothing_to_factorise() -> None:
    roots, is_definite = factorise(np.zeros((4, 0, 0)), 0.0)
    assert roots.shape == (4, 0, 0)
    assert is_definite.all()
    assert solve_lower(roots, np.zeros((4, 0))).shape == (4, 0)


FIT = """
import hashlib, sys
from drsim.inference.hierarchical.fit import fit_hierarchical
from drsim.pilot.cells import cells_of
from drsim.pilot.reading import read
fit = fit_hierarchical(cells_of(read([sys.argv[1]])).cells, seed=1, draws=200)
print(hashlib.sha256(fit.z.tobytes() + fit.theta.tobytes() + fit.cells[0].draws.gain.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_draws_do_not_depend_on_the_number_of_threads(shared_data: Path) -> None:
    """With LAPACK's factors and BLAS's products, two threads gave other last bits than one."""
    path = str(shared_data / "pilots" / "mint-gpt35-append.jsonl")
    found = {
        subprocess.run(
            [sys.executable, "-c", FIT, path],
            env={**os.environ, "OMP_NUM_THREADS": n, "OPENBLAS_NUM_THREADS": n},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in ("1", "2", "3")
    }
    assert len(found) == 1
