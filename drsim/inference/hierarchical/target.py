"""The posterior's density over scales θ and effects z, and the normal that fits it for given scales."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.data import HierarchicalData
from drsim.inference.hierarchical.design import Design, Mixing, lay_out
from drsim.inference.hierarchical.likelihood import PackedBlock
from drsim.inference.hierarchical.linear import factorise, solve_lower, solve_upper
from drsim.inference.hierarchical.priors import Priors

__all__ = ["Expansion", "Normal", "Quadratic", "Target"]

LEAST_PRECISION = 0.05
"""An effect's posterior is not let be more than 4.5 times as wide as its prior."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quadratic:
    """Curvature of a log-likelihood and where it pulls, both in the space of effects."""

    curvature: FloatArray
    """(n, n_z, n_z) Zᵀ H Z, H minus the Hessian."""
    pull: FloatArray
    """(n, n_z) Zᵀ(g + H(x − m))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """Log-likelihood to second order about n points."""

    value: FloatArray
    """(n,)"""
    exact: Quadratic
    """With the Hessian itself."""
    concave: Quadratic
    """With H's negative eigenvalues, block by block, set to 0: always usable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """A normal for z at each of n scores θ."""

    mode: FloatArray
    """(n, n_z)"""
    root: FloatArray
    """(n, n_z, n_z) lower Cholesky factor of the precision."""

    @property
    def log_root(self) -> FloatArray:
        """(n,) log determinant of the factor."""
        total: FloatArray = np.log(np.diagonal(self.root, axis1=1, axis2=2)).sum(axis=1)
        return total

    def at(self, e: FloatArray) -> FloatArray:
        """(n, n_z) z at the standardised e."""
        return self.mode + solve_upper(self.root, e)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Log posterior of (θ, z); the prior of both is N(0, I)."""

    design: Design
    blocks: tuple[PackedBlock, ...]

    @classmethod
    def of(cls, data: HierarchicalData, priors: Priors) -> "Target":
        """The target of a data set."""
        return cls(design=lay_out(data, priors), blocks=tuple(PackedBlock.of(block) for block in data.blocks))

    def log_likelihood(self, x: FloatArray) -> FloatArray:
        """(n,) log-likelihood at (n, n_x) parameters."""
        total = np.zeros(len(x))
        for block, start, stop in zip(self.blocks, self.design.starts, self.design.starts[1:], strict=False):
            total += block.value(x[:, start:stop])
        return total

    def log_likelihood_slope(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) log-likelihood at (n, n_x) parameters, and its (n, n_x) gradient."""
        value, slope = np.zeros(len(x)), np.empty(x.shape)
        for block, start, stop in zip(self.blocks, self.design.starts, self.design.starts[1:], strict=False):
            own, slope[:, start:stop] = block.slope(x[:, start:stop])
            value += own
        return value, slope

    def log_density(self, theta: FloatArray, z: FloatArray) -> FloatArray:
        """(n,) log prior plus log-likelihood, without the prior's constant."""
        prior = -0.5 * (np.einsum("ij,ij->i", theta, theta) + np.einsum("ij,ij->i", z, z))
        density: FloatArray = prior + self.log_likelihood(self.design.parameters(theta, z))
        # Where parameters overflow, so far out that the prior alone rules them out.
        return np.where(np.isfinite(density), density, -np.inf)

    def expand(self, x: FloatArray) -> Expansion:
        """The log-likelihood to second order about (n, n_x) parameters."""
        design = self.design
        value = np.zeros(len(x))
        exact, concave = (
            Quadratic(
                curvature=np.zeros((len(x), design.n_z, design.n_z)),
                pull=np.zeros((len(x), design.n_z)),
            )
            for _ in range(2)
        )
        for block, start, stop in zip(self.blocks, design.starts, design.starts[1:], strict=False):
            own, slope, hessian = block.derivatives(x[:, start:stop])
            value += own
            used = np.flatnonzero(design.columns[start:stop].any(axis=0))
            local = design.columns[start:stop, used]
            offset = x[:, start:stop] - design.mean[start:stop]
            for quadratic, h in ((exact, -hessian), (concave, _without_negative(-hessian))):
                quadratic.curvature[:, used[:, None], used] += local.T @ h @ local
                quadratic.pull[:, used] += (slope + np.einsum("nij,nj->ni", h, offset)) @ local
        return Expansion(value=value, exact=exact, concave=concave)

    def normal(self, theta: FloatArray, expansion: Expansion) -> Normal:
        """The posterior of z at n scores θ if the log-likelihood were the expansion; one expansion or n."""
        mixing = self.design.mixing(theta)
        precision, drive = _precision(mixing, expansion.exact)
        root, is_definite = factorise(precision, LEAST_PRECISION)
        if not is_definite.all():  # not concave at some θ, even with the prior
            bad = ~is_definite
            usable, usable_drive = _precision(mixing, expansion.concave)
            root[bad], _ = factorise(usable[bad], 0.0)
            drive[bad] = usable_drive[bad]
        return Normal(mode=solve_upper(root, solve_lower(root, drive)), root=root)

    def given(self, mixing: Mixing, quadratic: Quadratic) -> Normal:
        """The same from a curvature that is nowhere negative."""
        precision, drive = _precision(mixing, quadratic)
        root, _ = factorise(precision, 0.0)
        return Normal(mode=solve_upper(root, solve_lower(root, drive)), root=root)


def _precision(mixing: Mixing, quadratic: Quadratic) -> tuple[FloatArray, FloatArray]:
    """(n, n_z, n_z) precision of z, and (n, n_z) precision times mean."""
    precision = mixing.congruent(quadratic.curvature)
    diagonal = np.arange(precision.shape[1])
    precision[:, diagonal, diagonal] += 1.0
    return precision, mixing.carried(quadratic.pull)


def _without_negative(matrices: FloatArray) -> FloatArray:
    """Symmetric matrices with their negative eigenvalues set to 0."""
    eigenvalues, vectors = np.linalg.eigh(matrices)
    if eigenvalues.min() >= 0:
        return matrices
    kept: FloatArray = (vectors * np.maximum(eigenvalues, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return kept
