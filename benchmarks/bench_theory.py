"""Closed forms on posterior draws × a grid: seconds for 100,000 evaluations, and the error against adaptive quadrature.

The ratio is against `scipy.integrate.quad` called once for each triple, measured in the same run on a part of them.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from scipy import integrate, special

from drsim.theory.critic import binormal_shift, smallest_auroc
from drsim.theory.selection import best_of_n_beta, selected_best_of_n
from drsim.theory.tradeoff import gain

MAX_ERROR = 1e-9
SECONDS = 1.0


def by_quad(success: float, attempts: int, auroc: float) -> float:
    """Success of the top-scored attempt by adaptive quadrature."""
    shift = float(binormal_shift(auroc))

    def density(x: float) -> float:
        own = math.exp(-0.5 * (x - shift) ** 2) / math.sqrt(2 * math.pi)
        below = success * special.ndtr(x - shift) + (1 - success) * special.ndtr(x)
        return float(attempts * success * own * below ** (attempts - 1))

    return float(integrate.quad(density, shift - 12, shift + 12, epsabs=1e-13, epsrel=1e-12, limit=400)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=100_000)
    parser.add_argument("--by-quad", type=int, default=300)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    n = arguments.triples
    success, auroc, attempts = rng.random(n), rng.uniform(0.5, 0.999, n), rng.integers(1, 65, n)
    selected_best_of_n(success[:10], attempts[:10], auroc[:10])

    start = time.perf_counter()
    found = selected_best_of_n(success, attempts, auroc)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    k = arguments.by_quad
    expected = [by_quad(*triple) for triple in zip(success[:k], attempts[:k], auroc[:k], strict=True)]
    quad_seconds = (time.perf_counter() - start) * n / k
    error = float(np.max(np.abs(found[:k] - expected)))
    assert error <= MAX_ERROR, error
    mark = "" if seconds < SECONDS else "  over"
    print(f"{n:,} x selected_best_of_n  {seconds:.2f} s (limit {SECONDS:g}{mark}), quad {quad_seconds:.0f} s, ", end="")
    print(f"ratio {quad_seconds / seconds:.0f}, largest error {error:.1e} (limit {MAX_ERROR:g})")

    calls: tuple[tuple[str, Callable[[], object]], ...] = (
        ("gain", lambda: gain(success, auroc, success)),
        ("best_of_n_beta", lambda: best_of_n_beta(success * 5 + 0.1, auroc * 5, attempts)),
        ("smallest_auroc", lambda: smallest_auroc(success, 0.3, 0.5, 0.01)),
    )
    for name, call in calls:
        start = time.perf_counter()
        call()
        print(f"{n:,} x {name:<18}  {time.perf_counter() - start:.3f} s")


if __name__ == "__main__":
    main()
