"""Counts by task from cells of every form."""

from pathlib import Path

import numpy as np
import pytest
from inference.hierarchical.worlds import real_cells
from inference.pilots import cell_of

from drsim.errors import DataError
from drsim.inference.hierarchical.data import gather
from drsim.pilot.cells import cells_of
from drsim.pilot.reading import read

RUNS = """
{"task_id":"t1","agent":"a","benchmark":"b","arm":"baseline","trial":0,"outcome":"success"}
{"task_id":"t1","agent":"a","benchmark":"b","arm":"baseline","trial":1,"outcome":"fail"}
{"task_id":"t1","agent":"a","benchmark":"b","arm":"x","trial":0,"outcome":"success"}
{"task_id":"t2","agent":"a","benchmark":"b","arm":"x","trial":0,"outcome":"fail"}
{"task_id":"t2","agent":"a","benchmark":"b","arm":"y","trial":0,"outcome":"success"}
{"task_id":"t3","agent":"a","benchmark":"b","arm":"y","trial":0,"outcome":"success"}
{"task_id":"t3","agent":"a","benchmark":"b","arm":"baseline","trial":0,"outcome":"capped"}
{"task_id":"t3","agent":"a","benchmark":"b","arm":"x","trial":0,"outcome":"infra"}
"""


def test_arms_are_joined_by_task(tmp_path: Path) -> None:
    """A task that only x and y ran is one task: joined by position, it would be two."""
    path = tmp_path / "runs.jsonl"
    path.write_text(RUNS.strip() + "\n")
    data = gather(cells_of(read([str(path)])).cells)
    (block,) = data.blocks
    assert block.arms == ("x", "y")
    assert {tuple(map(tuple, row)) for row in block.counts} == {
        ((1, 2), (1, 1), (0, 0)),
        ((0, 0), (0, 1), (1, 1)),
        ((0, 1), (0, 0), (1, 1)),
    }
    assert block.n_tasks == 3
    assert [cell.place for cell in data.cells] == [0, 1]


def test_counts_without_names_are_tasks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("agent,benchmark,arm,A,B,C,D\na,b,x,1,2,3,4\na,b,y,4,3,2,1\n")
    (block,) = gather(cells_of(read([str(path)])).cells).blocks
    assert block.n_tasks == 20
    assert (block.counts[:, 1:, 1].sum(axis=1) == 1).all()


def test_stated_repeats_count_by_the_tasks_that_are_stated(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("agent,benchmark,arm,A,B,C,D,tasks\na,b,x,10,20,30,40,25\n")
    (block,) = gather(cells_of(read([str(path)])).cells).blocks
    assert block.n_tasks == pytest.approx(25)


def test_real_pilot_is_complete(shared_data: Path) -> None:
    cells = real_cells(shared_data, "mint-gpt35-append")
    data = gather(cells)
    assert len(data.blocks) == 8
    assert len(data.cells) == 24
    for key in data.cells:
        (cell,) = (c for c in cells if (c.benchmark, c.arm) == (key.benchmark, key.arm))
        block = data.blocks[key.block]
        own = np.einsum("i,ij->j", block.weight, block.counts[:, 1 + key.place])
        assert own.tolist() == [cell.arm_tally.success, cell.arm_tally.judged]
        base = np.einsum("i,ij->j", block.weight, block.counts[:, 0])
        assert base.tolist() == [cell.baseline_tally.success, cell.baseline_tally.judged]


def test_a_cell_given_twice_is_refused() -> None:
    ones = np.ones((3, 1), dtype=np.int64)
    with pytest.raises(DataError, match="given 2 times"):
        gather([cell_of(ones, ones)] * 2)


def test_nothing_judged_is_refused() -> None:
    with pytest.raises(DataError, match="no run is judged"):
        gather([])
