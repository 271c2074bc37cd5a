"""A plan as text for a terminal of 80 columns."""

import numpy as np

from drsim.planning.alternatives import Family, Item
from drsim.planning.break_even_prices import BreakEvenPrice
from drsim.planning.frontier import ratio_draws
from drsim.planning.plan import Plan
from drsim.planning.prices import NAMES, Unit
from drsim.report.numbers import counted, points, rate
from drsim.report.plan.document import PlanDocument
from drsim.report.plan.figures import amount, price, summary, why
from drsim.report.text import columns, paragraph

__all__ = ["case_text", "plan_text"]

LONGEST_NAME = 32
MOST_LEVELS = 9
CALLS = {
    Item.CRITIC_CALLS: "critic calls",
    Item.INTERVENTIONS: "interventions",
    Item.SELECTOR_CALLS: "selector calls",
    Item.VERIFIER_CALLS: "verifier calls",
    Item.SECOND_RUNS: "second runs",
}


def plan_text(plan: Plan, width: int, *, is_whole: bool) -> str:
    """The plan for people.

    Parameters
    ----------
    plan : Plan
        With its verdicts.
    width : int
        Columns of the terminal.
    is_whole : bool
        All alternatives, instead of those that matter.

    Returns
    -------
    str
        Lines without a final newline.
    """
    parts = [_heading(plan, width), _verdicts(plan, width), _table(plan, width, is_whole=is_whole)]
    if plan.prices_level or plan.selectors_level:
        parts.append(_levels(plan, width))
    parts.append(_worth(plan, width))
    return "\n\n".join(parts)


def _heading(plan: Plan, width: int) -> str:
    rho = summary(plan.world.attempts.rho)
    spread = "" if rho.sd == 0.0 else f" [{rate(rho.q2_5)}, {rate(rho.q97_5)}]"
    one = f"one run costs {price(float(plan.money[0].mean()), plan.prices.money)}"
    if plan.costs.seconds is not None:
        one += f" and {price(float(plan.costs.seconds[0].mean()), Unit.SECONDS)}"
    lines = [
        paragraph(f"{plan.basis.name}: {one}, and succeeds {rate(float(plan.success[0].mean()))}", width, indent=0),
        paragraph(f"ρ between runs of a task {rate(rho.mean)}{spread}", width),
        *(paragraph(f"assumed: {it}", width) for it in plan.assumptions),
    ]
    for it in plan.knobs:
        origin = "as given" if it.is_given else f"assumed; swept {' and '.join(f'{v:g}' for v in it.knob.swept)}"
        lines.append(paragraph(f"{it.knob.text} {it.value:g} ({origin}; --{it.name.replace('_', '-')})", width))
    free = [NAMES[item] for item in _free(plan)]
    if free:
        lines.append(paragraph(f"free of charge: {', '.join(f'--{name}' for name in free)}", width))
    return "\n".join(lines)


def _free(plan: Plan) -> list[Item]:
    """What is used, and has no price."""
    used = np.stack([it.items for it in plan.outcomes]).any(axis=(0, 2))
    each = plan.prices.each(plan.prices.money)
    return [item for item in NAMES if used[item] and each[item] == 0.0]


def _verdicts(plan: Plan, width: int) -> str:
    unit = plan.question.unit
    within = "" if plan.question.deadline is None else f" within {price(plan.question.deadline, Unit.SECONDS)}"
    lines = [f"What to do with a budget a task{within}:"]
    for it in plan.verdicts:
        said = f"{price(it.at.budget, unit)}: {it.kind.upper()}: {why(plan, it)}"
        lines.append(paragraph(said + _at_volume(plan, it.at.choice), width))
    return "\n".join(lines)


def _at_volume(plan: Plan, choice: int) -> str:
    """Successes and money over all tasks to run."""
    volume = plan.question.volume
    if volume is None:
        return ""
    money = price(volume * float(plan.money[choice].mean()), plan.prices.money)
    return f"; {volume * float(plan.success[choice].mean()):,.0f} successes for {money}"


def _shown(plan: Plan) -> list[int]:
    """What matters: one run, what was chosen, and both frontiers; cheap ends that earn less than a run are left out."""
    frontier = plan.frontier
    on = frontier.is_on_cost if frontier.is_on_latency is None else frontier.is_on_cost | frontier.is_on_latency
    mean = plan.success.mean(axis=1)
    chosen = {0, *(it.at.choice for it in plan.verdicts), *(it.at.best for it in plan.verdicts)}
    best = (plan.best_of_kind(family) for family in Family)
    chosen |= {it for it in best if it is not None}
    chosen |= {i for i in np.flatnonzero(on).tolist() if mean[i] > mean[0]}
    chosen |= {i for i, name in enumerate(plan.names) if name == "best of 2 (perfect selector)"}
    return sorted(chosen)


def _table(plan: Plan, width: int, *, is_whole: bool) -> str:
    shown = list(range(len(plan.names))) if is_whole else _shown(plan)
    money = plan.prices.money
    order = sorted(shown, key=lambda i: (float(plan.money[i].mean()), i))
    rows = [("a task", "success", "gain pp", money.value, "s", "a success")]
    for i in order:
        success = summary(plan.success[i])
        seconds = "–" if plan.costs.seconds is None else amount(float(plan.costs.seconds[i].mean()), Unit.SECONDS)
        each = plan.money[i].mean() / success.mean if success.mean > 0.0 else float("nan")
        rows.append(
            (
                _fitted(plan, i),
                rate(success.mean),
                points(float((plan.success[i] - plan.success[0]).mean())),
                amount(float(plan.money[i].mean()), money),
                seconds,
                amount(float(each), money),
            )
        )
    notes = [f"{len(shown)} of {counted(len(plan.names), 'alternative')}; --all shows the others"] * (not is_whole)
    notes += ["* dominated: another succeeds as often, costs as little and takes as little time"]
    notes += ["† a bound: no perfect selector is at hand"] * (not plan.is_allowed.all())
    if plan.costs.seconds is not None:
        notes.append(_of_parallel(plan))
    notes.append(_intervals(plan, order))
    return columns(rows, right=(1, 2, 3, 4, 5)) + "\n" + "\n".join(paragraph(it, width) for it in notes)


def _of_parallel(plan: Plan) -> str:
    """What the time of attempts in parallel is, and is not."""
    said = "attempts in parallel count once in time, which is that of an average attempt"
    most, each = plan.basis.most_steps, plan.prices.seconds_per_step
    if most > 1 and each is not None:
        said += f"; the slowest of them may take up to {price(most * each, Unit.SECONDS)}"
    return said


def _fitted(plan: Plan, i: int) -> str:
    mark = " †" if not plan.is_allowed[i] else " *" if plan.frontier.is_dominated[i] else ""
    name, room = plan.names[i], LONGEST_NAME - len(mark)
    return (name if len(name) <= room else name[: room - 1] + "…") + mark


def _intervals(plan: Plan, order: list[int]) -> str:
    """95 % intervals of what is chosen: success, and cost per success."""
    parts = []
    for i in dict.fromkeys([0, *(it.at.choice for it in plan.verdicts)]):
        success, each = summary(plan.success[i]), summary(ratio_draws(plan.money[i], plan.success[i]))
        low, high = (amount(it, plan.prices.money) for it in (each.q2_5, each.q97_5))
        parts.append(f"{plan.names[i]} {rate(success.q2_5)} to {rate(success.q97_5)}, a success {low} to {high}")
    return f"95 %: {'; '.join(parts)}"


def _levels(plan: Plan, width: int) -> str:
    lines = [paragraph("Break-even, by what a success costs:", width, indent=0)] if plan.prices_level else []
    lines += [paragraph(_level(plan, it), width) for it in plan.prices_level[:MOST_LEVELS]]
    for it in plan.selectors_level:
        versus = plan.names[it.versus]
        if it.auroc is None:
            said = f"not even a perfect selector makes best of {it.attempts} succeed as often as {versus}"
        elif it.auroc == 0.5:
            said = f"best of {it.attempts} succeeds as often as {versus} with any selector"
        else:
            said = f"best of {it.attempts} needs a selector AUROC of {it.auroc:.3f} to succeed as often as {versus}"
        lines.append(paragraph(said, width))
    return "\n".join(lines)


def _level(plan: Plan, level: BreakEvenPrice) -> str:
    ours, theirs = plan.names[level.alternative], plan.names[level.versus]
    calls = CALLS[level.item]
    if level.price < 0.0:
        return f"{calls}: no price is low enough for {ours} to beat {theirs}"
    now = "they are free" if level.now == 0.0 else f"they cost {price(level.now, level.unit)}"
    return f"{calls} must cost < {price(level.price, level.unit)} for {ours} to beat {theirs}; {now}"


def _worth(plan: Plan, width: int) -> str:
    """What knowing more would add, at the budget where it adds most."""
    is_assumed, volume = plan.basis.is_spread_assumed, plan.question.volume
    which = -1 if is_assumed else 0
    most = max(plan.verdicts, key=lambda it: it.at.worth[which])
    two, four, perfect = (f"{100 * it:.2f} pp" for it in most.at.worth)
    at = price(most.at.budget, plan.question.unit)
    if is_assumed:
        said = (
            f"Draws differ in nothing but ρ, which repeated plain runs measure: knowing it is worth most at {at}, "
            f"{perfect} of success"
        )
    else:
        said = (
            f"A bigger pilot is worth most at {at}: twice the evidence adds {two} of success, four times {four}, "
            f"perfect knowledge {perfect}"
        )
    if volume is not None:
        said += f"; over {volume:,} tasks {volume * most.at.worth[which]:,.1f} successes"
        said += "" if is_assumed else " for twice the evidence"
    return paragraph(f"{said}.", width, indent=0)


def case_text(document: PlanDocument, width: int) -> str:
    """The published case for people.

    Parameters
    ----------
    document : PlanDocument
        Of the case.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    rows = [("agent", "baseline", "oracle", "best of 2", "ρ", "P", "verdict")]
    rows += [
        (
            it.agent,
            f"{100 * it.baseline:.1f} %",
            points(it.oracle_intervention),
            points(it.oracle_best_of_two),
            rate(it.rho),
            rate(it.prob_best_of_two),
            it.verdict,
        )
        for it in document.case
    ]
    more = "; ".join(f"{it.agent} {', '.join(points(gain) for gain in it.best_of.values())}" for it in document.case)
    ns = ", ".join(next(iter(document.case)).best_of)
    notes = [
        document.source,
        "oracle: calibrated rollback applied to just the runs that would fail, C/n",
        "best of 2: the better of two plain runs, χ/2; both in pp over the baseline",
        "ρ: share of the variance of outcomes that lies between tasks, which the two imply: 1 − (χ/2)/(p(1−p))",
        f"with that ρ the best of {ns} runs gains {more} pp",
        "P: that the best of 2 gains more, where the 100 tasks are the units, each run a third of one",
    ]
    head = "Even with hindsight, intervening gains less there than running the agent a second time:"
    tail = "For a plan of your own: drsim plan --from MODEL --budget 0.05usd"
    body = columns(rows, right=(1, 2, 3, 4, 5)) + "\n" + "\n".join(paragraph(it, width) for it in notes)
    return "\n\n".join([paragraph(head, width, indent=0), body, tail])
