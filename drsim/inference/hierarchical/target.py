"""The posterior's density over scales θ and effects z, and the normal that fits it for given scales."""

from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.data import HierarchicalData
from drsim.inference.hierarchical.design import Design, lay_out
from drsim.inference.hierarchical.likelihood import PackedBlock
from drsim.inference.hierarchical.priors import Priors

__all__ = ["Expansion", "Normal", "Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """Log-likelihood to second order about points x."""

    x: FloatArray
    """(n, n_x)"""
    value: FloatArray
    """(n,)"""
    gradient: FloatArray
    """(n, n_x)"""
    curvature: FloatArray
    """(n, n_z, n_z) Zᵀ H Z, where H is minus the Hessian with its negative eigenvalues, block by block, set to 0."""
    pull: FloatArray
    """(n, n_z) Zᵀ(g + H(x − m))."""


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
        offset: FloatArray = np.linalg.solve(np.swapaxes(self.root, 1, 2), e[..., None])[..., 0]
        return self.mode + offset


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

    def log_density(self, theta: FloatArray, z: FloatArray) -> FloatArray:
        """(n,) log prior plus log-likelihood, without the prior's constant."""
        prior = -0.5 * (np.einsum("ij,ij->i", theta, theta) + np.einsum("ij,ij->i", z, z))
        return prior + self.log_likelihood(self.design.parameters(theta, z))

    def expand(self, x: FloatArray) -> Expansion:
        """The log-likelihood to second order about (n, n_x) parameters."""
        design = self.design
        value, gradient = np.zeros(len(x)), np.zeros(x.shape)
        curvature, pull = np.zeros((len(x), design.n_z, design.n_z)), np.zeros((len(x), design.n_z))
        for block, start, stop in zip(self.blocks, design.starts, design.starts[1:], strict=False):
            own, slope, hessian = block.derivatives(x[:, start:stop])
            value += own
            gradient[:, start:stop] = slope
            eigenvalues, vectors = np.linalg.eigh(-hessian)
            curved = (vectors * np.maximum(eigenvalues, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
            used = np.flatnonzero(design.columns[start:stop].any(axis=0))
            local = design.columns[start:stop, used]
            curvature[:, used[:, None], used] += local.T @ curved @ local
            drive = slope + np.einsum("nij,nj->ni", curved, x[:, start:stop] - design.mean[start:stop])
            pull[:, used] += drive @ local
        return Expansion(x=x, value=value, gradient=gradient, curvature=curvature, pull=pull)

    def normal(self, theta: FloatArray, expansion: Expansion) -> Normal:
        """The posterior of z at n scores θ if the log-likelihood were the expansion; one expansion or n."""
        scales = self.design.scales(theta)
        precision = expansion.curvature * scales[:, :, None] * scales[:, None, :]
        precision[:, np.arange(self.design.n_z), np.arange(self.design.n_z)] += 1.0
        mode = np.linalg.solve(precision, (scales * expansion.pull)[..., None])[..., 0]
        return Normal(mode=mode, root=np.linalg.cholesky(precision))
