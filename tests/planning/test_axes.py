from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning.sweeps import MODEL

from drsim.errors import ParameterError
from drsim.planning.axes import Axes, Family, Timing
from drsim.planning.axes_text import FAMILIES, axes_of, parse_numbers, parse_wholes
from drsim.process.compile import compile_policy
from drsim.process.spec import Model
from drsim.process.stacks import stack_policies


def gates(family: str, horizon: int) -> list[tuple[int, int, int]]:
    timing = Timing(family=Family(family), horizon=horizon)
    found = timing.gates(np.arange(len(timing)))
    return list(zip(found.first_step.tolist(), found.last_step.tolist(), found.every.tolist(), strict=True))


def test_each_family_has_the_cells_that_it_says() -> None:
    early, late = [(0, k - 1, 1) for k in (1, 2, 3)], [(k, 3, 1) for k in (0, 1, 2, 3)]
    assert gates("early-vs-late", 4) == early + late
    assert gates("first-step", 4) == late
    assert gates("window", 4) == [(a, b, 1) for a in range(4) for b in range(a, 4)]
    # after every n steps: the first firing is in step n − 1
    assert gates("fixed-frequency", 4) == [(n - 1, 3, n) for n in (1, 2, 3, 4)]
    assert gates("delay", 4) == late
    delay = Timing(family=Family.DELAY, horizon=4)
    assert delay.gates(np.arange(4)).cooldown.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("horizon", [1, 2, 3, 17])
def test_sizes_agree_with_the_gates(family: str, horizon: int) -> None:
    found = gates(family, horizon)
    assert len(set(found)) == len(found)
    assert all(0 <= first <= last < horizon for first, last, _ in found)


@settings(deadline=None, max_examples=60)
@given(
    timing=st.sampled_from([None, *FAMILIES]),
    threshold=st.sampled_from([None, "0:1:0.25", "0.5"]),
    budget=st.sampled_from([None, "0:3", "7"]),
    cooldown=st.sampled_from([None, "0,2"]),
    mechanism=st.sampled_from([None, "append", "append,rollback"]),
    policy=st.sampled_from([None, "base", "tiring"]),
)
def test_the_table_is_what_each_policy_compiles_to(
    timing: str | None,
    threshold: str | None,
    budget: str | None,
    cooldown: str | None,
    mechanism: str | None,
    policy: str | None,
) -> None:
    if timing == "delay":
        cooldown = None
    axes = axes_of(
        MODEL,
        timing=timing,
        threshold=threshold,
        budget=budget,
        cooldown=cooldown,
        mechanism=mechanism,
        policy=policy,
    )
    cells = axes.cells(np.arange(len(axes)))
    table = axes.table(cells, MODEL)
    policies = {str(i): it for i, it in enumerate(axes.policies(cells))}
    assert len(policies) == len(axes) == np.prod(axes.shape)
    swept = replace(MODEL, policies=policies)
    twin = stack_policies([compile_policy(swept, name) for name in policies])
    for name in ("mechanism", "logit_threshold", "budget", "cooldown", "propensity"):
        np.testing.assert_array_equal(getattr(table, name), getattr(twin, name), err_msg=name)
    assert [str(it) for it in axes.compiled(cells, MODEL)] == [str(compile_policy(swept, name)) for name in policies]


def test_every_combination_is_there_once() -> None:
    axes = axes_of(
        MODEL, timing="window", threshold="0.2,0.8", budget="1:2", cooldown="0,3", mechanism="append,rollback"
    )
    cells = axes.cells(np.arange(len(axes)))
    columns = ("mechanism", "threshold", "first_step", "last_step", "budget", "cooldown")
    found = set(zip(*(getattr(cells, name).tolist() for name in columns), strict=True))
    assert len(found) == len(axes) == 2 * 21 * 2 * 2 * 2


def test_cells_come_in_any_order_and_none_outside() -> None:
    axes = axes_of(MODEL, timing="window", budget="1:3")
    index = np.array([60, 3, 17, 3])
    some, everything = axes.cells(index), axes.cells(np.arange(len(axes)))
    assert some.first_step.tolist() == everything.first_step[index].tolist()
    assert some.budget.tolist() == everything.budget[index].tolist()
    with pytest.raises(ParameterError, match="cells are numbered 0 to 125, got -1 to 3"):
        axes.cells(np.array([3, -1]))
    with pytest.raises(ParameterError, match="got 0 to 126"):
        axes.cells(np.array([0, 126]))


def test_a_large_product_is_only_a_number() -> None:
    model = replace(MODEL, horizon=1000, mechanisms={"m": replace(MODEL.mechanisms["rollback"])}, policies={})
    axes = axes_of(model, timing="window", threshold="0:1:0.00001", budget="1:500", cooldown="0:999")
    assert len(axes) == 500_500 * 100_001 * 500 * 1000
    last = axes.cells(np.array([len(axes) - 1]))
    assert (last.first_step[0], last.last_step[0], last.budget[0], last.cooldown[0]) == (999, 999, 500, 999)
    assert last.threshold[0] == 1.0


def test_what_is_not_swept_is_that_of_the_policy() -> None:
    alone = axes_of(MODEL)
    assert alone.timing.family is Family.EARLY_VS_LATE
    assert alone.mechanisms == ("rollback", "append")
    assert (alone.budgets, alone.cooldowns, alone.thresholds) == ((2,), (1,), None)
    given_gates = axes_of(MODEL, threshold="0.5,0.6", policy="base")
    cells = given_gates.cells(np.arange(2))
    assert given_gates.mechanisms == ("append",)
    assert (cells.first_step.tolist(), cells.last_step.tolist()) == ([1, 1], [5, 5])
    by_step = axes_of(MODEL, timing="first-step", policy="tiring")
    assert np.isnan(by_step.cells(np.arange(6)).threshold).all()
    plain = axes_of(replace(MODEL, policies={}), budget="1:2").cells(np.arange(1))
    assert (plain.threshold[0], plain.budget[0], plain.cooldown[0]) == (0.5, 1, 0)


def test_a_fixed_frequency_heeds_no_critic_unless_asked() -> None:
    axes = axes_of(MODEL, timing="fixed-frequency", mechanism="append")
    table = axes.table(axes.cells(np.array([1])), MODEL)
    assert table.logit_threshold[0].tolist() == [np.inf, -np.inf, np.inf, -np.inf, np.inf, -np.inf]
    assert table.budget[0] == 6
    critical = axes_of(MODEL, timing="fixed-frequency", threshold="0.5", budget="2")
    assert critical.cells(np.array([0])).threshold[0] == 0.5
    assert critical.budgets == (2,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.3:0.95:0.05", [round(0.3 + 0.05 * i, 2) for i in range(14)]),
        ("0:1:0.1", [i / 10 for i in range(11)]),
        ("1:5", [1, 2, 3, 4, 5]),
        ("0.5", [0.5]),
        ("0.5, 0.7,0.9:0.95:0.05", [0.5, 0.7, 0.9, 0.95]),
        ("0:0.94:0.5", [0, 0.5]),
    ],
)
def test_ranges_hold_both_ends_where_a_step_lands_on_them(text: str, expected: list[float]) -> None:
    assert list(parse_numbers(text, "threshold")) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--budget must be numbers or ranges from:to:step, separated by commas, got ''"),
        ("1:2:3:4", "got '1:2:3:4'"),
        ("a:b", "got 'a:b'"),
        ("1,,2", "got ''"),
        ("nan", "got 'nan'"),
        ("1:inf", "got '1:inf'"),
        ("5:1", "--budget must rise from its first number to its second by a positive step, got '5:1'"),
        ("1:5:0", "by a positive step, got '1:5:0'"),
        ("1:5:-1", "by a positive step, got '1:5:-1'"),
        ("0:1:1e-9", "--budget must have at most 1,000,000 values, got '0:1:1e-9'; give a larger step"),
        ("0:1:0.5", "--budget must be whole numbers, got 0.5"),
    ],
)
def test_what_is_no_range_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_wholes(text, "budget")
    assert message in str(caught.value)


@settings(deadline=None)
@given(st.text(alphabet="0123456789.:,-e+ ainf", max_size=20))
def test_any_text_is_a_range_or_a_parameter_error(text: str) -> None:
    try:
        values = parse_wholes(text, "budget")
    except ParameterError:
        return
    assert values


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"timing": "early-v-late"}, "--timing must be one of early-vs-late, .*did you mean 'early-vs-late'"),
        ({"timing": "as-given"}, "--timing must be one of"),
        ({"threshold": "0.5,1.5"}, r"threshold must lie in \[0, 1\], got 1.5; give a probability and not per cent"),
        ({"threshold": "0.5,0.5"}, "thresholds must differ from each other, got 0.5 twice"),
        ({"budget": "-1,2"}, "budget and cooldown must be at least 0, got -1"),
        ({"cooldown": "-2"}, "budget and cooldown must be at least 0, got -2"),
        ({"mechanism": "rolback"}, "--mechanism must be one of the model's, got 'rolback'; did you mean 'rollback'"),
        ({"mechanism": "append,append"}, "mechanisms must differ from each other, got append twice"),
        ({"policy": "xyz"}, "--policy must be one of the model's, got 'xyz'; there are base, tiring, believer"),
        ({"timing": "delay", "cooldown": "0:2"}, "--cooldown cannot be given with --timing delay, which sets it"),
    ],
)
def test_bad_axes_are_refused_with_the_remedy(axes: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        axes_of(MODEL, **axes)


def test_a_model_without_mechanism_cannot_be_swept() -> None:
    with pytest.raises(ParameterError, match="model small has no mechanism to sweep"):
        axes_of(replace(MODEL, mechanisms={}, policies={}))


def test_empty_axes_are_refused() -> None:
    base = next(iter(MODEL.policies.values()))
    timing = Timing(family=Family.DELAY, horizon=6)
    with pytest.raises(ParameterError, match="budgets must hold at least one value"):
        Axes(base=base, timing=timing, mechanisms=("append",), thresholds=None, budgets=(), cooldowns=(0,))
    with pytest.raises(ParameterError, match="cooldown cannot be swept with delay"):
        Axes(base=base, timing=timing, mechanisms=("append",), thresholds=None, budgets=(1,), cooldowns=(0, 1))


def test_axes_say_what_they_are() -> None:
    model: Model = MODEL
    assert axes_of(model, timing="delay", budget="1:2", mechanism="append").to_dict() == {
        "timing": "delay",
        "mechanism": ["append"],
        "threshold": None,
        "budget": [1, 2],
        "cooldown": None,
    }
