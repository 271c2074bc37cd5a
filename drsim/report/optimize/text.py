"""The best times to intervene, as text for a terminal of 80 columns."""

import math

import numpy as np

from drsim.inference.posterior import Uncertain
from drsim.planning.ladder import Kind, Ladder
from drsim.planning.robust import Robust
from drsim.planning.written_policy import written_policy
from drsim.process.compile import CompiledPolicy
from drsim.process.toml import format_policy
from drsim.process.trace import trace
from drsim.report.numbers import counted, points, rate
from drsim.report.optimize.answer import WRITTEN_NAME, Answer
from drsim.report.text import columns, paragraph

__all__ = ["optimize_text"]

MOST_ROWS = 26
"""Steps shown of the curve of thresholds."""
MOST_BUDGETS = 5
LONGEST_NAME, LONGEST_MECHANISM = 26, 20
MOST_MADE = 0.95
"""Of the interventions, the steps before and after those named hold a twentieth each."""


def optimize_text(answer: Answer, width: int) -> str:
    """The answer for people.

    Parameters
    ----------
    answer : Answer
        Ladder and, with draws, the robust policy.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    parts = [_heading(answer, width), paragraph(_verdict(answer), width, indent=0), _ladder_text(answer, width)]
    if answer.ladder.programme.budget:
        parts.append(_curve_text(answer, width))
    if answer.robust is not None:
        parts.append(_robust_text(answer.robust, width))
    policy = answer.ladder.rung(Kind.CURVE).policy if answer.robust is None else answer.robust.policy
    if policy is not None:
        parts.append(_policy_text(answer, policy, width))
    return "\n\n".join(parts)


def _heading(answer: Answer, width: int) -> str:
    terms = answer.ladder.terms
    lines = [
        paragraph(
            f"{answer.model.name}, {answer.model.horizon} steps: {', '.join(_names(answer))}, at most "
            f"{counted(terms.budget, 'intervention')} a run, cooldown {terms.cooldown}",
            width,
            indent=0,
        )
    ]
    if not terms.is_free:
        lines.append(
            paragraph(
                f"prices in units of success: {terms.intervention_price:g} an intervention, {terms.critic_price:g} a "
                "scored step; gains are net of them",
                width,
            )
        )
    return "\n".join([*lines, *(paragraph(f"assumed: {it}", width) for it in answer.assumptions)])


def _names(answer: Answer) -> list[str]:
    return [answer.mechanisms[m] for m in answer.allowed] or ["no mechanism"]


def _verdict(answer: Answer) -> str:
    """One sentence: whether intervening pays, and what a plain threshold reaches of it."""
    ladder = answer.ladder
    best, curve, full = (ladder.rung(kind).gain for kind in (Kind.BELIEF, Kind.CURVE, Kind.FULL))
    if best <= 0.0:
        reach = "not even for a policy that sees the state" if full <= 0.0 else "for no policy that goes by scores"
        return f"Intervening does not pay, {reach}."
    if curve <= 0.0:
        return f"Plain score thresholds do not pay; the best policy on beliefs gains {points(best)} pp."
    policy = ladder.rung(Kind.CURVE).policy
    share = f"{100 * curve / best:.0f} %"
    return (
        f"The best plain thresholds ({_when(answer, policy)}) gain {points(curve)} pp, {share} of the "
        f"{points(best)} pp that any policy on these scores can gain; one that sees the state gains {points(full)} pp."
    )


def _when(answer: Answer, policy: CompiledPolicy | None) -> str:
    """Mechanism, and the steps in which most interventions of a policy are made."""
    if policy is None:
        return "never"
    name = answer.mechanisms[policy.mechanism]
    made = np.cumsum(trace(answer.compiled, policy).interventions)
    if made[-1] <= 0.0:
        return name
    first, last = np.searchsorted(made, np.array([1.0 - MOST_MADE, MOST_MADE]) * made[-1])
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    return f"{name}, mostly in {steps}"


def _ladder_text(answer: Answer, width: int) -> str:
    ladder = answer.ladder
    rows = [("ladder", "gain pp", "success" if ladder.terms.is_free else "net", "oracle pp", "mechanism")]
    for rung in ladder.rungs:
        oracle = "" if rung.hindsight is None else points(rung.hindsight, 2)
        mark = " *" if rung.kind is Kind.USER and rung.below is None else " †" if rung.se > 0.0 else ""
        name = _fitted(rung.name, LONGEST_NAME - len(mark)) + mark
        mechanism = _fitted(answer.mechanism(rung.policy) or "", LONGEST_MECHANISM)
        rows.append((name, points(rung.gain, 2), rate(ladder.baseline + rung.gain), oracle, mechanism))
    notes = "\n".join(paragraph(it, width) for it in _ladder_notes(answer))
    return columns(rows, right=(1, 2, 3)) + "\n" + notes


def _fitted(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _ladder_notes(answer: Answer) -> list[str]:
    ladder = answer.ladder
    notes = []
    constant = ladder.rung(Kind.CONSTANT).policy
    if constant is not None:
        written = written_policy(answer.model, constant)
        last = answer.model.horizon - 1 if written.last_step is None else written.last_step
        # one threshold in all open steps is written as one number
        threshold = float(np.min(written.threshold))  # type: ignore[arg-type]
        times = counted(written.budget, "intervention")
        notes.append(
            f"best constant threshold: {written.mechanism} when score > {threshold:.3f} in steps "
            f"{written.first_step} to {last}, at most {times}"
        )
    if any(it.kind is Kind.USER and it.below is None for it in ladder.rungs):
        notes.append("* does not keep these terms, so that no rung need lie above it")
    if any(it.se > 0.0 for it in ladder.rungs):
        worst = max(it.se for it in ladder.rungs)
        notes.append(f"† simulated, since it looks back on the run: ± {100 * worst:.2f} pp (one standard error)")
    if any(it.hindsight is not None for it in ladder.rungs):
        notes.append("oracle: applied to just the runs that would fail, P(fail → success), shared prefix")
    notes.append(_accuracy(ladder))
    if answer.as_given is not None:
        gains = [f"{kind} {points(gain, 2)} pp" for kind, gain in answer.as_given.items() if kind is not Kind.NEVER]
        notes.append(f"in the model as given these policies gain: {', '.join(gains)}")
    return notes


def _accuracy(ladder: Ladder) -> str:
    programme, rung = ladder.programme, ladder.rung(Kind.BELIEF)
    halved = f"{programme.grid.n_points} points, which halving the resolution moves by {100 * programme.error:.1g} pp"
    if len(programme.grid.points[0]) == 2:
        return f"optimal belief policy: {programme.interventions:.2f} interventions a run; beliefs on {halved}"
    return (
        f"optimal belief policy: between {points(rung.low, 3)} pp (a policy that is known) and "
        f"{points(rung.gain, 3)} pp (a bound), gap {100 * (rung.gain - rung.low):.2g} pp; beliefs on {halved}"
    )


def _curve_text(answer: Answer, width: int) -> str:
    """b* by step, a column for each mechanism and budget left."""
    regions, horizon = answer.ladder.programme.regions, answer.model.horizon
    shown, names = _shown(answer, width)
    steps = np.unique(np.linspace(0, horizon - 1, min(horizon, MOST_ROWS)).astype(int))
    rows = [("step", *(f"{names[m]}:{b}" for m, b in shown))]
    rows += [(str(t), *(_threshold(regions.lowest[m, b - 1, t]) for m, b in shown)) for t in steps]
    how = "Intervene when P(off track) is above (mechanism:interventions left; – never"
    how += f"; {len(steps)} of {horizon} steps)" if len(steps) < horizon else ")"
    parts = [paragraph(how, width, indent=0), columns(rows, right=range(len(rows[0])))]
    legend = [f"{names[m]} {answer.mechanisms[m]}" for m in names if names[m] != answer.mechanisms[m]]
    if legend:
        parts.append(paragraph(", ".join(legend), width))
    gaps = int((~regions.is_upper).sum())
    if gaps:
        where = f"{counted(gaps, 'pair')} of step and budget"
        parts.append(paragraph(f"in {where} intervening does not pay everywhere above, see is_upper in --json", width))
    return "\n".join(parts)


def _shown(answer: Answer, width: int) -> tuple[list[tuple[int, int]], dict[int, str]]:
    """Mechanisms and budgets left that fit side by side, and what the mechanisms are called there."""
    budgets = list(range(1, answer.ladder.programme.budget + 1))
    mechanisms = answer.allowed
    for names in ({m: answer.mechanisms[m] for m in mechanisms}, {m: f"m{m}" for m in mechanisms}):
        # two blanks between columns, a colon and the budget after the name
        widths = sum(max(len(it) + 1 + len(str(budgets[-1])), 5) + 2 for it in names.values())
        fits = min(MOST_BUDGETS, (width - 4) // widths)
        if fits >= min(2, len(budgets)):
            break
    fits = max(1, fits)
    if len(budgets) > fits:
        budgets = sorted({*budgets[: fits - 1], budgets[-1]})
    most = max(1, (width - 4) // (7 * len(budgets)))
    return [(m, b) for m in mechanisms[:most] for b in budgets], names


def _threshold(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _robust_text(robust: Robust, width: int) -> str:
    gain = Uncertain.from_draws(robust.gain)
    what = " and ".join(robust.varying) or "nothing"
    known = (
        f"over {len(robust.gain)} draws, which differ in {what}: the policy that is best for their mean gains "
        f"{points(gain.mean)} pp [{points(gain.q2_5)}, {points(gain.q97_5)}], P(gain > 0) = {rate(robust.prob_gain)}"
    )
    lines = [
        known,
        f"taking the point estimate for the truth loses {100 * robust.regret:.2f} pp of it",
        f"perfect knowledge would be worth {100 * robust.perfect_knowledge:.2f} pp",
    ]
    if robust.belief_gain is not None:
        belief = Uncertain.from_draws(robust.belief_gain)
        lines.append(
            f"the belief policy that is best at the point estimate gains {points(belief.mean)} pp "
            f"[{points(belief.q2_5)}, {points(belief.q97_5)}] over the same draws"
        )
    return "\n".join(paragraph(it, width, indent=0) for it in lines)


def _policy_text(answer: Answer, policy: CompiledPolicy, width: int) -> str:
    written = written_policy(answer.model, policy)
    gain = answer.gain_as_written(written)
    head = f"As a policy for drsim simulate and drsim sweep (gain as written {points(gain, 2)} pp at the point model):"
    return "\n".join([paragraph(head, width, indent=0), *_folded(format_policy(WRITTEN_NAME, written), width)])


def _folded(toml: str, width: int) -> list[str]:
    """TOML with its lists broken between numbers, which TOML allows."""
    lines = []
    for line in toml.splitlines():
        if len(line) <= width or "[" not in line[1:]:
            lines.append(line)
            continue
        head, numbers = line.split("[", 1)
        lines.append(f"{head}[")
        lines += paragraph(numbers.rstrip("]") + ",", width).splitlines()
        lines.append("]")
    return lines
