"""Claims as files hold them: digits are kept, and every mistake has its message."""

import contextlib
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsim.errors import DataError
from drsim.pilot.claims.reading import read_claims
from drsim.pilot.claims.records import Claim, Claims, claim_schema

KNOWN = ", ".join(claim_schema()["$defs"]["Claim"]["properties"])


def read_text(text: str | bytes, folder: Path, name: str = "claims") -> Claims:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_claims([str(path)])


def mistakes(text: str | bytes, folder: Path) -> list[str]:
    with pytest.raises(DataError) as caught:
        read_text(text, folder)
    prefix = str(folder / "claims")
    return [str(mistake).replace(prefix, "f") for mistake in caught.value.mistakes]


def message(text: str | bytes, folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_text(text, folder)
    assert not caught.value.mistakes
    return str(caught.value).replace(str(folder / "claims"), "f")


@pytest.mark.parametrize("figure", ["0.380", '"0.380"', '" .380 "'])
def test_digits_are_kept(figure: str, tmp_path: Path) -> None:
    (row,) = read_text(f'[{{"p": {figure}}}]', tmp_path).rows
    assert row.p is not None
    assert row.p.as_tuple() == Decimal("0.380").as_tuple()


def test_a_printed_minus_is_a_minus(tmp_path: Path) -> None:
    (row,) = read_text('[{"delta": "−4.4", "unit": "percent"}]', tmp_path).rows
    assert row.gain == Decimal("-4.4")


def test_csv_and_both_json_forms_say_the_same(tmp_path: Path) -> None:
    row = {
        "table": "T1",
        "agent": "a",
        "unit": "percent",
        "arm_success": "57.0",
        "seeds": ["58", "58", "55"],
        "interval": ["55.0", "58.0"],
        "n": 300,
        "significant": True,
        "p_value": "0.01",
    }
    listed = read_text(json.dumps([row]), tmp_path, "list").rows
    document = {"schema": "drsim.claims/1", "source": "here", "rows": [row]}
    wrapped = read_text("\ufeff" + json.dumps(document), tmp_path, "document").rows
    header = "table,agent,unit,arm_success,seeds,interval,n,significant,p_value,r\r\n"
    table = read_text(header + "T1,a,percent,57.0,58;58; 55,55.0;58.0,300,true,0.01,\r\n\r\n", tmp_path, "csv").rows
    assert listed == wrapped == table


def test_places_name_the_row_and_the_file_when_there_are_several(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("agent,p\nx,0.5\n")
    (tmp_path / "b.json").write_text('[{"p": 0.5}]')
    one = read_claims([str(tmp_path / "a.csv")])
    assert one.places == ("line 2 (x)",)
    two = read_claims([str(tmp_path / "a.csv"), str(tmp_path / "b.json")])
    assert two.places == (f"{tmp_path}/a.csv: line 2 (x)", f"{tmp_path}/b.json: row 1")


ONE_MISTAKE = {
    '{"p": 38.0}': "p: must lie in [0, 1]; say unit: percent where figures are in per cent, got 38.0",
    '{"p": 138.0}': "p: must lie in [0, 1], got 138.0",
    '{"p": 101, "unit": "percent"}': "p: must lie in [0, 100], got 101",
    '{"delta": -1.5}': "delta: must lie in [-1, 1]; say unit: percent where figures are in per cent, got -1.5",
    '{"p": "<.05"}': "p: must be a figure as printed, such as 38.0 or '38.0', got '<.05'",
    '{"p": true}': "p: must be a figure as printed, such as 38.0 or '38.0', got true",
    '{"p": NaN}': "p: must be a figure as printed, such as 38.0 or '38.0', got NaN",
    '{"p": 1e99999999999999999999}': (
        "p: must be a figure as printed, such as 38.0 or '38.0', got 1e99999999999999999999"
    ),
    '{"p": 1e-999}': "p: must have at most 30 digits, got 0.0",
    '{"p_value": 5, "unit": "percent"}': "p_value: must lie in [0, 1], got 5",
    '{"seeds": 0.5}': "seeds: must be a list, got 0.5",
    '{"seeds": [0.5]}': "seeds: and `seed_successes` hold two seeds or more; give a single one as `arm_success`",
    '{"seeds": [0.5, "x"]}': "seeds[1]: must be a figure as printed, such as 38.0 or '38.0', got 'x'",
    '{"interval": [0.5]}': "interval: must be a list of two figures, the lower end first, got a list of 1",
    '{"interval": [0.6, 0.5]}': "interval: must hold its lower end first, got 0.6 and 0.5",
    '{"unit": "pp"}': "unit: must be one of percent, probability, got 'pp'",
    '{"n": 0}': "n: must be an integer ≥ 1, got 0",
    '{"A": -1}': "A: must be an integer ≥ 0, got -1",
    '{"n": 30.0}': "n: must be an integer ≥ 1, got 30.0",
    '{"gain": 0.1}': "gain: unknown field; known are " + KNOWN,
    '{"p": 0.5, "p": 0.6}': "p: is given twice in one object; keep one",
    '{"significant": true}': "significant: takes the `p_value` on which it rests",
    '{"is_best": true, "comparisons": 4}': (
        "delta: is missing, but `is_best` or `best_of` says that it is the largest"
    ),
    '{"correction": "holm", "p_value": 0.01}': (
        "comparisons: is missing; say how many differences `is_best` or `correction` is about"
    ),
    '{"seed_successes": [1, 2], "n": 5}': (
        "seed_successes: takes `n`, the runs of all seeds together, a multiple of their number"
    ),
    '{"id": "a", "pools": ["a"]}': "pools[0]: must be the id of another row, got 'a'",
    '{"delta": 0.1, "best_of": ["b"]}': "best_of[0]: must be the id of another row, got 'b'",
    "7": "must be an object, got 7",
}


@pytest.mark.parametrize(("row", "rule"), ONE_MISTAKE.items(), ids=lambda value: value[:40])
def test_each_kind_of_mistake_has_its_message(row: str, rule: str, tmp_path: Path) -> None:
    assert [text.removeprefix("f:1: ") for text in mistakes(f"[{row}]", tmp_path)] == [rule]


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    found = mistakes('[{"p": 7, "n": 0}, {"id": "x"}, {"id": "x", "arm": ""}, {"id": "y"}, {"id": "y"}]', tmp_path)
    assert [text.partition(": must")[0].partition(": is")[0] for text in found] == [
        "f:1: p",
        "f:1: n",
        "f:3: arm",
        "f:5: id",
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "f is not JSON, and as CSV its header names no known field, got ''"),
        ("[]", "f holds no rows"),
        ("p,n\n", "f holds no rows"),
        ("[1,", "f is not sound JSON: expecting value at line 1, column 4"),
        ("[" * 100_000, "f is not sound JSON: it is nested too deeply"),
        (b"p\n\xff\n", "f must be UTF-8 text, got byte 0xff; save the file as UTF-8"),
        (
            '{"schema": "drsim.claims/2", "rows": []}',
            "f: schema must be drsim.claims/1, got 'drsim.claims/2'; give a list",
        ),
        ('p,n\n"0.5,1\n', "f:2: is not CSV: unexpected end of data"),
    ],
    ids=range(8),
)
def test_a_file_that_is_none_has_its_message(text: str | bytes, rule: str, tmp_path: Path) -> None:
    assert message(text, tmp_path).startswith(rule)


def test_csv_mistakes_name_line_and_column(tmp_path: Path) -> None:
    assert mistakes("p,rr,p,\n1,2,3,4\n", tmp_path) == [
        "f:1: p: two columns have this name; keep one",
        f"f:1: rr: unknown field; did you mean 'r'? Known are {KNOWN}",
        "f:1: a column has no name; name it or leave it out",
    ]
    assert mistakes("p,n,is_best\n0.5,1,no\n0.5\n", tmp_path) == [
        "f:3: must have 3 cells, as the header has, got 1",
        "f:2: is_best: must be true, false or null, got 'no'",
    ]


def test_a_document_needs_its_source(tmp_path: Path) -> None:
    text = '{"schema": "drsim.claims/1", "rows": {}, "sauce": 1}'
    assert mistakes(text, tmp_path) == [
        "f: sauce: unknown field; did you mean 'source'? Known are schema, source, note, rows",
        "f: source: is required, but missing",
        "f: rows: must be a list of rows, got an object of 0",
    ]


def test_published_tables_of_another_layout_end_in_a_message(tmp_path: Path) -> None:
    raw = {"source": "", "table4_main": [], "tables11_18_per_seed": {}, "table21_counts_HotPotQA_GAIA": {}}
    assert message(json.dumps(raw), tmp_path).startswith(
        "f looks like the tables of a publication, but one of them has"
    )


def test_published_tables_keep_their_digits(shared_data: Path) -> None:
    claims = read_claims([str(shared_data / "papers" / "intervention_paradox.json")])
    rows = {(row.table, row.agent, row.benchmark, row.arm): row for row in claims.rows}
    printed = rows["Table 4", "MiniMax-M2.1", "HotPotQA", "Cal+Roll"]
    assert (str(printed.arm_success), str(printed.base_success), printed.n) == ("38.5", "64.0", 300)
    assert [str(seed) for seed in printed.seeds] == ["35", "42", "37"]
    pooled = rows["Table 21", "MiniMax-M2.1", "HotPotQA and GAIA", "all four"]
    assert (str(pooled.d), pooled.base_successes, pooled.success_fail, len(pooled.pools)) == ("0.35", 178, 62, 8)


@settings(deadline=None, max_examples=60)
@given(raw=st.binary(max_size=80))
def test_any_bytes_give_rows_or_a_message(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "claims"
    path.write_bytes(raw)
    with contextlib.suppress(DataError):
        assert read_claims([str(path)]).rows


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, max_examples=150)
@given(row=st.dictionaries(st.sampled_from([*KNOWN.split(", "), "other"]), json_values, max_size=6))
def test_any_row_gives_a_claim_or_a_message(row: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "claims"
    path.write_text(json.dumps([row]))
    with contextlib.suppress(DataError):
        (claim,) = read_claims([str(path)]).rows
        assert isinstance(claim, Claim)
