"""The same model in PyMC, sampled by nutpie: the reference for the fast route, and the place to extend the model.

The likelihood is that of `kernels`, written out in PyTensor and differentiated by it; nothing but the counts, the
design and the priors is shared with the fast route. The number of nodes cannot follow σ here: it suffices up to a σ of
`widest`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import special

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.hierarchical.data import HierarchicalData, gather
from drsim.inference.hierarchical.design import Design, lay_out
from drsim.inference.hierarchical.fit import Diagnostics, HierarchicalFit, Route, cells_from_draws
from drsim.inference.hierarchical.kernels import FLATTENING
from drsim.inference.hierarchical.likelihood import PackedBlock
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS, Priors
from drsim.inference.hierarchical.quadrature import EFFECT_REACH, TASK_REACH, count_nodes, normal_rule
from drsim.inference.importance import FEWEST_EFFECTIVE
from drsim.pilot.cell import Cell

__all__ = ["build_model", "fit_nuts"]

WIDEST = 12.0
"""σ for which nodes suffice by default: an intraclass correlation of .87."""
LARGEST_RHAT = 1.01
"""Above it the chains have not met (Vehtari et al., Bayesian Analysis 16, 2021)."""


def build_model(data: HierarchicalData, priors: Priors = DEFAULT_PRIORS, *, widest: float = WIDEST) -> Any:
    """The model in PyMC.

    Parameters
    ----------
    data : HierarchicalData
        Counts by task.
    priors : Priors
        All scales.
    widest : float
        σ up to which the quadrature is exact to 4e-6; > 0.

    Returns
    -------
    pymc.Model
        With variables `scale` (half-normal, in units of each factor's width) and `z` (effects in units of their scale).

    Raises
    ------
    ParameterError
        `widest` is not positive.
    """
    if not widest > 0:
        raise ParameterError(f"widest must be positive, got {widest}; give the largest spread of tasks, such as 12")
    import pymc as pm
    import pytensor.tensor as pt

    design = lay_out(data, priors)
    with pm.Model() as model:
        z = pm.Normal("z", shape=design.n_z)
        sd = pt.as_tensor(design.width)
        if design.n_theta:
            scale = pm.HalfNormal("scale", shape=design.n_theta)
            sd = sd * pt.concatenate([scale, np.ones(1)])[design.scale_of]
        x = design.mean + pt.dot(design.columns, sd * z)
        for i, (block, start) in enumerate(zip(data.blocks, design.starts, strict=False)):
            packed = PackedBlock.of(block)
            pm.Potential(f"block {i}", _log_likelihood(packed, x[start : start + packed.n_parameters], widest))
    return model


def _log_likelihood(packed: PackedBlock, row: Any, widest: float) -> Any:
    import pytensor.tensor as pt

    u, log_u = normal_rule(count_nodes(packed.task_nodes, TASK_REACH, widest), TASK_REACH)
    w, log_w = normal_rule(count_nodes(packed.effect_nodes, EFFECT_REACH, 0.5 * FLATTENING**0.5 * widest), EFFECT_REACH)
    sigma = pt.exp(row[1])
    scale = pt.sqrt(1 + FLATTENING * sigma**2)
    eta = scale * row[0] + sigma * u
    logs = log_u + _log_binomial(packed.base_pairs, eta)[packed.patterns[:, 0]]
    for m in range(packed.n_arms):
        effect = row[2 + 2 * m] + pt.exp(row[3 + 2 * m]) * w
        inner = _log_binomial(packed.arm_pairs[m], eta[:, None] + scale * effect)
        logs += pt.logsumexp(log_w + inner, axis=-1)[packed.patterns[:, 1 + m]]
    return pt.dot(packed.weight, pt.logsumexp(logs, axis=-1))


def _log_binomial(pairs: Any, logit: Any) -> Any:
    """(n_pairs, …) k log s + (n − k) log(1 − s)."""
    import pytensor.tensor as pt

    k, n = (column.reshape(-1, *(1,) * logit.ndim) for column in pairs.T.astype(np.float64))
    return -k * pt.softplus(-logit) - (n - k) * pt.softplus(logit)


def fit_nuts(
    cells: Iterable[Cell],
    priors: Priors = DEFAULT_PRIORS,
    *,
    seed: int,
    draws: int = 1_000,
    tune: int = 1_000,
    chains: int = 4,
    cores: int | None = None,
    widest: float = WIDEST,
) -> HierarchicalFit:
    """Posterior of all cells of a pilot by nutpie.

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
    widest : float
        See `build_model`.

    Returns
    -------
    HierarchicalFit
        With R̂, effective draws and divergences in its diagnostics.

    Raises
    ------
    ParameterError
        `seed` is negative or `widest` not positive.
    DataError
        No run is judged, or a cell is given twice.
    """
    if seed < 0:
        raise ParameterError(f"seed must be a whole number ≥ 0, got {seed}")
    import nutpie

    data = gather(cells)
    design = lay_out(data, priors)
    compiled = nutpie.compile_pymc_model(build_model(data, priors, widest=widest))
    trace = nutpie.sample(compiled, draws=draws, tune=tune, chains=chains, cores=cores, seed=seed, progress_bar=False)
    theta, z = _draws(trace, design)
    return HierarchicalFit(
        data=data,
        priors=priors,
        seed=seed,
        route=Route.NUTS,
        diagnostics=_diagnose(trace),
        design=design,
        theta=theta,
        z=z,
        cells=cells_from_draws(data, design, theta, z),
    )


def _draws(trace: Any, design: Design) -> tuple[FloatArray, FloatArray]:
    """Scores of scales and effects, chains below one another."""
    z = np.asarray(trace.posterior["z"], dtype=np.float64).reshape(-1, design.n_z)
    if not design.n_theta:
        return np.zeros((len(z), 0)), z
    scale = np.asarray(trace.posterior["scale"], dtype=np.float64).reshape(-1, design.n_theta)
    theta: FloatArray = -special.ndtri(2 * special.ndtr(-scale))
    return theta, z


def _diagnose(trace: Any) -> Diagnostics:
    import arviz as az

    def extreme(values: Any, largest: bool) -> float:
        arrays = [np.asarray(values[name]).ravel() for name in values.data_vars]
        joined = np.concatenate([array for array in arrays if array.size])
        return float(joined.max() if largest else joined.min())

    posterior = trace.posterior.to_dataset()[[name for name in ("z", "scale") if name in trace.posterior]]
    rhat = extreme(az.rhat(posterior), largest=True)
    ess = min(extreme(az.ess(posterior, method=method), largest=False) for method in ("bulk", "tail"))
    n_divergences = int(np.asarray(trace.sample_stats["diverging"]).sum())
    reasons = []
    if not rhat <= LARGEST_RHAT:
        reasons.append(f"R̂ is {rhat:.3f}, above {LARGEST_RHAT}: the chains have not met")
    if not ess >= FEWEST_EFFECTIVE:
        reasons.append(f"{ess:.0f} draws are effective, fewer than {FEWEST_EFFECTIVE:.0f}")
    if n_divergences:
        reasons.append(f"{n_divergences} transitions diverged")
    return Diagnostics(ess=ess, rhat=rhat, n_divergences=n_divergences, reasons=tuple(reasons))
