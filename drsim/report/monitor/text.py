"""Where a running pilot stands, as text for a terminal of 80 columns."""

from drsim.planning.monitoring import MonitorState, WatchedCell
from drsim.planning.sequential import MonitorRule, StopKind
from drsim.report.numbers import counted, points, points_interval, rate
from drsim.report.text import paragraph

__all__ = ["monitor_text", "monitor_warnings", "progress_line"]

MEANING = {
    StopKind.GO_ON: "the pilot should go on",
    StopKind.BENEFIT: "stop: intervening helps",
    StopKind.HARM: "stop: intervening harms",
    StopKind.EQUIVALENT: "stop: intervening makes no difference that matters",
    StopKind.FUTILE: "going on is futile: a benefit will hardly be found in time",
}


def monitor_text(cells: tuple[WatchedCell, ...], state: MonitorState, rule: MonitorRule, width: int) -> str:
    """Where the pilot stands, for people.

    Parameters
    ----------
    cells : tuple of WatchedCell
        Every intervened arm.
    state : MonitorState
        For the runs read.
    rule : MonitorRule
        Levels.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    aside = f", {counted(state.set_aside, 'run')} set aside" if state.set_aside else ""
    head = (
        f"{counted(len(state.runs), 'judged run')} read{aside}; chance of ever finding a benefit where there is none "
        f"at most {rule.alpha:g}, harm at most {rule.harm_alpha:g}, however often it is looked at"
    )
    parts = [paragraph(head, width, indent=0), *(_cell_text(it, rule, width) for it in cells)]
    if not cells:
        parts.append("No run of an intervened arm was read yet.")
    return "\n\n".join(parts)


def progress_line(cell: WatchedCell) -> str:
    """One line on one arm."""
    found = cell.look
    return (
        f"{cell.agent} on {cell.benchmark}, {cell.arm}: {found.state} at {counted(found.n_tasks, 'task')}, "
        f"gain {points_interval(*found.interval)} pp"
    )


def monitor_warnings(cells: tuple[WatchedCell, ...], rule: MonitorRule, missing: tuple[str, ...] = ()) -> list[str]:
    """What of the file is not used, which arms it lacks, and for what the levels hold."""
    found = [f"no run of the arm {name} was read yet: check its name" for name in missing]
    if len(cells) > 1:
        share = f"{rule.alpha / len(cells):.2g}"
        found.append(f"the levels hold for each of the {len(cells)} arms: for all together give --alpha {share}")
    for it in cells:
        place = f"{it.agent} on {it.benchmark}, {it.arm}"
        if it.n_surplus:
            found.append(
                f"{place}: {counted(it.n_surplus, 'pair')} beyond the first {rule.n_trials} of their task are not "
                "used, since pairs of one task are not independent; start with --trials as planned"
            )
    return found


def _cell_text(cell: WatchedCell, rule: MonitorRule, width: int) -> str:
    found = cell.look
    a, b, c, d = found.counts
    complete = counted(found.n_tasks, "complete task")
    level = f"{100 * (1 - rule.alpha):g} %"
    when = "" if found.stop is None else f" (after {counted(found.stop.n_tasks, 'task')})"
    lines = [
        paragraph(f"{cell.agent} on {cell.benchmark}, {cell.arm}: {found.state}", width, indent=0),
        paragraph(f"{MEANING[found.state]}{when}", width),
        paragraph(
            f"{complete} of {counted(rule.n_trials, 'pair')}: A {a}, B {b}, C {c}, D {d}; "
            f"gain {points(found.gain)} pp, {level} confidence sequence {points_interval(*found.interval)} pp",
            width,
        ),
        paragraph(
            f"evidence for benefit {found.e_benefit:.3g} (stops at {1 / rule.alpha:g}), for harm {found.e_harm:.3g} "
            f"(stops at {1 / rule.harm_alpha:g})",
            width,
        ),
        paragraph(_posterior_words(cell), width),
    ]
    if found.stop is None:
        chance = f"chance of a stop for benefit within {rule.max_tasks:,} tasks {rate(found.prob_benefit)}"
        lines.append(paragraph(chance, width))
    rest = [
        (cell.n_waiting, "pair", "of tasks that are not complete"),
        (cell.n_unpaired, "run", "without the baseline run"),
        (cell.n_surplus, "pair", "beyond the complete tasks, not used"),
    ]
    kept = [f"{counted(n, noun)} {words}" for n, noun, words in rest if n]
    if kept:
        lines.append(paragraph("; ".join(kept), width))
    return "\n".join(lines)


def _posterior_words(cell: WatchedCell) -> str:
    found = cell.look
    words = f"posterior P(gain > margin) = {rate(found.prob_gain)}, by itself {found.posterior}"
    if found.posterior_error is None:
        return words
    return f"{words}; under such looking that rule would deploy with chance {rate(found.posterior_error)} at gain 0"
