"""CSV and Parquet."""

import io
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drsim.errors import DataError
from drsim.pilot.evidence import Counts, Pilot
from drsim.pilot.reading import read
from drsim.pilot.records import Cost, Fork, Intervention, Outcome, Run, Step


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Messages name files as they were given, so tests give bare names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pilot_of(content: str | bytes, **limits: int) -> Pilot:
    Path("p").write_bytes(content.encode() if isinstance(content, str) else content)
    pilot = read(["p"], **limits)
    assert isinstance(pilot, Pilot)
    return pilot


def failure(content: str | bytes, **limits: int) -> list[str]:
    with pytest.raises(DataError) as caught:
        pilot_of(content, **limits)
    first, *rest = str(caught.value).splitlines()
    return [text.strip() for text in rest] if "nothing was computed" in first else [first]


def parquet(rows: list[dict[str, object]], schema: pa.Schema | None = None) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
    return file.getvalue()


def test_csv_cells_become_what_their_column_holds() -> None:
    header = "task_id,arm,outcome,agent,benchmark,trial,run_id,n_steps,cost.tokens,cost.usd"
    header += ",forked_from.run_id,forked_from.t,labels.size,labels.id,labels.hard,labels.ratio,labels.word"
    run = pilot_of(f"{header}\n1,b,fail,g,m,3,7,+4, 5 ,.5e1,q,0,3,007,True,0.5,nan\n").runs[0]
    assert run == Run(
        task_id="1",
        arm="b",
        outcome=Outcome.FAIL,
        agent="g",
        benchmark="m",
        trial=3,
        run_id="7",
        n_steps=4,
        cost=Cost(tokens=5, usd=5),
        forked_from=Fork(run_id="q", t=0),
        labels={"size": 3, "id": "007", "hard": True, "ratio": 0.5, "word": "nan"},
    )


@pytest.mark.parametrize(
    ("cell", "outcome"),
    [("True", "success"), ("true", "success"), ("1", "success"), ("FALSE", "fail"), ("0", "fail")],
)
def test_csv_success(cell: str, outcome: str) -> None:
    assert pilot_of(f"task_id,arm,success\na,b,{cell}").runs[0].outcome == outcome


def test_empty_cells_are_missing() -> None:
    pilot = pilot_of("task_id,arm,outcome,trial,n_steps,cost.usd,labels.x\na,b,fail,,,,\n")
    assert pilot.runs == [Run(task_id="a", arm="b", outcome=Outcome.FAIL)]


def test_csv_lines_keep_their_numbers() -> None:
    text = '\ufefftask_id,arm,outcome\r\n"a\nb",x,fail\r\n\r\n"c ""d"", e",x,success\r\ne\u2028f,x,fail'
    pilot = pilot_of(text)
    assert [run.task_id for run in pilot.runs] == ["a\nb", 'c "d", e', "e\u2028f"]
    assert pilot.line_of.tolist() == [2, 5, 6]


@pytest.mark.parametrize(
    ("row", "messages"),
    [
        ("a,b,fail,3.0,", ["p:2: trial: must be an integer ≥ 0, got '3.0'"]),
        ("a,b,fail,1_0,", ["p:2: trial: must be an integer ≥ 0, got '1_0'"]),
        ("a,b,fail,-1,", ["p:2: trial: must be an integer ≥ 0, got -1"]),
        ("a,b,fail,,nan", ["p:2: cost.usd: must be a finite number ≥ 0, got 'nan'"]),
        ("a,b,fail,,inf", ["p:2: cost.usd: must be a finite number ≥ 0, got 'inf'"]),
        ("a,b,fail,,1e999", ["p:2: cost.usd: must be a finite number ≥ 0, got '1e999'"]),
        ("a,b,fail,,-2", ["p:2: cost.usd: must be a finite number ≥ 0, got -2.0"]),
        (
            ",b,Fail,x,",
            [
                "p:2: task_id: is required, but missing",
                "p:2: outcome: must be one of success, fail, infra, capped, unjudged, got 'Fail'",
                "p:2: trial: must be an integer ≥ 0, got 'x'",
            ],
        ),
        ("a,b", ["p:2: must have 5 cells, as the header has, got 2"]),
        ("a,b,fail,1,2,3", ["p:2: must have 5 cells, as the header has, got 6"]),
        (
            '"a"x,b,fail,1,2',
            ["p:2: is not CSV: ',' expected after '\"'; within a quoted cell, write a quote twice"],
        ),
        ('"a,b,fail,1,2', ["p:2: is not CSV: unexpected end of data; within a quoted cell, write a quote twice"]),
        (
            "a,b,,1,2",
            ["p:2: outcome: is missing, and so is `success`; give success, fail, infra, capped or unjudged"],
        ),
    ],
)
def test_csv_mistakes(row: str, messages: list[str]) -> None:
    assert failure(f"task_id,arm,outcome,trial,cost.usd\n{row}\n") == messages


def test_csv_goes_on_after_a_bad_row() -> None:
    text = 'task_id,arm,outcome\na,b\n"a"x,b,fail\n\nc,d,won\n'
    assert [message.partition(" ")[0] for message in failure(text)] == ["p:2:", "p:3:", "p:5:"]


@pytest.mark.parametrize(
    ("header", "messages"),
    [
        (
            "task_id,arm,outcome,",
            ["p:1: column 4 has no name; name it or leave it out"],
        ),
        ("task_id,arm,outcome,arm", ["p:1: arm: two columns have this name; keep one"]),
        ("task_id,outcome", ["p:1: arm: this column is required, but missing"]),
        ("task_id,arm", ["p:1: outcome: this column is missing, and so is `success`; give one of them"]),
        ("arm,A,B,C", ["p:1: D: this column is required, but missing"]),
        (
            "task_id,arm,outcome,trail",
            ["p:1: trail: unknown field; did you mean 'trial'? Name anything else `labels.NAME`"],
        ),
        (
            "task_id,arm,outcome,cost.token",
            ["p:1: cost.token: unknown field; did you mean 'cost.tokens'? Name anything else `labels.NAME`"],
        ),
        ("task_id,arm,outcome,labels.", ["p:1: labels.: unknown field; name anything else `labels.NAME`"]),
        (
            "task_id,arm,outcome,steps",
            [
                (
                    "p:1: steps: unknown field; a cell cannot hold it, so write JSON Lines, "
                    "or flat columns such as cost.tokens"
                )
            ],
        ),
        (
            "arm,A,B,C,D,E",
            ["p:1: E: unknown field; known are arm, A, B, C, D, agent, benchmark, tasks"],
        ),
    ],
)
def test_csv_headers(header: str, messages: list[str]) -> None:
    assert failure(f"{header}\n") == messages


def test_unknown_column_is_told_once_and_rows_are_checked_all_the_same() -> None:
    assert failure("task_id,arm,outcome,foo\na,b,won,1\nc,d,fail,1\n") == [
        "p:1: foo: unknown field; name anything else `labels.NAME`",
        "p:2: outcome: must be one of success, fail, infra, capped, unjudged, got 'won'",
    ]


def test_csv_in_another_encoding() -> None:
    assert failure("task_id,arm,outcome\na,b,fail\nü,b,fail\n".encode("latin-1")) == [
        "p:3: must be UTF-8 text, got byte 0xfc; save the file as UTF-8"
    ]


def test_csv_with_old_line_ends() -> None:
    assert failure("task_id,arm,outcome\ra,b,fail\r") == [
        "p:1: the header is not CSV: new-line character seen in unquoted field"
    ]


def test_parquet_holds_what_json_holds() -> None:
    row: dict[str, object] = {
        "task_id": "a",
        "arm": "b",
        "success": False,
        "trial": 1,
        "run_id": None,
        "steps": [{"t": 0, "score": 0.5, "kind": None}, {"t": 1, "score": None, "kind": "x"}],
        "interventions": [{"t": 1, "mechanism": "rollback"}],
        "cost": {"tokens": 3.0, "usd": None},
        "labels": {"size": 2, "word": None},
        "labels.more": True,
        "cost.seconds": 4.0,
    }
    (run,) = pilot_of(parquet([row])).runs
    assert run == Run(
        task_id="a",
        arm="b",
        outcome=Outcome.FAIL,
        trial=1,
        steps=(Step(t=0, score=0.5), Step(t=1, kind="x")),
        interventions=(Intervention(t=1, mechanism="rollback"),),
        cost=Cost(tokens=3, seconds=4),
        labels={"size": 2, "more": True},
    )


def test_parquet_map_column() -> None:
    schema = pa.schema(
        [("task_id", "string"), ("arm", "string"), ("outcome", "string"), ("labels", pa.map_("string", "int64"))]
    )
    rows: list[dict[str, object]] = [
        {"task_id": "a", "arm": "b", "outcome": "fail", "labels": [("x", 1)]},
        {"task_id": "b", "arm": "b", "outcome": "fail", "labels": []},
        {"task_id": "c", "arm": "b", "outcome": "fail", "labels": None},
    ]
    pilot = pilot_of(parquet(rows, schema))
    assert [run.labels for run in pilot.runs] == [{"x": 1}, {}, {}]
    assert pilot.line_of.tolist() == [1, 2, 3]


def test_parquet_mistakes_have_row_numbers() -> None:
    rows: list[dict[str, object]] = [
        {"task_id": "a", "arm": "b", "outcome": "fail", "trial": 0.5, "cost.usd": math.nan, "steps": [{"t": -1}]},
        {"task_id": "b", "arm": "b", "outcome": None, "trial": None, "cost.usd": math.inf, "steps": None},
    ]
    assert failure(parquet(rows)) == [
        "p:1: trial: must be an integer ≥ 0, got 0.5",
        "p:1: steps[0].t: must be an integer ≥ 0, got -1",
        "p:1: cost.usd: must be a finite number ≥ 0, got nan",
        "p:2: cost.usd: must be a finite number ≥ 0, got inf",
        "p:2: outcome: is missing, and so is `success`; give success, fail, infra, capped or unjudged",
    ]


def test_parquet_header_and_damage() -> None:
    assert failure(parquet([{"task_id": "a", "arm": "b", "outcome": "fail", "foo": 1}])) == [
        "p: foo: unknown field; name anything else `labels.NAME`"
    ]
    content = parquet([{"task_id": "a", "arm": "b", "outcome": "fail"}])
    (message,) = failure(content[: len(content) // 2])
    assert message.startswith("p holds damaged Parquet data (")
    assert failure(parquet([{"task_id": "a", "arm": "b", "outcome": "fail"}])[:0]) == ["p holds no runs"]


def test_parquet_cannot_fill_the_memory() -> None:
    # Repeats are stored once, so the file is far smaller than its columns in memory.
    content = parquet([{"task_id": "a" * 1000, "arm": "b", "outcome": "fail"}] * 20_000)
    assert len(content) < 20_000
    assert failure(content, max_bytes=1_000_000) == ["p takes the input beyond 1000000 bytes unpacked; split it"]


def test_parquet_counts() -> None:
    Path("p").write_bytes(parquet([{"arm": "x", "A": 1, "B": 2, "C": 3, "D": 4}]))
    counts = read(["p"])
    assert isinstance(counts, Counts)
    assert counts.rows[0].d == 4
