r"""How the blocks' parameters follow from effects of agent, benchmark, mechanism and cell.

All parameters of all blocks, x, are linear in standard normal effects z once the scales are known: x = m + Z·D(θ)·z,
with one column for each intercept and each level of each factor (non-centred). A scale with half-normal prior is a
function of a standard normal θ, by its quantiles, so that the whole prior is N(0, I): where the data say little the
posterior stays normal, and no scale has an infinite mode at 0.

A factor with one level, or with the same levels as one before it, says nothing of its own and drops out.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from drsim.arrays import FloatArray, IntArray
from drsim.inference.hierarchical.data import HierarchicalData
from drsim.inference.hierarchical.linear import product
from drsim.inference.hierarchical.priors import Priors

__all__ = [
    "FACTORS",
    "Design",
    "half_normal",
    "intercept_of",
    "lay_out",
    "levels_in",
    "levels_of",
    "width_of",
]

FACTORS = {
    "baseline": ("agent", "benchmark", "block"),
    "task": ("block",),
    "gain": ("agent", "benchmark", "mechanism", "cell"),
    "spread": ("cell",),
}
"""Kinds of parameters, a_b, log σ_b, δ_c and log τ_c, with the factors that each follows."""
BLOCK_KINDS = ("baseline", "task")
"""Kinds of which a block has one; of the others each cell has one."""


def half_normal(theta: FloatArray) -> FloatArray:
    """Half-normal scale at the standard normal score θ: Φ⁻¹((1 + Φ(θ))/2)."""
    # From the upper tail, where the lower would round to 1.
    scale: FloatArray = np.maximum(-special.ndtri(special.ndtr(-theta) / 2), 0.0)
    return scale


def intercept_of(priors: Priors, kind: str) -> tuple[float, float]:
    """Prior mean and sd of the intercept of one kind of parameter."""
    return {
        "baseline": (priors.baseline_mean, priors.baseline_sd),
        "task": (float(np.log(priors.task_median)), priors.task_log_sd),
        "gain": (priors.gain_mean, priors.gain_sd),
        "spread": (float(np.log(priors.spread_median)), priors.spread_log_sd),
    }[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The linear map from effects to parameters."""

    mean: FloatArray
    """(n_x,) m."""
    columns: FloatArray
    """(n_x, n_z) Z, 0 or 1."""
    width: FloatArray
    """(n_z,) prior sd of a column: that of the intercept, or the scale of the half-normal."""
    scale_of: IntArray
    """(n_z,) index of the column's scale in θ; −1 for intercepts."""
    names: tuple[str, ...]
    """(n_z,) `kind` for an intercept, `kind[factor=level]` for an effect."""
    scale_names: tuple[str, ...]
    """(n_theta,) `kind factor`."""
    starts: IntArray
    """(n_blocks + 1,) where each block's parameters begin in x."""

    @property
    def n_z(self) -> int:
        """Effects."""
        return len(self.width)

    @property
    def n_theta(self) -> int:
        """Scales that are not fixed."""
        return len(self.scale_names)

    def scales(self, theta: FloatArray) -> FloatArray:
        """(n_points, n_z) sd of every column at (n_points, n_theta) scores."""
        drawn = half_normal(theta)
        padded = np.concatenate([drawn, np.ones((len(theta), 1))], axis=1)
        scales: FloatArray = self.width * padded[:, self.scale_of]
        return scales

    def parameters(self, theta: FloatArray, z: FloatArray) -> FloatArray:
        """(n_points, n_x) x."""
        x: FloatArray = self.mean + product(self.scales(theta) * z, self.columns)
        return x


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A factor of one kind of parameter."""

    kind: str
    factor: str
    width: float
    levels: Sequence[Hashable]
    """One for each parameter of the kind."""


def lay_out(data: HierarchicalData, priors: Priors) -> Design:
    """The design of a data set.

    Parameters
    ----------
    data : HierarchicalData
        Blocks and cells.
    priors : Priors
        Widths of all effects.

    Returns
    -------
    Design
    """
    starts = np.cumsum([0, *(2 + 2 * len(block.arms) for block in data.blocks)])
    n_x = int(starts[-1])
    where = _places(data, starts)
    mean = np.zeros(n_x)
    for kind in FACTORS:
        mean[where[kind]], _ = intercept_of(priors, kind)
    columns: list[FloatArray] = []
    width: list[float] = []
    scale_of: list[int] = []
    names: list[str] = []
    scale_names: list[str] = []
    for part in _parts(data, priors):
        levels = list(dict.fromkeys(part.levels))
        for level in levels:
            column = np.zeros(n_x)
            column[where[part.kind][[i for i, own in enumerate(part.levels) if own == level]]] = 1.0
            columns.append(column)
            names.append(part.kind if part.factor == "" else f"{part.kind}[{part.factor}={level}]")
        width += [part.width] * len(levels)
        scale_of += [-1 if part.factor == "" else len(scale_names)] * len(levels)
        if part.factor != "":
            scale_names.append(f"{part.kind} {part.factor}")
    return Design(
        mean=mean,
        columns=np.stack(columns, axis=1),
        width=np.array(width),
        scale_of=np.array(scale_of, dtype=np.int64),
        names=tuple(names),
        scale_names=tuple(scale_names),
        starts=starts.astype(np.int64),
    )


def _places(data: HierarchicalData, starts: IntArray) -> dict[str, IntArray]:
    """Where each kind's parameters are in x, in the order of blocks or cells."""
    of_cell = np.array([starts[cell.block] + 2 + 2 * cell.place for cell in data.cells], dtype=np.int64)
    return {"baseline": starts[:-1], "task": starts[:-1] + 1, "gain": of_cell, "spread": of_cell + 1}


def levels_of(agent: str, benchmark: str, arm: str) -> dict[str, str]:
    """The level of every factor for a cell."""
    block = f"{agent} on {benchmark}"
    return {
        "agent": agent,
        "benchmark": benchmark,
        "mechanism": arm,
        "block": block,
        "cell": f"{block}, {arm}",
    }


def levels_in(data: HierarchicalData, kind: str) -> list[dict[str, str]]:
    """The levels of the blocks or cells that have a parameter of this kind."""
    if kind in BLOCK_KINDS:
        return [levels_of(block.agent, block.benchmark, "") for block in data.blocks]
    return [levels_of(cell.agent, cell.benchmark, cell.arm) for cell in data.cells]


def width_of(priors: Priors, kind: str, factor: str) -> float:
    """Scale of the half-normal prior of a factor's spread."""
    return float(getattr(priors, f"{kind}_{factor}_sd"))


def _parts(data: HierarchicalData, priors: Priors) -> list[_Part]:
    parts: list[_Part] = []
    for kind, factors in FACTORS.items():
        levels = levels_in(data, kind)
        if not levels:
            continue
        _, width = intercept_of(priors, kind)
        parts.append(_Part(kind=kind, factor="", width=width, levels=[0] * len(levels)))
        seen = {(0,) * len(levels)}
        for factor in factors:
            own = [level[factor] for level in levels]
            partition = _partition(own)
            if partition not in seen:
                seen.add(partition)
                parts.append(_Part(kind=kind, factor=factor, width=width_of(priors, kind, factor), levels=own))
    return parts


def _partition(levels: Sequence[str]) -> tuple[int, ...]:
    """Levels by number in order of first appearance, so that equal partitions are equal."""
    index = {level: i for i, level in enumerate(dict.fromkeys(levels))}
    return tuple(index[level] for level in levels)
