"""Effective draws per second of the hierarchical model, route by route, and refits per second of one cell.

Pilots are drawn from the model: agents × benchmarks with one arm, so many tasks each. The routes are drsim's own
(laplace: importance sampling from Laplace's normal; nuts: chains on its compiled likelihood) and the same model in PyMC
by nutpie (`--pymc`), by PyMC's own sampler (`--plain`) and in NumPyro (`--numpyro`, where that is installed). All must
agree on every cell's gain: means within .05 posterior sd or five Monte Carlo errors, sds within 5 % or their errors.
Times are of whole fits, compiling included where a route compiles for a new pilot. ESS is the least of p, r and d over
the cells.
"""

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from drsim.arrays import FloatArray
from drsim.inference.hierarchical.data import gather
from drsim.inference.hierarchical.derived import CellDraws
from drsim.inference.hierarchical.design import lay_out
from drsim.inference.hierarchical.fit import (
    Diagnostics,
    HierarchicalFit,
    Route,
    fit_hierarchical,
    fit_nuts,
)
from drsim.inference.hierarchical.likelihood import PackedBlock
from drsim.inference.hierarchical.nuts import Chains
from drsim.inference.hierarchical.priors import DEFAULT_PRIORS
from drsim.inference.hierarchical.pymc_model import WIDEST, Nuts, fit_pymc
from drsim.inference.hierarchical.refits import RefitBank
from drsim.pilot.cell import Cell
from drsim.pilot.cells import cells_of
from drsim.pilot.evidence import Pilot
from drsim.pilot.records import Outcome, Run

SEED = 3
CHAINS = 4


def cells(n_agents: int, n_benchmarks: int, n_tasks: int) -> tuple[Cell, ...]:
    """One run of each task and arm."""
    rng = np.random.default_rng(SEED)
    runs = []
    for agent in range(n_agents):
        for benchmark in range(n_benchmarks):
            level, shift = rng.normal(0.0, 1.0), rng.normal(0.3, 0.5)
            for task in range(n_tasks):
                logit = level + rng.normal(0.0, 2.0)
                for arm, chance in (("baseline", expit(logit)), ("arm", expit(logit + shift))):
                    outcome = Outcome.SUCCESS if rng.random() < chance else Outcome.FAIL
                    runs.append(
                        Run(task_id=f"t{task}", arm=arm, outcome=outcome, agent=f"a{agent}", benchmark=f"b{benchmark}")
                    )
    index = np.arange(len(runs), dtype=np.int64)
    return cells_of(Pilot(runs=runs, sources=("s",), source_of=0 * index, line_of=index + 1)).cells


def fit_numpyro(given: tuple[Cell, ...], *, seed: int) -> HierarchicalFit:
    """The model written out once more, for NumPyro's NUTS."""
    import jax
    import jax.numpy as jnp
    import numpyro  # type: ignore[import-not-found] # outside the project's environment
    from numpyro import distributions as dist
    from scipy import special

    from drsim.inference.hierarchical.kernels import FLATTENING
    from drsim.inference.hierarchical.quadrature import EFFECT_REACH, TASK_REACH, count_nodes, normal_rule

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call] # JAX has no type here
    numpyro.set_host_device_count(CHAINS)
    data = gather(given)
    design = lay_out(data, DEFAULT_PRIORS)
    packed = [PackedBlock.of(block) for block in data.blocks]

    def log_binomial(pairs: Any, logit: Any) -> Any:
        k, n = (pairs[:, i].reshape((-1, *(1,) * logit.ndim)) for i in range(2))
        return -k * jax.nn.softplus(-logit) - (n - k) * jax.nn.softplus(logit)

    def log_likelihood(block: PackedBlock, row: Any) -> Any:
        u, log_u = normal_rule(count_nodes(block.task_nodes, TASK_REACH, WIDEST), TASK_REACH)
        n_w = count_nodes(block.effect_nodes, EFFECT_REACH, 0.5 * FLATTENING**0.5 * WIDEST)
        w, log_w = normal_rule(n_w, EFFECT_REACH)
        sigma = jnp.exp(row[1])
        scale = jnp.sqrt(1 + FLATTENING * sigma**2)
        eta = scale * row[0] + sigma * u
        logs = log_u + log_binomial(block.base_pairs, eta)[block.patterns[:, 0]]
        for m in range(block.n_arms):
            inner = log_binomial(
                block.arm_pairs[m], eta[:, None] + scale * (row[2 + 2 * m] + jnp.exp(row[3 + 2 * m]) * w)
            )
            logs = logs + jax.nn.logsumexp(log_w + inner, axis=-1)[block.patterns[:, 1 + m]]
        return block.weight @ jax.nn.logsumexp(logs, axis=-1)

    def model() -> None:
        z = numpyro.sample("z", dist.Normal(0, 1).expand([design.n_z]))
        sd = jnp.asarray(design.width)
        if design.scale_names:
            scale = numpyro.sample("scale", dist.HalfNormal(1).expand([len(design.scale_names)]))
            sd = sd * jnp.concatenate([scale, jnp.ones(1)])[design.scale_of]
        effects = sd * z
        if design.correlation_names:
            eta = design.correlation_shape
            half = numpyro.sample("half", dist.Beta(eta, eta).expand([len(design.correlation_names)]))
            own = (2 * half - 1)[design.correlation_of]
            scores = own * z[design.partner] + jnp.sqrt(1 - own**2) * z[design.coupled]
            effects = effects.at[design.coupled].set(sd[design.coupled] * scores)
        x = design.mean + jnp.asarray(design.columns) @ effects
        for i, (block, start) in enumerate(zip(packed, design.starts, strict=False)):
            numpyro.factor(f"block {i}", log_likelihood(block, x[start : start + block.n_parameters]))

    sampler = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model),
        num_warmup=1_000,
        num_samples=1_000,
        num_chains=CHAINS,
        chain_method="parallel",
        progress_bar=False,
    )
    sampler.run(jax.random.key(seed))
    found = {name: np.asarray(values) for name, values in sampler.get_samples().items()}
    z = found["z"]
    empty = np.zeros((len(z), 0))
    scale, half = found.get("scale", empty), found.get("half", empty)
    shape = design.correlation_shape
    theta = np.concatenate(
        [-special.ndtri(2 * special.ndtr(-scale)), special.ndtri(special.betainc(shape, shape, half))], axis=1
    )
    diverging = np.asarray(sampler.get_extra_fields()["diverging"]).reshape(CHAINS, -1)
    return HierarchicalFit.of_draws(
        data,
        design,
        theta,
        z,
        priors=DEFAULT_PRIORS,
        seed=seed,
        route=Route.NUTS,
        diagnostics=Diagnostics.of_chains(Chains.of(diverging, theta, z)),
    )


def timed(call: Callable[[], HierarchicalFit]) -> tuple[HierarchicalFit, float]:
    start = time.perf_counter()
    fit = call()
    return fit, time.perf_counter() - start


def ess_of(fit: HierarchicalFit) -> float:
    """Least effective draws of p, r and d over the cells."""
    if fit.route is Route.LAPLACE:
        return fit.diagnostics.ess
    import arviz as az
    import xarray as xr

    def chains(draws: CellDraws) -> FloatArray:
        return np.stack([draws.failure_rate, draws.recovery, draws.disruption], axis=1)

    values = np.concatenate([chains(cell.draws) for cell in fit.cells], axis=1)
    held = xr.Dataset({"x": (("chain", "draw", "i"), values.reshape(CHAINS, -1, values.shape[1]))})
    return float(np.asarray(az.ess(held, method="bulk")["x"]).min())


def check(fast: HierarchicalFit, slow: HierarchicalFit) -> tuple[float, float]:
    """Largest difference of means in sds and of sds in per cent; both within what sampling explains."""
    worst_mean = worst_sd = 0.0
    for a, b in zip(fast.cells, slow.cells, strict=True):
        sd = float(b.draws.gain.std())
        ess = min(ess_of(fast), ess_of(slow))
        apart = abs(float(a.draws.gain.mean() - b.draws.gain.mean())) / sd
        ratio = abs(float(a.draws.gain.std()) / sd - 1.0)
        assert apart <= max(0.05, 5.0 * np.sqrt(2.0 / ess)), f"{a.key.name}: means {apart:.3f} sd apart"
        assert ratio <= max(0.05, 5.0 / np.sqrt(ess)), f"{a.key.name}: sds {ratio:.1%} apart"
        worst_mean, worst_sd = max(worst_mean, apart), max(worst_sd, ratio)
    return worst_mean, worst_sd


def compare(given: tuple[Cell, ...], routes: dict[str, Callable[[], HierarchicalFit]]) -> None:
    first: tuple[HierarchicalFit, float] | None = None
    for name, call in routes.items():
        fit, seconds = timed(call)
        ess, checks = ess_of(fit), fit.diagnostics
        rate = ess / seconds
        good = checks.pareto_k if checks.rhat is None else checks.rhat
        row = f"{len(given):6}{name:>10}{seconds:9.2f}{ess:8.0f}{rate:9.1f}{good:12.3f}{checks.n_divergences or 0:6}"
        if first is None:
            first = fit, rate
            print(row)
            continue
        means, sds = check(first[0], fit)
        print(f"{row}   {means:.3f} sd, {sds:.1%}; laplace draws {first[1] / rate:.0f} x as fast")


def refits(n_tasks: int, runs: int, n_pilots: int) -> None:
    """Pilots of one cell by shared points."""
    patterns = np.array([[[a, runs], [b, runs]] for a in range(runs + 1) for b in range(runs + 1)], dtype=np.int64)
    rng = np.random.default_rng(SEED)
    logit = rng.normal(0.0, 2.0, (n_pilots, n_tasks))
    a, b = rng.binomial(runs, expit(logit)), rng.binomial(runs, expit(logit + 0.5))
    counts = np.zeros((n_pilots, len(patterns)))
    for i in range(n_pilots):
        np.add.at(counts[i], (runs + 1) * a[i] + b[i], 1.0)
    RefitBank.of(patterns, counts[:30], seed=SEED, n_points=1000).refit(counts[:3], seed=SEED)
    start = time.perf_counter()
    found = RefitBank.of(patterns, counts, seed=SEED).refit(counts, seed=SEED)
    rate = n_pilots / (time.perf_counter() - start)
    assert found.is_good.all(), "some pilots have no good draws"
    print(
        f"{n_tasks} tasks x {runs} runs: {rate:.0f} refits/s, bank included; {found.is_redrawn.mean():.1%} on their"
        f" own, effective draws {np.median(found.ess):.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--shapes", default="1x1,2x3", help="agents x benchmarks, comma separated")
    parser.add_argument("--draws", type=int, default=4_000, help="of laplace, and of all chains together")
    parser.add_argument("--pilots", type=int, default=3_000, help="refits of one cell; 0: none")
    for option in ("nuts", "pymc", "plain", "numpyro"):
        parser.add_argument(f"--{option}", action="store_true", help=f"with the route {option}")
    options = parser.parse_args()
    print(f"{'cells':>6}{'route':>10}{'s':>9}{'ESS':>8}{'ESS/s':>9}{'k or R-hat':>12}{'div':>6}   means, sds apart")
    for shape in options.shapes.split(","):
        n_agents, n_benchmarks = (int(it) for it in shape.split("x"))
        given = cells(n_agents, n_benchmarks, options.tasks)
        per_chain = options.draws // CHAINS
        fit_hierarchical(cells(1, 1, 10), seed=1)
        routes: dict[str, Callable[[], HierarchicalFit]] = {
            "laplace": partial(fit_hierarchical, given, seed=1, draws=options.draws),
            "nuts": partial(fit_nuts, given, seed=1, draws=per_chain),
            "pymc": partial(fit_pymc, given, seed=1, draws=per_chain),
            "plain": partial(fit_pymc, given, seed=1, draws=per_chain, by=Nuts.PYMC),
            "numpyro": partial(fit_numpyro, given, seed=1),
        }
        routes = {name: call for name, call in routes.items() if name == "laplace" or getattr(options, name)}
        compare(given, routes)
    if options.pilots:
        refits(50, 1, options.pilots)
        refits(50, 4, options.pilots)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
