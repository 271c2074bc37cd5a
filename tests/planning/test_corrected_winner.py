import json
from pathlib import Path

import numpy as np
import pytest

from drsim.arrays import FloatArray
from drsim.cli.app import run
from drsim.errors import DataError, ParameterError
from drsim.pilot.evidence import Pilot
from drsim.pilot.pairing import pair
from drsim.pilot.records import Outcome, Run
from drsim.planning import corrected_winner as winner
from drsim.planning.corrected_winner import corrected_winner, corrected_winners, task_gains


def runs_of(arms: dict[str, float], n_tasks: int, seed: int, agent: str = "agent") -> list[Run]:
    rng = np.random.default_rng(seed)
    runs = []
    for i in range(n_tasks):
        s = rng.beta(1.0, 1.0)
        for arm, shift in {"baseline": 0.0, **arms}.items():
            outcome = Outcome.SUCCESS if rng.random() < s + shift else Outcome.FAIL
            runs.append(Run(task_id=f"t{i}", arm=arm, outcome=outcome, agent=agent))
    return runs


def pilot_of(runs: list[Run]) -> Pilot:
    places = np.arange(len(runs), dtype=np.int64)
    return Pilot(runs=runs, sources=("memory",), source_of=0 * places, line_of=places + 1)


def alike(n_pilots: int, n_tasks: int, n_arms: int) -> list[FloatArray]:
    rng = np.random.default_rng(7)
    found = []
    for _ in range(n_pilots):
        s = rng.beta(1.0, 1.0, (n_tasks, 1))
        base = rng.random((n_tasks, 1)) < s
        found.append((rng.random((n_tasks, n_arms)) < s).astype(np.float64) - base)
    return found


def test_without_true_differences_the_naive_winner_is_biased_and_the_corrected_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(winner, "N_SPLITS", 5)
    rng = np.random.default_rng(8)
    naive, nested, shrunk = [], [], []
    for gains in alike(6_000, 300, 5):
        best = gains.mean(axis=0).max()
        level, luck = winner._level(gains), winner._luck(gains)
        naive.append(best)
        nested.append(winner._nested(gains, rng)[0])
        shrunk.append(level + (1 - luck) * (best - level))
    ses = [np.std(it) / len(it) ** 0.5 for it in (naive, nested, shrunk)]
    assert np.mean(naive) - 5 * ses[0] > 0.02
    # the simulation's own error is some 0.05 pp
    assert max(ses) < 0.0006
    assert abs(np.mean(nested)) < 0.003
    assert abs(np.mean(shrunk)) < 0.003


def test_true_differences_stay() -> None:
    pairing = pair(pilot_of(runs_of({"a": 0.3, "b": -0.1, "c": -0.2}, 400, seed=1)))
    found = corrected_winner(pairing.cells, seed=1)
    assert (found.winner, found.n_tasks, found.arms) == ("a", 400, ("a", "b", "c"))
    assert found.nested == pytest.approx(found.gain, abs=1e-12)
    assert found.luck < 0.05
    assert found.shrunk is not None
    assert 0 < found.gain - found.shrunk < 0.05 * 0.6
    gains = task_gains(pairing.cells)
    assert found.gain == pytest.approx(gains[:, 0].mean())
    assert found.nested_se == pytest.approx(gains[:, 0].std(ddof=1) / 20)


def test_two_arms_are_not_shrunk_and_equal_arms_are_one() -> None:
    pairing = pair(pilot_of(runs_of({"a": 0.0, "b": 0.0}, 60, seed=2)))
    assert corrected_winner(pairing.cells, seed=1).shrunk is None
    gains: FloatArray = np.tile(np.random.default_rng(3).choice([-1.0, 0.0, 1.0], size=(50, 1)), (1, 4)).astype(
        np.float64
    )
    assert winner._luck(gains) == winner.MOST_LUCK
    assert winner._level(gains) == pytest.approx(gains.mean())


def test_mistakes() -> None:
    pairing = pair(pilot_of(runs_of({"a": 0.0, "b": 0.0}, 10, seed=2)))
    with pytest.raises(DataError, match="10 tasks have a pair of every arm; correcting takes 20"):
        corrected_winner(pairing.cells, seed=1)
    with pytest.raises(ParameterError, match="two or more arms"):
        corrected_winner(pairing.cells[:1], seed=1)
    with pytest.raises(ParameterError, match="takes two or more paired arms"):
        corrected_winners(pairing.cells[:1], seed=1)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.jsonl"
    lines = [
        json.dumps({"task_id": it.task_id, "arm": it.arm, "outcome": it.outcome.value})
        for it in runs_of({"a": 0.05, "b": 0.0, "c": 0.0}, 80, seed=5)
    ]
    path.write_text("\n".join(lines) + "\n")
    assert run(["fit", str(path), "--corrected", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["corrected"]
    assert found["gain_nested"] <= found["gain"]
    assert found["gain_shrunk"] < found["gain"]
    assert run(["fit", str(path), "--corrected", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "without the luck of having been picked" in " ".join(out.split())
    assert run(["fit", "example:toy", "--corrected"]) == 2
    assert "takes two or more paired arms" in capsys.readouterr().err
