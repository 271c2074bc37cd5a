"""The bounds as text for a terminal of 80 columns."""

from collections.abc import Iterator

from drsim.inference.posterior import Uncertain
from drsim.planning.bounds.ceilings import Bounds, Case, Ceilings
from drsim.planning.bounds.inputs import Assumption
from drsim.planning.bounds.winner_map import WinnerMap
from drsim.report.bounds.answer import (
    auroc_text,
    ceiling,
    median,
    middle,
    overall_answer,
    pp,
    rate_figure,
    short,
    wanted_auroc,
)
from drsim.report.text import paragraph

__all__ = ["bounds_text"]

NAMES = {
    "failure_rate": "failure rate p",
    "rho": "correlation ρ",
    "recovery": "recovery ρ_m",
    "disruption": "disruption δ_m",
    "auroc": "AUROC",
    "margin": "margin",
}
"""Inputs as a reader knows them."""

MOST_CRITICS = 5
"""Columns of critics that fit beside the rates."""


def bounds_text(bounds: Bounds, width: int, *, details: bool = False) -> str:
    """The bounds for people: one block for a single cell, two lines a cell otherwise; the answer comes last.

    Parameters
    ----------
    bounds : Bounds
        Result.
    width : int
        Columns of the terminal.
    details : bool
        A block for every cell.

    Returns
    -------
    str
        Lines without a final newline.
    """
    if details or len(bounds.cells) == 1:
        parts = ["\n".join(_block(cell, bounds, width)) for cell in bounds.cells]
    else:
        parts = [_table(bounds, width)]
    return "\n\n".join([*parts, paragraph(overall_answer(bounds), width, indent=0)])


def _block(cell: Ceilings, bounds: Bounds, width: int) -> Iterator[str]:
    yield paragraph(f"{cell.setting.name}: {cell.setting.evidence}", width, indent=0)
    yield ""
    figures = {
        "failure_rate": cell.failure_rate,
        "rho": cell.rho,
        "recovery": cell.over_cases(lambda case: case.recovery),
        "disruption": cell.over_cases(lambda case: case.disruption),
    }
    for item in cell.setting.assumptions:
        yield _input_line(item, rate_figure(figures[item.name]), width)
    for item in bounds.question.assumptions:
        yield paragraph(f"{NAMES[item.name]:<15} {item.source}: {item.text}", width)
    yield ""
    if len(cell.cases) == 1:
        yield from _ceiling_lines(cell.cases[0], bounds.question.margin, width)
    else:
        yield from _swept_lines(cell, bounds, width)
    yield from _oracle_lines(cell, width)
    yield ""
    yield from _attempt_lines(cell, width)
    yield ""
    yield from _map_lines(cell.map, width)


def _input_line(item: Assumption, figure: str, width: int) -> str:
    return paragraph(f"{NAMES[item.name]:<15} {figure:<22} {item.source}: {item.text}", width)


def _ceiling_lines(case: Case, margin: float, width: int) -> Iterator[str]:
    yield "gain at most, in pp"
    yield _line("perfect predictor, p·ρ_m", ceiling(case.perfect_critic), width)
    for critic in case.critics:
        share = critic.trigger_rate.mean if isinstance(critic.trigger_rate, Uncertain) else critic.trigger_rate
        yield _line(
            f"critic of AUROC {critic.auroc:g}",
            f"{ceiling(critic.gain):<19} fires in {100 * share:.0f} % of runs",
            width,
        )
    yield _line("always or never firing", ceiling(case.random_critic), width)
    yield _line(f"smallest AUROC for {pp(margin)} pp", f"{wanted_auroc(case.smallest_auroc)}", width)
    yield _line("threshold η*", f"{rate_figure(case.threshold)} probability of failure", width)


def _swept_lines(cell: Ceilings, bounds: Bounds, width: int) -> Iterator[str]:
    aurocs = bounds.question.aurocs[:MOST_CRITICS]
    is_p_swept = isinstance(cell.failure_rate, tuple)
    yield "gain at most, in pp, by recovery and disruption"
    head = [f"{'p':>6}"] if is_p_swept else []
    head += [f"{'ρ_m':>6}", f"{'δ_m':>6}", f"{'perfect':>9}", *(f"{auroc:>7g}" for auroc in aurocs)]
    yield "  " + "".join([*head, f"{'AUROC≥':>8}", f"{'η*':>7}"])
    for case in cell.cases:
        cells = [f"{middle(case.failure_rate):6.2f}"] if is_p_swept else []
        cells += [f"{middle(case.recovery):6.2f}", f"{middle(case.disruption):6.2f}"]
        cells += [f"{short(middle(case.perfect_critic)):>9}"]
        cells += [f"{short(middle(critic.gain)):>7}" for critic in case.critics[:MOST_CRITICS]]
        cells += [f"{auroc_text(median(case.smallest_auroc)):>8}", f"{middle(case.threshold):7.2f}"]
        yield "  " + "".join(cells)
    yield "  under an AUROC: its gain at the best threshold, so many pp at most"
    yield f"  AUROC≥: the smallest that gains {pp(bounds.question.margin)} pp"


def _line(name: str, text: str, width: int) -> str:
    return paragraph(f"{name:<28} {text}", width)


def _oracle_lines(cell: Ceilings, width: int) -> Iterator[str]:
    if cell.oracle_intervention is None:
        return
    counted = cell.setting.observed.oracle_intervention
    count = "" if counted is None else f"; counted: {short(counted)}"
    yield _line("this arm in hindsight, C/n", f"{ceiling(cell.oracle_intervention)}{count}", width)
    if cell.oracle_excess is not None:
        yield _line("  of it beyond reruns", ceiling(cell.oracle_excess), width)


def _attempt_lines(cell: Ceilings, width: int) -> Iterator[str]:
    observed = cell.setting.observed.best_of
    yield "gain of more attempts when an oracle picks, in pp" + (", and as counted" if observed else "")
    for n, figure in cell.best_of.items():
        count = f"{short(observed[n]):>8}" if n in observed else ""
        yield _line(f"Best-of-{n}", f"{ceiling(figure):<19}{count}".rstrip(), width)
    reruns = cell.reruns
    yield paragraph(
        f"reruns alone would show r {rate_figure(reruns.recovery)} and d {rate_figure(reruns.disruption)}", width
    )


def _map_lines(found: WinnerMap, width: int) -> Iterator[str]:
    yield "who gains most, by failure rate p (across) and correlation ρ (up)"
    rows = list(found.rows)
    own = ""
    if found.mark is not None:
        row, column = found.mark
        own = f"; @ here ({rows[row][column]})"
        rows[row] = rows[row][:column] + "@" + rows[row][column + 1 :]
    for level, text in zip(found.rho, rows, strict=True):
        yield f"  {level:4.2f} {text}"
    p = found.failure_rate
    left, middle, right = (f"{p[index]:.2f}" for index in (0, len(p) // 2, -1))
    half = len(p) // 2
    yield f"       {left:<{half - 2}}{middle:<{half - 1}}{right}"
    yield f"  C a critic of AUROC {found.auroc:g}; P only a better critic"
    yield f"  B Best-of-2 with an oracle; . nothing{own}"
    rates = found.rates
    kind = "beyond reruns" if rates.is_excess else "when it fires"
    yield paragraph(f"with a recovery of {rates.recovery:.3f} and a disruption of {rates.disruption:.3f} {kind}", width)


def _table(bounds: Bounds, width: int) -> str:
    row = "  {:>5}{:>6}  {:<19}{:>7}{:>7}  {:<19}"
    lines = [row.format("p", "ρ", "perfect, pp", "AUROC≥", "η*", "Best-of-2, pp").rstrip()]
    for cell in bounds.cells:
        lines.append(paragraph(cell.setting.name, width, indent=0))
        lines.append(
            row.format(
                f"{middle(cell.failure_rate):.2f}",
                f"{middle(cell.rho):.2f}",
                ceiling(cell.over_cases(lambda case: case.perfect_critic)),
                auroc_text(median(cell.smallest_auroc)),
                f"{middle(cell.over_cases(lambda case: case.threshold)):.2f}",
                ceiling(cell.best_of[2]),
            ).rstrip()
        )
    lines.append(f"AUROC≥: the smallest that gains {pp(bounds.question.margin)} pp; maps and sweeps: --details")
    return "\n".join(lines)
