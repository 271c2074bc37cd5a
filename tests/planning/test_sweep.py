import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planning.sweeps import MODEL, drawn, inputs

from drsim.arrays import FloatArray, IntArray
from drsim.errors import DataError, ParameterError
from drsim.planning import sweep_cells
from drsim.planning.axes_text import FAMILIES
from drsim.planning.sweep import (
    Progress,
    Runner,
    Sweep,
    baseline_of,
    run_sweep,
    vector_of_block,
    with_threads,
)
from drsim.planning.sweep_cells import COLUMNS, Fold, SweepInputs, cell_values
from drsim.planning.winner import draw_folds
from drsim.process.compile import compile_model, compile_policy, never
from drsim.process.exact import evaluate, unaided
from drsim.process.spec import Policy, Signal
from drsim.process.stacks import ModelDraws, stack_draws
from drsim.process.success_many import success_many
from drsim.process.trace import trace

EXACT = 1e-12


def column(rows: FloatArray, name: str) -> FloatArray:
    return rows[:, COLUMNS.index(name)]


def all_rows(sweep: Sweep) -> FloatArray:
    return np.concatenate([rows for _, rows in sweep.blocks()])


@pytest.mark.parametrize("timing", [None, *FAMILIES])
def test_every_cell_equals_the_exact_values_one_by_one(timing: str | None) -> None:
    cooldown = None if timing == "delay" else "0,2"
    asked = inputs(4, timing=timing, threshold="0.3,0.6", budget="0:2", cooldown=cooldown)
    cells = asked.axes.cells(np.arange(len(asked.axes)))
    with run_sweep(asked) as sweep:
        rows = all_rows(sweep)
    models = drawn(4, 1)
    for i, policy in enumerate(asked.axes.policies(cells)):
        compiled = compile_policy(replace(MODEL, policies={"p": policy}), "p")
        each = [evaluate(it, compiled) for it in models]
        draws = {
            "gain": [it.gain for it in each],
            "success": [it.success for it in each],
            "tokens": [it.tokens for it in each],
            "r": [it.shared_prefix.recovery for it in each],
            "d": [it.shared_prefix.disruption for it in each],
        }
        for name, values in draws.items():
            expected = [np.mean(values), np.std(values, ddof=1), *np.quantile(values, [0.025, 0.5, 0.975])]
            found = [rows[i, COLUMNS.index(f"{name}_{part}")] for part in ("mean", "sd", "q2.5", "q50", "q97.5")]
            assert found == pytest.approx(expected, rel=EXACT, abs=EXACT), (i, name)
        r, d = np.mean(draws["r"]), np.mean(draws["d"])
        assert rows[i, COLUMNS.index("prob_gain")] == np.mean(np.array(draws["gain"]) > 1e-12)
        pairs = {
            "interventions": np.mean([it.interventions for it in each]),
            "capped": np.mean([it.capped for it in each]),
            "trigger_rate": np.mean([trace(it, compiled).first_firing.sum() for it in models]),
            "break_even": d / (r + d) if r + d > 1e-12 else np.nan,
            "gain_mc_se": 0.0,
        }
        for name, value in pairs.items():
            assert rows[i, COLUMNS.index(name)] == pytest.approx(value, abs=1e-10, nan_ok=True), (i, name)


def test_nothing_is_gained_where_nothing_fires() -> None:
    with run_sweep(inputs(3, threshold="0.5,1", budget="0,1")) as sweep:
        rows = all_rows(sweep)
    idle = [0, 2, 3, 4, 6, 7]
    assert column(rows, "gain_mean")[idle].tolist() == [0.0] * 6
    assert column(rows, "prob_gain")[idle].tolist() == [0.0] * 6
    assert column(rows, "trigger_rate")[idle].tolist() == [0.0] * 6
    assert np.isnan(column(rows, "leverage_break_even")[idle]).all()
    assert (column(rows, "trigger_rate")[[1, 5]] > 0.1).all()


def test_leverage_decides_the_sign_of_a_single_intervention() -> None:
    with run_sweep(inputs(1, timing="window", threshold="0.05:0.95:0.05", budget="1")) as sweep:
        rows = all_rows(sweep)
    fires = (column(rows, "trigger_rate") > 0) & np.isfinite(column(rows, "leverage_break_even"))
    gain = column(rows, "gain_mean")[fires]
    pays = column(rows, "leverage_off_share") > column(rows, "leverage_break_even")
    assert np.array_equal(pays[fires], gain > 0)
    assert 0.1 < np.mean(gain > 0) < 0.9
    # the static break-even compares rates of runs with the failure rate of runs, and so does Δ = p r − (1 − p) d
    failure = 1 - baseline_of(inputs(1))[0]
    static = column(rows, "break_even")[fires]
    assert np.array_equal(failure > static, gain > 0)


def test_leverage_break_even_of_one_step_is_that_of_the_theory() -> None:
    asked = inputs(1, timing="window", threshold="0.5", budget="1", mechanism="rollback")
    with run_sweep(asked) as sweep:
        rows = all_rows(sweep)
    value = unaided(compile_model(MODEL))
    cells = asked.axes.cells(np.arange(len(asked.axes)))
    r, d, extra = 0.4, 0.15, 1
    for i in np.flatnonzero(cells.first_step == cells.last_step):
        t = int(cells.first_step[i])
        on, off = value[t + 1]
        on_later, off_later = value[min(t + 1 + extra, MODEL.horizon)]
        leverage = on_later - off_later
        lost_on, lost_off = on - on_later, off - off_later
        below = (r + d) * leverage + lost_on - lost_off
        expected = (d * leverage + lost_on) / below if below > 0 else np.nan
        assert column(rows, "leverage_break_even")[i] == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_blocks_threads_and_order_change_no_bit() -> None:
    asked = inputs(5, timing="window", threshold="0.3,0.6", budget="1:2", n_folds=3)

    def numbers(runner: Runner) -> tuple[bytes, bytes, int]:
        with run_sweep(asked, runner=runner) as sweep:
            winner = sweep.winner
            return all_rows(sweep).tobytes(), winner.gain_corrected.tobytes(), winner.cell

    def backwards(it: SweepInputs, blocks: Sequence[int]) -> Iterator[tuple[int, FloatArray]]:
        yield from ((block, vector_of_block(it, block)) for block in reversed(blocks))

    whole = numbers(with_threads(1))
    asked = replace(asked, cells_at_once=16)
    for another in (with_threads(1), with_threads(3), with_threads(), backwards):
        assert numbers(another) == whole


def test_rows_are_found_by_number() -> None:
    with run_sweep(inputs(2, timing="window", budget="1:2")) as sweep:
        rows = all_rows(sweep)
        index = np.array([41, 0, 7, 41])
        np.testing.assert_array_equal(sweep.rows(index), rows[index])


def test_progress_ends_at_the_last_cell() -> None:
    told: list[Progress] = []
    with run_sweep(inputs(2, timing="window", budget="1:2", cells_at_once=16), progress=told.append) as sweep:
        assert sweep.n_cells == 84
    assert [it.n_done for it in told][-1] == 84
    assert sorted(it.n_done for it in told) == [it.n_done for it in told]
    assert told[-1].seconds_left == 0.0
    assert all(it.seconds_left > 0 for it in told[:-1])


@pytest.mark.parametrize("n_draws", [1, 3, 200, 10_000, 10**6])
def test_a_block_is_as_small_as_its_draws_are_many(n_draws: int) -> None:
    asked = inputs(1, timing="window")
    draws = asked.draws
    many = replace(
        draws,
        start=np.broadcast_to(draws.start, (n_draws, 2)),
        kernels=np.broadcast_to(draws.kernels, (n_draws, *draws.kernels.shape[1:])),
    )
    size = replace(asked, draws=many).block_cells
    assert sweep_cells.FEWEST_CELLS <= size <= sweep_cells.MOST_CELLS
    assert size == sweep_cells.FEWEST_CELLS or size * n_draws <= sweep_cells.NUMBERS_AT_ONCE


def test_memory_does_not_grow_with_the_cells() -> None:
    # Python's and NumPy's allocations; the blocks are small so that ten times as many are soon done
    def peak(step: str) -> tuple[int, int]:
        asked = inputs(40, timing="window", threshold=f"0.1:0.9:{step}", cells_at_once=51)
        tracemalloc.start()
        with run_sweep(asked, runner=with_threads(1)) as sweep:
            for _ in sweep.blocks():
                pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most, len(asked.axes)

    peak("0.1")
    (few, n_few), (many, n_many) = peak("0.1"), peak("0.008")
    assert n_many > 10 * n_few
    # all rows of the larger sweep would be several times what is allowed here
    assert many < 1.3 * few < n_many * len(COLUMNS) * 8


def test_a_store_goes_on_where_it_was_left(tmp_path: Path) -> None:
    asked = inputs(3, timing="window", budget="1:3", cells_at_once=16)
    with run_sweep(asked) as sweep:
        whole, best = all_rows(sweep).tobytes(), sweep.winner.cell

    def two(it: SweepInputs, blocks: Sequence[int]) -> Iterator[tuple[int, FloatArray]]:
        for done, block in enumerate(blocks):
            if done == 2:
                raise KeyboardInterrupt
            yield block, vector_of_block(it, block)

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt), run_sweep(asked, folder=tmp_path / "s", resume=True, runner=two):
            pass
    worked: list[int] = []

    def rest(it: SweepInputs, blocks: Sequence[int]) -> Iterator[tuple[int, FloatArray]]:
        worked.extend(blocks)
        return with_threads(2)(it, blocks)

    with run_sweep(asked, folder=tmp_path / "s", resume=True, runner=rest) as sweep:
        assert (all_rows(sweep).tobytes(), sweep.winner.cell, sweep.recomputed) == (whole, best, ())
    assert worked == [6, 7]


def test_damage_is_noticed_and_mended(tmp_path: Path) -> None:
    asked = inputs(3, timing="window", budget="1:3", cells_at_once=16)
    with run_sweep(asked, folder=tmp_path) as sweep:
        whole = all_rows(sweep).tobytes()
        blocks = [sweep.store.path(i) for i in range(sweep.store.n_blocks)]
    raw = blocks[1].read_bytes()
    blocks[1].write_bytes(raw[:-3] + b"\0\1\2")
    blocks[2].write_bytes(raw)
    blocks[4].write_bytes(b"")
    with run_sweep(asked, folder=tmp_path, resume=True) as sweep:
        assert (all_rows(sweep).tobytes(), sweep.recomputed) == (whole, (1, 2, 4))
        blocks[3].unlink()
        with pytest.raises(DataError, match="was damaged or removed while it was read"):
            all_rows(sweep)


def test_winner_is_the_best_mean_and_the_corrected_one_is_valued_by_others() -> None:
    asked = inputs(23, timing="window", threshold="0.3:0.7:0.1")
    gain = cell_values(asked, asked.axes.cells(np.arange(len(asked.axes)))).gain
    with run_sweep(asked) as sweep:
        winner = sweep.winner
    assert winner.cell == int(np.argmax(gain.mean(axis=1)))
    np.testing.assert_array_equal(winner.gain, gain[winner.cell])
    expected = np.empty(23)
    for fold in draw_folds(23):
        others = np.setdiff1d(np.arange(23), fold)
        expected[fold] = gain[np.argmax(gain[:, others].mean(axis=1)), fold]
    np.testing.assert_array_equal(winner.gain_corrected, expected)
    assert winner.corrected_by == "draws"
    assert winner.prob_best == np.mean(gain[winner.cell] >= gain.max(axis=0))


def test_one_exact_model_has_nothing_to_correct() -> None:
    with run_sweep(inputs(1)) as sweep:
        winner = sweep.winner
    assert (winner.corrected_by, winner.gain_corrected[0], winner.prob_best) == ("nothing", winner.gain[0], 1.0)
    assert winner.uncertain.mean == winner.gain[0]


def test_folds_of_tasks_pick_and_value_apart() -> None:
    asked = inputs(6, timing="window", threshold="0.3:0.7:0.1", n_folds=4)
    cells = asked.axes.cells(np.arange(len(asked.axes)))
    with run_sweep(asked) as sweep:
        winner = sweep.winner
    expected = []
    for fold in asked.folds:
        chosen = np.argmax(cell_values(replace(asked, draws=fold.choose), cells).gain.mean(axis=1))
        expected.append(cell_values(replace(asked, draws=fold.value), cells).gain[chosen])
    np.testing.assert_allclose(winner.gain_corrected, np.concatenate(expected), rtol=0, atol=1e-14)
    assert winner.corrected_by == "data"


def test_the_winner_of_equals_is_biased_and_its_correction_is_not() -> None:
    # eight mechanisms whose recovery is drawn from one law: no cell has a larger expected gain than another
    names = [f"m{i}" for i in range(8)]
    equals = replace(
        MODEL,
        mechanisms={name: replace(MODEL.mechanisms["rollback"], disrupt=0.1) for name in names},
        policies={"p": replace(MODEL.policies["base"], mechanism="m0", threshold=0.5)},
    )
    base = inputs(1, model=equals, threshold="0.5")

    def recovering(n: int, seed: int) -> ModelDraws:
        back = np.random.default_rng(seed).uniform(0.1, 0.5, (n, 8, 1))
        draws = stack_draws([compile_model(equals)] * n)
        draws.kernels[..., 1, 0], draws.kernels[..., 1, 1] = back, 1.0 - back
        return draws

    table = base.axes.table(base.axes.cells(np.arange(8)), equals)
    truth = success_many(recovering(20_000, 77), table).gain.mean()
    naive, corrected = [], []
    for seed in range(300):
        with run_sweep(replace(base, draws=recovering(20, 1000 + seed)), runner=with_threads(1)) as sweep:
            naive.append(sweep.winner.gain.mean())
            corrected.append(sweep.winner.gain_corrected.mean())
    spread = {name: np.std(it, ddof=1) / np.sqrt(300) for name, it in (("naive", naive), ("corrected", corrected))}
    assert (np.mean(naive) - truth) / spread["naive"] > 5
    assert abs(np.mean(corrected) - truth) / spread["corrected"] <= 5


def test_the_luck_of_a_pilot_is_taken_out_by_tasks_alone() -> None:
    # eight mechanisms with r = 1/2, each tried on 40 failed runs: posteriors are unbiased there, until one is picked
    names = [f"m{i}" for i in range(8)]
    policy = Policy(mechanism="m0", threshold=0.5, budget=1)
    half = replace(MODEL.mechanisms["rollback"], recover={"off": 0.5})
    equals = replace(MODEL, mechanisms=dict.fromkeys(names, half), policies={"p": policy})
    base = inputs(1, model=equals, threshold="0.5")
    truth = evaluate(compile_model(equals), compile_policy(equals, "p")).gain
    point, rng = stack_draws([compile_model(equals)] * 20), np.random.default_rng(5)

    def posterior(recovered: IntArray, n: int) -> ModelDraws:
        kernels = point.kernels.copy()
        back = rng.beta(recovered + 0.5, n - recovered + 0.5, (20, 8))[:, :, None]
        kernels[..., 1, 0], kernels[..., 1, 1] = back, 1.0 - back
        return replace(point, kernels=kernels)

    found: dict[str, list[float]] = {"naive": [], "draws": [], "data": []}
    for _ in range(400):
        halves = rng.binomial(20, 0.5, (2, 8))
        parts = [posterior(it, 20) for it in halves]
        folds = (Fold(choose=parts[0], value=parts[1]), Fold(choose=parts[1], value=parts[0]))
        draws = posterior(halves.sum(axis=0), 40)
        for name, asked in (
            ("draws", replace(base, draws=draws)),
            ("data", replace(base, draws=draws, folds=folds)),
        ):
            with run_sweep(asked, runner=with_threads(1)) as sweep:
                assert sweep.winner.corrected_by == name
                found[name].append(float(sweep.winner.gain_corrected.mean()))
        found["naive"].append(float(sweep.winner.gain.mean()))
    z = {name: (np.mean(it) - truth) / (np.std(it, ddof=1) / np.sqrt(400)) for name, it in found.items()}
    assert z["naive"] > z["draws"] > 5
    assert abs(z["data"]) <= 5


def test_what_the_recursion_cannot_hold_is_simulated() -> None:
    # a belief policy is not exact, so the engine is checked on a score policy whose exact values are known
    asked = inputs(3, threshold="0.4,0.6", budget="1:2", mechanism="rollback", policy="believer", n_runs=20_000)
    assert not asked.axes.is_exact
    scored = replace(asked, axes=replace(asked.axes, base=replace(asked.axes.base, signal=Signal.SCORE)))
    cells = asked.axes.cells(np.arange(len(asked.axes)))
    exact = cell_values(scored, cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drsim.planning.axes.Axes.is_exact", False)
        simulated = cell_values(scored, cells)
    for name, key in (
        ("gain", "gain"),
        ("success", "success"),
        ("tokens", "tokens"),
        ("recovery", "r"),
        ("disruption", "d"),
    ):
        z = (getattr(simulated, name) - getattr(exact, name)) / simulated.errors[key]
        assert np.abs(z).max() <= 5, name
    np.testing.assert_allclose(simulated.triggered, exact.triggered, rtol=0, atol=5 * 0.5 / np.sqrt(20_000))
    with run_sweep(asked) as first, run_sweep(asked, runner=with_threads(2)) as second:
        rows = all_rows(first)
        assert rows.tobytes() == all_rows(second).tobytes()
        assert (column(rows, "gain_mc_se") > 0).all()
        assert np.isnan(column(rows, "leverage_break_even")).all()


def test_the_winner_of_one_simulated_model_is_valued_by_fresh_runs() -> None:
    asked = inputs(1, threshold="0.4:0.6:0.05", mechanism="rollback", policy="believer", n_runs=2000)
    with run_sweep(asked) as sweep:
        winner = sweep.winner
    assert winner.corrected_by == "runs"
    assert winner.gain_corrected[0] != winner.gain[0]
    assert 0 < winner.corrected_se < 0.02


def test_draws_of_another_model_are_refused() -> None:
    rollback = MODEL.mechanisms["rollback"]
    asked = inputs(1)
    with pytest.raises(ParameterError, match="draws must have the 7 steps and 2 mechanisms of the model, got 6 and 2"):
        replace(asked, model=replace(MODEL, horizon=7, mechanisms=dict.fromkeys("ab", rollback), policies={}))
    with pytest.raises(ParameterError, match="runs must be at least 2, got 1"):
        replace(asked, n_runs=1)


def test_never_is_the_baseline() -> None:
    models = drawn(4, 1)
    np.testing.assert_allclose(baseline_of(inputs(4)), [evaluate(it, never(it)).success for it in models], atol=1e-14)
