"""Log-likelihood of all blocks at many points, by the compiled kernel or by its NumPy twin."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from drsim.arrays import FloatArray, IntArray
from drsim.inference.hierarchical.data import Block
from drsim.inference.hierarchical.kernels import FLATTENING, block_log_likelihood, pattern_log_likelihoods
from drsim.inference.hierarchical.quadrature import (
    EFFECT_REACH,
    TASK_REACH,
    count_nodes,
    effect_nodes,
    normal_rule,
    task_nodes,
)
from drsim.inference.threads import in_threads

__all__ = ["PackedBlock", "reference_log_likelihood"]

POINTS_A_THREAD = 100
"""Some 10 µs each, where starting a thread takes about 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBlock:
    """A block's counts as the kernel takes them."""

    base_pairs: IntArray
    """(n, 2) distinct successes and runs of the baseline."""
    arm_pairs: IntArray
    """(max(n_arms, 1), n, 2) the same for each arm, filled up with 0 of 0."""
    patterns: IntArray
    """(n_patterns, 1 + n_arms) which pair a task has."""
    weight: FloatArray
    """(n_patterns,) tasks of each pattern."""
    task_nodes: int
    """Fewest nodes for u."""
    effect_nodes: int
    """Fewest nodes for w."""

    @property
    def n_arms(self) -> int:
        """Intervened arms."""
        return int(self.patterns.shape[1] - 1)

    @property
    def n_parameters(self) -> int:
        """a, log σ, and δ, log τ for each arm."""
        return 2 + 2 * self.n_arms

    @classmethod
    def of(cls, block: Block) -> "PackedBlock":
        """Pack a block."""
        found = [np.unique(block.counts[:, m], axis=0, return_inverse=True) for m in range(block.counts.shape[1])]
        n_arms = len(found) - 1
        arm_pairs = np.zeros((max(n_arms, 1), max((len(pairs) for pairs, _ in found[1:]), default=1), 2), np.int64)
        for m, (pairs, _) in enumerate(found[1:]):
            arm_pairs[m, : len(pairs)] = pairs
        return cls(
            base_pairs=np.ascontiguousarray(found[0][0], dtype=np.int64),
            arm_pairs=arm_pairs,
            patterns=np.ascontiguousarray(np.stack([inverse.ravel() for _, inverse in found], axis=1), np.int64),
            weight=np.ascontiguousarray(block.weight, dtype=np.float64),
            task_nodes=task_nodes(block.most_runs),
            effect_nodes=effect_nodes(block.most_runs),
        )

    def _call(self, parameters: FloatArray, grad: FloatArray, hess: FloatArray, *, order: int) -> FloatArray:
        value = np.empty(len(parameters))
        given = np.ascontiguousarray(parameters)

        def fill(some: slice) -> None:
            block_log_likelihood(
                given[some],
                self.base_pairs,
                self.arm_pairs,
                self.patterns,
                self.weight,
                self.task_nodes,
                self.effect_nodes,
                order,
                value[some],
                grad[some] if order > 0 else grad,
                hess[some] if order > 1 else hess,
            )

        in_threads(len(given), fill, fewest=POINTS_A_THREAD)
        return value

    def value(self, parameters: FloatArray) -> FloatArray:
        """(n_points,) log-likelihood at (n_points, n_parameters) points."""
        return self._call(parameters, np.empty((0, 0)), np.empty((0, 0, 0)), order=0)

    def slope(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log-likelihood (n_points,) and gradient (n_points, size)."""
        grad = np.empty(parameters.shape)
        return self._call(parameters, grad, np.empty((0, 0, 0)), order=1), grad

    def derivatives(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log-likelihood (n_points,), gradient (n_points, size), Hessian (n_points, size, size)."""
        shape = parameters.shape
        grad, hess = np.empty(shape), np.empty((*shape, shape[1]))
        return self._call(parameters, grad, hess, order=2), grad, hess

    def by_pattern(self, parameters: FloatArray) -> FloatArray:
        """(n_points, n_patterns) log-likelihood of one task of each pattern."""
        out = np.empty((len(parameters), len(self.patterns)))
        given = np.ascontiguousarray(parameters)

        def fill(some: slice) -> None:
            pattern_log_likelihoods(
                given[some],
                self.base_pairs,
                self.arm_pairs,
                self.patterns,
                self.task_nodes,
                self.effect_nodes,
                out[some],
            )

        in_threads(len(given), fill, fewest=POINTS_A_THREAD)
        return out


def reference_log_likelihood(packed: PackedBlock, parameters: FloatArray) -> FloatArray:
    """The kernel's twin in plain NumPy, value only: (n_points,) at (n_points, n_parameters) points."""
    return np.array([_reference_point(packed, row) for row in parameters])


def _reference_point(packed: PackedBlock, row: FloatArray) -> float:
    sigma = float(np.exp(row[1]))
    scale = float(np.sqrt(1 + FLATTENING * sigma**2))
    u, log_u = normal_rule(count_nodes(packed.task_nodes, TASK_REACH, sigma), TASK_REACH)
    eta = scale * row[0] + sigma * u
    logs = log_u + _log_binomial(packed.base_pairs, eta)[packed.patterns[:, 0]]
    for m in range(packed.n_arms):
        tau = scale * float(np.exp(row[3 + 2 * m]))
        w, log_w = normal_rule(count_nodes(packed.effect_nodes, EFFECT_REACH, tau), EFFECT_REACH)
        logit = (eta + scale * row[2 + 2 * m])[:, None] + tau * w
        inner = special.logsumexp(log_w + _log_binomial(packed.arm_pairs[m], logit), axis=-1)
        logs = logs + inner[packed.patterns[:, 1 + m]]
    return float(packed.weight @ special.logsumexp(logs, axis=-1))


def _log_binomial(pairs: IntArray, logit: FloatArray) -> FloatArray:
    """(n_pairs, …) k log s + (n − k) log(1 − s)."""
    k, n = (column.reshape(-1, *(1,) * logit.ndim) for column in pairs.T)
    log_binomial: FloatArray = k * special.log_expit(logit) + (n - k) * special.log_expit(-logit)
    return log_binomial
