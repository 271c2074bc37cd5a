r"""Log-likelihood of one block with its exact gradient and Hessian, compiled by Numba.

Parameters of a block, in this order: a, log σ, then δ_m, log τ_m for each arm, all as in `priors` (so that the logit
of task u is η = c·a + σu, of the same task under arm m η + c·(δ_m + τ_m w), with c = √(1 + κσ²)).

    ℓ = Σ_patterns weight · log Σ_u ω_u Bin(k₀|n₀, η) Π_m Σ_w ω_w Bin(k_m|n_m, η + c(δ_m + τ_m w))

without binomial coefficients, which no parameter enters. Derivatives are taken first in the plain parameters c·a,
log σ, c·δ_m, log(c·τ_m) and then carried over to the block's.
"""

import numba
import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.inference.hierarchical.quadrature import EFFECT_REACH, TASK_REACH, count_nodes, fill_rule

__all__ = ["FEW_RUNS", "FLATTENING", "block_log_likelihood", "pattern_log_likelihoods"]

FLATTENING = 256 / 75 / np.pi**2
"""κ: a normal of variance σ² behind a logit flattens the averaged curve by 1/√(1 + κσ²)."""

FEW_RUNS = 4
"""Up to so many runs a task, likelihoods are products: one exponential a node instead of four."""
SMALLEST = 1e-290
"""Stands for a product that is 0 in floating point, so that its logarithm and its share are finite."""


@numba.njit(cache=True)
def _log_success(x: float) -> tuple[float, float, float]:
    """Log s, log(1 − s) and s at logit x."""
    tail = np.exp(-abs(x))
    log1p = np.log1p(tail)
    if x >= 0:
        return -log1p, -x - log1p, 1 / (1 + tail)
    return x - log1p, -log1p, tail / (1 + tail)


@numba.njit(cache=True)
def _fill_baseline(
    level: float, sigma: float, pairs: IntArray, u: FloatArray, log_u: FloatArray, out: FloatArray
) -> None:
    """(n_pairs, n_u, 3): log weight + log likelihood, and its first two derivatives in the logit."""
    for i in range(len(u)):
        log_s, log_f, s = _log_success(level + sigma * u[i])
        for j in range(len(pairs)):
            k, n = pairs[j, 0], pairs[j, 1]
            out[j, i, 0] = log_u[i] + k * log_s + (n - k) * log_f
            out[j, i, 1] = k - n * s
            out[j, i, 2] = -n * s * (1 - s)


@numba.njit(cache=True)
def _fill_chances(logit: float, tau: float, w: FloatArray, logs: FloatArray, is_few: bool) -> None:
    """(n_w, 3) at every node of w: log s, log(1 − s) and s; the first two themselves, not their logs, for few runs."""
    for h in range(len(w)):
        if is_few:
            s = 1 / (1 + np.exp(-(logit + tau * w[h])))
            logs[h, 0], logs[h, 1], logs[h, 2] = s, 1 - s, s
        else:
            logs[h, 0], logs[h, 1], logs[h, 2] = _log_success(logit + tau * w[h])


@numba.njit(cache=True)
def _fill_parts(
    k: int, n: int, logs: FloatArray, weights: FloatArray, log_w: FloatArray, parts: FloatArray, is_few: bool
) -> tuple[float, float]:
    """(n_w,) weight times likelihood at every node of w, times a factor whose log is returned after their sum."""
    top = 0.0
    if is_few:
        for h in range(len(parts)):
            part = weights[h]
            for _ in range(k):
                part *= logs[h, 0]
            for _ in range(n - k):
                part *= logs[h, 1]
            parts[h] = part
    else:
        top = -np.inf
        for h in range(len(parts)):
            parts[h] = log_w[h] + k * logs[h, 0] + (n - k) * logs[h, 1]
            top = max(top, parts[h])
        for h in range(len(parts)):
            parts[h] = np.exp(parts[h] - top)
    mass = 0.0
    for h in range(len(parts)):
        mass += parts[h]
    return max(mass, SMALLEST), top


@numba.njit(cache=True)
def _fill_slopes(
    k: int, n: int, tau: float, logs: FloatArray, w: FloatArray, parts: FloatArray, mass: float, out: FloatArray
) -> None:
    """(6,) from 1: derivatives e, t, ee, et, tt of the log of the sum of `parts`."""
    e = t = ee = et = tt = 0.0
    for h in range(len(w)):
        s, part, lever = logs[h, 2], parts[h], tau * w[h]
        slope = k - n * s
        bend = slope * slope - n * s * (1 - s)
        e += part * slope
        t += part * slope * lever
        ee += part * bend
        et += part * bend * lever
        tt += part * (bend * lever + slope) * lever
    e, t = e / mass, t / mass
    out[1], out[2] = e, t
    out[3] = ee / mass - e * e
    out[4] = et / mass - e * t
    out[5] = tt / mass - t * t


@numba.njit(cache=True)
def _fill_arm(
    level: float,
    sigma: float,
    tau: float,
    pairs: IntArray,
    u: FloatArray,
    w: FloatArray,
    log_w: FloatArray,
    order: int,
    out: FloatArray,
) -> None:
    """(n_pairs, n_u, 6): log ∫ over w, its derivatives e, t, ee, et, tt in the logit e and in t = log τ."""
    is_few = bool(pairs[:, 1].max() <= FEW_RUNS)
    weights = np.exp(log_w)
    logs, parts = np.empty((len(w), 3)), np.empty(len(w))
    for i in range(len(u)):
        _fill_chances(level + sigma * u[i], tau, w, logs, is_few)
        for j in range(len(pairs)):
            k, n = pairs[j, 0], pairs[j, 1]
            mass, top = _fill_parts(k, n, logs, weights, log_w, parts, is_few)
            out[j, i, 0] = top + np.log(mass)
            if order > 0:
                _fill_slopes(k, n, tau, logs, w, parts, mass, out[j, i])


@numba.njit(cache=True)
def _node_terms(
    i: int, at: IntArray, base: FloatArray, arms: FloatArray, lever: float, grad: FloatArray, hess: FloatArray
) -> None:
    """Gradient and Hessian (upper triangle) of one pattern's log integrand at node i."""
    g, h = base[at[0], i, 1], base[at[0], i, 2]
    for m in range(len(at) - 1):
        row = arms[m, at[m + 1], i]
        g += row[1]
        h += row[3]
        e = 2 + 2 * m
        grad[e], grad[e + 1] = row[1], row[2]
        hess[0, e], hess[0, e + 1] = row[3], row[4]
        hess[1, e], hess[1, e + 1] = lever * row[3], lever * row[4]
        hess[e, e], hess[e, e + 1], hess[e + 1, e + 1] = row[3], row[4], row[5]
    grad[0], grad[1] = g, lever * g
    hess[0, 0], hess[0, 1], hess[1, 1] = h, lever * h, lever * lever * h + lever * g


@numba.njit(cache=True)
def _log_nodes(at: IntArray, base: FloatArray, arms: FloatArray, out: FloatArray) -> float:
    """Log of one pattern's integral; `out` gets the share of each node."""
    top = -np.inf
    for i in range(len(out)):
        value = base[at[0], i, 0]
        for m in range(len(at) - 1):
            value += arms[m, at[m + 1], i, 0]
        out[i] = value
        top = max(top, value)
    total = 0.0
    for i in range(len(out)):
        out[i] = np.exp(out[i] - top)
        total += out[i]
    for i in range(len(out)):
        out[i] /= total
    return float(top + np.log(total))


@numba.njit(cache=True)
def _add_slope(
    weight: float,
    at: IntArray,
    base: FloatArray,
    arms: FloatArray,
    levers: FloatArray,
    shares: FloatArray,
    grad: FloatArray,
) -> None:
    """Add one pattern's gradient in the plain parameters."""
    for i in range(len(shares)):
        share = weight * shares[i]
        g = base[at[0], i, 1]
        for m in range(len(at) - 1):
            row = arms[m, at[m + 1], i]
            g += row[1]
            grad[2 + 2 * m] += share * row[1]
            grad[3 + 2 * m] += share * row[2]
        grad[0] += share * g
        grad[1] += share * levers[i] * g


@numba.njit(cache=True)
def _add_pattern(
    weight: float,
    at: IntArray,
    base: FloatArray,
    arms: FloatArray,
    levers: FloatArray,
    shares: FloatArray,
    grad: FloatArray,
    hess: FloatArray,
) -> None:
    """Add one pattern's gradient and Hessian (upper triangle) in the plain parameters."""
    size = len(grad)
    mean, node = np.zeros(size), np.zeros(size)
    second, bend = np.zeros((size, size)), np.zeros((size, size))
    for i in range(len(shares)):
        if shares[i] < 1e-13:
            continue
        _node_terms(i, at, base, arms, levers[i], node, bend)
        for a in range(size):
            mean[a] += shares[i] * node[a]
            for b in range(a, size):
                second[a, b] += shares[i] * (bend[a, b] + node[a] * node[b])
    for a in range(size):
        grad[a] += weight * mean[a]
        for b in range(a, size):
            hess[a, b] += weight * (second[a, b] - mean[a] * mean[b])


@numba.njit(cache=True)
def _carry_over(parameters: FloatArray, scale: float, grad: FloatArray, hess: FloatArray) -> None:
    """From derivatives in the plain parameters to those in the block's own; in place."""
    size = len(parameters)
    excess = scale * scale - 1
    first = excess / scale
    second = 2 * first - excess * excess / scale**3
    jacobian = np.eye(size)
    extra = np.zeros((size, size))
    jacobian[0, 0], jacobian[0, 1] = scale, parameters[0] * first
    extra[0, 1] += grad[0] * first
    extra[1, 1] += grad[0] * parameters[0] * second
    for m in range((size - 2) // 2):
        e = 2 + 2 * m
        jacobian[e, e], jacobian[e, 1] = scale, parameters[e] * first
        jacobian[e + 1, 1] = first / scale
        extra[1, e] += grad[e] * first
        extra[1, 1] += grad[e] * parameters[e] * second
        extra[1, 1] += grad[e + 1] * (second / scale - first * first / scale**2)
    for a in range(size):
        for b in range(a):
            hess[a, b] = hess[b, a]
            extra[a, b] = extra[b, a]
    carried = jacobian.T @ hess @ jacobian + extra
    hess[:, :] = carried
    grad[:] = jacobian.T @ grad


@numba.njit(cache=True)
def _integrals(
    row: FloatArray, base_pairs: IntArray, arm_pairs: IntArray, task_nodes: int, effect_nodes: int, order: int
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Scale c, σu at every node of u, and there baseline and arms of a block."""
    sigma = np.exp(row[1])
    scale = np.sqrt(1 + FLATTENING * sigma * sigma)
    n_u, n_arms = count_nodes(task_nodes, TASK_REACH, sigma), (len(row) - 2) // 2
    u, log_u = np.empty(n_u), np.empty(n_u)
    fill_rule(TASK_REACH, u, log_u)
    base = np.empty((len(base_pairs), n_u, 3))
    arms = np.empty((max(n_arms, 1), arm_pairs.shape[1], n_u, 6))
    _fill_baseline(scale * row[0], sigma, base_pairs, u, log_u, base)
    for m in range(n_arms):
        level, tau = scale * (row[0] + row[2 + 2 * m]), scale * np.exp(row[3 + 2 * m])
        n_w = count_nodes(effect_nodes, EFFECT_REACH, tau)
        w, log_w = np.empty(n_w), np.empty(n_w)
        fill_rule(EFFECT_REACH, w, log_w)
        _fill_arm(level, sigma, tau, arm_pairs[m], u, w, log_w, order, arms[m])
    return scale, sigma * u, base, arms


@numba.njit(cache=True, nogil=True)
def block_log_likelihood(
    parameters: FloatArray,
    base_pairs: IntArray,
    arm_pairs: IntArray,
    patterns: IntArray,
    weight: FloatArray,
    task_nodes: int,
    effect_nodes: int,
    order: int,
    value: FloatArray,
    grad: FloatArray,
    hess: FloatArray,
) -> None:
    """Log-likelihood at many parameter vectors.

    Parameters
    ----------
    parameters : (n_points, 2 + 2 n_arms) a, log σ, then δ, log τ for each arm
    base_pairs : (n, 2) distinct successes and runs of the baseline
    arm_pairs : (n_arms, n, 2) the same for each arm, filled up with 0 of 0
    patterns : (n_patterns, 1 + n_arms) which pair a task has in the baseline and in each arm
    weight : (n_patterns,) tasks of each pattern
    task_nodes, effect_nodes : fewest nodes for u and w
    order : 0, 1 or 2: whether `grad` (from 1 on) and `hess` (at 2) are filled
    value, grad, hess : (n_points,), (n_points, size), (n_points, size, size), filled
    """
    for point in range(len(parameters)):
        row = parameters[point]
        scale, levers, base, arms = _integrals(row, base_pairs, arm_pairs, task_nodes, effect_nodes, order)
        shares = np.empty(len(levers))
        value[point] = 0.0
        slope, bend = np.zeros(len(row)), np.zeros((len(row), len(row)))
        for pattern in range(len(patterns)):
            at = patterns[pattern]
            value[point] += weight[pattern] * _log_nodes(at, base, arms, shares)
            if order == 1:
                _add_slope(weight[pattern], at, base, arms, levers, shares, slope)
            elif order == 2:
                _add_pattern(weight[pattern], at, base, arms, levers, shares, slope, bend)
        if order > 0:
            _carry_over(row, scale, slope, bend)
            grad[point] = slope
        if order > 1:
            hess[point] = bend


@numba.njit(cache=True, nogil=True)
def pattern_log_likelihoods(
    parameters: FloatArray,
    base_pairs: IntArray,
    arm_pairs: IntArray,
    patterns: IntArray,
    task_nodes: int,
    effect_nodes: int,
    out: FloatArray,
) -> None:
    """The same for one task of each pattern: fill `out` (n_points, n_patterns)."""
    for point in range(len(parameters)):
        _, levers, base, arms = _integrals(parameters[point], base_pairs, arm_pairs, task_nodes, effect_nodes, 0)
        shares = np.empty(len(levers))
        for pattern in range(len(patterns)):
            out[point, pattern] = _log_nodes(patterns[pattern], base, arms, shares)
