"""The hierarchical fit: all cells of a pilot at once, by Laplace's method corrected by importance sampling."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.hierarchical.adaptive import Sample, draw_posterior
from drsim.inference.hierarchical.data import CellKey, HierarchicalData, gather
from drsim.inference.hierarchical.derived import CellDraws, CellSummary, cell_draws
from drsim.inference.hierarchical.design import Design
from drsim.inference.hierarchical.nuts import Chains, sample_nuts
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS, Priors
from drsim.inference.hierarchical.target import Target
from drsim.inference.importance import FEWEST_EFFECTIVE, LARGEST_PARETO_K
from drsim.pilot.cell import Cell

__all__ = [
    "DEFAULT_DRAWS",
    "CellFit",
    "Diagnostics",
    "HierarchicalFit",
    "Route",
    "cells_from_draws",
    "fit_data",
    "fit_hierarchical",
    "fit_nuts",
]

DEFAULT_DRAWS = 2_000
"""A 95 % limit then has a Monte Carlo error below a twelfth of the posterior's sd at half as many effective draws."""
MIN_DRAWS = 200
"""Below it a round of adaptation has too few draws to see a tail."""


class Route(StrEnum):
    """How a posterior was drawn."""

    LAPLACE = "laplace"
    """Laplace's method, corrected by adaptive importance sampling."""
    NUTS = "nuts"
    """Hamiltonian Monte Carlo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Whether the draws can be trusted, and by which figures."""

    ess: float
    """Effective draws: the fewest over all quantities where they differ."""
    pareto_k: float | None = None
    """Shape of the weights' tail; None where nothing is weighted."""
    n_proposed: int | None = None
    """Draws that were weighted."""
    rhat: float | None = None
    """Largest R̂; None where there are no chains."""
    n_divergences: int | None = None
    """Divergent transitions; None where there are no chains."""
    reasons: tuple[str, ...] = ("no diagnostics were computed",)
    """Why the draws cannot be trusted; empty where they can."""

    @property
    def is_good(self) -> bool:
        """Whether nothing speaks against the draws."""
        return not self.reasons

    @classmethod
    def of_sample(cls, sample: Sample) -> "Diagnostics":
        """Of weighted draws."""
        reasons = []
        if not sample.pareto_k <= LARGEST_PARETO_K:
            reasons.append(
                f"Pareto k is {sample.pareto_k:.2f}, above {LARGEST_PARETO_K}: the weights have no trustworthy mean"
            )
        if not sample.ess >= FEWEST_EFFECTIVE:
            reasons.append(f"{sample.ess:.0f} draws are effective, fewer than {FEWEST_EFFECTIVE:.0f}")
        return cls(ess=sample.ess, pareto_k=sample.pareto_k, n_proposed=sample.n_proposed, reasons=tuple(reasons))

    @classmethod
    def of_chains(cls, chains: Chains) -> "Diagnostics":
        """Of Markov chains."""
        return cls(ess=chains.ess, rhat=chains.rhat, n_divergences=chains.n_divergences, reasons=chains.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFit:
    """Posterior of one cell."""

    key: CellKey
    draws: CellDraws
    summary: CellSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalFit:
    """Posterior of all cells of a pilot."""

    data: HierarchicalData
    priors: Priors
    seed: int
    route: Route
    diagnostics: Diagnostics
    design: Design
    theta: FloatArray
    """(n_draws, n_theta) scores of scales and correlations."""
    z: FloatArray
    """(n_draws, n_z) standardised effects."""
    cells: tuple[CellFit, ...]
    """In order of agent, benchmark and arm; none for blocks of baseline runs alone."""

    @classmethod
    def of_draws(
        cls,
        data: HierarchicalData,
        design: Design,
        theta: FloatArray,
        z: FloatArray,
        *,
        priors: Priors,
        seed: int,
        route: Route,
        diagnostics: Diagnostics,
    ) -> "HierarchicalFit":
        """A fit from draws of scores and effects, with what they say of every cell."""
        return cls(
            data=data,
            priors=priors,
            seed=seed,
            route=route,
            diagnostics=diagnostics,
            design=design,
            theta=theta,
            z=z,
            cells=cells_from_draws(data, design, theta, z),
        )

    @property
    def n_draws(self) -> int:
        """Equally weighted draws."""
        return len(self.z)

    def draws(self) -> dict[str, FloatArray]:
        """(n_draws,) by name: intercepts and effects as in the design, `sd kind factor`, `corr factor`."""
        effects = self.design.mixing(self.theta).effects(self.z)
        named = {name: effects[:, i] for i, name in enumerate(self.design.names)}
        scales, correlations = self.design.scales(self.theta), self.design.correlations(self.theta)
        for i, name in enumerate(self.design.scale_names):
            named[f"sd {name}"] = scales[:, np.flatnonzero(self.design.scale_of == i)[0]]
        for i, name in enumerate(self.design.correlation_names):
            named[f"corr {name}"] = correlations[:, i]
        return named

    def cell(self, agent: str, benchmark: str, arm: str) -> CellFit:
        """One cell by name.

        Raises
        ------
        ParameterError
            There is no such cell.
        """
        for own in self.cells:
            if (own.key.agent, own.key.benchmark, own.key.arm) == (agent, benchmark, arm):
                return own
        found = "; ".join(own.key.name for own in self.cells)
        raise ParameterError(f"there is no cell {agent} on {benchmark}, {arm}; the cells are: {found}")


def fit_hierarchical(
    cells: Iterable[Cell], priors: Priors = DEFAULT_PRIORS, *, seed: int, draws: int = DEFAULT_DRAWS
) -> HierarchicalFit:
    """Posterior of all cells of a pilot.

    Parameters
    ----------
    cells : iterable of Cell
        As from `drsim.pilot.cells.cells_of`.
    priors : Priors
        All scales.
    seed : int
        Seed of the draws, ≥ 0.
    draws : int
        Equally weighted draws, at least 200.

    Returns
    -------
    HierarchicalFit
        Look at `diagnostics.is_good` before anything else.

    Raises
    ------
    ParameterError
        `seed` is negative or `draws` too small.
    DataError
        No run is judged, or a cell is given twice.

    References
    ----------
    THEORY sections 2 and 7.
    """
    return fit_data(gather(cells), priors, seed=seed, draws=draws)


def fit_data(data: HierarchicalData, priors: Priors = DEFAULT_PRIORS, *, seed: int, draws: int) -> HierarchicalFit:
    """The same from counts by task that are gathered already; see `fit_hierarchical`."""
    if seed < 0:
        raise ParameterError(f"seed must be a whole number ≥ 0, got {seed}")
    if draws < MIN_DRAWS:
        raise ParameterError(f"draws must be at least {MIN_DRAWS}, got {draws}")
    target = Target.of(data, priors)
    sample = draw_posterior(target, n_draws=draws, rng=np.random.default_rng(seed))
    return HierarchicalFit.of_draws(
        data,
        target.design,
        sample.theta,
        sample.z,
        priors=priors,
        seed=seed,
        route=Route.LAPLACE,
        diagnostics=Diagnostics.of_sample(sample),
    )


def fit_nuts(
    cells: Iterable[Cell],
    priors: Priors = DEFAULT_PRIORS,
    *,
    seed: int,
    draws: int = 1_000,
    tune: int = 500,
    chains: int = 4,
    cores: int | None = None,
) -> HierarchicalFit:
    """Posterior of all cells of a pilot by Hamiltonian Monte Carlo, for pilots where the weights are poor.

    Parameters
    ----------
    cells : iterable of Cell
        As from `drsim.pilot.cells.cells_of`.
    priors : Priors
        All scales.
    seed : int
        Seed of the chains, ≥ 0.
    draws, tune, chains : int
        Kept and discarded draws of each chain, and chains.
    cores : int, optional
        Chains at once; all cores by default.

    Returns
    -------
    HierarchicalFit
        With R̂, effective draws and divergences in its diagnostics.

    Raises
    ------
    ParameterError
        `seed` is negative, or `draws`, `tune` or `chains` below 1.
    DataError
        No run is judged, or a cell is given twice.
    ModuleNotFoundError
        nutpie or ArviZ is not installed.
    """
    if seed < 0:
        raise ParameterError(f"seed must be a whole number ≥ 0, got {seed}")
    data = gather(cells)
    target = Target.of(data, priors)
    found = sample_nuts(target, draws=draws, tune=tune, chains=chains, cores=cores, seed=seed)
    return HierarchicalFit.of_draws(
        data,
        target.design,
        found.theta,
        found.z,
        priors=priors,
        seed=seed,
        route=Route.NUTS,
        diagnostics=Diagnostics.of_chains(found),
    )


def cells_from_draws(data: HierarchicalData, design: Design, theta: FloatArray, z: FloatArray) -> tuple[CellFit, ...]:
    """Every cell's posterior from draws of scales and effects."""
    x = design.parameters(theta, z)
    fits = []
    for key in data.cells:
        start, own = design.starts[key.block], design.starts[key.block] + 2 + 2 * key.place
        draws = cell_draws(x[:, [start, start + 1, own, own + 1]])
        fits.append(CellFit(key=key, draws=draws, summary=draws.summary()))
    return tuple(fits)
