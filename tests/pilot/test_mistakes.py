"""Each kind of bad run with its exact message."""

import math
from pathlib import Path

import pytest

from drsim.errors import DataError
from drsim.pilot.mistakes import Unreadable, gives_a_key_twice, mistakes_in_json, mistakes_of, show
from drsim.pilot.reading import read
from drsim.pilot.records import CountsRow, MarginalsRow, Run

SOUND = '{"task_id":"a","arm":"b","outcome":"fail"'

ONE_MISTAKE = {
    # field by field of the run record, on a run that is sound but for the end given here
    ',"task_id2":1}': "task_id2: unknown field; did you mean 'task_id'? Put anything else under `labels`",
    ',"xyzzy":[1]}': "xyzzy: unknown field; put anything else under `labels`",
    ',"agent":""}': "agent: must not be empty, got ''",
    ',"agent":null}': "agent: must be text, got null",
    ',"benchmark":7}': "benchmark: must be text, got 7",
    ',"trial":-1}': "trial: must be an integer ≥ 0, got -1",
    ',"trial":3.0}': "trial: must be an integer ≥ 0, got 3.0",
    ',"trial":true}': "trial: must be an integer ≥ 0, got true",
    ',"trial":"1"}': "trial: must be an integer ≥ 0, got '1'",
    ',"trial":2147483648}': "trial: must be an integer ≤ 2147483647, got 2147483648",
    ',"trial":1' + "0" * 60 + "}": "trial: must be an integer ≤ 2147483647, got an integer of 61 digits",
    ',"trial":' + "9" * 5000 + "}": "trial: must be an integer ≥ 0, got " + "9" * 39 + "…",
    ',"run_id":""}': "run_id: must not be empty, got ''",
    ',"run_id":"\\ud800"}': "run_id: must be valid Unicode, without lone surrogates, got '\\ud800'",
    ',"forked_from":"r"}': "forked_from: must be an object, got 'r'",
    ',"forked_from":{"run_id":"r"}}': "forked_from.t: is required, but missing",
    ',"forked_from":{"run_id":"r","t":-1}}': "forked_from.t: must be an integer ≥ 0, got -1",
    ',"n_steps":1.5}': "n_steps: must be an integer ≥ 0, got 1.5",
    ',"steps":{}}': "steps: must be a list, got an object of 0",
    ',"steps":[3]}': "steps[0]: must be an object, got 3",
    ',"steps":[{"score":0.5}]}': "steps[0].t: is required, but missing",
    ',"steps":[{"t":0},{"t":1,"scroe":0}]}': (
        "steps[1].scroe: unknown field; did you mean 'score'? Put anything else under `labels`"
    ),
    ',"steps":[{"t":0,"score":-0.5}]}': "steps[0].score: must lie in [0, 1], got -0.5",
    ',"steps":[{"t":0,"score":12}]}': "steps[0].score: must lie in [0, 1], a probability and not per cent, got 12",
    ',"steps":[{"t":0,"score":"0.5"}]}': "steps[0].score: must be a number in [0, 1], got '0.5'",
    ',"steps":[{"t":0,"score":NaN}]}': "steps[0].score: must be a number in [0, 1], got NaN",
    ',"steps":[{"t":0,"error":0}]}': "steps[0].error: must be true, false or null, got 0",
    ',"steps":[{"t":0,"kind":3}]}': "steps[0].kind: must be text, got 3",
    ',"steps":[{"t":0,"tokens":-1}]}': "steps[0].tokens: must be a finite number ≥ 0, got -1",
    ',"steps":[{"t":0,"reward":1e999}]}': "steps[0].reward: must be a finite number, got 1e999",
    ',"steps":[{"t":0,"reward":-Infinity}]}': "steps[0].reward: must be a finite number, got -Infinity",
    ',"steps":[{"t":1},{"t":1}]}': "steps: must have increasing t, got 1 after 1",
    ',"n_steps":2,"steps":[{"t":5}]}': "steps: end at t = 5, but `n_steps` is 2; t counts from 0",
    ',"interventions":[{"t":1}]}': "interventions[0].mechanism: is required, but missing",
    ',"interventions":[{"t":1,"mechanism":"m","acted":1}]}': "interventions[0].acted: must be true or false, got 1",
    ',"interventions":[{"t":1,"mechanism":"m","propensity":0}]}': (
        "interventions[0].propensity: must lie in (0, 1], got 0"
    ),
    ',"cost":[]}': "cost: must be an object, got a list of 0",
    ',"cost":{"usd":-0.1}}': "cost.usd: must be a finite number ≥ 0, got -0.1",
    ',"cost":{"eur":1}}': "cost.eur: unknown field; put anything else under `labels`",
    ',"labels":{"a":null}}': "labels.a: must be text, a finite number, true or false, got null",
    ',"labels":{"a":[1]}}': "labels.a: must be text, a finite number, true or false, got a list of 1",
    ',"labels":{"\\udc00":1}}': "labels.'\\udc00': the name must be valid Unicode, without lone surrogates",
    ',"success":true}': "success: contradicts `outcome` 'fail'; give one of them",
    ',"success":"yes"}': "success: must be true, false or null, got 'yes'",
    ',"arm":"c"}': "arm: is given twice in one object; keep one",
    # the line as a whole
    '} {"task_id":"a"}': "must hold one JSON object; extra data at column 44",
    ',"run_id":"x}': "must hold one JSON object; unterminated string starting at column 52",
    ',"labels":' + "[" * 100_000 + "}": "must hold one JSON object; this one is nested too deeply",
}


def messages(text: str, record: type = Run) -> list[str]:
    found = mistakes_in_json(text.encode(), record, source="p", line=7)
    assert all(mistake.source == "p" and mistake.line == 7 for mistake in found)
    return [str(mistake).removeprefix("p:7: ") for mistake in found]


@pytest.mark.parametrize(("end", "message"), ONE_MISTAKE.items(), ids=lambda value: value[:40])
def test_each_kind_of_mistake_has_its_message(end: str, message: str, tmp_path: Path) -> None:
    assert messages(SOUND + end) == [message]
    path = tmp_path / "p.jsonl"
    path.write_text(f"\n{SOUND}}}\n{SOUND}{end}\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read([str(path)])
    assert f"{path}:3: {message}" in str(caught.value)


def test_sound_run_has_no_mistakes() -> None:
    assert messages(SOUND + "}") == []


def test_all_mistakes_of_a_record_come_at_once() -> None:
    text = '{"arm":"","steps":[{"t":1,"score":5},{"t":0,"score":-1}],"trial":-1,"trial":-2,"foo":0}'
    assert messages(text) == [
        "trial: is given twice in one object; keep one",
        "foo: unknown field; put anything else under `labels`",
        "task_id: is required, but missing",
        "arm: must not be empty, got ''",
        "trial: must be an integer ≥ 0, got -2",
        "steps[0].score: must lie in [0, 1], a probability and not per cent, got 5",
        "steps[1].score: must lie in [0, 1], got -1",
        "outcome: is missing, and so is `success`; give success, fail, infra, capped or unjudged",
    ]


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ('"outcome":"failed"}', "outcome: must be one of success, fail, infra, capped, unjudged, got 'failed'"),
        ('"outcome":null}', "outcome: must be one of success, fail, infra, capped, unjudged, got null"),
        ('"success":"q"}', "success: must be true, false or null, got 'q'"),
        (
            '"outcome":"won","success":true}',
            "outcome: must be one of success, fail, infra, capped, unjudged, got 'won'",
        ),
        (
            '"outcome":"fail","interventions":[{"t":0,"mechanism":"m"}]}',
            "interventions: must have acted=false in a run of `arm` baseline; name another arm",
        ),
    ],
)
def test_a_wrong_field_is_blamed_once(end: str, message: str) -> None:
    # A rule between fields must not be reported beside the field that breaks it.
    assert messages('{"task_id":"a","arm":"baseline",' + end) == [message]


@pytest.mark.parametrize(
    ("text", "record", "expected"),
    [
        (
            '{"arm":"baseline","A":1,"B":1,"C":1,"D":1}',
            CountsRow,
            ["arm: of a counts row is the intervened arm, not baseline"],
        ),
        (
            '{"arm":"a","A":0,"B":0,"C":0,"D":0}',
            CountsRow,
            ["`A`, `B`, `C`, `D` are all 0; a row needs at least one pair"],
        ),
        (
            '{"arm":"a","A":1,"B":0,"C":0,"D":0,"tasks":2}',
            CountsRow,
            ["tasks: must not exceed the 1 pairs `A` + `B` + `C` + `D`"],
        ),
        ('{"arm":"a","A":-1,"B":0,"C":0,"D":0,"tasks":2}', CountsRow, ["A: must be an integer ≥ 0, got -1"]),
        (
            '{"arm":"a","A":1,"B":0,"C":0,"D":0,"n":2}',
            CountsRow,
            ["n: unknown field; known are arm, A, B, C, D, agent, benchmark, tasks"],
        ),
        ('{"arm":"a","successes":3,"n":2}', MarginalsRow, ["successes: must not exceed `n` = 2"]),
        ('{"arm":"a","successes":3,"n":0}', MarginalsRow, ["n: must be an integer ≥ 1, got 0"]),
        ('{"arm":"a","successes":3}', MarginalsRow, ["n: is required, but missing"]),
    ],
)
def test_short_forms(text: str, record: type, expected: list[str]) -> None:
    assert messages(text, record) == expected


def test_text_that_is_not_utf8() -> None:
    (mistake,) = mistakes_in_json(SOUND.encode() + b',"run_id":"\xff"}', Run, source="p", line=1)
    assert str(mistake) == "p:1: must be UTF-8 text; save the file as UTF-8, got byte 0xff at column 53"


def test_values_that_only_a_table_can_hold() -> None:
    raw = {"task_id": b"a", "arm": "b", "outcome": "fail", "cost": {"usd": math.nan, "tokens": Unreadable("inf")}}
    assert [str(mistake) for mistake in mistakes_of(raw, Run, source="p", line=None)] == [
        "p: task_id: must be text, got b'a'",
        "p: cost.tokens: must be a finite number ≥ 0, got inf",
        "p: cost.usd: must be a finite number ≥ 0, got nan",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (0.25, "0.25"),
        ("x" * 100, "'" + "x" * 38 + "…"),
        ("a\nb\x1b[0m", r"'a\nb\x1b[0m'"),
        ("\ud800", r"'\ud800'"),
        ([1, [2]], "a list of 2"),
        ({"a": 1}, "an object of 1"),
        (10**5000, "an integer of 5001 digits"),
        (Unreadable("\x07" + "9" * 60), "?" + "9" * 38 + "…"),
    ],
    ids=lambda value: show(value),  # pytest cannot write an integer of 5001 digits
)
def test_shown_values_are_short_and_printable(value: object, shown: str) -> None:
    assert show(value) == shown
    assert shown.isprintable()
    assert len(shown) <= 40


def test_keys_given_twice_are_found_at_any_depth() -> None:
    assert gives_a_key_twice(b'{"a":[{"b":1,"b":2}]}')
    assert not gives_a_key_twice(b'{"a":[{"b":1},{"b":2}],"b":' + b"9" * 5000 + b"}")
