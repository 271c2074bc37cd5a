"""Operating characteristics of a plan as curves over the true gain."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drsim.planning.pilot_size import operating_points
from drsim.report.design.answer import Answer
from drsim.report.picture import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_design"]

N_GAINS = 61
DEPLOY, REJECT, EQUIVALENT, WRONG = "#2a6f97", "#bc4b51", "#8a8f98", "black"
WIDEST = 0.3
"""Gains beyond it are found by pilots of any size."""


def plot_design(answer: Answer, path: Path) -> None:
    """Draw the probabilities of every decision over the true gain.

    Parameters
    ----------
    answer : Answer
        With the plan, which is read at further gains.
    path : Path
        `.svg` or `.png`; written beside itself and renamed.

    Raises
    ------
    ParameterError
        matplotlib is missing, the file has another ending, or it cannot be written.
    """
    with picture(path, (7.0, 4.2)) as figure:
        _draw(answer, figure.subplots())


def _draw(answer: Answer, axes: "Axes") -> None:
    world, plan, margin = answer.world, answer.plan, answer.rule.decision.margin
    low = max(margin - WIDEST, -world.largest_gain(plan.pairing, -1))
    high = min(margin + WIDEST, world.largest_gain(plan.pairing, 1))
    gains = np.unique(np.append(np.linspace(low, high, N_GAINS), margin))
    points = operating_points(world, plan, answer.rule, gains.tolist(), seed=answer.seed)
    curves = (
        ("deploy", DEPLOY, "-", [it.p_deploy for it in points]),
        ("do not deploy", REJECT, "-", [it.p_reject for it in points]),
        ("equivalent", EQUIVALENT, "--", [it.p_equivalent for it in points]),
        ("wrong sign", WRONG, ":", [it.p_wrong for it in points]),
    )
    for label, colour, style, chances in curves:
        if max(chances) > 0.0:
            axes.plot(100 * gains, chances, style, color=colour, label=label)
    axes.axvline(100 * margin, color="black", linewidth=0.8)
    axes.set(xlabel="true gain, percentage points", ylabel="probability", ylim=(-0.02, 1.02))
    size = f"{plan.n_tasks} tasks × {plan.n_trials} trials, {plan.pairing} pairs"
    axes.set_title(f"{size}, rule: {answer.rule.kind}")
    axes.legend()
