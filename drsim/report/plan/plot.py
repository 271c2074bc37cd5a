"""Pictures of a plan: both frontiers, and maps of which alternative wins."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drsim.arrays import BoolArray, FloatArray
from drsim.planning.alternatives import Family
from drsim.planning.plan import Plan
from drsim.planning.plan_maps import RATE_WINNERS, rate_map, selector_map
from drsim.report.picture import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_plan"]

BAND = (0.05, 0.95)
COLOURS = {
    Family.NOTHING: "#1b1b1e",
    Family.INTERVENE: "#2a6f97",
    Family.HALT: "#8a8f98",
    Family.RESTART: "#e09f3e",
    Family.RETRY: "#588157",
    Family.RETRY_IN_CONTEXT: "#a3b18a",
    Family.BEST_OF: "#bc4b51",
    Family.BEST_OF_INTERVENED: "#8e7dbe",
    Family.ESCALATE: "#f4845f",
}


def plot_plan(plan: Plan, path: Path) -> None:
    """Draw success over cost and over latency, and two maps.

    Parameters
    ----------
    plan : Plan
        With its frontier.
    path : Path
        `.svg` or `.png`; written beside itself and renamed.

    Raises
    ------
    ParameterError
        matplotlib is missing, the file has another ending, or it cannot be written.
    """
    with picture(path, (11.0, 8.0)) as figure:
        figure.suptitle(plan.basis.name)
        axes = figure.subplots(2, 2)
        money = plan.prices.money
        _draw_frontier(plan, axes[0, 0], plan.money, plan.frontier.is_on_cost, f"{money} a task")
        axes[0, 0].legend(fontsize=7, loc="lower right")
        if plan.costs.seconds is None or plan.frontier.is_on_latency is None:
            _say(axes[0, 1], "a step has no time in this model")
        else:
            _draw_frontier(plan, axes[0, 1], plan.costs.seconds, plan.frontier.is_on_latency, "seconds a task")
        _draw_rates(plan, axes[1, 0])
        _draw_selectors(plan, axes[1, 1])


def _say(axes: "Axes", text: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center")


def _draw_frontier(plan: Plan, axes: "Axes", cost: FloatArray, is_on: BoolArray, label: str) -> None:
    """Means with 90 % bands; the frontier as a staircase; bounds hollow."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    x, y = cost.mean(axis=1), plan.success.mean(axis=1)
    low, high = np.quantile(plan.success, BAND, axis=1)
    for family, colour in COLOURS.items():
        kind = np.array([it.family is family for it in plan.alternatives])
        for is_shown, filled in ((plan.is_allowed, True), (~plan.is_allowed, False)):
            chosen = kind & is_shown
            if not chosen.any():
                continue
            # the mean of a skewed posterior may lie beyond a quantile
            below, above = np.maximum(y - low, 0.0)[chosen], np.maximum(high - y, 0.0)[chosen]
            name = f"{family}" if filled else f"{family}, perfect selector"
            face = colour if filled else "none"
            axes.errorbar(x[chosen], y[chosen], yerr=[below, above], fmt="none", ecolor=colour, alpha=0.25)
            axes.scatter(x[chosen], y[chosen], s=16, facecolors=face, edgecolors=colour, label=name, zorder=3)
    order = np.flatnonzero(is_on)[np.argsort(x[is_on], kind="stable")]
    axes.step(x[order], y[order], where="post", color="black", linewidth=1.0, zorder=2)
    if x.min() > 0.0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel=label, ylabel="success")
    axes.set_title("Means, 90 % bands, frontier")


def _draw_rates(plan: Plan, axes: "Axes") -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    found = _rates_of_policy(plan)
    if found is None:
        _say(axes, "no intervention recovers or disrupts anything")
        return
    maps = rate_map(plan, *found)
    colours = [COLOURS[it] for it in RATE_WINNERS]
    axes.pcolormesh(
        maps.failure_rate,
        maps.ratio,
        maps.winner,
        cmap=ListedColormap(colours),
        vmin=-0.5,
        vmax=len(colours) - 0.5,
        shading="nearest",
        rasterized=True,
    )
    axes.set_yscale("log")
    failure_rate = 1.0 - float(plan.success[0].mean())
    if found[1] > 0.0:
        axes.plot([failure_rate], [np.clip(found[0] / found[1], *maps.ratio[[0, -1]])], "w*", markersize=11)
    axes.legend(
        handles=[Patch(color=c, label=str(it)) for c, it in zip(colours, RATE_WINNERS, strict=True)], fontsize=7
    )
    axes.set(xlabel="failure rate p", ylabel="r/d")
    title = f"Most success within two runs; r + d = {maps.flips:.2f}, ρ = {maps.rho:.2f}"
    axes.set_title(title, fontsize=9)


def _rates_of_policy(plan: Plan) -> tuple[float, float] | None:
    """R and d of the best intervention, under runs that share only the task; None where nothing flips."""
    best = plan.best_of_kind(Family.INTERVENE)
    if best is None:
        return None
    name = plan.names[best].removeprefix(f"{Family.INTERVENE}: ")
    unaided, arm = plan.world.attempts.unaided, plan.world.attempts.intervened[name]
    up = float(unaided.over_tasks((1.0 - unaided.success) * arm.success).mean())
    down = float(unaided.over_tasks(unaided.success * (1.0 - arm.success)).mean())
    success = float(unaided.mean_success.mean())
    if not 0.0 < success < 1.0 or up + down == 0.0:
        return None
    return up / (1.0 - success), down / success


def _draw_selectors(plan: Plan, axes: "Axes") -> None:
    from matplotlib.colors import CenteredNorm

    maps = selector_map(plan)
    mesh = axes.pcolormesh(
        maps.auroc,
        maps.attempts,
        100.0 * maps.lead,
        cmap="RdBu",
        norm=CenteredNorm(),
        shading="nearest",
        rasterized=True,
    )
    if maps.lead.min() < 0.0 < maps.lead.max() and len(maps.attempts) > 1:
        axes.contour(maps.auroc, maps.attempts, maps.lead, levels=[0.0], colors="black", linewidths=1.0)
    bar = axes.figure.colorbar(mesh, ax=axes)
    bar.set_label("pp ahead of the best other")
    axes.plot([plan.tools.selector.auroc] * 2, maps.attempts[[0, -1]], "k:", linewidth=0.8)
    axes.set(xlabel="AUROC of the selector", ylabel="N: best other")
    axes.set_title("Best-of-N against whatever else N runs' money buys", fontsize=9)
    axes.set_yticks(maps.attempts, [f"{n}: {name}" for n, name in zip(maps.attempts, maps.rivals, strict=True)])
    axes.tick_params(axis="y", labelsize=6)
