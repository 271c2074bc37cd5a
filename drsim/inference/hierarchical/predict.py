"""Cells that were not run: from the posterior for new agents, benchmarks or mechanisms, and from the prior alone."""

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.hierarchical.data import HierarchicalData
from drsim.inference.hierarchical.derived import CellDraws, cell_draws
from drsim.inference.hierarchical.design import (
    FACTORS,
    half_normal,
    intercept_of,
    lay_out,
    levels_in,
    levels_of,
    width_of,
)
from drsim.inference.hierarchical.fit import CellFit, HierarchicalFit, cells_from_draws
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS, Priors

__all__ = ["predict_cell", "prior_cells"]


def predict_cell(fit: HierarchicalFit, *, agent: str, benchmark: str, arm: str, seed: int) -> CellDraws:
    """Posterior of any cell, seen or not.

    A level that was seen keeps its effect; a new one gets an effect drawn with the factor's scale, on the gain with the
    correlation to its effect on the baseline. Where only one level
    of a factor was seen, its effect is part of the intercept and the scale is drawn from its prior: a new level then
    differs from the old by two effects.

    Parameters
    ----------
    fit : HierarchicalFit
        Posterior of the cells that were run.
    agent, benchmark, arm : str
        Names; any that the pilot does not hold are new.
    seed : int
        Seed of the new effects, ≥ 0.

    Returns
    -------
    CellDraws
        As many draws as the fit has.

    Raises
    ------
    ParameterError
        `seed` is negative.
    """
    if seed < 0:
        raise ParameterError(f"seed must be a whole number ≥ 0, got {seed}")
    rng = np.random.default_rng(seed)
    levels = levels_of(agent, benchmark, arm)
    known = fit.draws()
    scores: dict[str, FloatArray] = {name: fit.z[:, i] for i, name in enumerate(fit.design.names)}
    return cell_draws(np.stack([_parameter(fit, known, scores, kind, levels, rng) for kind in FACTORS], axis=1))


def _parameter(
    fit: HierarchicalFit,
    known: dict[str, FloatArray],
    scores: dict[str, FloatArray],
    kind: str,
    levels: dict[str, str],
    rng: np.random.Generator,
) -> FloatArray:
    """(n_draws,) one parameter of the cell; `scores` are the z of effects seen, and get those of effects drawn here."""
    mean, width = intercept_of(fit.priors, kind)
    total: FloatArray = mean + (known[kind] if kind in known else width * rng.standard_normal(fit.n_draws))
    seen = levels_in(fit.data, kind)
    for factor in FACTORS[kind]:
        own = levels[factor]
        if f"{kind}[{factor}={own}]" in known:
            total = total + known[f"{kind}[{factor}={own}]"]
            continue
        n_seen = len({level[factor] for level in seen})
        scale = known.get(f"sd {kind} {factor}")
        if scale is None:
            if n_seen > 1 or (n_seen == 1 and seen[0][factor] == own):  # part of another factor, or of the intercept
                continue
            scale = (1 + n_seen) ** 0.5 * width_of(fit.priors, kind, factor) * _half_normal(fit.n_draws, rng)
        name = f"{kind}[{factor}={own}]"
        scores[name] = rng.standard_normal(fit.n_draws)
        score = scores[name]
        partner = f"baseline[{factor}={own}]"
        if kind == "gain" and factor in fit.design.correlation_names and partner in scores:
            correlation = known[f"corr {factor}"]
            score = correlation * scores[partner] + np.sqrt(1.0 - correlation**2) * score
        total = total + scale * score
    return total


def _half_normal(n: int, rng: np.random.Generator) -> FloatArray:
    return half_normal(rng.standard_normal(n))


def prior_cells(
    data: HierarchicalData, priors: Priors = DEFAULT_PRIORS, *, seed: int, draws: int
) -> tuple[CellFit, ...]:
    """What the priors say of every cell before any run.

    Parameters
    ----------
    data : HierarchicalData
        Which cells there are; the counts are not looked at.
    priors : Priors
        All scales.
    seed : int
        Seed of the draws, ≥ 0.
    draws : int
        At least 1.

    Returns
    -------
    tuple of CellFit

    Raises
    ------
    ParameterError
        `seed` is negative or `draws` below 1.
    """
    if seed < 0 or draws < 1:
        raise ParameterError(f"seed must be ≥ 0 and draws ≥ 1, got {seed} and {draws}")
    design = lay_out(data, priors)
    rng = np.random.default_rng(seed)
    theta, z = rng.standard_normal((draws, design.n_theta)), rng.standard_normal((draws, design.n_z))
    return cells_from_draws(data, design, theta, z)
