"""Numbers of a plan as both its forms show them."""

import numpy as np

from drsim.arrays import FloatArray
from drsim.inference.posterior import Uncertain
from drsim.planning.frontier import PILOTS
from drsim.planning.plan import Plan, Verdict, VerdictKind
from drsim.planning.prices import Unit
from drsim.report.numbers import points, rate

__all__ = ["amount", "price", "summary", "why"]


def summary(draws: FloatArray) -> Uncertain:
    """Posterior summary of (D,) draws; of a single draw the number itself, without spread."""
    if draws.size == 1:
        value = float(draws[0])
        return Uncertain(mean=value, sd=0.0, q2_5=value, q50=value, q97_5=value)
    return Uncertain.from_draws(draws)


def amount(value: float, unit: Unit) -> str:
    """So much of a unit, in four digits at most."""
    if not np.isfinite(value):
        return "–"
    if unit is Unit.USD:
        return f"${value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def price(value: float, unit: Unit) -> str:
    """An amount with the unit's name."""
    shown = amount(value, unit)
    return shown if unit is Unit.USD else f"{shown} {'s' if unit is Unit.SECONDS else unit}"


def why(plan: Plan, verdict: Verdict) -> str:
    """One sentence for the verdict at a budget."""
    at, names = verdict.at, plan.names
    gain = points(float(plan.success[at.choice].mean() - plan.success[0].mean()))
    share = f"P(best) {rate(float(at.prob_best[at.best]))} of {at.n_affordable} affordable"
    if verdict.kind is VerdictKind.EQUIVALENT:
        rope = f"{100 * plan.question.rule.rope:g} pp"
        return (
            f"{names[at.choice]} ({gain} pp) is within {rope} of {names[at.best]} with probability "
            f"{rate(at.prob_close)}, and costs less"
        )
    if verdict.kind is VerdictKind.UNANSWERABLE:
        hinge = max(verdict.hinges, key=lambda it: it.regret)
        return (
            f"{names[at.choice]} ({gain} pp) if {hinge.knob.knob.text} is {hinge.knob.value:g}, which is assumed; "
            f"at {hinge.value:g} it loses {100 * hinge.regret:.1f} pp to {names[hinge.better]}: measure it"
        )
    if verdict.kind is VerdictKind.CLEAR:
        return f"{names[at.choice]} ({gain} pp), {share}"
    if plan.basis.is_spread_assumed:
        return f"{names[at.choice]} ({gain} pp), {share}; knowing ρ would add {100 * at.worth[-1]:.2f} pp"
    more = f"{100 * at.worth[0]:.2f}"
    return f"{names[at.choice]} ({gain} pp), {share}; a pilot {PILOTS[0]:g} times as large would add {more} pp"
