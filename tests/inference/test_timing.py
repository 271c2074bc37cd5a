"""r(t) and d(t) by the step of the first intervention, on pilots whose curves are known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drsim.arrays import FloatArray
from drsim.engine.law import law_of
from drsim.engine.records import simulated_runs
from drsim.engine.reference import run_law
from drsim.engine.runs import Ending
from drsim.engine.simulate import Engine
from drsim.errors import DataError
from drsim.inference.timing import TimingFit, fit_timing
from drsim.pilot.cell import PairedBy
from drsim.pilot.evidence import Pilot
from drsim.pilot.reading import read
from drsim.pilot.timed import TimedPairs, timed_pairs
from drsim.process.compile import compile_model, compile_policy
from drsim.process.shipped import find_model
from drsim.process.spec import Model

BAND = 0.9


def early() -> Model:
    """The example with a policy that fires from step 0 on, so that steps 0 to 5 all see first interventions."""
    model = find_model("example")
    return replace(model, policies={"p": replace(model.policies["late"], first_step=0, threshold=0.5)})


def success_after(model: Model, n: int = 400_000) -> FloatArray:
    """P(success) given the step of the first intervention: r(t), and 1 − d(t), of independent pairs."""
    (runs,) = run_law(law_of(compile_model(model), [compile_policy(model, "p")]), n=n, seed=77)
    first = runs.fired_at[:, 0]
    success = runs.ending == Ending.SUCCESS
    return np.array([success[first == t].mean() for t in range(6)])


def simulated(model: Model, n: int, seed: int) -> TimedPairs:
    compiled = compile_model(model)
    arms = {"p": (compile_policy(model, "p"), "rollback")}
    runs = list(simulated_runs(compiled, arms, name="x", n=n, seed=seed, engine=Engine.REFERENCE))
    index = np.arange(len(runs), dtype=np.int64)
    (pairs,) = timed_pairs(Pilot(runs=runs, sources=("s",), source_of=0 * index, line_of=index + 1))
    return pairs


def covered(fit: TimingFit, truth: FloatArray) -> FloatArray:
    """(2, 6) whether the 90 % interval of r(t) and of d(t) holds the truth."""
    (cell,) = fit.cells
    inside = []
    for curve, expected in ((cell.recovery, truth), (cell.disruption, 1.0 - truth)):
        low, high = np.quantile(curve.draws[:, :6], [0.5 - BAND / 2, 0.5 + BAND / 2], axis=0)
        inside.append((low <= expected) & (expected <= high))
    return np.array(inside, dtype=np.float64)


@pytest.mark.slow
def test_intervals_cover_curves_that_are_known() -> None:
    model = early()
    truth = success_after(model)
    found = np.array([covered(fit_timing([simulated(model, 300, seed)], seed=seed), truth) for seed in range(200)])
    assert 0.85 <= found.mean() <= 0.95
    # a curve that is off by .15 is missed
    wrong = np.array([covered(fit_timing([simulated(model, 300, s)], seed=s), truth + 0.15) for s in range(40)])
    assert wrong.mean() < 0.7


def test_intervals_cover_most_of_a_known_curve() -> None:
    model = early()
    truth = success_after(model, 100_000)
    found = np.array([covered(fit_timing([simulated(model, 300, seed)], seed=seed), truth) for seed in range(15)])
    # 180 intervals that hang together within a pilot: 15 pilots' means have sd below .05
    assert found.mean() > 0.9 - 5 * 0.3 / np.sqrt(15)


def pairs_at(first_step: list[int], baseline: list[int], arm: list[int], name: str = "a") -> TimedPairs:
    return TimedPairs(
        agent=name,
        benchmark="b",
        arm="m",
        paired_by=PairedBy.FORK,
        first_step=np.array(first_step),
        baseline_success=np.array(baseline, dtype=np.bool_),
        arm_success=np.array(arm, dtype=np.bool_),
        n_tasks=len(first_step),
    )


def harmful_early(n: int = 60) -> TimedPairs:
    """Every success that is interrupted at step 0 is lost, none at step 3, where every failure is won back."""
    first = [0] * n + [3] * n + [-1] * 5
    baseline = [1, 0] * (n // 2) + [1, 0] * (n // 2) + [1] * 5
    arm = [0, 0] * (n // 2) + [1, 1] * (n // 2) + [1] * 5
    return pairs_at(first, baseline, arm)


def test_first_safe_step_and_the_share_of_early_harm() -> None:
    fit = fit_timing([harmful_early()], seed=1)
    (cell,) = fit.cells
    assert fit.is_reliable
    assert cell.n_never == 5
    assert cell.is_observed.tolist() == [True, False, False, True]
    assert cell.safe_from(0.95) == 3
    assert cell.prob_safe[0] < 0.5
    # all disruptions lie at step 0
    assert cell.early_share[0] > 0.9
    assert cell.early_share[-1] == pytest.approx(1.0)
    assert cell.disruption.events.tolist() == [30, 0, 0, 0]
    assert cell.disruption.trials.tolist() == [30, 0, 0, 30]
    assert cell.recovery.trials.tolist() == [30, 0, 0, 30]


def test_bands_hold_the_whole_curve_and_are_wider_than_intervals() -> None:
    (cell,) = fit_timing([simulated(early(), 300, 1)], seed=1).cells
    for curve in (cell.recovery, cell.disruption):
        whole = np.all((curve.draws >= curve.band_low) & (curve.draws <= curve.band_high), axis=1)
        assert whole.mean() == pytest.approx(0.95, abs=0.005)
        assert np.all(curve.band_high - curve.band_low > curve.high - curve.low)


def test_cells_share_the_walk() -> None:
    """A small cell beside a large one that lies alike learns from it."""
    large, small = harmful_early(200), pairs_at([0, 3], [1, 1], [0, 1], "small")
    alone = fit_timing([small], seed=1).cells[0].disruption
    beside = fit_timing([large, small], seed=1).cells[1].disruption
    assert np.ptp(beside.mean) > 2 * np.ptp(alone.mean)
    assert beside.mean[0] > alone.mean[0]
    assert beside.mean[-1] < alone.mean[-1]


def test_real_pilot_with_interventions_runs_through(shared_data: Path) -> None:
    evidence = read([str(shared_data / "pilots" / "mint-gpt35-append.jsonl")])
    assert isinstance(evidence, Pilot)
    pairs = timed_pairs(evidence)
    assert len(pairs) == 24
    fit = fit_timing(pairs, seed=1)
    assert fit.is_reliable
    for cell in fit.cells:
        flips = cell.recovery.events.sum() + cell.disruption.events.sum()
        assert flips <= cell.pairs.first_step.size
        assert np.all((cell.recovery.low <= cell.recovery.mean) & (cell.recovery.mean <= cell.recovery.high))


def test_timed_pairs_need_interventions_with_steps(shared_data: Path) -> None:
    evidence = read([str(shared_data / "pilots" / "taubench-airline-repeats.jsonl")])
    assert isinstance(evidence, Pilot)
    assert timed_pairs(evidence) == ()
    with pytest.raises(DataError, match="timing needs pairs, by fork or trial, whose interventions carry their step"):
        fit_timing((), seed=1)
