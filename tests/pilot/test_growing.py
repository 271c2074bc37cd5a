import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drsim.errors import DataError, DrsimError
from drsim.pilot.growing import Position, read_further
from drsim.planning.monitoring import Settings, read_state
from drsim.planning.preregistration import read_plan

LINE = json.dumps({"task_id": "t", "arm": "baseline", "outcome": "fail"}).encode()


def test_reading_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(LINE + b"\n\n" + LINE[:20])
    runs, position = read_further(str(path), Position())
    assert (len(runs), position.n_lines, position.n_bytes) == (1, 2, len(LINE) + 2)
    path.write_bytes(LINE + b"\n\n" + LINE + b"\n" + LINE)
    runs, position = read_further(str(path), position)
    assert len(runs) == 2
    assert read_further(str(path), position) == ([], position)


def test_mistakes_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(LINE + b"\n")
    _, position = read_further(str(path), Position())
    path.write_bytes(LINE + b"\n" + LINE + b'\n{"task_id": 3, "arm": "a", "outcome": "fail"}\n{"a": 1, "a": 2}\n')
    with pytest.raises(DataError) as error:
        read_further(str(path), position)
    assert {mistake.line for mistake in error.value.mistakes} == {3, 4}


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.one_of(
        st.binary(max_size=200),
        st.lists(st.sampled_from([LINE, b"{}", b"\n", b"[1", b'{"a":1,"a":2}\n'])).map(b"".join),
    )
)
def test_any_bytes_give_runs_or_an_error_that_says_why(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "any"
    path.write_bytes(text)
    try:
        _, position = read_further(str(path), Position())
    except DrsimError:
        pass
    else:
        assert position.n_bytes <= len(text)
    for read in (
        lambda: read_state(text, "any", Settings()),
        lambda: read_plan(text.decode(errors="replace"), "any"),
    ):
        with pytest.raises(DrsimError):
            read()


def test_deep_nesting_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "deep"
    path.write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(DataError):
        read_further(str(path), Position())
    with pytest.raises(DataError):
        read_plan("x = " + "[" * 100_000, "deep")
    with pytest.raises(DataError):
        read_plan("x = " + "9" * 10_000, "long")
