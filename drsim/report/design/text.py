"""A pilot plan's operating characteristics as text for a terminal of 80 columns."""

from drsim.planning.pilot_rules import PilotRule, RuleKind
from drsim.planning.pilot_split import cheapest
from drsim.planning.pilot_world import PairingPlan
from drsim.report.design.answer import PUBLISHED_SIZES, Answer
from drsim.report.numbers import counted, points, rate
from drsim.report.text import columns, paragraph

__all__ = ["design_text"]

LONGEST_NAME = 33


def design_text(answer: Answer, width: int) -> str:
    """The answer for people.

    Parameters
    ----------
    answer : Answer
        Operating characteristics, sizes, prices.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    parts = [_heading(answer, width), _verdict(answer, width), _curve(answer, width)]
    if answer.splits:
        parts.append(_splits(answer, width))
    if answer.assurance is not None:
        parts.append(_assurance(answer, width))
    if answer.published:
        parts.append(_published(answer, width))
    return "\n\n".join(parts)


def _amount(answer: Answer, price: float | None) -> str:
    return f"{price or 0.0:,.2f}" if answer.is_priced else f"{price or 0.0:,.0f}"


def _price(answer: Answer, price: float) -> str:
    return f"{_amount(answer, price)} {'USD' if answer.is_priced else 'runs'}"


def _heading(answer: Answer, width: int) -> str:
    plan, world = answer.plan, answer.world
    pairs = plan.n_tasks * plan.n_trials
    size = f"{counted(plan.n_tasks, 'task')} × {counted(plan.n_trials, 'trial')} × {counted(plan.n_arms, 'arm')}"
    head = f"{size}, {plan.pairing} pairs: {counted(pairs, 'pair')} an arm, {_price(answer, answer.price)}"
    if world.discordance is not None:
        flips = f"{100 * world.discordance:g} % of rerun pairs flip"
    else:
        flips = f"pairs flip as reruns do at p = {world.failure_rate:g}, ρ = {world.rho:g}"
    assumed = [flips]
    if plan.n_trials > 1:
        assumed.append(f"the pairs of a task have the intraclass correlation {world.pair_correlation:g}")
    if plan.pairing is PairingPlan.FORK:
        assumed.append(f"the policy fires in {100 * world.fires:g} % of runs, and only those pairs can flip")
    lines = [paragraph(head, width, indent=0), paragraph(f"rule: {_rule_words(answer.rule)}", width)]
    return "\n".join([*lines, *(paragraph(f"assumed: {it}", width) for it in assumed)])


def _rule_words(rule: PilotRule) -> str:
    margin = f"{100 * rule.decision.margin:+g} pp" if rule.decision.margin else "0"
    match rule.kind:
        case RuleKind.POSTERIOR:
            return (
                f"posterior, P(gain > {margin}) at least {rule.decision.confidence:g} deploys, at most "
                f"{1 - rule.decision.confidence:g} does not"
            )
        case RuleKind.POINT:
            return "point estimates, deploy when p > p*"
        case RuleKind.MCNEMAR:
            return f"two-sided mid-p McNemar test at {rule.alpha:g}"
    return (
        f"anytime-valid, looks after every task; false benefit at most {rule.alpha:g}, false harm at most "
        f"{rule.harm_alpha:g}, ever"
    )


def _verdict(answer: Answer, width: int) -> str:
    loss, gain = answer.detectable
    power = f"with probability {answer.power:g}"
    found = [f"{points(it)} pp" for it in (gain, loss) if it is not None]
    lines = [
        f"The smallest effects that this plan finds {power}: {' and '.join(found)}."
        if found
        else f"No effect that is possible here is found {power} by this plan."
    ]
    for wanted, tasks in answer.needed.items():
        if tasks is None:
            lines.append(f"No pilot of a size that was looked at finds {points(wanted)} pp {power}.")
        else:
            pairs = tasks * answer.plan.n_trials
            times = "" if answer.plan.n_trials == 1 else f" ({counted(pairs, 'pair')} an arm)"
            lines.append(f"To find {points(wanted)} pp {power} takes {tasks:,} tasks{times}.")
    return "\n".join(paragraph(it, width, indent=0) for it in lines)


def _curve(answer: Answer, width: int) -> str:
    has_equivalent = any(it.p_equivalent >= 0.0005 for it in answer.points)
    head = ["gain pp", "flips", "deploy", "do not", "equivalent", "open", "wrong", "pairs"]
    rows = [head]
    for it in answer.points:
        is_open = max(0.0, 1 - it.p_deploy - it.p_reject - it.p_equivalent)
        shares = [it.p_deploy, it.p_reject, it.p_equivalent, is_open, it.p_wrong]
        pairs = f"{it.expected_tasks * answer.plan.n_trials:,.0f}"
        rows.append([points(it.gain), f"{it.discordance:.2f}", *map(rate, shares), pairs])
    if not has_equivalent:
        rows = [[*row[:4], *row[5:]] for row in rows]
    margin = answer.rule.decision.margin
    notes = [f"wrong: deploy where the gain is at most {100 * margin:g} pp, do not deploy where it is above"]
    se = max(it.se for it in answer.points)
    n_pilots = answer.points[0].n_pilots
    notes.append("exact" if n_pilots is None else f"{n_pilots:,} simulated pilots, standard errors up to {se:.4f}")
    if answer.rule.kind is RuleKind.POSTERIOR and answer.plan.n_trials > 1:
        notes.append("the posterior is taken for normal: where few pairs flip, drsim fit may decide otherwise")
    if answer.plan.n_arms > 1:
        notes.append(f"each of the {answer.plan.n_arms} arms is read on its own: errors of all of them add up")
    return "\n".join([columns(rows, right=range(len(rows[0]))), *(paragraph(it, width) for it in notes)])


def _splits(answer: Answer, width: int) -> str:
    best = cheapest(answer.splits)
    rows = [["pairing", "trials", "tasks", "pairs an arm", "USD" if answer.is_priced else "runs", ""]]
    for it in answer.splits:
        numbers = [f"{it.n_tasks:,}", f"{it.n_pairs:,}", _amount(answer, it.usd)] if it.n_tasks else ["–", "–", "–"]
        rows.append([it.pairing, str(it.n_trials), *numbers, "cheapest" if it is best else ""])
    head = f"Splits that find {points(answer.split_gain or 0.0)} pp with probability {answer.power:g}:"
    lines = [paragraph(head, width, indent=0), columns(rows, right=(1, 2, 3, 4))]
    if answer.rule.kind is RuleKind.MCNEMAR:
        lines.append(
            paragraph("the McNemar test takes all pairs of a task for independent: trust it for 1 trial", width)
        )
    rerun, fork = (cheapest(answer.splits, it) for it in PairingPlan)
    if rerun is not None and fork is not None and rerun.usd and fork.usd is not None:
        saved = 1 - fork.usd / rerun.usd
        words = f"forking saves {100 * saved:.0f} %" if saved > 0 else f"forking costs {-100 * saved:.0f} % more"
        lines.append(paragraph(f"{words} of the price of the cheapest split of reruns", width))
        lines.append(
            paragraph(
                "assumed: runs that fire flip as often as all runs do, which depends on when the policy fires", width
            )
        )
    return "\n".join(lines)


def _assurance(answer: Answer, width: int) -> str:
    found, prior = answer.assurance, answer.prior
    if found is None or prior is None:
        return ""
    text = (
        f"Before the gain is known ({points(prior[0])} ± {100 * prior[1]:g} pp): deploy {rate(found.p_deploy)}, do not "
        f"{rate(found.p_reject)}, right {rate(found.p_right)}, wrong {rate(found.p_wrong)}; acting on this pilot is "
        f"worth {points(found.value, 2)} pp, without one {points(found.value_without, 2)} pp."
    )
    return paragraph(text, width, indent=0)


def _published(answer: Answer, width: int) -> str:
    rows = [["published effect", "gain pp", "flips", *(f"n={n}" for n in PUBLISHED_SIZES), f"n({answer.power:g})"]]
    for it in answer.published:
        mark = "*" if it.effect.is_assumed else ""
        needed = "–" if it.n_needed is None else f"{it.n_needed:,}"
        name = it.effect.name[:LONGEST_NAME]
        flips = f"{it.effect.discordance:.2f}{mark}"
        rows.append([name, points(it.effect.gain), flips, *(f"{power:.3f}" for power in it.power), needed])
    notes = [
        f"power of the mid-p McNemar test on independent pairs, and pairs for {answer.power:g}; arXiv:2602.03338",
        "* share of flips assumed: none is printed with the effect",
    ]
    return "\n".join([columns(rows, right=range(1, len(rows[0]))), *(paragraph(it, width) for it in notes)])
