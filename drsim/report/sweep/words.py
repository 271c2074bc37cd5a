"""How cells and gains of a sweep read in text."""

from dataclasses import dataclass

from drsim.arrays import FloatArray
from drsim.planning.axes import Axes, Cells, Family
from drsim.planning.sweep_cells import COLUMNS
from drsim.report.numbers import points, points_interval

__all__ = ["Cell", "cell_at", "gain_words", "points_off", "varied", "when", "when_short"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell with its numbers."""

    index: int
    mechanism: str
    threshold: float
    """NaN where it differs by step."""
    first_step: int
    last_step: int
    budget: int
    cooldown: int
    every: int
    numbers: dict[str, float]
    """By the names of `COLUMNS`."""

    @property
    def gain(self) -> float:
        """Mean gain."""
        return self.numbers["gain_mean"]


def cell_at(axes: Axes, cells: Cells, rows: FloatArray, i: int) -> Cell:
    """Cell i of a block of cells and their rows."""
    return Cell(
        index=int(cells.index[i]),
        mechanism=axes.mechanisms[int(cells.mechanism[i])],
        threshold=float(cells.threshold[i]),
        first_step=int(cells.first_step[i]),
        last_step=int(cells.last_step[i]),
        budget=int(cells.budget[i]),
        cooldown=int(cells.cooldown[i]),
        every=int(cells.every[i]),
        numbers=dict(zip(COLUMNS, (float(it) for it in rows[i]), strict=True)),
    )


def when(axes: Axes, cell: Cell) -> str:
    """When a cell may fire, as a phrase: `late, from step 4`."""
    first, last, end = cell.first_step, cell.last_step, axes.timing.horizon - 1
    match axes.timing.family:
        case Family.EARLY_VS_LATE if last < end:
            return f"early, before step {last + 1}"
        case Family.EARLY_VS_LATE if first > 0:
            return f"late, from step {first}"
        case Family.EARLY_VS_LATE:
            return "at any step"
        case Family.FIRST_STEP:
            return f"from step {first}"
        case Family.WINDOW:
            return f"in step {first}" if first == last else f"in steps {first} to {last}"
        case Family.FIXED_FREQUENCY:
            return f"every {_ordinal(cell.every)} step" if cell.every > 1 else "at every step"
        case Family.DELAY:
            return f"with a delay of {cell.cooldown} step{'' if cell.cooldown == 1 else 's'}"
    every = f", every {_ordinal(cell.every)}" if cell.every > 1 else ""
    return f"in steps {first} to {last}{every}"


def when_short(axes: Axes, cell: Cell) -> str:
    """As `when`, for a column of a table."""
    first, last, end = cell.first_step, cell.last_step, axes.timing.horizon - 1
    match axes.timing.family:
        case Family.EARLY_VS_LATE if last < end:
            return f"before {last + 1}"
        case Family.EARLY_VS_LATE | Family.FIRST_STEP:
            return f"from {first}"
        case Family.FIXED_FREQUENCY:
            return f"every {cell.every}"
        case Family.DELAY:
            return f"delay {cell.cooldown}"
    return f"{first} to {last}"


def _ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if number % 100 in (11, 12, 13) else endings.get(number % 10, "th")
    return f"{number}{ending}"


def varied(axes: Axes) -> list[str]:
    """Names of the axes, other than timing, that have more than one value."""
    names = ("mechanism", "timing", "threshold", "budget", "cooldown")
    return [name for name, size in zip(names, axes.shape, strict=True) if size > 1 and name != "timing"]


def points_off(value: float) -> str:
    """A gain as a verb: `gains 1.2 pp`, `costs 6.0 pp`, `changes nothing`."""
    size = f"{abs(100 * value):.1f}"
    if size == "0.0":
        return "changes nothing"
    return f"{'gains' if value > 0 else 'costs'} {size} pp"


def gain_words(cell: Cell, n_draws: int) -> str:
    """`+3.1 pp [+0.4, +5.9]`; without an interval under one model, with the Monte Carlo error where there is one."""
    numbers = cell.numbers
    text = f"{points(cell.gain)} pp"
    if n_draws > 1:
        text += f" {points_interval(numbers['gain_q2.5'], numbers['gain_q97.5'])}"
    if numbers["gain_mc_se"] > 0.0:
        text += f" (MC error {100 * numbers['gain_mc_se']:.2g} pp)"
    return text
