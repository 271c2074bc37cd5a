"""ρ of a pilot's repeated baseline runs."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from drsim.errors import DataError
from drsim.inference.rho_prior import RhoPrior
from drsim.pilot.records import Outcome, Run
from drsim.planning.measured_rho import measured_rho


def write_pilot(path: Path, n_tasks: int, trials: int, rho: float) -> str:
    """Beta tasks of mean ½; one intervened run each, which says nothing of ρ."""
    rng = np.random.default_rng(1)
    total = 1 / rho - 1
    runs = []
    for i, chance in enumerate(rng.beta(total / 2, total / 2, n_tasks)):
        for trial in range(trials):
            outcome = Outcome.SUCCESS if rng.random() < chance else Outcome.FAIL
            runs.append(Run(task_id=f"t{i}", arm="baseline", trial=trial, outcome=outcome))
        runs.append(Run(task_id=f"t{i}", arm="late", trial=0, outcome=Outcome.FAIL))
    path.write_bytes(b"\n".join(map(msgspec.json.encode, runs)) + b"\n")
    return str(path)


def test_repeats_give_rho(tmp_path: Path) -> None:
    given = write_pilot(tmp_path / "pilot.jsonl", 400, 4, 0.3)
    draws = measured_rho(given, n_draws=2000, seed=1)
    assert draws is not None
    assert draws.shape == (2000,)
    assert abs(draws.mean() - 0.3) < 4 * draws.std()
    assert draws.std() < 0.05
    again = measured_rho(given, n_draws=2000, seed=1)
    np.testing.assert_array_equal(draws, again)


def test_the_prior_holds_where_it_is_sharp(tmp_path: Path) -> None:
    given = write_pilot(tmp_path / "pilot.jsonl", 40, 2, 0.3)
    draws = measured_rho(given, rho_prior=RhoPrior.parse("0.8"), n_draws=50, seed=1)
    assert draws is not None
    np.testing.assert_allclose(draws, 0.8, atol=1e-6)


def test_nothing_is_measured_without_repeats(tmp_path: Path) -> None:
    assert measured_rho(write_pilot(tmp_path / "pilot.jsonl", 40, 1, 0.3), n_draws=10, seed=1) is None
    rows = tmp_path / "counts.csv"
    rows.write_text("agent,benchmark,arm,A,B,C,D\na,b,late,5,1,2,9\n", encoding="utf-8")
    assert measured_rho(str(rows), n_draws=10, seed=1) is None


def test_the_cell_must_be_there(tmp_path: Path) -> None:
    given = write_pilot(tmp_path / "pilot.jsonl", 10, 2, 0.3)
    with pytest.raises(DataError, match="no cell has agent 'other'"):
        measured_rho(given, agent="other", n_draws=10, seed=1)
