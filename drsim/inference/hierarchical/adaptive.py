r"""Adaptive importance sampling from Laplace's normal.

A draw is a score θ from a Student t, then effects z = ẑ(θ) + L(θ)⁻ᵀe, with e nearly standard: ẑ and the precision
L Lᵀ follow θ by one second-order expansion of the likelihood, so that the funnel between scales and effects is in the
proposal. Rounds after the first move and stretch θ and e to what the weights show; all draws of all rounds are
weighted by the mixture of the proposals (adaptive multiple importance sampling), smoothed by PSIS.

References
----------
Cornuet, Marin, Mira and Robert, *Adaptive multiple importance sampling*, Scand. J. Stat. 39 (2012).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.laplace import Mode, find_mode, mode_at_prior
from drsim.inference.hierarchical.linear import factorise, product, solve_lower
from drsim.inference.hierarchical.target import Target
from drsim.inference.importance import FEWEST_EFFECTIVE, LARGEST_PARETO_K, is_trusted, resampled, smooth

__all__ = ["Sample", "StudentT", "draw_from", "draw_posterior"]

SCALE_FREEDOM = 7.0
"""Degrees of freedom of the scales' t: heavy tails cost little in a handful of dimensions."""
MOST_CORRELATED = 12
"""Dimensions in which correlations are adapted: errors of 1/√ess in size²/2 of them cost size²/4ess of log weight."""
MATRIX_ENTRIES = 4_000_000
"""Of all precisions at once: 32 MB."""
FIRST_STRETCH = 1.1
"""Of the first round: too narrow a proposal is found out late, too wide a one at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Equally weighted draws and what they are worth."""

    theta: FloatArray
    """(n_draws, n_theta)"""
    z: FloatArray
    """(n_draws, n_z)"""
    pareto_k: float
    """Shape of the weights' tail; good below 0.7."""
    ess: float
    """Effective draws among those proposed."""
    n_proposed: int
    """Draws of all rounds."""
    n_rounds: int
    """Rounds of adaptation, the first included."""
    log_evidence: float
    """Log marginal likelihood by the weights, without binomial coefficients."""

    @property
    def is_good(self) -> bool:
        """Whether k ≤ 0.7 and at least 400 draws are effective."""
        return is_trusted(self.pareto_k, self.ess)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentT:
    """Independent t variables under an affine map: location + root·t."""

    location: FloatArray
    root: FloatArray
    """Lower triangular."""
    freedom: float

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, size) draws."""
        return self.location + product(rng.standard_t(self.freedom, size=(n, len(self.location))), self.root)

    def log_density(self, x: FloatArray) -> FloatArray:
        """(n,) at (n, size) points."""
        t = solve_lower(self.root[None], x - self.location)
        nu = self.freedom
        constant = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        logs = len(self.location) * constant - (nu + 1) / 2 * np.log1p(t**2 / nu).sum(axis=1)
        density: FloatArray = logs - np.log(np.diag(self.root)).sum()
        return density

    def adapted(self, x: FloatArray, weights: FloatArray, ess: float) -> "StudentT":
        """Moved and stretched to weighted draws, as far as so many effective draws can be trusted."""
        trust = ess / (ess + 20)
        mean = np.einsum("n,ni->i", weights, x)
        offset = x - mean
        if len(mean) <= MOST_CORRELATED:
            seen = np.einsum("ni,nj->ij", weights[:, None] * offset, offset)
        else:
            seen = np.diag(np.einsum("n,ni->i", weights, offset**2))
        # A t of ν degrees has variance ν/(ν − 2) times its squared scale.
        shrink = (self.freedom - 2) / self.freedom
        root, _ = factorise((trust * seen * shrink + (1 - trust) * product(self.root, self.root))[None], 0.0)
        return StudentT(location=trust * mean + (1 - trust) * self.location, root=root[0], freedom=self.freedom)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """Scales and standardised effects of one round."""

    theta: StudentT
    e: StudentT
    n: int

    def log_density(self, pool: "_Pool") -> FloatArray:
        return self.theta.log_density(pool.theta) + self.e.log_density(pool.e) + pool.log_root


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """Draws of one or more rounds."""

    theta: FloatArray
    e: FloatArray
    z: FloatArray
    log_root: FloatArray
    log_target: FloatArray

    @classmethod
    def join(cls, pools: Sequence["_Pool"]) -> "_Pool":
        return cls(
            theta=np.concatenate([pool.theta for pool in pools]),
            e=np.concatenate([pool.e for pool in pools]),
            z=np.concatenate([pool.z for pool in pools]),
            log_root=np.concatenate([pool.log_root for pool in pools]),
            log_target=np.concatenate([pool.log_target for pool in pools]),
        )


def _propose(target: Target, mode: Mode, proposal: _Proposal, rng: np.random.Generator) -> _Pool:
    theta, e = proposal.theta.draw(proposal.n, rng), proposal.e.draw(proposal.n, rng)
    z, log_root = np.empty(e.shape), np.empty(len(e))
    # A few matrices of n_z² at a time, so that memory does not grow with the draws.
    n_at_once = max(1, MATRIX_ENTRIES // max(e.shape[1], 1) ** 2)
    for start in range(0, len(e), n_at_once):
        some = slice(start, start + n_at_once)
        normal = target.normal(theta[some], mode.expansion)
        z[some], log_root[some] = normal.at(e[some]), normal.log_root
    return _Pool(theta=theta, e=e, z=z, log_root=log_root, log_target=target.log_density(theta, z))


def _log_weights(pool: _Pool, proposals: Sequence[_Proposal]) -> FloatArray:
    total = sum(proposal.n for proposal in proposals)
    logs = [np.log(proposal.n / total) + proposal.log_density(pool) for proposal in proposals]
    weights: FloatArray = pool.log_target - special.logsumexp(logs, axis=0)
    return weights


def _first(target: Target, mode: Mode, n: int) -> _Proposal:
    size = target.design.n_z
    root = np.linalg.cholesky(mode.covariance) if target.design.n_theta else np.zeros((0, 0))
    return _Proposal(
        theta=StudentT(location=mode.theta, root=FIRST_STRETCH * root, freedom=SCALE_FREEDOM),
        # The cost of heavy tails, ¾/ν² of log weight an effect, is held below 0.2.
        e=StudentT(location=np.zeros(size), root=np.eye(size), freedom=max(SCALE_FREEDOM, 2 * size**0.5)),
        n=n,
    )


def draw_posterior(target: Target, *, n_draws: int, rng: np.random.Generator) -> Sample:
    """Draws from the posterior: from its mode, and where they are poor from the scales' prior, whichever is better.

    Parameters
    ----------
    target : Target
        Log posterior of scales and effects.
    n_draws : int
        Draws wanted, and proposed in each round.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    Sample
        May still be poor; see `Sample.is_good`.
    """
    sample = draw_from(target, find_mode(target), n_draws=n_draws, rng=rng)
    if sample.is_good:
        return sample
    other = draw_from(target, mode_at_prior(target), n_draws=n_draws, rng=rng)
    return other if other.pareto_k < sample.pareto_k else sample


def draw_from(
    target: Target, mode: Mode, *, n_draws: int, rng: np.random.Generator, most_rounds: int = 6, wanted: float = 0.5
) -> Sample:
    """Draws from the posterior by proposals about one mode.

    Parameters
    ----------
    target : Target
        Log posterior of scales and effects.
    mode : Mode
        Where the first round proposes.
    n_draws : int
        Draws wanted, and proposed in each round.
    rng : numpy.random.Generator
        Source of the draws.
    most_rounds : int
        Rounds at most; at least two are made.
    wanted : float
        Effective draws, as a share of `n_draws`, at which no further round is made; never fewer than 400 in all.

    Returns
    -------
    Sample
    """
    proposals = [_first(target, mode, n_draws)]
    pool = _propose(target, mode, proposals[0], rng)
    while True:
        log_weights = _log_weights(pool, proposals)
        importance = smooth(log_weights)
        weights, ess = importance.weights, importance.effective
        is_enough = importance.pareto_k <= LARGEST_PARETO_K and ess >= max(FEWEST_EFFECTIVE, wanted * n_draws)
        if len(proposals) >= most_rounds or (len(proposals) > 1 and is_enough):
            break
        last = proposals[-1]
        proposals.append(
            _Proposal(
                theta=last.theta.adapted(pool.theta, weights, ess), e=last.e.adapted(pool.e, weights, ess), n=n_draws
            )
        )
        pool = _Pool.join([pool, _propose(target, mode, proposals[-1], rng)])
    at = resampled(importance, n_draws, rng)
    # The priors' constants: those of the proposals carry theirs.
    constant = -0.5 * (target.design.n_theta + target.design.n_z) * np.log(2 * np.pi)
    return Sample(
        theta=pool.theta[at],
        z=pool.z[at],
        pareto_k=importance.pareto_k,
        ess=ess,
        n_proposed=len(weights),
        n_rounds=len(proposals),
        log_evidence=float(special.logsumexp(log_weights) - np.log(len(weights)) + constant),
    )
