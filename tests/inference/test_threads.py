"""Rows to threads: each row once, whatever their number."""

import numpy as np
import pytest

from drsim.inference.threads import in_threads


@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 9, 1000])
@pytest.mark.parametrize("fewest", [1, 4, 10_000])
def test_each_row_is_filled_once(n_rows: int, fewest: int) -> None:
    filled = np.zeros(n_rows, dtype=np.int64)

    def fill(some: slice) -> None:
        filled[some] += np.arange(n_rows)[some] + 1

    in_threads(n_rows, fill, fewest=fewest)
    np.testing.assert_array_equal(filled, np.arange(n_rows) + 1)


def test_a_failure_in_a_thread_is_not_lost() -> None:
    def fill(some: slice) -> None:
        raise ZeroDivisionError(some)

    with pytest.raises(ZeroDivisionError):
        in_threads(10, fill, fewest=1)
