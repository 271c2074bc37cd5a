"""Folds of a pilot's tasks: disjoint, of the right tasks, and valued apart from the whole."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from drsim.errors import ParameterError
from drsim.pilot.records import Outcome, Run
from drsim.planning.source import read_source
from drsim.planning.task_folds import task_folds
from drsim.process.compile import compile_model, compile_policy
from drsim.process.shipped import find_model
from drsim.process.stacks import stack_policies
from drsim.process.success_many import success_many


def write_pilot(path: Path, lucky: set[str], n_tasks: int = 40) -> str:
    """Every task fails and succeeds once in the baseline; under the arm lucky ones succeed in both trials."""
    runs = []
    for task in (f"t{i:02d}" for i in range(n_tasks)):
        for trial in range(2):
            ends = {"baseline": trial == 0, "late": task in lucky or trial == 0}
            for arm, is_success in ends.items():
                outcome = Outcome.SUCCESS if is_success else Outcome.FAIL
                runs.append(Run(task_id=task, arm=arm, trial=trial, outcome=outcome))
    path.write_bytes(b"\n".join(map(msgspec.json.encode, runs)) + b"\n")
    return str(path)


def test_each_side_is_the_posterior_of_its_own_tasks(tmp_path: Path) -> None:
    """All gain lies in five tasks of forty: a fold's own gain follows how many of them it was dealt."""
    given = write_pilot(tmp_path / "pilot.jsonl", {f"t{i:02d}" for i in range(5)})
    folds = task_folds(given, base="example", n_folds=4, n_draws=100, seed=3)
    assert len(folds) == 4
    model = find_model("example")
    table = stack_policies([compile_policy(model, "late")])
    whole = read_source(given, base="example", n_draws=100, seed=3)
    gain = success_many(whole.draws, table).gain.mean()
    sides = np.array([[success_many(side, table).gain.mean() for side in (it.choose, it.value)] for it in folds])
    assert (sides[:, 0] > 0).all()
    # what a fold has more than the average its complement has less
    assert np.corrcoef(sides.T)[0, 1] < -0.9
    assert np.ptp(sides[:, 1]) > 2 * np.ptp(sides[:, 0]) > 0
    assert sides[:, 0].min() < gain < sides[:, 0].max()


def test_the_model_and_the_seed_are_kept(tmp_path: Path) -> None:
    given = write_pilot(tmp_path / "pilot.jsonl", {"t01", "t02", "t03"})
    one, again, other = (task_folds(given, base="example", n_folds=2, n_draws=5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one[0].value.kernels, again[0].value.kernels)
    assert not np.array_equal(one[0].value.kernels, other[0].value.kernels)
    compiled = compile_model(find_model("example"))
    for side in (one[0].choose, one[0].value):
        assert side.kernels.shape == (5, *compiled.kernels.shape)
        np.testing.assert_array_equal(side.score_mean, np.repeat(compiled.score_mean[None], 5, axis=0))


def test_too_few_tasks_give_no_folds(tmp_path: Path) -> None:
    given = write_pilot(tmp_path / "pilot.jsonl", {"t01"}, n_tasks=7)
    assert task_folds(given, base="example", n_folds=2, n_draws=5, seed=1) == ()
    rows = tmp_path / "counts.csv"
    rows.write_text("agent,benchmark,arm,A,B,C,D\na,b,late,5,1,2,9\n", encoding="utf-8")
    assert task_folds(str(rows), base="example", n_folds=2, n_draws=5, seed=1) == ()


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    given = write_pilot(tmp_path / "pilot.jsonl", {"t01"})
    for n_folds, n_draws, seed in ((1, 5, 1), (2, 0, 1), (2, 5, -1)):
        with pytest.raises(ParameterError, match="n_folds must be ≥ 2"):
            task_folds(given, n_folds=n_folds, n_draws=n_draws, seed=seed)
