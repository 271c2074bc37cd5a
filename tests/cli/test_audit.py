import json
from pathlib import Path

import msgspec
import pytest

from drsim.cli.app import run
from drsim.planning.audit.codes import CODES
from drsim.report.documents import AuditDocument

SOUND = '[{"p": "0.89", "r": "0.12", "d": "0.56", "p_star": "0.82", "delta": "0.047"}]'


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_findings_exit_3_and_are_text_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "example:claims"]) == 3
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    assert "AUD403 a pooled recovery or disruption rate is impossible for its parts" in out
    assert "7 findings in 31 checks on 5 rows" in out


def test_a_consistent_table_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "claims.json"
    path.write_text(SOUND)
    assert run(["audit", str(path)]) == 0
    assert capsys.readouterr().out == "no contradiction found in 5 checks on 1 row\n"
    assert run(["audit", str(path), "--json"]) == 0
    document = msgspec.json.decode(capsys.readouterr().out, type=AuditDocument, strict=True)
    assert (document.schema, document.findings, document.checked, document.rows) == ("drsim.audit/1", [], 5, 1)


def test_json_is_one_document_of_the_stated_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "example:claims", "--json", "--quiet", "--seed", "5"]) == 3
    out, err = capsys.readouterr()
    assert err == ""
    document = msgspec.json.decode(out, type=AuditDocument, strict=True)
    last = document.findings[-1]
    assert (last.code, last.reported) == ("AUD403", 0.35)
    assert last.where == "row 5 (Table 21, MiniMax-M2.1, HotPotQA and GAIA, all): d"
    assert isinstance(last.implied, tuple)
    assert (round(last.implied[0], 4), last.implied[1]) == (0.3972, 1.0)
    assert set(json.loads(out)["findings"][0]) == {"code", "where", "message", "reported", "implied"}


def test_output_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "audit.json"
    assert run(["audit", "example:claims", "--json", "-o", str(target)]) == 3
    assert capsys.readouterr().out == ""
    assert json.loads(target.read_text())["schema"] == "drsim.audit/1"


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_explained(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--explain", code]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{code} {CODES[code].title}")
    assert "\n  rule: " in out
    assert "\n  may be innocent: " in out
    assert max(map(len, out.splitlines())) <= 80


def test_explanation_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--explain", "aud102", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["code"], document["title"]) == ("AUD102", CODES["AUD102"].title)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit"], "Missing argument 'FILE…'."),
        (["audit", "--explain", "AUD999"], "there is no finding 'AUD999'; the codes are AUD101, "),
        (["audit", "no-such.json"], "'no-such.json' does not exist; check the path"),
    ],
)
def test_bad_calls_exit_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert run([*arguments, "--json"]) == 2
    assert message in json.loads(capsys.readouterr().out)["error"]["message"]


def test_bad_rows_exit_2_with_every_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "claims.csv"
    path.write_text("agent,p,n\nx,57.0,30\ny,0.5,none\n")
    assert run(["audit", str(path)]) == 2
    assert capsys.readouterr().err == (
        "drsim: 2 mistakes; nothing was checked\n"
        f"  {path}:2: p: must lie in [0, 1]; say unit: percent where figures are in per cent, got '57.0'\n"
        f"  {path}:3: n: must be an integer ≥ 1, got 'none'\n"
    )
    assert run(["audit", str(path), "--json"]) == 2
    details = json.loads(capsys.readouterr().out)["error"]["details"]
    assert [(item["line"], item["field"]) for item in details] == [(2, "p"), (3, "n")]


def test_all_is_shown_on_request(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "papers" / "intervention_paradox.json")
    assert run(["audit", path]) == 3
    short = capsys.readouterr().out
    assert "… and 29 more (--details)" in short
    assert run(["audit", path, "--details"]) == 3
    long = capsys.readouterr().out
    assert " ".join(long.split()).count("is called a 95% interval") == 33
    assert max(len(line) for line in (short + long).splitlines()) <= 80


@pytest.mark.parametrize("name", ["audit", "claims"])
def test_schemas_are_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", name]) == 0
    assert json.loads(capsys.readouterr().out)["$defs"]
