import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planning.sweeps import MODEL, inputs

from drsim.errors import ParameterError
from drsim.planning.sweep import run_sweep
from drsim.process.spec import Model
from drsim.report.sweep.answer import Answer, answer_of, headline
from drsim.report.sweep.document import SpreadDocument, sweep_document
from drsim.report.sweep.plot import draw_sweep
from drsim.report.sweep.table import write_table
from drsim.report.sweep.text import sweep_text

HARMFUL = replace(
    MODEL, mechanisms={name: replace(it, disrupt=0.9, recover={"off": 0.0}) for name, it in MODEL.mechanisms.items()}
)


@contextmanager
def answered(n_draws: int = 12, **asked: Any) -> Iterator[Answer]:
    with run_sweep(inputs(n_draws, **asked)) as sweep:
        yield answer_of(sweep)


@pytest.mark.parametrize(
    ("asked", "pattern"),
    [
        (
            {},
            r"(late, from|early, before) step \d, (append|rollback): \+\d.\d pp \[.*\]; (early|late) (gains|costs)",
        ),
        ({"timing": "window", "mechanism": "append"}, r"in steps? \d( to \d)?: \+"),
        ({"timing": "first-step", "mechanism": "append"}, r"from step \d: \+"),
        ({"timing": "delay", "mechanism": "rollback"}, r"with a delay of \d steps?: \+"),
        (
            {"timing": "fixed-frequency", "mechanism": "rollback"},
            r"no cell gains: leave the agent alone; the best is every \d(nd|rd|th) step: ",
        ),
        (
            {"timing": "window", "threshold": "0.3,0.55", "budget": "1:2", "cooldown": "0:1"},
            r"in steps? \d( to \d)?, append, threshold 0\.\d+, budget \d, cooldown \d: \+",
        ),
        ({"threshold": "0.3,0.7", "policy": "base"}, r"in steps 1 to 5, threshold 0.[37]: \+"),
        ({"budget": "1:3", "cooldown": "0:2", "policy": "base"}, r"in steps 1 to 5, budget \d, cooldown \d: \+"),
    ],
)
def test_the_answer_is_one_line_that_names_the_cell(asked: dict[str, Any], pattern: str) -> None:
    with answered(**asked) as answer:
        assert re.match(pattern, headline(answer)), headline(answer)
        assert "\n" not in headline(answer)
        assert max(len(line) for line in sweep_text(answer, 80).splitlines()) <= 80


def test_the_other_half_fires_where_the_best_does_not() -> None:
    for model in (MODEL, HARMFUL):
        with answered(model=model, mechanism="append") as answer:
            best, other = answer.best, answer.other_half
            assert other is not None
            assert sorted([(best.first_step, best.last_step), (other.first_step, other.last_step)]) == [
                (0, max(best.first_step, other.first_step) - 1),
                (max(best.first_step, other.first_step), 5),
            ]
            assert (best.mechanism, best.budget, best.threshold) == (other.mechanism, other.budget, other.threshold)


def test_harm_is_told_as_harm() -> None:
    with answered(model=HARMFUL, mechanism="append", threshold="0.2,0.4", timing="window") as answer:
        assert headline(answer).startswith("no cell gains: leave the agent alone; the best is in step ")
        assert answer.best.gain <= 0.0
    with answered(model=HARMFUL, mechanism="append", timing="early-vs-late") as answer:
        assert re.search(r"; (early|late) costs \d+\.\d pp$", headline(answer))


def test_text_tells_what_is_assumed_and_what_the_winner_is_worth() -> None:
    asked = replace(inputs(12), assumptions=("timing of r: that of the model",))
    with run_sweep(asked) as sweep:
        text = sweep_text(answer_of(sweep), 80)
    assert "assumes: timing of r: that of the model" in text
    assert "12 draws, exact" in " ".join(text.split())
    assert "valued by draws (all of one pilot, whose luck stays) that did not pick it" in " ".join(text.split())
    assert re.search(r"it is the best cell in \d+% of draws", " ".join(text.split()))
    assert "k = 5" in text
    with answered(n_folds=3) as answer:
        assert "valued by tasks that did not pick it" in " ".join(sweep_text(answer, 80).split())


def test_long_horizons_are_shown_in_strides() -> None:
    rollback = MODEL.mechanisms["rollback"]
    long = replace(MODEL, horizon=100, mechanisms={"rollback": rollback}, policies={})
    with answered(1, model=long) as answer:
        text = sweep_text(answer, 80)
    assert [int(it) for it in re.findall(r"k = (\d+)", text)] == list(range(0, 100, 3))


def test_the_document_has_a_posterior_for_every_uncertain_number() -> None:
    with answered(12, timing="window", threshold="0.3,0.5") as answer:
        document = sweep_document(answer)
        rows = np.concatenate([rows for _, rows in answer.sweep.blocks()])
    assert len(document.cells) == document.n_cells == 84
    for i, cell in enumerate(document.cells):
        for figure in (cell.gain, cell.success, cell.tokens, cell.usd):
            assert isinstance(figure, SpreadDocument)
            parts = [figure.q2_5, figure.q50, figure.q97_5]
            assert all(isinstance(it, float) for it in parts)
            assert parts == sorted(parts, key=float)  # type: ignore[arg-type]
        assert isinstance(cell.gain, SpreadDocument)
        assert isinstance(cell.usd, SpreadDocument)
        assert isinstance(cell.tokens, SpreadDocument)
        assert isinstance(cell.tokens.mean, float)
        assert cell.gain.mean == rows[i, 0]
        assert cell.usd.mean == pytest.approx(cell.tokens.mean * 4e-6)
    assert document.best.corrected_by == "draws"
    assert isinstance(document.best.gain, SpreadDocument)
    assert isinstance(document.best.gain_corrected, SpreadDocument)
    assert isinstance(document.baseline, SpreadDocument)
    assert document.best.gain == document.cells[document.best.index].gain


def test_a_threshold_by_step_has_no_single_number() -> None:
    with answered(2, policy="tiring", timing="first-step") as answer:
        assert {cell.threshold for cell in sweep_document(answer).cells} == {None}
        assert "threshold by step" in sweep_text(answer, 80)


def test_a_table_of_another_kind_is_refused() -> None:
    with (
        answered(1) as answer,
        pytest.raises(ParameterError, match=r"a table must end in \.csv, \.parquet, \.nc, got '.xls'"),
    ):
        write_table(answer.sweep, io.BytesIO(), ".xls")


def drawn(model: Model = MODEL, **asked: Any) -> str:
    stream = io.BytesIO()
    with answered(6, model=model, **asked) as answer:
        draw_sweep(answer, stream, "svg")
    return stream.getvalue().decode()


def test_pictures_draw_a_line_a_mechanism_with_its_band() -> None:
    picture = drawn()
    # a line and a band for early and late of both mechanisms, and the line of no gain
    assert len(re.findall(r'<g id="FillBetweenPolyCollection_\d+">', picture)) == 4
    assert len(set(re.findall(r"stroke: #(1f77b4|ff7f0e)", picture))) == 2


def test_two_axes_are_drawn_as_a_map() -> None:
    by_half = {"timing": "early-vs-late", "budget": "1:3"}
    maps: list[dict[str, Any]] = [{"timing": "window"}, by_half, {"threshold": "0.3:0.7:0.1", "budget": "1:3"}]
    for asked in maps:
        assert 'id="QuadMesh_1"' in drawn(**asked)
    assert "QuadMesh" not in drawn(threshold="0.3:0.7:0.1")
