"""A picture of a sweep: the gain along one axis, with a band for each line, or a heat map of two axes.

Axes beyond those that are drawn are held at the best cell's values, which the title tells.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import IO, Any

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.errors import DrsimError
from drsim.planning.axes import Axes, Family
from drsim.planning.sweep_cells import COLUMNS
from drsim.report.sweep.answer import Answer, headline
from drsim.report.text import paragraph

__all__ = ["check_plot", "draw_sweep"]

NAMES = ("mechanism", "timing", "threshold", "budget", "cooldown")
MECHANISM, TIMING = NAMES.index("mechanism"), NAMES.index("timing")
LABELS = {
    Family.EARLY_VS_LATE: "step k",
    Family.FIRST_STEP: "first step that may fire",
    Family.FIXED_FREQUENCY: "steps from one intervention to the next",
    Family.DELAY: "steps without interruption before each intervention",
}
MOST_COLUMNS = 500
"""Values of one axis of a heat map; more than pixels are thinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Gains along one axis."""

    label: str
    x: FloatArray
    cells: IntArray
    is_dashed: bool = False


def check_plot() -> tuple[ModuleType, ModuleType]:
    """Modules `matplotlib` and `matplotlib.figure`.

    Raises
    ------
    DrsimError
        matplotlib is not installed.
    """
    try:
        return import_module("matplotlib"), import_module("matplotlib.figure")
    except ImportError:
        raise DrsimError("--plot needs the package matplotlib; install drsim[plot]") from None


def draw_sweep(answer: Answer, stream: IO[bytes], kind: str) -> None:
    """Draw a sweep.

    Parameters
    ----------
    answer : Answer
        Of `answer_of`.
    stream : binary file
        Open for writing.
    kind : str
        `svg` or `png`. The same sweep gives the same bytes.

    Raises
    ------
    DrsimError
        matplotlib is not installed.
    """
    matplotlib, figures = check_plot()
    with matplotlib.rc_context({"svg.hashsalt": "drsim", "font.size": 9.0}):
        figure = figures.Figure(figsize=(7.0, 4.4), layout="constrained")
        panel = figure.add_subplot()
        plan = _plan(answer.sweep.inputs.axes)
        plan(answer, figure, panel)
        panel.set_title(paragraph(headline(answer), 90, indent=0), fontsize=9, loc="left")
        figure.savefig(stream, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {"Software": None})


def _plan(axes: Axes) -> Callable[[Answer, Any, Any], None]:
    """A heat map for windows, or where two axes of numbers vary; else lines."""
    if axes.timing.family is Family.WINDOW:
        return _draw_windows
    return _draw_map if len(_drawn(axes)) > 1 else _draw_lines


def _drawn(axes: Axes) -> list[int]:
    """The first two axes of numbers that vary; a single one is drawn as lines."""
    sizes = axes.shape
    return [i for i in range(1, len(NAMES)) if sizes[i] > 1][:2]


def _at_best(answer: Answer) -> list[int]:
    axes = answer.sweep.inputs.axes
    return [int(it) for it in np.unravel_index(answer.best.index, axes.shape)]


def _along(answer: Answer, axis: int, values: IntArray, mechanism: int) -> IntArray:
    """Cells with one axis at `values` and the others at the best cell's."""
    at = [np.full(len(values), it) for it in _at_best(answer)]
    at[axis], at[MECHANISM] = values, np.full(len(values), mechanism)
    index: IntArray = np.ravel_multi_index(tuple(at), answer.sweep.inputs.axes.shape)
    return index


def _lines(answer: Answer) -> tuple[list[Line], str]:
    axes = answer.sweep.inputs.axes
    drawn = _drawn(axes)
    axis = drawn[0] if drawn else TIMING
    lines: list[Line] = []
    for m, name in enumerate(axes.mechanisms):
        if axis == TIMING and axes.timing.family is Family.EARLY_VS_LATE:
            end = axes.timing.horizon - 1
            late, early = np.arange(end, 2 * end + 1), np.arange(end)
            ks = np.arange(end + 1, dtype=np.float64)
            lines.append(Line(label=f"{name}, from step k on", x=ks, cells=_along(answer, axis, late, m)))
            lines.append(
                Line(
                    label=f"{name}, before step k",
                    x=ks[1:],
                    cells=_along(answer, axis, early, m),
                    is_dashed=True,
                )
            )
        else:
            places = np.arange(axes.shape[axis])
            lines.append(Line(label=name, x=_ticks(axes, axis), cells=_along(answer, axis, places, m)))
    return lines, _label(axes, axis)


def _ticks(axes: Axes, axis: int) -> FloatArray:
    """Values along an axis of numbers."""
    match NAMES[axis]:
        case "threshold":
            return np.array(axes.thresholds)
        case "budget":
            return np.array(axes.budgets, dtype=np.float64)
        case "cooldown":
            return np.array(axes.cooldowns, dtype=np.float64)
    places = np.arange(axes.shape[axis], dtype=np.float64)
    if axes.timing.family is Family.EARLY_VS_LATE:
        # k: fires before k, then from k on
        end = axes.timing.horizon - 1
        return np.where(places < end, places + 1.0, places - end)
    return places + 1.0 if axes.timing.family is Family.FIXED_FREQUENCY else places


def _label(axes: Axes, axis: int) -> str:
    return LABELS.get(axes.timing.family, "cell") if axis == TIMING else NAMES[axis]


def _draw_lines(answer: Answer, _figure: Any, panel: Any) -> None:
    lines, label = _lines(answer)
    many = answer.sweep.inputs.n_draws > 1
    at = {name: COLUMNS.index(f"gain_{name}") for name in ("mean", "q2.5", "q97.5")}
    for i, line in enumerate(lines):
        rows = 100 * answer.sweep.rows(line.cells)
        color = f"C{i // 2 if any(it.is_dashed for it in lines) else i}"
        style = "--" if line.is_dashed else "-"
        panel.plot(line.x, rows[:, at["mean"]], style, color=color, marker=".", label=line.label)
        if many:
            panel.fill_between(line.x, rows[:, at["q2.5"]], rows[:, at["q97.5"]], color=color, alpha=0.15, lw=0)
    panel.axhline(0.0, color="0.4", lw=0.8)
    panel.set_xlabel(label)
    panel.set_ylabel("gain, percentage points" + (" (mean, 95 % interval)" if many else ""))
    panel.legend(frameon=False)


def _draw_windows(answer: Answer, figure: Any, panel: Any) -> None:
    axes = answer.sweep.inputs.axes
    horizon = axes.timing.horizon
    places = np.arange(len(axes.timing))
    gates = axes.timing.gates(places)
    mechanism = _at_best(answer)[MECHANISM]
    gain = np.full((horizon, horizon), np.nan)
    gain[gates.last_step, gates.first_step] = 100 * answer.sweep.rows(_along(answer, TIMING, places, mechanism))[:, 0]
    borders = np.arange(horizon + 1, dtype=np.float64) - 0.5
    _heat(figure, panel, gain, borders, borders)
    panel.set_xlabel("first step that may fire")
    panel.set_ylabel(f"last step that may fire, {axes.mechanisms[mechanism]}")


def _draw_map(answer: Answer, figure: Any, panel: Any) -> None:
    axes = answer.sweep.inputs.axes
    across, up = _drawn(axes)
    mechanism = _at_best(answer)[MECHANISM]
    xs, ys = _places(answer, across), _places(answer, up)
    at = [np.full((len(ys), len(xs)), it) for it in _at_best(answer)]
    at[across], at[up] = np.broadcast_to(xs, at[0].shape), np.broadcast_to(ys[:, None], at[0].shape)
    cells = np.ravel_multi_index(tuple(at), axes.shape)
    gain = 100 * answer.sweep.rows(cells.ravel())[:, 0].reshape(cells.shape)
    _heat(figure, panel, gain, _edges(_ticks(axes, across)[xs]), _edges(_ticks(axes, up)[ys]))
    label = _label(axes, across)
    if axes.timing.family is Family.EARLY_VS_LATE and across == TIMING:
        label = (
            "step k, fires from k on" if answer.best.last_step == axes.timing.horizon - 1 else "step k, fires before k"
        )
    panel.set_xlabel(label)
    panel.set_ylabel(f"{_label(axes, up)}, {axes.mechanisms[mechanism]}")


def _places(answer: Answer, axis: int) -> IntArray:
    """Numbers along an axis that a map shows; of early-vs-late the half that the best cell lies in."""
    axes = answer.sweep.inputs.axes
    first, stop = 0, axes.shape[axis]
    if axis == TIMING and axes.timing.family is Family.EARLY_VS_LATE:
        end = axes.timing.horizon - 1
        first, stop = (end, stop) if _at_best(answer)[TIMING] >= end else (0, end)
    return np.arange(first, stop, math.ceil((stop - first) / MOST_COLUMNS))


def _edges(ticks: FloatArray) -> FloatArray:
    """Borders of columns that are centred on ticks, which need not be even or in order."""
    if len(ticks) < 2:
        return np.array([ticks[0] - 0.5, ticks[0] + 0.5])
    between = (ticks[1:] + ticks[:-1]) / 2
    return np.concatenate([[2 * ticks[0] - between[0]], between, [2 * ticks[-1] - between[-1]]])


def _heat(figure: Any, panel: Any, gain: FloatArray, x: FloatArray, y: FloatArray) -> None:
    most = float(np.nanmax(np.abs(gain))) or 1.0
    drawn = panel.pcolormesh(x, y, gain, cmap="RdBu", vmin=-most, vmax=most)
    figure.colorbar(drawn, ax=panel, label="gain, percentage points")
