"""Any bytes end in evidence or in a DataError that says what is wrong."""

import gzip
import io
import json
import random
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drsim.errors import DataError
from drsim.pilot.evidence import Counts, Marginals, Pilot
from drsim.pilot.reading import read
from drsim.pilot.records import Outcome, Run

quick = settings(deadline=None, max_examples=150)

RUN = {
    "task_id": "a",
    "arm": "b",
    "outcome": "fail",
    "trial": 1,
    "run_id": "r",
    "forked_from": {"run_id": "q", "t": 2},
    "n_steps": 3,
    "steps": [{"t": 0, "score": 0.25, "kind": "é"}, {"t": 1, "error": True, "tokens": 9, "reward": -1.5}],
    "interventions": [{"t": 1, "mechanism": "m", "propensity": 0.5, "acted": False}],
    "cost": {"tokens": 12.5, "usd": 0},
    "labels": {"x": 1, "y": "z", "w": True},
}
JSON_LINES = "".join(json.dumps(RUN | {"trial": i, "run_id": f"r{i}"}) + "\n" for i in range(4)).encode()
CSV = (
    b"task_id,arm,success,trial,cost.usd,forked_from.run_id,forked_from.t,labels.x\n"
    b'a,b,True,0,1.5,r,3,"x, y"\nb,b,0,,,,,\n"c ""d""",b,1,2,0,,,7\n'
)
COUNTS = b'{"schema":"drsim.counts/1","source":"s","rows":[{"arm":"x","A":1,"B":2,"C":3,"D":4}]}'
FILE = io.BytesIO()
pq.write_table(pa.Table.from_pylist([RUN]), FILE)
PARQUET = FILE.getvalue()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
step_like = st.dictionaries(
    st.sampled_from(["t", "score", "error", "kind", "tokens", "reward", "x"]), st.integers(-1, 3) | json_values
)
record_like = st.fixed_dictionaries(
    {},
    optional={
        name: st.just(RUN.get(name, "x")) | json_values | st.lists(step_like, max_size=3)
        for name in (*Run.__struct_fields__, "A", "B", "C", "D", "n", "successes", "rows", "schema")
    },
)


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], bool]:
    """Read bytes as a file; says whether they were evidence."""
    path = tmp_path_factory.mktemp("fuzz") / "p"

    def read_bytes(content: bytes) -> bool:
        path.write_bytes(content)
        try:
            evidence = read([str(path)], max_bytes=10**8, max_line=10**6)
        except DataError as error:
            str(error).encode()
            for mistake in error.mistakes:
                assert mistake.source == str(path)
                assert mistake.rule
                # The reason of last resort: the decoder refused what the list of mistakes found nothing wrong with.
                assert not mistake.rule.startswith("must be a record")
                assert str(mistake).isprintable()
                assert mistake.line is None or mistake.line >= 1
            return False
        assert isinstance(evidence, Pilot | Counts | Marginals)
        if isinstance(evidence, Pilot):
            assert all(type(run.outcome) is Outcome for run in evidence.runs)
            assert len(evidence.line_of) == len(evidence.source_of) == len(evidence.runs) > 0
        return True

    return read_bytes


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Sound content with a few places cut, doubled or overwritten."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        stop = draw(st.integers(start, min(len(content), start + 20)))
        piece = draw(
            st.sampled_from([b"", b'"', b"\n", b",", b"{", b"[", b"NaN", b"1e999", b"\x00", b"\xff", b"\\ud800", b"-"])
            | st.just(content[start:stop] * 2)
            | st.binary(max_size=4)
        )
        content = content[:start] + piece + content[stop:]
    return content


@quick
@given(st.binary() | st.text().map(str.encode))
@example(b"\xef\xbb\xbf")
@example(b'{"task_id":"a","arm":"b","outcome":"fail","labels":{"x":' + b"9" * 4301 + b"}}")
@example(b'[{"task_id":"a","arm":"b","outcome":"fail","arm":"\\ud800"}]')
@example(b"{" * 100_000)
@example(b'{"rows":' * 100_000)
@example(b"PAR1")
@example(b"\x1f\x8b")
@example(b"\x28\xb5\x2f\xfd")
@example(b'"' + b"a,\n" * 100_000)
def test_any_bytes(check: Callable[[bytes], bool], content: bytes) -> None:
    check(content)


@quick
@given(st.data())
@pytest.mark.parametrize("content", [JSON_LINES, CSV, COUNTS, PARQUET], ids=["jsonl", "csv", "counts", "parquet"])
def test_mutated_files(check: Callable[[bytes], bool], content: bytes, data: st.DataObject) -> None:
    assert check(content)
    check(data.draw(mutated(content)))


@quick
@given(st.lists(record_like | json_values, min_size=1, max_size=3), st.sampled_from(["lines", "list", "indented"]))
def test_json_in_the_shape_of_records(check: Callable[[bytes], bool], records: list[object], layout: str) -> None:
    # json.dumps writes NaN, Infinity and lone surrogates as people's tools do.
    if layout == "lines":
        check("\n".join(map(json.dumps, records)).encode())
    else:
        check(json.dumps(records, indent=2 if layout == "indented" else None).encode())


@quick
@given(st.lists(st.lists(st.text(max_size=6), min_size=3, max_size=5), min_size=1, max_size=4))
def test_csv_in_the_shape_of_records(check: Callable[[bytes], bool], rows: list[list[str]]) -> None:
    lines = [",".join(row) for row in rows]
    check("\n".join(["task_id,arm,outcome,trial", *lines]).encode())


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_every_cut_of_a_packed_file(check: Callable[[bytes], bool], pack: Callable[[bytes], bytes]) -> None:
    packed = pack(JSON_LINES)
    assert check(packed)
    for end in range(1, len(packed)):
        assert not check(packed[:end]), end


@quick
@given(st.data())
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_mutated_packed_files(
    check: Callable[[bytes], bool], pack: Callable[[bytes], bytes], data: st.DataObject
) -> None:
    check(data.draw(mutated(pack(JSON_LINES))))


@pytest.mark.parametrize("content", [JSON_LINES, CSV, PARQUET], ids=["jsonl", "csv", "parquet"])
def test_random_bytes_after_sound_ones(check: Callable[[bytes], bool], content: bytes) -> None:
    for n in range(0, len(content), 7):
        check(content[:n] + random.Random(n).randbytes(16))
