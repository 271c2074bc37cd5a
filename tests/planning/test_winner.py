from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.arrays import FloatArray
from drsim.planning.winner import Champions, Contest, champions_of, draw_folds, merge


def gains(n_cells: int, n_draws: int, seed: int, step: float = 0.0) -> FloatArray:
    """Noise around one truth; rounded, so that there are ties, where a step is given."""
    found = 0.02 + 0.01 * np.random.default_rng(seed).standard_normal((n_cells, n_draws))
    return np.round(found / step) * step if step else found


@settings(deadline=None, max_examples=100)
@given(
    n_cells=st.integers(1, 12),
    n_draws=st.integers(1, 25),
    seed=st.integers(0, 2**32),
    step=st.sampled_from([0.0, 0.02]),
    data=st.data(),
)
def test_blocks_in_any_order_find_the_same_champions(
    n_cells: int, n_draws: int, seed: int, step: float, data: st.DataObject
) -> None:
    gain = gains(n_cells, n_draws, seed, step)
    nested = Contest(cell=np.array([7]), score=np.array([0.5]), sizes=(2,), gain=np.array([1.0, 2.0]))
    cuts = sorted(data.draw(st.sets(st.integers(1, n_cells - 1)))) if n_cells > 1 else []
    edges = [0, *cuts, n_cells]
    blocks = [champions_of(gain[a:b], a, nested) for a, b in pairwise(edges)]
    found: Champions | None = None
    for block in data.draw(st.permutations(blocks)):
        # through the row of numbers in which a store keeps it
        kept = Champions.from_vector(block.to_vector(), n_draws, (2,))
        found = kept if found is None else merge(found, kept)
    assert found is not None
    whole = champions_of(gain, 0, nested)
    assert found.to_vector().tobytes() == whole.to_vector().tobytes()
    assert found.cell == int(np.argmax(gain.sum(axis=1)))


@pytest.mark.parametrize(("n_draws", "sizes"), [(1, []), (2, [1, 1]), (10, [1] * 10), (23, [3, 3, 3, *[2] * 7])])
def test_folds_are_consecutive_and_hold_every_draw(n_draws: int, sizes: list[int]) -> None:
    folds = draw_folds(n_draws)
    assert [len(it) for it in folds] == sizes
    if folds:
        assert np.concatenate(folds).tolist() == list(range(n_draws))


def test_valued_by_others_is_unbiased_where_the_naive_value_is_not() -> None:
    # a hundred cells of one true gain: the winner is all luck
    naive, own, corrected = [], [], []
    for seed in range(2000):
        best = champions_of(gains(100, 20, seed), 0)
        naive.append(best.all_draws.gain.mean())
        own.append(best.each_draw.gain.mean())
        corrected.append(best.by_draws.gain.mean())
    z = {
        name: (np.mean(it) - 0.02) / (np.std(it, ddof=1) / np.sqrt(2000))
        for name, it in (("naive", naive), ("own", own), ("corrected", corrected))
    }
    assert z["naive"] > 50
    # every draw's own best is the expectation of a maximum, further off still
    assert z["own"] > z["naive"]
    assert abs(z["corrected"]) <= 5


def test_a_real_winner_keeps_its_gain() -> None:
    corrected = []
    for seed in range(500):
        gain = gains(100, 20, seed)
        gain[42] += 0.1
        best = champions_of(gain, 1000)
        assert best.cell == 1042
        assert best.prob_best == 1.0
        corrected.append(best.by_draws.gain.mean())
    assert abs(np.mean(corrected) - 0.12) <= 5 * 0.01 / np.sqrt(20 * 500)


def test_equals_share_the_first_place() -> None:
    best = champions_of(np.array([[0.1, 0.3], [0.3, 0.1], [0.3, 0.1]]), 5)
    assert (best.cell, best.prob_best) == (5, 0.5)
    assert best.each_draw.cell.tolist() == [6, 5]
