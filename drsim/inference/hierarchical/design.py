r"""How the blocks' parameters follow from effects of agent, benchmark, mechanism and cell.

All parameters of all blocks, x, are linear in standard normal effects z once the scales are known: x = m + Z·D(θ)·z,
with one column for each intercept and each level of each factor (non-centred). A scale with half-normal prior is a
function of a standard normal θ, by its quantiles, so that the whole prior is N(0, I): where the data say little the
posterior stays normal, and no scale has an infinite mode at 0.

A factor with one level, or with the same levels as one before it, says nothing of its own and drops out.

What an agent or a benchmark does to the baseline and what it does to the gain are correlated: the effect on the gain is
s·(ρ·z_baseline + √(1 − ρ²)·z), ρ with the prior of Lewandowski, Kurowicka and Joe (2009), for two effects
(1 + ρ)/2 ~ Beta(η, η); ρ too is a function of a standard normal score.
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
    "CORRELATED",
    "FACTORS",
    "Design",
    "Mixing",
    "half_normal",
    "intercept_of",
    "lay_out",
    "levels_in",
    "levels_of",
    "lkj_correlation",
    "width_of",
]

FACTORS = {
    "baseline": ("agent", "benchmark", "block"),
    "task": ("block",),
    "gain": ("agent", "benchmark", "mechanism", "cell"),
    "spread": ("cell",),
}
"""Kinds of parameters, a_b, log σ_b, δ_c and log τ_c, with the factors that each follows."""
FARTHEST_SCORE = 30.0
"""Beyond it the tail of a normal has no digits left."""
CORRELATED = ("agent", "benchmark")
"""Factors whose effects on the baseline and on the gain are correlated."""
BLOCK_KINDS = ("baseline", "task")
"""Kinds of which a block has one; of the others each cell has one."""


def half_normal(theta: FloatArray) -> FloatArray:
    """Half-normal scale at the standard normal score θ: Φ⁻¹((1 + Φ(θ))/2)."""
    # From the upper tail, where the lower would round to 1.
    scale: FloatArray = np.maximum(-special.ndtri(special.ndtr(-theta) / 2), 0.0)
    return scale


def half_normal_slope(theta: FloatArray) -> FloatArray:
    """Derivative of `half_normal`."""
    slope: FloatArray = 0.5 * np.exp(0.5 * (half_normal(theta) ** 2 - theta**2))
    return slope


def lkj_correlation(theta: FloatArray, shape: float) -> tuple[FloatArray, FloatArray]:
    """Correlation ρ of two effects at the standard normal score θ, 2 B⁻¹(Φ(θ)) − 1, and √(1 − ρ²).

    B is that of Beta(shape, shape).
    """
    tail = _lkj_tail(theta, shape)
    return np.sign(theta) * (1.0 - 2.0 * tail), 2.0 * np.sqrt(tail * (1.0 - tail))


def lkj_slope(theta: FloatArray, shape: float) -> FloatArray:
    """Derivative of the correlation."""
    tail = _lkj_tail(theta, shape)
    log_density = (shape - 1) * np.log(tail * (1 - tail)) - special.betaln(shape, shape)
    slope: FloatArray = 2.0 * np.exp(-0.5 * theta**2 - 0.5 * np.log(2 * np.pi) - log_density)
    return slope


def _lkj_tail(theta: FloatArray, shape: float) -> FloatArray:
    """(1 − |ρ|)/2; by the lower tail on both sides, so that scores far out keep their digits and ρ is odd in θ."""
    tail: FloatArray = special.betaincinv(shape, shape, special.ndtr(-np.minimum(np.abs(theta), FARTHEST_SCORE)))
    return tail


def intercept_of(priors: Priors, kind: str) -> tuple[float, float]:
    """Prior mean and sd of the intercept of one kind of parameter."""
    return {
        "baseline": (priors.baseline_mean, priors.baseline_sd),
        "task": (float(np.log(priors.task_median)), priors.task_log_sd),
        "gain": (priors.gain_mean, priors.gain_sd),
        "spread": (float(np.log(priors.spread_median)), priors.spread_log_sd),
    }[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixing:
    """Effects from standard normal z at n scores θ: each is `own` times its z, plus `lent` times that of its partner.

    The matrix W of this map is diagonal but for one entry in the row of each correlated effect.
    """

    own: FloatArray
    """(n, n_z)"""
    lent: FloatArray
    """(n, n_coupled)"""
    coupled: IntArray
    """(n_coupled,) columns of effects on the gain."""
    partner: IntArray
    """(n_coupled,) columns of the same levels' effects on the baseline; no two alike."""

    def effects(self, z: FloatArray) -> FloatArray:
        """(n, n_z) W z."""
        total: FloatArray = self.own * z
        total[:, self.coupled] += self.lent * z[:, self.partner]
        return total

    def carried(self, slope: FloatArray) -> FloatArray:
        """(n, n_z) Wᵀ g of (n or 1, n_z) slopes in the effects."""
        total: FloatArray = self.own * slope
        total[:, self.partner] += self.lent * slope[:, self.coupled]
        return total

    def congruent(self, matrix: FloatArray) -> FloatArray:
        """(n, n_z, n_z) Wᵀ H W of (n or 1, n_z, n_z) symmetric matrices."""
        right = matrix * self.own[:, None, :]
        right[:, :, self.partner] += matrix[:, :, self.coupled] * self.lent[:, None, :]
        total: FloatArray = right * self.own[:, :, None]
        total[:, self.partner] += self.lent[:, :, None] * right[:, self.coupled]
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The map from effects to parameters, linear for given scores."""

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
    """(n_scales,) `kind factor`; their scores come first in θ."""
    correlation_names: tuple[str, ...]
    """(n_correlations,) factors whose effects on baseline and gain are correlated; their scores come last in θ."""
    correlation_shape: float
    """η of their prior."""
    coupled: IntArray
    """(n_coupled,) columns of effects on the gain that are correlated with …"""
    partner: IntArray
    """(n_coupled,) … these columns, of effects on the baseline."""
    correlation_of: IntArray
    """(n_coupled,) index of the correlation among `correlation_names`."""
    starts: IntArray
    """(n_blocks + 1,) where each block's parameters begin in x."""

    @property
    def n_z(self) -> int:
        """Effects."""
        return len(self.width)

    @property
    def n_theta(self) -> int:
        """Scales and correlations that are not fixed."""
        return len(self.scale_names) + len(self.correlation_names)

    @property
    def theta_names(self) -> tuple[str, ...]:
        """(n_theta,) `sd kind factor` and `corr factor`."""
        return (
            *(f"sd {name}" for name in self.scale_names),
            *(f"corr {name}" for name in self.correlation_names),
        )

    def scales(self, theta: FloatArray) -> FloatArray:
        """(n_points, n_z) sd of every column at (n_points, n_theta) scores."""
        drawn = half_normal(theta[:, : len(self.scale_names)])
        padded = np.concatenate([drawn, np.ones((len(theta), 1))], axis=1)
        scales: FloatArray = self.width * padded[:, self.scale_of]
        return scales

    def correlations(self, theta: FloatArray) -> FloatArray:
        """(n_points, n_correlations) ρ."""
        return lkj_correlation(theta[:, len(self.scale_names) :], self.correlation_shape)[0]

    def mixing(self, theta: FloatArray) -> Mixing:
        """How effects follow from z at (n_points, n_theta) scores."""
        own = self.scales(theta)
        correlation, rest = self._couplings(theta)
        lent = own[:, self.coupled] * correlation
        own[:, self.coupled] *= rest
        return Mixing(own=own, lent=lent, coupled=self.coupled, partner=self.partner)

    def score_slopes(self, theta: FloatArray, own: FloatArray, lent: FloatArray) -> FloatArray:
        """(n, n_theta) slopes in the scores from those in `mixing`: (n, n_z) in own, (n, n_coupled) in lent."""
        correlation, rest = self._couplings(theta)
        in_scale = own.copy()
        in_scale[:, self.coupled] = own[:, self.coupled] * rest + lent * correlation
        in_correlation = self.scales(theta)[:, self.coupled] * (lent - own[:, self.coupled] * correlation / rest)
        slopes = np.zeros(theta.shape)
        n_scales = len(self.scale_names)
        bends = half_normal_slope(theta[:, :n_scales])
        for i in range(n_scales):
            slopes[:, i] = bends[:, i] * (in_scale * self.width)[:, self.scale_of == i].sum(axis=1)
        bends = lkj_slope(theta[:, n_scales:], self.correlation_shape)
        for i in range(len(self.correlation_names)):
            slopes[:, n_scales + i] = bends[:, i] * in_correlation[:, self.correlation_of == i].sum(axis=1)
        return slopes

    def _couplings(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, n_coupled) ρ and √(1 − ρ²)."""
        found = lkj_correlation(theta[:, len(self.scale_names) :], self.correlation_shape)
        return found[0][:, self.correlation_of], found[1][:, self.correlation_of]

    def parameters(self, theta: FloatArray, z: FloatArray) -> FloatArray:
        """(n_points, n_x) x."""
        x: FloatArray = self.mean + product(self.mixing(theta).effects(z), self.columns)
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
    # Effects of single blocks first: eliminated first, they fill nothing in (see `linear`).
    order = np.argsort([column.sum() for column in columns], kind="stable")
    names = [names[i] for i in order]
    coupled, partner, correlation_of, correlation_names = _couplings(names)
    return Design(
        correlation_names=correlation_names,
        correlation_shape=priors.correlation_shape,
        coupled=coupled,
        partner=partner,
        correlation_of=correlation_of,
        mean=mean,
        columns=np.ascontiguousarray(np.stack(columns, axis=1)[:, order]),
        width=np.array(width)[order],
        scale_of=np.array(scale_of, dtype=np.int64)[order],
        names=tuple(names),
        scale_names=tuple(scale_names),
        starts=starts.astype(np.int64),
    )


def _couplings(names: Sequence[str]) -> tuple[IntArray, IntArray, IntArray, tuple[str, ...]]:
    """Columns on the gain, their partners on the baseline, which correlation each pair has, and whose those are."""
    index = {name: i for i, name in enumerate(names)}
    found: list[tuple[int, int, str]] = []
    for factor in CORRELATED:
        prefix = f"gain[{factor}="
        for name in names:
            other = index.get(name.replace("gain[", "baseline[", 1))
            if name.startswith(prefix) and other is not None:
                found.append((index[name], other, factor))
    factors = tuple(dict.fromkeys(factor for _, _, factor in found))
    columns = np.array([(i, j, factors.index(factor)) for i, j, factor in found], dtype=np.int64).reshape(-1, 3)
    coupled, partner, of = (np.ascontiguousarray(column) for column in columns.T)
    return coupled, partner, of, factors


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
