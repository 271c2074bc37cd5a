"""A picture of the ladder and of the curve of thresholds."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drsim.planning.ladder import Kind
from drsim.report.optimize.answer import Answer
from drsim.report.picture import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_answer"]

USER, BEST, BOUND = "#8a8f98", "#2a6f97", "#bc4b51"
STYLES = ("-", "--", ":", "-.")


def plot_answer(answer: Answer, path: Path) -> None:
    """Draw the ladder on the left and b* by step on the right.

    Parameters
    ----------
    answer : Answer
        With a ladder.
    path : Path
        `.svg` or `.png`; written beside itself and renamed.

    Raises
    ------
    ParameterError
        matplotlib is missing, the file has another ending, or it cannot be written.
    """
    with picture(path, (10.0, 4.2)) as figure:
        figure.suptitle(answer.model.name)
        left, right = figure.subplots(1, 2)
        _draw_ladder(answer, left)
        _draw_curve(answer, right)


def _draw_ladder(answer: Answer, axes: "Axes") -> None:
    rungs = answer.ladder.rungs
    gains = [100 * it.gain for it in rungs]
    colours = [USER if it.kind is Kind.USER else BOUND if it.kind is Kind.FULL else BEST for it in rungs]
    places = np.arange(len(rungs))
    axes.barh(places, gains, color=colours, xerr=[[100 * (it.gain - it.low) for it in rungs], [0.0] * len(rungs)])
    axes.set_yticks(places, [it.name for it in rungs])
    axes.axvline(0.0, color="black", linewidth=0.8)
    for place, gain in zip(places, gains, strict=True):
        axes.annotate(f" {gain:+.1f} ", (max(gain, 0.0), place), va="center")
    low, high = min(0.0, *gains), max(0.0, *gains)
    room = 0.15 * max(high - low, 0.1)
    axes.set_xlim(low - room / 3, high + room)
    axes.set_xlabel("gain, percentage points" + ("" if answer.ladder.terms.is_free else ", net of prices"))
    axes.set_title("What each kind of policy gains")


def _draw_curve(answer: Answer, axes: "Axes") -> None:
    programme = answer.ladder.programme
    lowest = programme.regions.lowest
    steps = np.arange(lowest.shape[2])
    for m, name in enumerate(answer.mechanisms):
        for b in {0, programme.budget - 1} if programme.budget else ():
            if not np.isnan(lowest[m, b]).all():
                label = f"{name}, {b + 1} left"
                axes.plot(
                    steps, lowest[m, b], STYLES[m % len(STYLES)], marker=".", color=BEST if b else BOUND, label=label
                )
    axes.set(xlabel="step", ylabel="b*: intervene when P(off track) is above", ylim=(-0.02, 1.02))
    axes.set_title("When to intervene")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
