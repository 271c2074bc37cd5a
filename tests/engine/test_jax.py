import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drsim.engine
from drsim.engine import jax as jax_engine
from drsim.engine import reference
from drsim.engine.law import Law, law_of
from drsim.engine.random import Purpose
from drsim.engine.simulate import Engine, run_engine
from drsim.errors import DrsimError, ParameterError
from drsim.process.compile import CompiledModel, CompiledPolicy

SIZE = 64


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax_engine, "RUNS_PER_DEVICE", SIZE)
        yield


def random_law(
    seed: int,
    *,
    horizon: int = 6,
    n_states: int = 3,
    run_sd: float = 0.0,
    threshold: float = 0.0,
    budget: int = 2,
    mechanism: int = 0,
    cooldown: int = 1,
) -> Law:
    rng = np.random.default_rng(seed)

    def rows(*shape: int) -> np.ndarray:
        weights = rng.gamma(0.7, size=shape) * (rng.random(shape) < 0.8)
        weights[..., 0] += 1e-3
        return weights / weights.sum(axis=-1, keepdims=True)

    model = CompiledModel(
        start=rows(n_states),
        transitions=rows(horizon, n_states, n_states + 2),
        kernels=rows(2, horizon, n_states, n_states),
        extra_steps=np.array([1, 0]),
        score_mean=rng.normal(size=n_states),
        score_sd=rng.uniform(0.5, 2, n_states),
        run_sd=run_sd,
        temperature=1.0,
        tokens=rng.uniform(0, 1000, horizon),
        critic_tokens=rng.uniform(0, 100, horizon),
        mechanism_tokens=rng.uniform(0, 300, 2),
        usd_per_token=1e-6,
        seconds_per_step=4.0,
    )
    cuts = np.full(horizon, threshold)
    return law_of(model, CompiledPolicy(mechanism=mechanism, logit_threshold=cuts, budget=budget, cooldown=cooldown))


@settings(deadline=None, max_examples=40)
@given(
    model_seed=st.integers(0, 10_000),
    shape=st.sampled_from([(6, 3, 2), (1, 2, 1), (8, 4, 3)]),
    run_sd=st.sampled_from([0.0, 0.8]),
    mechanism=st.sampled_from([-1, 0, 1]),
    threshold=st.sampled_from([-np.inf, -0.5, 0.7, np.inf]),
    cooldown=st.integers(0, 3),
    seed=st.integers(0, 2**64 - 1),
    first=st.sampled_from([0, 5, 2**32 - 3, 2**40, 2**64 - 150]),
    n=st.integers(0, 150),
)
def test_same_runs_as_the_reference_to_the_bit(
    model_seed: int,
    shape: tuple[int, int, int],
    run_sd: float,
    mechanism: int,
    threshold: float,
    cooldown: int,
    seed: int,
    first: int,
    n: int,
) -> None:
    horizon, n_states, budget = shape
    law = random_law(
        model_seed,
        horizon=horizon,
        n_states=n_states,
        run_sd=run_sd,
        threshold=threshold,
        budget=budget,
        mechanism=mechanism,
        cooldown=cooldown,
    )
    plain = reference.run_law(law, n=n, seed=seed, first=first)
    assert plain.is_equal(run_engine(law, Engine.JAX, n=n, seed=seed, first=first))


@pytest.mark.parametrize("run_sd", [0.0, 0.8])
@pytest.mark.parametrize("n", [SIZE - 1, SIZE, SIZE + 1, 40 * SIZE + 3])
def test_chunks_leave_no_seam(run_sd: float, n: int) -> None:
    law = random_law(3, run_sd=run_sd)
    first = 2**32 - SIZE - 1
    assert reference.run_law(law, n=n, seed=5, first=first).is_equal(jax_engine.run_law(law, n=n, seed=5, first=first))


def test_one_program_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[Purpose] = []
    word = jax_engine._word

    def counted(draws: jax_engine._Draws, step: jax.Array | int, purpose: Purpose) -> jax.Array:
        traces.extend([purpose] if purpose is Purpose.START else [])
        return word(draws, step, purpose)

    monkeypatch.setattr(jax_engine, "_word", counted)
    # a shape that no other test has
    for threshold, seed, first, n in ((0.0, 1, 0, 10), (0.7, 2, 2**40, SIZE + 1), (-np.inf, 2**50, 7, 3 * SIZE)):
        law = random_law(seed % 97, horizon=7, threshold=threshold, cooldown=seed % 3)
        jax_engine.run_law(law, n=n, seed=seed, first=first)
    assert len(traces) == 1
    jax_engine.run_law(random_law(1, horizon=7, budget=3), n=10, seed=1)
    assert len(traces) == 2


def test_threads_and_the_width_of_numbers_change_nothing() -> None:
    law = random_law(4, run_sd=0.8)
    plain = reference.run_law(law, n=500, seed=9)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: jax_engine.run_law(law, n=500, seed=9), range(6)))
    assert all(runs.is_equal(plain) for runs in found)
    before = jax.config.jax_enable_x64
    for wide in (False, True):
        with jax.enable_x64(wide):
            assert jax_engine.run_law(law, n=500, seed=9).is_equal(plain)
    assert jax.config.jax_enable_x64 == before


TWO_DEVICES = """
import jax, sys
sys.path.insert(0, sys.argv[1])
from test_jax import SIZE, jax_engine, random_law, reference
jax_engine.RUNS_PER_DEVICE = SIZE
assert len(jax.devices()) == 2
for run_sd in (0.0, 0.8):
    law = random_law(3, run_sd=run_sd)
    assert reference.run_law(law, n=300, seed=5).is_equal(jax_engine.run_law(law, n=300, seed=5))
"""


def test_two_devices_give_the_same_runs() -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", TWO_DEVICES, str(Path(__file__).parent)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_missing_jax_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "drsim.engine.jax")
    monkeypatch.delattr(drsim.engine, "jax")
    with pytest.raises(DrsimError, match=r'pip install "drsim\[jax\]"'):
        run_engine(random_law(1), Engine.JAX, n=1, seed=1)


def test_bad_seed_is_named() -> None:
    with pytest.raises(ParameterError, match=r"seed must be a whole number in \[0, 2\^64\), got -1"):
        jax_engine.run_law(random_law(1), n=1, seed=-1)
