"""The same model in PyMC: the reference for the routes that drsim takes, and the place to extend the model.

The likelihood is that of `kernels`, written out in PyTensor and differentiated by it; nothing but the counts, the
design and the priors is shared with the fast route. The number of nodes cannot follow σ here: it suffices up to a σ of
`widest`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.inference.hierarchical.data import HierarchicalData, gather
from drsim.inference.hierarchical.design import Design, lay_out
from drsim.inference.hierarchical.fit import Diagnostics, HierarchicalFit, Route
from drsim.inference.hierarchical.kernels import FLATTENING
from drsim.inference.hierarchical.likelihood import PackedBlock
from drsim.inference.hierarchical.nuts import Chains
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS, Priors
from drsim.inference.hierarchical.quadrature import EFFECT_REACH, TASK_REACH, count_nodes, normal_rule
from drsim.pilot.cell import Cell

__all__ = ["Nuts", "build_model", "fit_pymc"]

WIDEST = 12.0
"""σ for which nodes suffice by default: an intraclass correlation of .87."""


class Nuts(StrEnum):
    """Whose Hamiltonian Monte Carlo."""

    NUTPIE = "nutpie"
    PYMC = "pymc"


def build_model(data: HierarchicalData, priors: Priors = DEFAULT_PRIORS, *, widest: float = WIDEST) -> Any:
    """The model in PyMC.

    Counts and priors are `pm.Data`: another pilot with the same blocks, arms and most runs of a task needs no other
    model.

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
        With variables `scale` (half-normal, in units of each factor's width), `half_correlation` ((1 + ρ)/2) and `z`.

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
    packed = [PackedBlock.of(block) for block in data.blocks]
    with pm.Model() as model:
        given = {name: pm.Data(name, values) for name, values in _given(design, packed).items()}
        z = pm.Normal("z", shape=design.n_z)
        sd = given["width"]
        if design.scale_names:
            scale = pm.HalfNormal("scale", shape=len(design.scale_names))
            sd = sd * pt.concatenate([scale, np.ones(1)])[design.scale_of]
        effects = sd * z
        if design.correlation_names:
            shape = given["correlation_shape"]
            half = pm.Beta("half_correlation", shape, shape, shape=len(design.correlation_names))
            own = (2.0 * half - 1.0)[design.correlation_of]
            scores = own * z[design.partner] + pt.sqrt(1.0 - own**2) * z[design.coupled]
            effects = effects[design.coupled].set(sd[design.coupled] * scores)
        x = given["mean"] + pt.dot(design.columns, effects)
        for i, (block, start) in enumerate(zip(packed, design.starts, strict=False)):
            row = x[start : start + block.n_parameters]
            pm.Potential(f"block {i}", _log_likelihood(block, given, i, row, widest))
    return model


def _given(design: Design, packed: Sequence[PackedBlock]) -> dict[str, Any]:
    """What of a model is data."""
    given: dict[str, Any] = {
        "mean": design.mean,
        "width": design.width,
        "correlation_shape": np.float64(design.correlation_shape),
    }
    for i, block in enumerate(packed):
        given[f"baseline_{i}"] = block.base_pairs.astype(np.float64)
        given[f"arms_{i}"] = block.arm_pairs.astype(np.float64)
        given[f"patterns_{i}"] = block.patterns
        given[f"weight_{i}"] = block.weight
    return given


def _log_likelihood(packed: PackedBlock, given: Mapping[str, Any], i: int, row: Any, widest: float) -> Any:
    import pytensor.tensor as pt

    u, log_u = normal_rule(count_nodes(packed.task_nodes, TASK_REACH, widest), TASK_REACH)
    w, log_w = normal_rule(count_nodes(packed.effect_nodes, EFFECT_REACH, 0.5 * FLATTENING**0.5 * widest), EFFECT_REACH)
    sigma = pt.exp(row[1])
    scale = pt.sqrt(1 + FLATTENING * sigma**2)
    eta = scale * row[0] + sigma * u
    patterns = given[f"patterns_{i}"]
    logs = log_u + _log_binomial(given[f"baseline_{i}"], eta)[patterns[:, 0]]
    for m in range(packed.n_arms):
        effect = row[2 + 2 * m] + pt.exp(row[3 + 2 * m]) * w
        inner = _log_binomial(given[f"arms_{i}"][m], eta[:, None] + scale * effect)
        logs += pt.logsumexp(log_w + inner, axis=-1)[patterns[:, 1 + m]]
    return pt.dot(given[f"weight_{i}"], pt.logsumexp(logs, axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What a compiled model depends on; `data` and `priors` are only where it is built from."""

    columns: bytes
    scale_of: tuple[int, ...]
    couplings: tuple[tuple[int, int, int], ...]
    blocks: tuple[tuple[int, int, int], ...]
    """Arms and nodes of each block."""
    widest: float
    data: HierarchicalData = field(compare=False)
    priors: Priors = field(compare=False)


@lru_cache(maxsize=4)
def _compile(shape: _Shape) -> Any:
    import nutpie

    return nutpie.compile_pymc_model(build_model(shape.data, shape.priors, widest=shape.widest))


def _compiled(data: HierarchicalData, priors: Priors, design: Design, widest: float) -> Any:
    """The compiled model of this shape with these data: compiled once, then only filled."""
    packed = [PackedBlock.of(block) for block in data.blocks]
    shape = _Shape(
        columns=design.columns.tobytes(),
        scale_of=tuple(design.scale_of.tolist()),
        couplings=tuple(
            zip(design.coupled.tolist(), design.partner.tolist(), design.correlation_of.tolist(), strict=True)
        ),
        blocks=tuple((block.n_arms, block.task_nodes, block.effect_nodes) for block in packed),
        widest=widest,
        data=data,
        priors=priors,
    )
    model = _compile(shape)
    given = _given(design, packed)
    used = {str(variable.name) for variable in model.shared_var_keys}
    return model.with_data(**{name: value for name, value in given.items() if name in used})


def _log_binomial(pairs: Any, logit: Any) -> Any:
    """(n_pairs, …) k log s + (n − k) log(1 − s)."""
    import pytensor.tensor as pt

    k, n = (pairs[:, i].reshape((-1, *(1,) * logit.ndim)) for i in range(2))
    return -k * pt.softplus(-logit) - (n - k) * pt.softplus(logit)


def fit_pymc(
    cells: Iterable[Cell],
    priors: Priors = DEFAULT_PRIORS,
    *,
    seed: int,
    draws: int = 1_000,
    tune: int = 1_000,
    chains: int = 4,
    cores: int | None = None,
    widest: float = WIDEST,
    by: Nuts = Nuts.NUTPIE,
) -> HierarchicalFit:
    """Posterior of all cells of a pilot by Hamiltonian Monte Carlo.

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
    by : Nuts
        Whose sampler: nutpie's, or PyMC's own, which is slower and compiles anew each time.

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
    data = gather(cells)
    design = lay_out(data, priors)
    if by is Nuts.NUTPIE:
        import nutpie

        compiled = _compiled(data, priors, design, widest)
        trace = nutpie.sample(
            compiled, draws=draws, tune=tune, chains=chains, cores=cores, seed=seed, progress_bar=False
        )
    else:
        import pymc as pm

        with build_model(data, priors, widest=widest):
            trace = pm.sample(
                draws=draws,
                tune=tune,
                chains=chains,
                cores=cores,
                random_seed=seed,
                nuts_sampler="pymc",
                progressbar=False,
                compute_convergence_checks=False,
            )
    theta, z = _draws(trace, design)
    return HierarchicalFit.of_draws(
        data,
        design,
        theta,
        z,
        priors=priors,
        seed=seed,
        route=Route.NUTS,
        diagnostics=Diagnostics.of_chains(Chains.of(np.asarray(trace.sample_stats["diverging"]), theta, z)),
    )


def _draws(trace: Any, design: Design) -> tuple[FloatArray, FloatArray]:
    """Scores of scales and effects, chains below one another."""
    z = np.asarray(trace.posterior["z"], dtype=np.float64).reshape(-1, design.n_z)
    scale, half = (
        np.asarray(trace.posterior[name], dtype=np.float64).reshape(len(z), -1)
        if name in trace.posterior
        else np.zeros((len(z), 0))
        for name in ("scale", "half_correlation")
    )
    shape = design.correlation_shape
    return np.concatenate(
        [-special.ndtri(2 * special.ndtr(-scale)), special.ndtri(special.betainc(shape, shape, half))], axis=1
    ), z
