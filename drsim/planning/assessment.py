"""Verdicts on each cell of a pilot and on all benchmarks of an arm together, with what should be known beside them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.companions import Companions, companions
from drsim.inference.posterior import Uncertain
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior
from drsim.inference.static import DEFAULT_DRAWS, CellPosterior, GainDraws, GainFit, fit_cell
from drsim.pilot.cell import Cell, PairedBy, Pairing
from drsim.pilot.remarks import bounds_warning, few, places_of, retry_warnings, unpaired_warning
from drsim.planning.verdict import Decision, DecisionKind, DecisionRule, decide, next_pilot

__all__ = ["Assessment", "CellVerdict", "Pooled", "assess"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellVerdict:
    """A cell's posterior and what it decides; no decision for baseline runs alone."""

    posterior: CellPosterior
    decision: Decision | None
    companions: Companions | None
    """Tests and intervals without a prior, where they were asked for and pairs are one to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """One agent and arm over several benchmarks, each weighted by its tasks."""

    agent: str
    arm: str
    benchmarks: tuple[str, ...]
    n_tasks: int
    gain: Uncertain | None
    """None where the benchmarks' gains differ in sign: one number would speak for none of them."""
    prob_gain: float | None
    decision: DecisionKind | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The static answer to a pilot."""

    pairing: Pairing
    cells: tuple[CellVerdict, ...]
    pooled: tuple[Pooled, ...]
    warnings: tuple[str, ...]
    rule: DecisionRule
    seed: int
    n_draws: int


def assess(
    pairing: Pairing,
    *,
    seed: int,
    rule: DecisionRule | None = None,
    rho_prior: RhoPrior | None = None,
    n_draws: int = DEFAULT_DRAWS,
    with_companions: bool = False,
) -> Assessment:
    """Fit every cell and decide.

    Parameters
    ----------
    pairing : Pairing
        Cells of the pilot.
    seed : int
        Seed of all draws, ≥ 0.
    rule : DecisionRule, optional
        Margin, region of equivalence, confidence, power and largest pilot.
    rho_prior : RhoPrior, optional
        ρ where no baseline run was repeated; the default prior when not given.
    n_draws : int
        Draws for each posterior that has no closed form.
    with_companions : bool
        Whether to add the frequentist companions of each paired table.

    Returns
    -------
    Assessment

    Raises
    ------
    ParameterError
        `seed` or `n_draws` is outside its domain.
    """
    rule = rule or DecisionRule()
    prior = rho_prior or DEFAULT_RHO_PRIOR
    posteriors = [fit_cell(cell, seed=seed, rho_prior=prior, n_draws=n_draws) for cell in pairing.cells]
    cells = tuple(
        CellVerdict(
            posterior=posterior,
            decision=_judge(posterior, rule, seed),
            companions=_companions(posterior.cell) if with_companions else None,
        )
        for posterior in posteriors
    )
    pooled = tuple(_pool(posteriors, rule))
    return Assessment(
        pairing=pairing,
        cells=cells,
        pooled=pooled,
        warnings=(
            *_warnings(pairing, cells),
            *_coupling_warning(posteriors, rule.confidence),
            *_prior_warnings(posteriors, rho_prior),
        ),
        rule=rule,
        seed=seed,
        n_draws=n_draws,
    )


def _companions(cell: Cell) -> Companions | None:
    if cell.paired_by in (PairedBy.ALL, PairedBy.NONE):
        return None
    a, b, c, d = (round(count) for count in cell.counts.values())
    return companions(a, b, c, d)


def _judge(posterior: CellPosterior, rule: DecisionRule, seed: int) -> Decision | None:
    gain, cell = posterior.gain, posterior.cell
    if gain is None:
        return None
    kind = decide(gain.posterior, rule)
    if gain.repeated is not None and decide(gain.repeated.posterior, rule) is not kind:
        kind = DecisionKind.INCONCLUSIVE
    why = _why(gain, kind, rule)
    if kind is not DecisionKind.INCONCLUSIVE:
        return Decision(kind=kind, why=why)
    if not cell.is_paired:
        return Decision(kind=kind, why=f"{why}; unpaired runs say little: pair them by task and trial")
    further = next_pilot(
        posterior.groups if gain.repeated is None else gain.repeated.groups,
        rule,
        pairs_per_task=cell.n_paired / cell.n_paired_tasks,
        usd_per_pair=cell.usd_per_pair,
        seed=seed,
    )
    if further is None:
        why = f"{why}; no pilot of up to {rule.max_pairs:,} pairs decides with probability {rule.power:g}"
        return Decision(kind=DecisionKind.UNANSWERABLE, why=why)
    return Decision(kind=kind, why=why, next=further)


def _why(gain: GainFit, kind: DecisionKind, rule: DecisionRule) -> str:
    if kind is DecisionKind.EQUIVALENT:
        within = gain.posterior.prob_gain_above(-rule.rope) - gain.posterior.prob_gain_above(rule.rope)
        return f"P(|gain| < {100 * rule.rope:g} pp) = {within:.3f}, at least {rule.confidence:g}"
    margin = f"{100 * rule.margin:+g} pp" if rule.margin else "0"
    prob = f"P(gain > {margin}) = {gain.posterior.prob_gain_above(rule.margin):.3f}"
    if gain.repeated is not None:
        alike = gain.repeated.posterior.prob_gain_above(rule.margin)
        prob += f" for independent pairs, {alike:.3f} for {gain.repeated.n_tasks} tasks whose trials are alike"
    if kind is DecisionKind.DEPLOY:
        return f"{prob}, at least {rule.confidence:g}"
    if kind is DecisionKind.DO_NOT_DEPLOY:
        return f"{prob}, at most {1 - rule.confidence:g}"
    return f"{prob}, between {1 - rule.confidence:g} and {rule.confidence:g}"


def _pool(posteriors: list[CellPosterior], rule: DecisionRule) -> Iterator[Pooled]:
    groups: dict[tuple[str, str], list[tuple[CellPosterior, FloatArray]]] = defaultdict(list)
    for posterior in posteriors:
        if posterior.gain is not None:
            groups[posterior.cell.agent, posterior.cell.arm].append((posterior, posterior.gain.draws))
    for (agent, arm), members in sorted(groups.items()):
        if len(members) > 1:
            yield _pool_arm(agent, arm, members, rule)


def _pool_arm(agent: str, arm: str, members: list[tuple[CellPosterior, FloatArray]], rule: DecisionRule) -> Pooled:
    n_tasks = np.array([posterior.cell.n_compared_tasks for posterior, _ in members])
    ups = [posterior.cell.benchmark for posterior, _ in members if posterior.plug_in.gain > 0]
    downs = [posterior.cell.benchmark for posterior, _ in members if posterior.plug_in.gain < 0]
    gain, prob, kind = None, None, None
    if ups and downs:
        why = f"the gain differs in sign: up on {', '.join(ups)}; down on {', '.join(downs)}"
    else:
        draws = np.average(np.stack([gains for _, gains in members]), axis=0, weights=n_tasks)
        pooled = GainDraws.of(draws)
        gain, prob, kind = pooled.summary, pooled.prob_gain_above(rule.margin), decide(pooled, rule)
        why = f"{len(members)} benchmarks, each weighted by its tasks"
    return Pooled(
        agent=agent,
        arm=arm,
        benchmarks=tuple(posterior.cell.benchmark for posterior, _ in members),
        n_tasks=int(n_tasks.sum()),
        gain=gain,
        prob_gain=prob,
        decision=kind,
        why=why,
    )


def _warnings(pairing: Pairing, verdicts: tuple[CellVerdict, ...]) -> Iterator[str]:
    for missing in pairing.left_out:
        yield f"arm {missing.arm}: {missing.runs} runs left out, since {missing.reason}"
    cells = [verdict.posterior.cell for verdict in verdicts if verdict.decision is not None]
    yield from retry_warnings(pairing.retries)
    yield from unpaired_warning([cell for cell in cells if cell.is_paired])
    yield from bounds_warning(cells)
    means = [cell for cell in cells if cell.paired_by is PairedBy.ALL]
    if means:
        yield f"no trial numbers match, so each task's runs are compared as means: {few(places_of(means))}"
    arms: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in cells:
        arms[cell.agent, cell.benchmark].append(cell.arm)
    n_arms = max((len(names) for names in arms.values()), default=0)
    if n_arms > 1:
        yield f"up to {n_arms} arms were compared on the same tasks: the best of them looks better than it is"


def _coupling_warning(posteriors: list[CellPosterior], confidence: float) -> Iterator[str]:
    coupled = [
        posterior.cell
        for posterior in posteriors
        if posterior.churn.prob_coupled is not None
        and posterior.churn.prob_coupled >= confidence
        and posterior.cell.paired_by is not PairedBy.FORK
    ]
    if coupled:
        yield (
            "fewer pairs flip than independent runs of the same tasks must: they seem to share a prefix or a seed, so "
            "that r and d hold less churn than is taken off here; if they do, state it with forked_from "
            f"({few(places_of(coupled))})"
        )


def _prior_warnings(posteriors: list[CellPosterior], rho_prior: RhoPrior | None) -> Iterator[str]:
    measured = [posterior for posterior in posteriors if posterior.churn.is_measured]
    if rho_prior is not None and measured:
        yield f"--rho {rho_prior} is not used in {len(measured)} cells whose repeated baseline runs measure ρ"
