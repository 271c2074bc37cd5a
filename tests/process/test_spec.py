from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from process.chains import REFERENCE

from drsim.errors import ParameterError
from drsim.process.spec import Agent, Critic, Decay, Mechanism, Mode, Policy
from drsim.process.steps import step_values

OFF = {"off": Mode(slip=0.1, abandon=0.1, self_recover=0.1)}


@pytest.mark.parametrize(
    ("part", "wrong", "message"),
    [
        (
            Mode,
            {"slip": 12, "abandon": 0, "self_recover": 0},
            "slip must lie in [0, 1], a probability and not per cent, ",
        ),
        (
            Mode,
            {"slip": 0, "abandon": (0, -1), "self_recover": 0},
            "abandon must lie in [0, 1], a probability and not ",
        ),
        (
            Agent,
            {"finish": float("nan"), "modes": OFF},
            "finish must be a number in [0, 1], a list of one number per s",
        ),
        (Agent, {"finish": 0.1, "modes": OFF, "start_off": {"off": 2}}, "start_off.off must lie in [0, 1]"),
        (Critic, {"auroc": 0.4}, "auroc must lie in [0.5, 1], below one half its scores are reversed, got 0.4"),
        (
            Critic,
            {"auroc": 1.0},
            "auroc must lie in [0.5, 1], for a perfect critic give mean_on and mean_off far apart",
        ),
        (Critic, {}, "mean_on and mean_off must be given, both of them, where auroc is not"),
        (
            Mechanism,
            {"recover": {"off": 0.1}, "disrupt": 0, "to": {"off": 0}},
            "to must give some mode a positive weig",
        ),
        (Policy, {"mechanism": "", "threshold": 0.5, "budget": 1}, "mechanism must be text, and not empty, got ''"),
        (Policy, {"mechanism": "m", "threshold": 0.5, "budget": True}, "budget must be a whole number from 0 to "),
        (Decay, {"start": 0, "end": 1, "half_life": 0}, "half_life must lie in [1e-06, 1e+06], got 0"),
    ],
)
def test_parts_refuse_what_is_wrong(part: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        part(**wrong)
    assert str(caught.value).startswith(message)


def test_all_flaws_of_a_part_are_told_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        Mode(slip=2, abandon=-1, self_recover=(0.1, 7))
    lines = str(caught.value).splitlines()
    assert [line.split()[0] for line in lines] == ["slip", "abandon", "self_recover"]
    assert lines[-1].endswith("got 7 at step 1")


def test_a_model_checks_what_its_parts_have_in_common() -> None:
    with pytest.raises(ParameterError, match=r"agent\.finish must have one number per step, 9 for this horizon"):
        replace(REFERENCE, horizon=9)
    with pytest.raises(ParameterError, match="must hold at least one off-track mode"):
        replace(REFERENCE, agent=Agent(finish=0.1, modes={}))
    with pytest.raises(ParameterError, match=r"policies\.late\.mechanism names a mechanism, but the model has none"):
        replace(REFERENCE, mechanisms={})
    with pytest.raises(ParameterError, match=r"model\.name must be text, and not empty"):
        replace(REFERENCE, name=" ")
    tenths = {f"m{k}": Mode(slip=0.1, abandon=0.1, self_recover=0.1) for k in range(10)}
    means = Critic(mean_on=0, mean_off=dict.fromkeys(tenths, 1.0))
    replace(REFERENCE, agent=Agent(finish=0.1, modes=tenths), critic=means, mechanisms={}, policies={})


def test_step_values() -> None:
    decay = step_values(Decay(start=0.6, end=0.1, half_life=2), 5)
    np.testing.assert_allclose(decay, [0.6, 0.1 + 0.5 / np.sqrt(2), 0.35, 0.1 + 0.25 / np.sqrt(2), 0.225])
    np.testing.assert_array_equal(step_values(0.2, 3), [0.2] * 3)
    np.testing.assert_array_equal(step_values((0, 1, 0.5), 3), [0, 1, 0.5])
    assert step_values(Decay(start=1, end=0, half_life=1e-6), 10_000)[-1] == 0.0
