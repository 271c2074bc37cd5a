"""A sweep as text for a terminal of 80 columns."""

import heapq
import math
from collections.abc import Sequence

from drsim.inference.posterior import Uncertain
from drsim.planning.axes import Family
from drsim.planning.corrected_winner import Corrected
from drsim.report.corrected import corrected_text
from drsim.report.numbers import points, points_interval, rate
from drsim.report.sweep.answer import Answer, headline
from drsim.report.sweep.words import Cell, varied, when, when_short
from drsim.report.text import columns, paragraph

__all__ = ["sweep_text"]

MOST_ROWS = 15
"""Of the table of the best cells."""
FEWEST_COLUMNS = 6
"""Of the table of the best cells: it may be wider than the terminal rather than lose its gains."""
WIDEST_NAME = 12
"""Of a mechanism in a table."""
MOST_STEPS = 40
"""Of the table by step; a longer horizon is shown in strides."""


def sweep_text(answer: Answer, width: int, winners: tuple[Corrected, ...] = ()) -> str:
    """The answer in one line, a table, and what stands behind the best cell.

    Parameters
    ----------
    answer : Answer
        Of `answer_of`.
    width : int
        Columns for paragraphs.
    winners : tuple of Corrected
        Best arms of the pilot, where they were asked for.

    Returns
    -------
    str
        Without a final newline.
    """
    parts = [paragraph(headline(answer), width, indent=0), _about(answer, width)]
    parts += _halves(answer) if _is_by_halves(answer) else [_best_cells(answer, width)]
    parts.append(_behind(answer, width))
    parts += [corrected_text(it, width) for it in winners]
    return "\n\n".join(parts)


def _about(answer: Answer, width: int) -> str:
    inputs = answer.sweep.inputs
    if inputs.n_draws > 1:
        uncertain = Uncertain.from_draws(answer.baseline)
        baseline = f"{rate(uncertain.mean)} [{rate(uncertain.q2_5)}, {rate(uncertain.q97_5)}]"
        draws = f"{inputs.n_draws:,} draws"
    else:
        baseline, draws = rate(float(answer.baseline[0])), "one model, taken as it stands"
    how = "exact" if inputs.axes.is_exact else f"Monte Carlo, {inputs.n_runs:,} runs a cell and draw"
    lines = [
        f"{answer.sweep.n_cells:,} cells of {inputs.model.name}, {draws}, {how}; unaided runs succeed with {baseline}"
    ]
    fixed = _fixed(answer)
    if fixed:
        lines.append(f"everywhere: {fixed}")
    lines += [f"assumes: {it}" for it in inputs.assumptions]
    return "\n".join(paragraph(line, width, indent=0) for line in lines)


def _fixed(answer: Answer) -> str:
    axes, best = answer.sweep.inputs.axes, answer.best
    texts = {
        "mechanism": best.mechanism,
        "threshold": "threshold by step" if math.isnan(best.threshold) else f"threshold {best.threshold:g}",
        "budget": f"budget {best.budget}",
        "cooldown": f"cooldown {best.cooldown}",
    }
    if axes.timing.family is Family.DELAY:
        del texts["cooldown"]
    return ", ".join(text for name, text in texts.items() if name not in varied(axes))


def _is_by_halves(answer: Answer) -> bool:
    axes = answer.sweep.inputs.axes
    is_listed = len(answer.cells) == len(axes)
    return axes.timing.family is Family.EARLY_VS_LATE and set(varied(axes)) <= {"mechanism"} and is_listed


def _halves(answer: Answer) -> list[str]:
    """One table a mechanism: early beside late, by step."""
    axes = answer.sweep.inputs.axes
    horizon, stride = axes.timing.horizon, -(-axes.timing.horizon // MOST_STEPS)
    tables = []
    for m, mechanism in enumerate(axes.mechanisms):
        first = m * len(axes.timing)
        rows = [(mechanism[:WIDEST_NAME], *_figures_head(answer, "before k"), *_figures_head(answer, "from k on"))]
        for k in range(0, horizon, stride):
            early = answer.cells[first + k - 1] if k else None
            late = answer.cells[first + horizon - 1 + k]
            rows.append((f"k = {k}", *_figures(answer, early), *_figures(answer, late)))
        tables.append(columns(rows, right=range(1, len(rows[0]))))
    return tables


def _figures_head(answer: Answer, title: str) -> Sequence[str]:
    if answer.sweep.inputs.n_draws > 1:
        return f"gain {title}, pp", "P(>0)"
    return f"gain {title}, pp", "success"


def _figures(answer: Answer, cell: Cell | None) -> Sequence[str]:
    if cell is None:
        return "", ""
    if answer.sweep.inputs.n_draws > 1:
        return _gain(answer, cell), f"{cell.numbers['prob_gain']:.2f}"
    return _gain(answer, cell), rate(cell.numbers["success_mean"])


def _gain(answer: Answer, cell: Cell) -> str:
    numbers = cell.numbers
    if answer.sweep.inputs.n_draws > 1:
        return f"{points(cell.gain)} {points_interval(numbers['gain_q2.5'], numbers['gain_q97.5'])}"
    if numbers["gain_mc_se"] > 0.0:
        return f"{points(cell.gain)} ± {100 * numbers['gain_mc_se']:.1f}"
    return points(cell.gain)


def _best_cells(answer: Answer, width: int) -> str:
    axes = answer.sweep.inputs.axes
    many = answer.sweep.inputs.n_draws > 1
    shown = heapq.nsmallest(MOST_ROWS, answer.cells, key=lambda it: (-it.gain, it.index))
    names = varied(axes)
    short = {"mechanism": "mechanism", "threshold": "thr", "budget": "bud", "cooldown": "cool"}
    heading = [*(short[name] for name in names), "steps", "gain, pp", *(["P(>0)"] if many else [])]
    heading += ["success", "fires", "capped"]
    rows = [heading]
    for cell in shown:
        settings = {
            "mechanism": cell.mechanism[:WIDEST_NAME],
            "threshold": f"{cell.threshold:.3g}",
            "budget": str(cell.budget),
            "cooldown": str(cell.cooldown),
        }
        numbers = cell.numbers
        row = [*(settings[name] for name in names), when_short(axes, cell), _gain(answer, cell)]
        row += [f"{numbers['prob_gain']:.2f}"] if many else []
        row += [rate(numbers["success_mean"]), f"{numbers['interventions']:.2f}", rate(numbers["capped"])]
        rows.append(row)
    # names read from the left, numbers from the right
    right = range(1 if "mechanism" in names else 0, len(heading))
    while max(map(len, (table := columns(rows, right=right)).splitlines())) > width and len(rows[0]) > FEWEST_COLUMNS:
        # the last columns matter least, and the best cell's are told below
        rows = [row[:-1] for row in rows]
    if answer.sweep.n_cells > len(shown):
        table += f"\nthe best {len(shown)} of {answer.sweep.n_cells:,} cells; -o FILE.csv has all"
    return table


def _behind(answer: Answer, width: int) -> str:
    """What stands behind the best cell."""
    numbers, best = answer.best.numbers, answer.best
    cost = f"{numbers['tokens_mean']:,.4g} tokens"
    price = answer.sweep.inputs.draws.usd_per_token * numbers["tokens_mean"]
    if price > 0.0:
        cost += f" (usd {price:.3g})"
    fires = f"{numbers['interventions']:.2f} interventions a run, in {rate(numbers['trigger_rate'])} of runs"
    where = f"{best.mechanism}, {when(answer.sweep.inputs.axes, best)}"
    ends = f"success {rate(numbers['success_mean'])}, capped {rate(numbers['capped'])}"
    rates = f"r {rate(numbers['r_mean'])}, d {rate(numbers['d_mean'])} with a shared prefix"
    failure = rate(1 - float(answer.baseline.mean()))
    lines = (
        f"best cell: {where}; {ends}, {cost} a run; {fires}",
        f"{rates}: static break-even p* {rate(numbers['break_even'])} against a failure rate of {failure}",
        _leverage(answer),
        _correction(answer),
    )
    return "\n".join(paragraph(line, width, indent=0) for line in lines if line)


def _leverage(answer: Answer) -> str:
    numbers = answer.best.numbers
    if not answer.sweep.inputs.axes.is_exact or numbers["trigger_rate"] == 0.0:
        return ""
    if not math.isfinite(numbers["leverage_break_even"]):
        return "one intervention of this cell pays at no P(off track): alone, it does no better off track than on"
    return (
        f"one intervention of this cell pays from P(off track) {rate(numbers['leverage_break_even'])} on (break-even "
        f"weighted by leverage); its first ones find {rate(numbers['leverage_off_share'])} off track"
    )


def _correction(answer: Answer) -> str:
    winner, inputs = answer.sweep.winner, answer.sweep.inputs
    uncertain = winner.uncertain
    if winner.corrected_by == "nothing":
        return "the gain is exact for this model: nothing to correct for having picked the best cell"
    if winner.corrected_by == "runs":
        return (
            f"valued by {inputs.n_runs:,} fresh runs, which did not pick it: {points(uncertain.mean)} pp "
            f"(MC error {100 * winner.corrected_se:.2g} pp)"
        )
    # tasks that were held out know nothing of the luck of the others
    by = "tasks that" if winner.corrected_by == "data" else "draws (all of one pilot, whose luck stays) that"
    return (
        f"valued by {by} did not pick it: {points(uncertain.mean)} pp "
        f"{points_interval(uncertain.q2_5, uncertain.q97_5)}; it is the best cell in {winner.prob_best:.0%} of draws"
    )
