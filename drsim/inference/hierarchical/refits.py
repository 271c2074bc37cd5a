r"""One cell fitted to thousands of pilots: the points are drawn once, each pilot only weights them anew.

A pilot of one cell is how many of its tasks showed each pattern of successes. The log-likelihood is linear in those
numbers, so that at fixed points x_m with log-likelihoods ℓ_mj of a task of pattern j

.. math:: \log w_m = \log π(x_m) - \log g(x_m) + \sum_j n_j ℓ_{mj}

is a product of matrices, and Δ, r, d at the points are worked out once. g is a mixture, wide about the posteriors of
some of the pilots, and of the prior; what a pilot makes of it is seen by its Pareto k and effective draws, and pilots
that make too little of it get points about their own posteriors, together or, where they are few, one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numba import njit
from scipy import special

from drsim.arrays import BoolArray, FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.inference.hierarchical.adaptive import StudentT
from drsim.inference.hierarchical.data import Block, CellKey, HierarchicalData
from drsim.inference.hierarchical.derived import CellDraws, cell_draws
from drsim.inference.hierarchical.fit import fit_data
from drsim.inference.hierarchical.laplace import find_mode
from drsim.inference.hierarchical.linear import product
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS, Priors
from drsim.inference.hierarchical.target import Target
from drsim.inference.importance import fill_weights, is_trusted
from drsim.inference.posterior import QUANTILES
from drsim.inference.threads import in_threads

__all__ = ["RefitBank", "Refits"]

DEFAULT_POINTS = 10_000
"""About 2,500 effective draws for a pilot like the one expected."""
N_CENTRES = 24
"""Pilots about whose posteriors the points lie: of normal variables the extremes of 24 are near ±2 sds."""
STRETCH = 1.2
"""Of their widths, for the pilots between and beyond."""
FREEDOM = 7.0
"""Of the t."""
PRIOR_SHARE = 0.05
"""Points from the prior, so that no weight is unbounded."""
N_NUMBERS = 8
MOST_BANKS = 3
WORTH_A_BANK = 12
"""Pilots left over from which another bank about them costs less than their own fits."""
REDRAWN = 1_000
"""Draws of a pilot that is fitted on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refits:
    """Posteriors of P pilots of one cell."""

    mean: FloatArray
    """(P,) of the quantity asked for."""
    sd: FloatArray
    """(P,)"""
    quantiles: FloatArray
    """(P, 3) at 2.5, 50 and 97.5 %."""
    prob_above: FloatArray
    """(P,) P(quantity > margin)."""
    ess: FloatArray
    """(P,) effective draws."""
    pareto_k: FloatArray
    """(P,) shape of the weights' tail."""
    is_redrawn: BoolArray
    """(P,) whether the pilot was fitted on its own."""

    @property
    def is_good(self) -> BoolArray:
        """(P,) whether the draws can be relied on."""
        return np.array([is_trusted(k, n) for k, n in zip(self.pareto_k, self.ess, strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RefitBank:
    """Points of one cell's parameters, with the likelihood of every pattern."""

    patterns: IntArray
    """(n_patterns, 2, 2) successes and runs of a task: baseline, arm."""
    priors: Priors
    log_base: FloatArray
    """(n_points,) log prior less log density of the proposal."""
    log_likelihood: FloatArray
    """(n_points, n_patterns) of one task."""
    draws: CellDraws
    """Quantities at the points."""

    @classmethod
    def of(
        cls,
        patterns: IntArray,
        pilots: FloatArray,
        priors: Priors = DEFAULT_PRIORS,
        *,
        seed: int,
        n_points: int = DEFAULT_POINTS,
    ) -> "RefitBank":
        """Draw the points.

        Parameters
        ----------
        patterns : IntArray
            (n_patterns, 2, 2) successes and runs of a task, baseline and arm: all that a pilot may show.
        pilots : FloatArray
            (P, n_patterns) tasks of each pattern in pilots like those to come, or in those themselves; the points lie
            about the posteriors of some of them.
        priors : Priors
            All scales.
        seed : int
            Seed of the points, ≥ 0.
        n_points : int
            At least 1,000.

        Returns
        -------
        RefitBank

        Raises
        ------
        ParameterError
            Successes exceed runs, there is no pilot or one with a negative number or no task, or `seed` or `n_points`
            is outside its domain.
        """
        _check(patterns, pilots)
        if seed < 0 or n_points < 1_000:
            raise ParameterError(f"seed must be ≥ 0 and n_points ≥ 1,000, got {seed} and {n_points}")
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(pilots))[:N_CENTRES]
        targets = [Target.of(_data(patterns, pilots[i]), priors) for i in chosen]
        z, log_base = _points(targets, n_points, rng)
        x = targets[0].design.parameters(np.zeros((n_points, 0)), z)
        return cls(
            patterns=patterns,
            priors=priors,
            log_base=log_base,
            log_likelihood=targets[0].blocks[0].by_pattern(x),
            draws=cell_draws(x),
        )

    def refit(self, counts: FloatArray, *, quantity: str = "gain", margin: float = 0.0, seed: int) -> Refits:
        """Posterior of one quantity for many pilots.

        Parameters
        ----------
        counts : FloatArray
            (P, n_patterns) tasks of each pattern.
        quantity : str
            A field of `CellDraws`.
        margin : float
            Of `Refits.prob_above`.
        seed : int
            Seed of the pilots that are fitted on their own, ≥ 0.

        Returns
        -------
        Refits

        Raises
        ------
        ParameterError
            There is no such quantity, `counts` has another shape or a negative number, or `seed` is negative.
        """
        known = [field.name for field in fields(CellDraws)]
        if quantity not in known:
            raise ParameterError(f"quantity must be one of {', '.join(known)}, got {quantity!r}")
        if counts.ndim != 2 or counts.shape[1] != len(self.patterns) or (counts < 0).any():
            raise ParameterError(f"counts must be (pilots, {len(self.patterns)}) and ≥ 0, got shape {counts.shape}")
        if seed < 0:
            raise ParameterError(f"seed must be a whole number ≥ 0, got {seed}")
        found = np.empty((len(counts), N_NUMBERS))
        bank, left = self, np.arange(len(counts))
        for further in range(MOST_BANKS):
            found[left] = bank._weighted(counts[left], quantity, margin)
            left = left[[not is_trusted(k, n) for n, k in found[left, 6:]]]
            if len(left) < WORTH_A_BANK or further + 1 == MOST_BANKS:
                break
            bank = RefitBank.of(
                self.patterns, counts[left], self.priors, seed=seed + further, n_points=len(self.log_base)
            )
        for i in left:
            found[i] = self._redrawn(counts[i], quantity, margin, seed)
        is_redrawn = np.zeros(len(counts), dtype=np.bool_)
        is_redrawn[left] = True
        return Refits(
            mean=found[:, 0],
            sd=found[:, 1],
            quantiles=found[:, 2:5],
            prob_above=found[:, 5],
            ess=found[:, 6],
            pareto_k=found[:, 7],
            is_redrawn=is_redrawn,
        )

    def _weighted(self, counts: FloatArray, quantity: str, margin: float) -> FloatArray:
        """(P, 8) what `refit` says by the points of this bank; pilots side by side on all cores."""
        values: FloatArray = getattr(self.draws, quantity)
        order = np.argsort(values, kind="stable")
        log_base, log_likelihood = self.log_base[order], np.ascontiguousarray(self.log_likelihood[order].T)
        rising, levels = values[order], np.array(QUANTILES)
        found = np.empty((len(counts), N_NUMBERS))
        given = np.ascontiguousarray(counts, dtype=np.float64)

        def fill(some: slice) -> None:
            _fill_refits(given[some], log_base, log_likelihood, rising, margin, levels, found[some])

        in_threads(len(given), fill, fewest=1)
        return found

    def _redrawn(self, counts: FloatArray, quantity: str, margin: float, seed: int) -> FloatArray:
        """(8,) what `refit` says of one pilot, by a fit of its own."""
        fit = fit_data(_data(self.patterns, counts), self.priors, seed=seed, draws=REDRAWN)
        values = np.sort(getattr(fit.cells[0].draws, quantity))
        weights = np.full(len(values), 1.0 / len(values))
        numbers = np.empty(N_NUMBERS)
        _fill_summary(values, weights, margin, np.array(QUANTILES), numbers)
        k = fit.diagnostics.pareto_k
        numbers[6:] = fit.diagnostics.ess, np.inf if k is None else k
        return numbers


@njit(cache=True, nogil=True)
def _fill_refits(
    counts: FloatArray,
    log_base: FloatArray,
    log_likelihood: FloatArray,
    values: FloatArray,
    margin: float,
    levels: FloatArray,
    out: FloatArray,
) -> None:
    """Fill (P, 8) numbers: mean, sd, three quantiles, P(above), effective draws, Pareto k.

    Points are in rising order of `values`; log_likelihood is (n_patterns, n_points).
    """
    logs, weights = np.empty(len(values)), np.empty(len(values))
    for pilot in range(len(counts)):
        logs[:] = log_base
        for j in range(len(log_likelihood)):
            if counts[pilot, j] > 0.0:
                for m in range(len(logs)):
                    logs[m] += counts[pilot, j] * log_likelihood[j, m]
        out[pilot, 7] = fill_weights(logs, weights)
        out[pilot, 6] = 1.0 / (weights * weights).sum()
        _fill_summary(values, weights, margin, levels, out[pilot])


@njit(cache=True, nogil=True)
def _fill_summary(values: FloatArray, weights: FloatArray, margin: float, levels: FloatArray, out: FloatArray) -> None:
    """Fill mean, sd, quantiles and P(value > margin) of rising values; a value's rank is the middle of its weight."""
    mean = square = above = upto = 0.0
    k = 0
    last_rank, last = 0.0, values[0]
    for m in range(len(values)):
        weight, value = weights[m], values[m]
        mean += weight * value
        square += weight * value * value
        if value > margin:
            above += weight
        rank = upto + 0.5 * weight
        while k < len(levels) and rank >= levels[k]:
            share = (levels[k] - last_rank) / (rank - last_rank) if rank > last_rank else 1.0
            out[2 + k] = last + share * (value - last)
            k += 1
        upto += weight
        last_rank, last = rank, value
    out[2 + k : 5] = last
    out[0], out[1], out[5] = mean, np.sqrt(max(square - mean * mean, 0.0)), above


def _points(targets: Sequence[Target], n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """(n, n_z) z, from wide t about the modes and from the prior, and (n,) log prior less log density of them all."""
    size = targets[0].design.n_z
    wide = StudentT(location=np.zeros(size), root=STRETCH * np.eye(size), freedom=FREEDOM)
    modes = [find_mode(target) for target in targets]
    normals = [target.normal(mode.theta[None], mode.expansion) for target, mode in zip(targets, modes, strict=True)]
    n_prior = int(PRIOR_SHARE * n)
    which = np.arange(n - n_prior) % len(targets)
    parts = [normal.at(wide.draw(int((which == i).sum()), rng)) for i, normal in enumerate(normals)]
    z = np.concatenate([*parts, rng.standard_normal((n_prior, size))])
    log_prior = -0.5 * ((z**2).sum(axis=1) + size * np.log(2 * np.pi))
    logs = [np.log(n_prior / n) + log_prior]
    for part, normal in zip(parts, normals, strict=True):
        e = product(z - normal.mode, normal.root[0].T)
        logs.append(np.log(len(part) / n) + wide.log_density(e) + normal.log_root[0])
    return z, log_prior - special.logsumexp(logs, axis=0)


def _check(patterns: IntArray, pilots: FloatArray) -> None:
    if patterns.ndim != 3 or patterns.shape[1:] != (2, 2) or pilots.ndim != 2 or pilots.shape[1] != len(patterns):
        raise ParameterError(
            f"patterns must be (n, 2, 2) and pilots (pilots, n), got shapes {patterns.shape} and {pilots.shape}"
        )
    if (patterns < 0).any() or (patterns[:, :, 0] > patterns[:, :, 1]).any():
        raise ParameterError("patterns must be successes from 0 to runs, got some outside")
    if not (pilots >= 0).all() or not pilots.any(axis=1).all() or not len(pilots):
        raise ParameterError("pilots must be at least one, each ≥ 0 and with some task, got others")


def _data(patterns: IntArray, counts: FloatArray) -> HierarchicalData:
    # patterns that no task shows stay, so that the columns of the likelihood are those of the caller
    block = Block(
        agent="agent", benchmark="benchmark", arms=("arm",), counts=patterns, weight=counts.astype(np.float64)
    )
    key = CellKey(agent="agent", benchmark="benchmark", arm="arm", block=0, place=0, is_forked=False)
    return HierarchicalData(blocks=(block,), cells=(key,))
