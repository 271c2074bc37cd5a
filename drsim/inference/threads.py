"""Work on many rows, some rows to a thread: for compiled loops that let go of the interpreter."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

__all__ = ["in_threads", "n_cores"]


def n_cores() -> int:
    """Cores that this process may use."""
    # not every system tells which ones
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(n_rows: int, fill: Callable[[slice], None], *, fewest: int) -> None:
    """Call `fill` on slices that cover n rows, side by side.

    Parameters
    ----------
    n_rows : int
        Rows in all, ≥ 0.
    fill : callable
        Works on the rows of a slice and on no others, so that results depend neither on the slices nor on their order.
    fewest : int
        Rows for which a thread is worth its while; fewer than twice as many are worked on at once.
    """
    n_threads = min(n_cores(), n_rows // fewest)
    if n_threads < 2:
        fill(slice(0, n_rows))
        return
    cuts = [n_rows * i // n_threads for i in range(n_threads + 1)]
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(fill, (slice(a, b) for a, b in pairwise(cuts))))
