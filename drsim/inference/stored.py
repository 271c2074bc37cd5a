"""What of a fit goes to disk, under which names."""

from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from drsim import __version__
from drsim.inference.hierarchical.derived import CellDraws
from drsim.inference.hierarchical.fit import HierarchicalFit
from drsim.inference.posterior_file import StoredPosterior, StoredVariable, data_hash
from drsim.inference.timing import TimingFit

__all__ = ["stored_hierarchical", "stored_timing"]


def stored_hierarchical(fit: HierarchicalFit) -> StoredPosterior:
    """Every cell's p, r, d and the like by the names of `CellDraws`, and all effects, scales and correlations.

    Parameters
    ----------
    fit : HierarchicalFit
        At least one cell.

    Returns
    -------
    StoredPosterior
    """
    variables = {
        field.name: StoredVariable(
            values=np.stack([getattr(cell.draws, field.name) for cell in fit.cells], axis=1), dims=("cell",)
        )
        for field in fields(CellDraws)
    }
    named = fit.draws()
    scales, correlations = (tuple(name for name in named if name.startswith(mark)) for mark in ("sd ", "corr "))
    effects = tuple(name for name in named if name not in (*scales, *correlations))
    for title, names in (("effects", effects), ("scales", scales), ("correlations", correlations)):
        if names:
            values = np.stack([named[name] for name in names], axis=1)
            variables[title] = StoredVariable(values=values, dims=(title.removesuffix("s"),))
    checks = fit.diagnostics
    return StoredPosterior(
        model="hierarchical",
        variables=variables,
        coords={"cell": tuple(cell.key.name for cell in fit.cells), "effect": effects, "scale": scales}
        | ({"correlation": correlations} if correlations else {}),
        data_hash=data_hash(_block_rows(fit)),
        priors=fit.priors.to_dict(),
        seed=fit.seed,
        version=__version__,
        diagnostics={"ess": checks.ess, "pareto_k": checks.pareto_k, "rhat": checks.rhat},
        is_reliable=checks.is_good,
        assumptions=(f"drawn by {fit.route}", *checks.reasons),
    )


def _block_rows(fit: HierarchicalFit) -> Iterator[bytes]:
    for block in fit.data.blocks:
        name = "\0".join((block.agent, block.benchmark, *block.arms)).encode()
        yield name + block.counts.astype("<i8").tobytes() + block.weight.astype("<f8").tobytes()


def stored_timing(fit: TimingFit) -> StoredPosterior:
    """Every cell's r(t) and d(t), and its p.

    Parameters
    ----------
    fit : TimingFit
        At least one cell.

    Returns
    -------
    StoredPosterior
    """
    horizon = len(fit.cells[0].prob_safe)
    variables = {
        name: StoredVariable(
            values=np.stack([getattr(cell, name).draws for cell in fit.cells], axis=1), dims=("cell", "step")
        )
        for name in ("recovery", "disruption")
    }
    failure_rate = np.stack([cell.failure_rate for cell in fit.cells], axis=1)
    variables["failure_rate"] = StoredVariable(values=failure_rate, dims=("cell",))
    return StoredPosterior(
        model="timing",
        variables=variables,
        coords={
            "cell": tuple(cell.pairs.name for cell in fit.cells),
            "step": tuple(str(t) for t in range(horizon)),
        },
        data_hash=data_hash(_pair_rows(fit)),
        priors=fit.priors.to_dict(),
        seed=fit.seed,
        version=__version__,
        diagnostics={
            "effective_recovery": fit.effective[0],
            "effective_disruption": fit.effective[1],
            "pareto_k_recovery": fit.pareto_k[0],
            "pareto_k_disruption": fit.pareto_k[1],
        },
        is_reliable=fit.is_reliable,
        assumptions=tuple(
            f"{cell.pairs.name}: pairs by {cell.pairs.paired_by}; observed in steps "
            f"{', '.join(map(str, np.flatnonzero(cell.is_observed)))}"
            for cell in fit.cells
        ),
    )


def _pair_rows(fit: TimingFit) -> Iterator[bytes]:
    for cell in fit.cells:
        pairs = cell.pairs
        order = np.lexsort((pairs.arm_success, pairs.baseline_success, pairs.first_step))
        columns = (pairs.first_step, pairs.baseline_success, pairs.arm_success)
        yield pairs.name.encode() + b"".join(column[order].astype("<i8").tobytes() for column in columns)
