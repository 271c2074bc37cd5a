"""Files to evidence: forms, packing, places, limits, and the message for each bad file."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
import zstandard
from msgspec import UNSET

from drsim.errors import DataError
from drsim.pilot.evidence import Counts, Evidence, Marginals, Pilot
from drsim.pilot.reading import read
from drsim.pilot.records import CountsRow, MarginalsRow, Outcome

N_RUNS = {
    "game24-samples": 4000,
    "intercode-sql": 1035,
    "ldb-debugger": 4640,
    "mint-gpt35-append": 2344,
    "reflexion-programming": 4368,
    "reflexion-retry": 1594,
    "taubench-airline-repeats": 200,
    "who-and-when-errors": 184,
}
MOST = 20


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Messages name files as they were given, so tests give bare names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(task: object = "a", **fields: object) -> str:
    return json.dumps({"task_id": task, "arm": "b", "outcome": "fail"} | fields)


def read_text(text: str | bytes, **limits: int) -> Evidence:
    Path("p").write_bytes(text.encode() if isinstance(text, str) else text)
    return read(["p"], **limits)


def runs_of(text: str | bytes, **limits: int) -> Pilot:
    pilot = read_text(text, **limits)
    assert isinstance(pilot, Pilot)
    return pilot


def failure(text: str | bytes, **limits: int) -> str:
    with pytest.raises(DataError) as caught:
        read_text(text, **limits)
    return str(caught.value)


# Sound input


@pytest.mark.parametrize(("name", "n_runs"), N_RUNS.items())
def test_real_pilots(shared_data: Path, name: str, n_runs: int) -> None:
    pilot = read([str(shared_data / "pilots" / f"{name}.jsonl")])
    assert isinstance(pilot, Pilot)
    assert len(pilot.runs) == n_runs
    assert pilot.line_of.tolist() == list(range(1, n_runs + 1))


def test_the_list_of_real_pilots_is_whole(shared_data: Path) -> None:
    assert {path.stem for path in (shared_data / "pilots").glob("*.jsonl")} == set(N_RUNS)


def test_all_real_pilots_at_once(shared_data: Path) -> None:
    pilot = read([str(shared_data / "pilots" / "*.jsonl")])
    assert isinstance(pilot, Pilot)
    assert len(pilot.runs) == sum(N_RUNS.values())
    assert [Path(source).stem for source in pilot.sources] == sorted(N_RUNS)


def test_every_field_arrives() -> None:
    run = runs_of(
        line(
            agent="g",
            benchmark="m",
            trial=2,
            run_id="r",
            forked_from={"run_id": "q", "t": 1},
            n_steps=3,
            steps=[{"t": 0, "score": 0.5, "error": True, "kind": "k\u2028", "tokens": 3, "reward": -1}],
            interventions=[{"t": 0, "mechanism": "rollback", "score": 1, "acted": False, "propensity": 0.5}],
            cost={"tokens": 1, "critic_tokens": 2, "usd": 0.5, "critic_usd": 0, "seconds": 4},
            labels={"s": "x", "n": 1, "f": 0.5, "b": True},
        )
    ).runs[0]
    assert (run.agent, run.benchmark, run.trial, run.run_id, run.n_steps) == ("g", "m", 2, "r", 3)
    assert run.forked_from is not None
    assert (run.forked_from.run_id, run.forked_from.t) == ("q", 1)
    (step,) = run.steps
    assert (step.t, step.score, step.error, step.kind, step.tokens, step.reward) == (0, 0.5, True, "k\u2028", 3.0, -1.0)
    (trigger,) = run.interventions
    assert (trigger.t, trigger.mechanism, trigger.score, trigger.acted) == (0, "rollback", 1.0, False)
    assert trigger.propensity == 0.5
    assert run.acted_steps == ()
    assert run.cost is not None
    assert (run.cost.tokens, run.cost.critic_tokens, run.cost.usd) == (1, 2, 0.5)
    assert (run.cost.critic_usd, run.cost.seconds) == (0, 4)
    assert run.labels == {"s": "x", "n": 1, "f": 0.5, "b": True}


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"success": True}, Outcome.SUCCESS),
        ({"success": False}, Outcome.FAIL),
        ({"success": None}, Outcome.UNJUDGED),
        ({"success": False, "outcome": "capped"}, Outcome.CAPPED),
        ({"success": None, "outcome": "infra"}, Outcome.INFRA),
        ({"success": None, "outcome": "unjudged"}, Outcome.UNJUDGED),
    ],
)
def test_success_in_place_of_outcome(fields: dict[str, object], outcome: Outcome) -> None:
    run = runs_of(json.dumps({"task_id": "a", "arm": "b"} | fields)).runs[0]
    assert run.outcome is outcome
    assert run.success is UNSET


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome(outcome: Outcome) -> None:
    assert runs_of(line(outcome=outcome.value)).runs[0].outcome is outcome


def test_lines_keep_their_numbers_past_blank_ones() -> None:
    pilot = runs_of(f"\n{line('a')}\n\n \t\r\n{line('b')}\r\n\n{line('c')}")
    assert pilot.line_of.tolist() == [2, 5, 7]
    assert pilot.place(2) == "p:7"


def test_lines_keep_their_numbers_from_block_to_block() -> None:
    # No line may be longer than 60 bytes, so that the file is read in blocks of 60.
    text = "\n".join(line(str(i)) if i % 3 else "" for i in range(200))
    pilot = runs_of(text, max_line=60)
    assert pilot.line_of.tolist() == [i + 1 for i in range(200) if i % 3]
    assert [run.task_id for run in pilot.runs] == [str(i) for i in range(200) if i % 3]


@pytest.mark.parametrize("text", [f"{line()}\n", f"\ufeff{line()}\n", f"[{line()}]", f"\ufeff [\n{line()}\n]\n"])
def test_byte_order_mark_and_lists(text: str) -> None:
    assert len(runs_of(text).runs) == 1


def test_list_counts_rows() -> None:
    assert runs_of(f"[\n\n{line('a')},\n{line('b')}]").line_of.tolist() == [1, 2]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packing_is_told_by_content(pack: object) -> None:
    text = f"{line('a')}\n{line('b')}\n".encode()
    assert callable(pack)
    assert len(runs_of(pack(text)).runs) == 2
    assert len(runs_of(pack(text[:30]) + pack(text[30:])).runs) == 2  # members or frames one after the other


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(line().encode())))
    monkeypatch.setattr(sys, "stdin", stdin)
    pilot = read(["-"])
    assert isinstance(pilot, Pilot)
    assert pilot.place(0) == "<stdin>:1"


def test_several_files_and_patterns() -> None:
    for name in ("b.x", "a.x", "[c].x"):
        Path(name).write_text(line(name))
    Path("d.x").mkdir()
    pilot = read(["[c].x", "?.x"])
    assert isinstance(pilot, Pilot)
    assert pilot.sources == ("[c].x", "a.x", "b.x")
    assert [run.task_id for run in pilot.runs] == ["[c].x", "a.x", "b.x"]
    assert [pilot.place(i) for i in range(3)] == ["[c].x:1", "a.x:1", "b.x:1"]


ROW = {"arm": "x", "A": 1, "B": 2, "C": 3, "D": 4}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROW),
        json.dumps([ROW]),
        json.dumps({"schema": "drsim.counts/1", "source": "s", "rows": [ROW]}),
        json.dumps({"schema": "drsim.counts/1", "source": "s", "note": "n", "rows": [ROW]}, indent=2) + "\n",
        "arm,A,B,C,D\nx,1,2,3,4\n",
    ],
)
def test_counts(text: str) -> None:
    assert read_text(text) == Counts(rows=(CountsRow(arm="x", a=1, b=2, c=3, d=4),), sources=("p",))


def test_counts_of_several_files_are_joined() -> None:
    Path("a").write_text(json.dumps(ROW))
    Path("b").write_text("arm,A,B,C,D\ny,1,2,3,4\n")
    counts = read(["a", "b"])
    assert isinstance(counts, Counts)
    assert [row.arm for row in counts.rows] == ["x", "y"]


@pytest.mark.parametrize(
    "text",
    [
        '{"arm":"x","successes":1,"n":2}',
        '{"schema":"drsim.marginals/1","source":"s","rows":[{"arm":"x","successes":1,"n":2}]}',
        "arm,successes,n\nx,1,2",
    ],
)
def test_marginals(text: str) -> None:
    assert read_text(text) == Marginals(rows=(MarginalsRow(arm="x", successes=1, n=2),), sources=("p",))


@pytest.mark.parametrize(
    "fields",
    [
        {"task_id": "\x00", "labels": {"\x00": "\x1b"}},
        {"labels": {"n": 10**1000}},
        {"cost": {"tokens": 10**300}},
        {"labels": {"agent": "x", "arm": "y", '"trial":': 1}, "forked_from": {"run_id": "q", "t": 0}},
    ],
)
def test_odd_but_sound_runs(fields: dict[str, object]) -> None:
    assert len(runs_of(line(**fields)).runs) == 1


# Mistakes in records


def test_every_mistake_of_every_file() -> None:
    Path("a").write_text(f"{line('a')}\n{line('b', trial=-1)}\n")
    Path("b").write_text("task_id,arm,outcome\na,b,fail\nc,,won\n")
    with pytest.raises(DataError) as caught:
        read(["a", "b"])
    assert str(caught.value).splitlines() == [
        "4 mistakes; nothing was computed",
        "  a:2: trial: must be an integer ≥ 0, got -1",
        "  b:3: arm: is required, but missing",
        "  b:3: outcome: must be one of success, fail, infra, capped, unjudged, got 'won'",
        (
            "  b:2: trial: repeats the run at a:1, of the same agent, benchmark, arm, task_id and trial; "
            "give each repeat its own trial number"
        ),
    ]
    assert [(mistake.source, mistake.line) for mistake in caught.value.mistakes] == [
        ("a", 2),
        ("b", 3),
        ("b", 3),
        ("b", 2),
    ]


def test_reading_stops_at_twenty_mistakes() -> None:
    text = failure(f"{line(trial=-1, n_steps=-1, foo=1)}\n" * 1000)
    assert text.startswith("reading stopped at 20 mistakes; nothing was computed\n")
    assert text.count("\n") == MOST
    assert failure(f"{line()}\n" * 1000).startswith(
        "reading stopped at 20 mistakes; nothing was computed\n  p:2: trial"
    )


def test_key_given_twice() -> None:
    # The decoder keeps the last value and says nothing, so that an answer would rest on half of the line.
    assert failure('{"task_id":"a","arm":"b","outcome":"fail","outcome":"success"}') == (
        "1 mistake; nothing was computed\n  p:1: outcome: is given twice in one object; keep one"
    )
    assert failure('{"steps":[{"t":0,"kind":"x]"}],"task_id":"a","arm":"b","outcome":"fail","steps":[]}').endswith(
        "p:1: steps: is given twice in one object; keep one"
    )
    assert failure('{"arm":"x","A":1,"A":2,"B":1,"C":1,"D":1}').endswith(
        "p:1: A: is given twice in one object; keep one"
    )


@pytest.mark.parametrize(("old", "new"), [('"trial": 7', '"trial": 7, "trial": 8'), ('"t": 0', '"t": 0, "t": 1')])
def test_key_given_twice_far_down(old: str, new: str) -> None:
    lines = [line(str(i), trial=i % 8, steps=[{"t": 0}] * (i % 2)) for i in range(3000)]
    assert len(runs_of("\n".join(lines)).runs) == 3000
    lines[2503] = lines[2503].replace(old, new)
    assert "p:2504: " in failure("\n".join(lines))


def test_records_that_are_no_objects() -> None:
    assert failure(f'{line()}\n[1]\n"x"\n').splitlines()[1:] == [
        "  p:2: must be an object, got a list of 1",
        "  p:3: must be an object, got 'x'",
    ]
    assert failure("[3]") == "1 mistake; nothing was computed\n  p:1: must be an object, got 3"


def test_first_line_cut_short_still_counts_as_a_line() -> None:
    assert failure(f'{{"task_id":\n{line()}\n').splitlines() == [
        "1 mistake; nothing was computed",
        "  p:1: must hold one JSON object; expecting value at column 12",
    ]


def test_two_objects_on_a_line() -> None:
    assert failure(f"{line('a')} {line('b')}").endswith("  p:1: must hold one JSON object; extra data at column 49")


def test_documents_are_checked() -> None:
    assert failure('{"schema":"drsim.counts/1","sauce":"s","rows":[]}').splitlines()[1:] == [
        "  p: sauce: unknown field; did you mean 'source'? Known are schema, source, rows, note",
        "  p: source: is required, but missing",
    ]
    assert failure('{"schema":"drsim.counts/1","source":"s","rows":[{"arm":"x","A":1,"B":2,"C":3}]}').splitlines()[
        1:
    ] == ["  p:1: D: is required, but missing"]
    assert failure('{"schema":"drsim.counts/1","source":"s","rows":[],"rows":[]}').endswith(
        "p: rows: is given twice in one object; keep one"
    )
    assert failure('{"schema":"drsim.fit/1","cells":[]}') == (
        "p: schema must be one of drsim.counts/1, drsim.marginals/1, got 'drsim.fit/1'"
    )


# Files that cannot be used


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "p holds no runs"),
        (b" \n\r\n", "p holds no runs"),
        (b"[]", "p holds no runs"),
        (b'{"schema":"drsim.counts/1","source":"s","rows":[]}', "p holds no runs"),
        (b"task_id,arm,outcome\n", "p holds no runs"),
        (line().encode("utf-16"), "p is UTF-16 or UTF-32 text; save it as UTF-8"),
        (line().encode("utf-32"), "p is UTF-16 or UTF-32 text; save it as UTF-8"),
        (b"PK\x03\x04...", "p is a ZIP archive or a spreadsheet; unpack it, or export it as CSV"),
        (b"BZh9...", "p is packed with bzip2; unpack it, or pack it with gzip or zstd"),
        (b"[1,2", "p is not a sound JSON file: Input data was truncated"),
        (b"[" * 200_000, "p is not a sound JSON file: it is nested too deeply"),
        (
            json.dumps({"task_id": "a"}, indent=1).encode() * 2,
            "p holds objects that go over several lines; put each run on one line (jq -c does)",
        ),
        (
            json.dumps({"task_id": "a"}, indent=1).encode(),
            "p holds objects that go over several lines; put each run on one line (jq -c does)",
        ),
        (b"\x89PNG\r\n", "p:1: must be UTF-8 text, got byte 0x89; save the file as UTF-8"),
        (
            b"some prose\n",
            (
                "p is neither JSON nor Parquet, and as CSV its header names no known field, got 'some prose'; "
                "name the columns in the first line, with commas: task_id,arm,outcome"
            ),
        ),
    ],
    ids=range(15),
)
def test_unusable_files(text: bytes, message: str) -> None:
    assert failure(text) == message


def test_damaged_packing() -> None:
    packed = gzip.compress(line().encode())
    assert failure(packed[:-1]) == "p ends in the middle of its packed data; copy or pack it again"
    assert failure(packed[:-8] + b"\x00" * 8).startswith("p holds damaged gzip data (CRC check failed")
    assert failure(packed + b"trailing").startswith("p holds damaged gzip data (Not a gzipped file")
    packed = zstandard.compress(line().encode())
    assert failure(packed[:-1]) == "p ends in the middle of its packed data; copy or pack it again"
    assert failure(packed[:4]) == "p ends in the middle of its packed data; copy or pack it again"
    assert failure(packed + b"trailing").startswith("p holds damaged zstd data (zstd decompressor error")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_small_file_cannot_fill_the_memory(pack: object) -> None:
    assert callable(pack)
    bomb = pack(b" " * 30_000_000)
    assert len(bomb) < 50_000
    assert failure(bomb, max_bytes=10_000_000) == "p takes the input beyond 10000000 bytes unpacked; split it"


def test_limits() -> None:
    text = f"{line('a')}\n{line('b')}\n"
    assert len(runs_of(text, max_bytes=len(text), max_line=len(line())).runs) == 2
    assert (
        failure(text, max_bytes=len(text) - 1) == f"p takes the input beyond {len(text) - 1} bytes unpacked; split it"
    )
    message = f"the line is longer than {len(line()) - 1} bytes; put each run on its own line"
    assert failure(text, max_line=len(line()) - 1) == f"p:1: {message}"
    assert failure("{}\n\n" + text, max_line=len(line()) - 1).splitlines()[0] == f"p:3: {message}"
    Path("q").write_text(line("c"))
    with pytest.raises(DataError, match=r"^q takes the input beyond"):  # the limit is for all files together
        read(["p", "q"], max_bytes=len(text) + 10)


def test_forms_cannot_be_mixed() -> None:
    Path("a").write_text(line())
    Path("b").write_text(json.dumps(ROW))
    with pytest.raises(DataError) as caught:
        read(["a", "b"])
    assert str(caught.value) == "b holds counts, but a holds runs; read one form at a time"


def test_what_was_found_before_a_file_breaks_is_shown_too() -> None:
    Path("a").write_text(line(trial=-1))
    Path("b").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        read(["a", "b"])
    assert str(caught.value) == "b holds no runs\n  a:1: trial: must be an integer ≥ 0, got -1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input was named; give a pilot file, or - for standard input"),
        (["d"], "d is a directory; name its files, for example d/*.jsonl"),
        (["missing"], "'missing' does not exist; check the path"),
        (["a\x00b"], "'a\\x00b' does not exist; check the path"),
        (["*.zzz"], "'*.zzz' matches no file; check the pattern"),
        (["a", "./a"], "./a is named twice; name each input once"),
        (["-", "-"], "<stdin> is named twice; name each input once"),
    ],
)
def test_arguments_that_name_nothing(arguments: list[str], message: str) -> None:
    Path("d").mkdir()
    Path("a").write_text(line())
    with pytest.raises(DataError) as caught:
        read(arguments)
    assert str(caught.value) == message


def test_missing_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert failure(b"\x28\xb5\x2f\xfd...") == (
        'p is packed with zstd, which takes the package zstandard; pip install "drsim[files]"'
    )
    assert failure(b"PAR1...") == 'p is Parquet, which takes the package pyarrow; pip install "drsim[files]"'
