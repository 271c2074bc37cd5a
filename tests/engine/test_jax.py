import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from engine.laws import all_equal, looking_back, policies, policy, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

import drsim.engine
from drsim.engine import jax as jax_engine
from drsim.engine import reference
from drsim.engine.law import Law, law_of
from drsim.engine.simulate import Engine, run_engine
from drsim.errors import DrsimError, ParameterError
from drsim.process.compile import CompiledPolicy
from drsim.process.spec import Signal

SIZE = 64


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax_engine, "RUNS_PER_DEVICE", SIZE)
        yield


def random_law(seed: int, *, horizon: int = 6, run_sd: float = 0.0, threshold: float = 0.0, budget: int = 2) -> Law:
    """One policy that fires on the score."""
    return law_of(random_model(seed, horizon, run_sd=run_sd), [policy(horizon, 0, threshold, budget)])


def widest(horizon: int) -> list[CompiledPolicy]:
    """Budget, window, belief and coin as large as any, so that laws which hold these differ in no shape."""
    belief = looking_back(policy(horizon, 1, budget=4), Signal.BELIEF, 0.4)
    votes = looking_back(policy(horizon, 2, budget=4), Signal.VOTES, 0.2, 3, 2)
    return [belief, replace(votes, propensity=0.5)]


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    horizon=st.sampled_from([1, 6]),
    n=st.integers(0, 150),
    first=st.sampled_from([0, 5, 2**32 - 3, 2**40, 2**64 - 150]),
)
def test_same_runs_as_the_reference_to_the_bit(data: st.DataObject, horizon: int, n: int, first: int) -> None:
    run_sd, n_classes = data.draw(st.sampled_from([(0.0, 0), (0.8, 3)]))
    model = random_model(data.draw(st.integers(0, 10_000)), horizon, 3, run_sd, n_classes)
    law = law_of(model, [*data.draw(st.lists(policies(horizon), min_size=3, max_size=3)), *widest(horizon)])
    seed = data.draw(st.integers(0, 2**64 - 1))
    plain = reference.run_law(law, n=n, seed=seed, first=first, first_task=3)
    assert all_equal(run_engine(law, Engine.JAX, n=n, seed=seed, first=first, first_task=3), plain)


PARTS = {
    "never": [policy(mechanism=-1)],
    "score": [policy()],
    "coin": [replace(policy(), propensity=0.5)],
    "coin without a budget": [replace(policy(budget=0), propensity=0.5)],
    "coin of one of two, without a budget": [policy(budget=0), replace(policy(budget=0), propensity=0.5)],
    "belief": [looking_back(policy(), Signal.BELIEF, 0.4)],
    "mean": [looking_back(policy(), Signal.MEAN, 0.5, 3)],
    "belief without a budget": [looking_back(policy(budget=0), Signal.BELIEF, 0.4)],
}


@pytest.mark.parametrize("parts", PARTS)
def test_programs_that_leave_parts_out(parts: str) -> None:
    """A law without budgets whose coin was tossed all the same ended in an error of shapes."""
    law = law_of(random_model(3), PARTS[parts])
    plain = reference.run_law(law, n=100, seed=5)
    assert all_equal(jax_engine.run_law(law, n=100, seed=5), plain)


def mixed_law(run_sd: float = 0.8) -> Law:
    """A policy for each signal, on tasks that differ."""
    rules = [
        policy(),
        looking_back(policy(), Signal.BELIEF, 0.4),
        looking_back(policy(mechanism=1), Signal.MEAN, 0.5, 3),
        replace(looking_back(policy(mechanism=2), Signal.VOTES, 0.2, 3, 2), propensity=0.5),
        policy(mechanism=-1),
    ]
    return law_of(random_model(3, run_sd=run_sd, n_classes=4), rules)


@pytest.mark.parametrize("n", [SIZE - 1, SIZE, SIZE + 1, 40 * SIZE + 3])
def test_chunks_leave_no_seam(n: int) -> None:
    law = mixed_law()
    first = 2**32 - SIZE - 1
    plain = reference.run_law(law, n=n, seed=5, first=first)
    assert all_equal(jax_engine.run_law(law, n=n, seed=5, first=first), plain)


def test_one_program_for_each_shape() -> None:
    def programs() -> int:
        return int(jax_engine._simulated._cache_size())  # type: ignore[attr-defined] # of every jitted function

    # a shape that no other test has
    before = programs()
    for threshold, seed, first, n in ((0.0, 1, 0, 10), (0.7, 2, 2**40, SIZE + 1), (-np.inf, 2**50, 7, 3 * SIZE)):
        law = random_law(seed % 97, horizon=7, threshold=threshold)
        jax_engine.run_law(law, n=n, seed=seed, first=first)
    assert programs() == before + 1
    jax_engine.run_law(random_law(1, horizon=7, budget=3), n=10, seed=1)
    assert programs() == before + 2


def test_threads_and_the_width_of_numbers_change_nothing() -> None:
    law = mixed_law()
    plain = reference.run_law(law, n=500, seed=9)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: jax_engine.run_law(law, n=500, seed=9), range(6)))
    assert all(all_equal(runs, plain) for runs in found)
    before = jax.config.jax_enable_x64
    for wide in (False, True):
        with jax.enable_x64(wide):
            assert all_equal(jax_engine.run_law(law, n=500, seed=9), plain)
    assert jax.config.jax_enable_x64 == before


TWO_DEVICES = """
import jax, sys
sys.path.insert(0, sys.argv[1])
from engine.test_jax import SIZE, all_equal, jax_engine, mixed_law, reference
jax_engine.RUNS_PER_DEVICE = SIZE
assert len(jax.devices()) == 2
for run_sd in (0.0, 0.8):
    law = mixed_law(run_sd)
    assert all_equal(jax_engine.run_law(law, n=300, seed=5), reference.run_law(law, n=300, seed=5))
"""


def test_two_devices_give_the_same_runs() -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", TWO_DEVICES, str(Path(__file__).parents[1])]
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
