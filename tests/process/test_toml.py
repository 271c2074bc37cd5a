import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process.chains import REFERENCE, models

from drsim.errors import DataError, DrsimError
from drsim.process.shipped import find_model
from drsim.process.spec import Agent, Cost, Critic, Decay, Mechanism, Mode, Model, Policy
from drsim.process.toml import format_model, parse_model, read_model

EXAMPLE = (Path(__file__).parents[2] / "models" / "example.toml").read_text(encoding="utf-8")
names = st.text(min_size=1).filter(lambda it: bool(it.strip()))


def mistakes_in(text: str) -> dict[str, str]:
    with pytest.raises(DataError) as caught:
        parse_model(text, source="model.toml")
    assert all(it.source == "model.toml" for it in caught.value.mistakes)
    return {it.field: it.rule + (f", got {it.value}" if it.value else "") for it in caught.value.mistakes}


def changed(*pairs: tuple[str, str]) -> str:
    text = EXAMPLE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_the_example_means_what_it_says() -> None:
    assert parse_model(EXAMPLE, source="example") == Model(
        name="example",
        source="made up for the documentation: no agent, no benchmark; round numbers of a plausible size",
        horizon=15,
        agent=Agent(finish=0.18, modes={"off": Mode(slip=0.05, abandon=0.1, self_recover=0.03)}, start_off=0.0),
        critic=Critic(mean_on=-1.2, mean_off={"off": 1.2}, sigma=1.0, run_sd=0.0, temperature=1.0),
        mechanisms={
            "rollback": Mechanism(recover={"off": 0.25}, disrupt=Decay(start=0.6, end=0.05, half_life=3), extra_steps=1)
        },
        policies={
            "late": Policy(mechanism="rollback", threshold=0.6, first_step=4, last_step=14, budget=3, cooldown=0)
        },
        cost=Cost(
            tokens_per_step=900,
            tokens_per_step_growth=120,
            critic_tokens=200,
            usd_per_million_tokens=1.0,
            seconds_per_step=4.0,
        ),
    )


def test_the_least_that_a_file_may_hold() -> None:
    text = """
        model = { name = "least", source = "none", horizon = 3 }
        critic = { auroc = 0.8 }
        [agent]
        finish = [0, 0.5, 1]
        modes.off = { slip = 0, abandon = { from = 1, to = 0, half_life = 2 }, self_recover = 0 }
    """
    model = parse_model(text, source="least")
    assert model.cost == Cost() == Cost(tokens_per_step=1.0)
    assert (model.mechanisms, model.policies) == ({}, {})
    assert model.agent.finish == (0, 0.5, 1)


@settings(deadline=None, max_examples=100)
@given(models(), names, names, names, st.floats(0, 1))
def test_round_trip(model: Model, title: str, name: str, source: str, finish: float) -> None:
    renamed = replace(
        model,
        name=title,
        source=source,
        agent=replace(model.agent, finish=finish),
        mechanisms={name: model.mechanisms["m"], "twin": model.mechanisms["m"]},
        policies={name: replace(model.policies["p"], mechanism=name)},
    )
    assert parse_model(format_model(renamed), source="written") == renamed


def test_round_trip_of_tasks_that_differ() -> None:
    # a text without the spreads would read back as a model whose tasks are alike
    model = replace(REFERENCE, agent=replace(REFERENCE.agent, finish_task_sd=0.7, slip_task_sd=0.4))
    assert parse_model(format_model(model), source="written") == model


def test_round_trip_of_the_reference_and_of_an_auroc() -> None:
    for model in (REFERENCE, replace(REFERENCE, critic=Critic(auroc=0.9, run_sd=1e-7))):
        assert parse_model(format_model(model), source="written") == model


def test_every_mistake_is_found_at_once() -> None:
    found = mistakes_in(
        changed(
            ("horizon = 15", "horizon = 15\nhorizn = 3"),
            ("finish = 0.18", "finish = [0.1, 1.5]"),
            ("slip = 0.05", "slip = 5"),
            ("mean_off = { off = 1.2 }", "mean_off = { of = 1.2 }"),
            ("temperature = 1.0", "temperature = 0"),
            ("to = 0.05", "too = 0.05"),
            ("extra_steps = 1", "extra_steps = 1.5"),
            ("first_step = 4", "first_step = 5"),
            ("last_step = 14", "last_step = 4"),
            ("[cost]", "[costs]"),
        )
    )
    assert found == {
        "costs": "unknown field; did you mean 'cost'? Known are model, agent, critic, mechanisms, policies, cost",
        "model.horizn": "unknown field; did you mean 'horizon'? Known are name, source, horizon",
        "agent.finish": "must lie in [0, 1], a probability and not per cent, got 1.5 at step 1",
        "agent.modes.off.slip": "must lie in [0, 1], a probability and not per cent, got 5",
        "critic.temperature": "must lie in [1e-06, 1e+06], got 0",
        "mechanisms.rollback.disrupt.too": "unknown field; did you mean 'to'? Known are from, to, half_life",
        "mechanisms.rollback.disrupt.to": "is required, but missing",
        "policies.late.last_step": "must not come before first_step (5), got 4",
    }


@pytest.mark.parametrize(
    ("old", "new", "field", "rule"),
    [
        ("extra_steps = 1", "extra_steps = 1.5", "mechanisms.rollback.extra_steps", "must be a whole number from 0"),
        (
            "finish = 0.18",
            "finish = [0.1, 0.2]",
            "agent.finish",
            "must have one number per step, 15 for this horizon, ",
        ),
        (
            "finish = 0.18",
            "finish = true",
            "agent.finish",
            "must be a number in [0, 1], a list of one number per step,",
        ),
        ("finish = 0.18", "finish = nan", "agent.finish", "must be a number in [0, 1], a list"),
        ("mean_off = { off = 1.2 }", "mean_off = {}", "critic.mean_off.off", "is required for every mode, but missing"),
        (
            "mean_off = { off = 1.2 }",
            "mean_off = { off = 1.2, of = 1 }",
            "critic.mean_off.of",
            "names an unknown mode; ",
        ),
        ("mean_off = { off = 1.2 }", "mean_off = 1.2", "critic.mean_off", "must be a table with one value per mode"),
        ("mean_on = -1.2", "auroc = 0.8", "critic.mean_off", "must be left out where auroc is given, which fixes it"),
        ("mean_on = -1.2", "", "critic.mean_on and mean_off", "must be given, both of them, where auroc is not"),
        ("recover = { off = 0.25 }", "recover = 0.25", "mechanisms.rollback.recover", "must be a table with one value"),
        ("half_life = 3 }", "half_life = 0 }", "mechanisms.rollback.disrupt.half_life", "must lie in [1e-06, 1e+06]"),
        (
            "from = 0.6",
            "from = 60",
            "mechanisms.rollback.disrupt.from",
            "must lie in [0, 1], a probability and not per",
        ),
        ('mechanism = "rollback"', 'mechanism = "rolback"', "policies.late.mechanism.rolback", "names an unknown mech"),
        ("last_step = 14", "last_step = 15", "policies.late.last_step", "must be a whole number from 0 to 14, a step"),
        ("start_off = 0.0", "start_off = { on = 0.1 }", "agent.start_off.on", "names an unknown mode; "),
        ("start_off = 0.0", "start_off = 1.1", "agent.start_off", "must lie in [0, 1], a probability and not per cent"),
        ("horizon = 15", "horizon = 0", "model.horizon", "must be a whole number from 1 to 10000, got 0"),
        ("[cost]", "[cost]\nusd = 1", "cost.usd", "unknown field; "),
        ("tokens_per_step = 900", "tokens_per_step = -1", "cost.tokens_per_step", "must lie in [0, 1e+15], got -1"),
    ],
)
def test_each_rule_names_its_field(old: str, new: str, field: str, rule: str) -> None:
    found = mistakes_in(changed((old, new)))
    assert list(found) == [field] or field.startswith("critic")
    assert found[field].startswith(rule)


def test_sums_over_modes_name_the_step() -> None:
    second = (
        "[agent.modes.loop]\nslip = { from = 0.5, to = 0.99, half_life = 1 }\nabandon = 0\nself_recover = 0\n[critic]"
    )
    found = mistakes_in(
        changed(
            ("[critic]", second),
            ("off = 1.2", "off = 1.2, loop = 0"),
            ("off = 0.25", "off = 0.25, loop = 0"),
            ("start_off = 0.0", "start_off = { off = 0.6, loop = 0.5 }"),
        )
    )
    assert found == {"agent.start_off": "must have shares that sum to at most 1, got a sum of 1.1"}
    found = mistakes_in(changed(("[critic]", second), ("off = 1.2", "off = 1.2, loop = 0")))
    assert found["agent.modes.{off,loop}.slip"] == (
        "must sum to at most 1 over the modes at every step, got a sum of 1.0093750 at step 4".replace("0 at", " at")
    )
    assert found["mechanisms.rollback.recover.loop"] == "is required for every mode, but missing"


def test_missing_tables_and_other_types() -> None:
    assert mistakes_in("") == {
        "model": "is required, but missing; add the table",
        "agent": "is required, but missing; add the table",
        "critic": "is required, but missing; add the table",
    }
    assert mistakes_in("[model]\n[critic]\n[agent]\nmodes = []") == {
        **dict.fromkeys(["model.name", "model.source", "model.horizon"], "is required, but missing"),
        "agent.modes": "must be a table, got a list of 0",
        "agent.finish": "is required, but missing",
        "critic.mean_on and mean_off": "must be given, both of them, where auroc is not",
    }
    assert mistakes_in("agent = 3\ncritic = 0.8\npolicies = [1]\n[model]\nhorizon = '15'\nname = 'x'\nsource = ''") == {
        "agent": "must be a table, got 3",
        "critic": "must be a table, got 0.8",
        "policies": "must be a table, got a list of 1",
        "model.horizon": "must be a whole number from 1 to 10000, got '15'",
        "model.source": "must be text, and not empty, got ''",
    }


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    with pytest.raises(DataError, match=r"model\.toml cannot be read: No such file"):
        read_model(path)
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(DataError, match=r"model\.toml must be UTF-8 text; byte 0xff at 8 is not"):
        read_model(path)
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(DataError, match=r"model\.toml is larger than 1 MiB; a model file is short"):
        read_model(path)
    path.write_text("[model")
    with pytest.raises(DataError, match=re.escape("must be TOML; expected ']'")):
        read_model(path)
    for text in ("a = " + "[" * 100_000, "a = " + "9" * 5000):
        with pytest.raises(DataError, match="must be TOML"):
            parse_model(text, source="model.toml")
    path.write_text(EXAMPLE)
    assert read_model(path).name == "example"


literals = st.one_of(
    st.sampled_from(["nan", "-inf", "true", "''", "{}", "[]", "[[]]", "1979-05-27", "-1", "2", "1e400", "9" * 400]),
    st.sampled_from(["{ off = 1 }", "{ '' = 1 }", "[1, 'a']", "{ from = 1 }", "{ off = { off = 0 } }", "'rollback'"]),
    st.floats().map(lambda it: repr(it).replace("inf", "0.5")),
)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_value_anywhere_ends_in_a_model_or_an_error_of_ours(data: st.DataObject) -> None:
    lines = [line.split("#")[0].strip() for line in EXAMPLE.splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, len(lines) - 1))
        if "=" in lines[i]:
            lines[i] = f"{lines[i].split('=')[0]} = {data.draw(literals)}"
        else:
            lines[i] = data.draw(st.sampled_from(["", "[agent]", "x = 1", "[agent.modes.'']", "critic = 3", "[x.y]"]))
    try:
        model = parse_model("\n".join(lines), source="any")
    except DrsimError:
        return
    assert parse_model(format_model(model), source="written") == model


@settings(deadline=None)
@given(st.text())
def test_any_text_ends_in_an_error_of_ours(text: str) -> None:
    with pytest.raises(DataError):
        parse_model(text, source="any")


def test_tasks_that_differ_are_written() -> None:
    """A text that left them out would read back as a model whose tasks are alike."""
    model = find_model("signals")
    assert model.agent.finish_task_sd > 0.0
    assert parse_model(format_model(model), source="written") == model
