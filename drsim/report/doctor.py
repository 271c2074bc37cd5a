"""The doctor's findings as a document and as text for a terminal of 80 columns."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Literal, cast

from drsim import __version__
from drsim.pilot.cell import PairedBy
from drsim.pilot.doctor.diagnosis import ArmSummary, Carried, CellSummary, Diagnosis, Estimand
from drsim.report.documents import (
    ArmDocument,
    CarriedDocument,
    DoctorCellDocument,
    DoctorDocument,
    EstimandDocument,
    RetriesDocument,
    UnpairedDocument,
)
from drsim.report.numbers import count, rate
from drsim.report.text import paragraph

__all__ = ["doctor_document", "doctor_text"]

SHORT = {"success": "succ", "fail": "fail", "capped": "cap", "infra": "infra", "unjudged": "unj"}
"""Column heads of the outcomes, in order."""

CARRIED = ("steps", "scores", "rewards", "costs", "interventions", "propensities", "forks")
"""Parts of a record that the text counts."""


def doctor_document(diagnosis: Diagnosis) -> DoctorDocument:
    """The document that `drsim doctor --json` prints."""
    return DoctorDocument(
        version=__version__,
        form=cast(Literal["runs", "counts", "marginals"], diagnosis.form),
        baseline=diagnosis.baseline,
        arms=[_arm_document(arm) for arm in diagnosis.arms],
        cells=[_cell_document(cell) for cell in diagnosis.cells],
        estimands=[
            EstimandDocument(name=item.name, answerable=item.answerable, why=item.why, fix=item.fix)
            for item in diagnosis.estimands
        ],
        warnings=list(diagnosis.warnings),
    )


def _arm_document(arm: ArmSummary) -> ArmDocument:
    success, bounds = arm.success_rate, arm.success_bounds
    return ArmDocument(
        agent=arm.agent,
        benchmark=arm.benchmark,
        arm=arm.arm,
        is_baseline=arm.is_baseline,
        tasks=arm.tasks,
        runs=arm.runs,
        trials=arm.trials,
        outcomes=arm.tally.to_dict(),
        success=success if math.isfinite(success) else None,
        success_bounds=bounds if math.isfinite(bounds[0]) else None,
        step_cap=arm.step_cap,
        carried=None if arm.carried is None else CarriedDocument(**asdict(arm.carried)),
        retries=None
        if arm.retries is None
        else RetriesDocument(
            after=arm.retries.after.value,
            followed=arm.retries.followed,
            followed_bad=arm.retries.followed_bad,
            chance=arm.retries.chance,
        ),
    )


def _cell_document(cell: CellSummary) -> DoctorCellDocument:
    return DoctorCellDocument(
        agent=cell.agent,
        benchmark=cell.benchmark,
        arm=cell.arm,
        pairing=cell.pairing.value,
        n_pairs=cell.pairs,
        n_tasks=cell.tasks,
        baseline_failures=cell.baseline_failures,
        baseline_successes=cell.baseline_successes,
        flips=cell.flips,
        failure_tasks=cell.failure_tasks,
        success_tasks=cell.success_tasks,
        baseline_only_tasks=cell.baseline_only_tasks,
        arm_only_tasks=cell.arm_only_tasks,
        unpaired=[UnpairedDocument(arm=item.arm, reason=item.reason, runs=item.runs) for item in cell.unpaired],
        gain_bounds=cell.gain_bounds,
    )


def doctor_text(diagnosis: Diagnosis, width: int) -> str:
    """The findings for people: arms, what their runs carry, what can be answered, and what to beware of.

    Parameters
    ----------
    diagnosis : Diagnosis
        As examined.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    parts = [_arms(diagnosis, width)]
    if diagnosis.form == "runs":
        parts.append(_carried(diagnosis.arms))
    parts.append("\n".join(_estimands(diagnosis.estimands, width)))
    if diagnosis.warnings:
        parts.append("\n".join(paragraph(f"! {text}", width, indent=0) for text in diagnosis.warnings))
    return "\n\n".join(parts)


# Arms --------------------------------------------------------------------------------------------------------------

type Column = tuple[str, Callable[[ArmSummary, CellSummary | None], str]]


def _arms(diagnosis: Diagnosis, width: int) -> str:
    """One line an arm under its agent and benchmark; a name too long for its column stands on a line of its own."""
    cells = {(cell.agent, cell.benchmark, cell.arm): cell for cell in diagnosis.cells}
    columns = list(_columns(diagnosis))
    rows = [
        (arm, [text(arm, cells.get((arm.agent, arm.benchmark, arm.arm))) for _, text in columns])
        for arm in diagnosis.arms
    ]
    widths = [max(len(head), *(len(row[i]) for _, row in rows)) for i, (head, _) in enumerate(columns)]
    taken = sum(widths) + len(widths)
    n_name = min(max(len(arm.arm) for arm in diagnosis.arms), max(width - taken - 2, 8))
    lines = [f"  {'':<{n_name}} " + _cells([head for head, _ in columns], widths)]
    for place, members in groupby(rows, key=lambda row: row[0].place):
        group = list(members)
        lines.append(paragraph(_title(place, [arm for arm, _ in group]), width, indent=0))
        for arm, texts in group:
            name = arm.arm
            if len(name) > n_name:
                lines.append(f"  {name}")
                name = ""
            lines.append(f"  {name:<{n_name}} {_cells(texts, widths)}".rstrip())
    return "\n".join([*lines, *(paragraph(line, width) for line in _legend(diagnosis))])


def _cells(texts: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(f"{text:>{n}}" for text, n in zip(texts, widths, strict=True))


def _columns(diagnosis: Diagnosis) -> Iterator[Column]:
    """Columns that say something about this file."""
    arms = diagnosis.arms
    by_place = [list(group) for _, group in groupby(arms, key=lambda arm: arm.place)]
    if not all(_are_alike(group) for group in by_place):
        yield "tasks", lambda arm, _: str(arm.tasks)
        yield "trials", lambda arm, _: _trials(arm)
    for name, head in SHORT.items():
        if any(getattr(arm.tally, name) for arm in arms):
            yield head, _outcome(name)
    yield "success rate" if any(arm.tally.set_aside for arm in arms) else "rate", lambda arm, _: _success(arm)
    if any(cell.pairing is not PairedBy.NONE for cell in diagnosis.cells):
        yield "pairs", lambda _, cell: "" if cell is None else str(cell.pairs)
        yield "F", lambda _, cell: "" if cell is None else count(cell.baseline_failures)
        yield "S", lambda _, cell: "" if cell is None else count(cell.baseline_successes)


def _outcome(name: str) -> Callable[[ArmSummary, CellSummary | None], str]:
    return lambda arm, _: str(getattr(arm.tally, name))


def _success(arm: ArmSummary) -> str:
    low, high = arm.success_bounds
    return rate(arm.success_rate) if not arm.tally.set_aside else f"{low:.2f}–{high:.2f}"


def _are_alike(arms: Sequence[ArmSummary]) -> bool:
    return len({(arm.tasks, arm.trials) for arm in arms}) == 1


def _trials(arm: ArmSummary) -> str:
    if arm.trials is None:
        return "?"
    low, high = arm.trials
    return str(low) if low == high else f"{low}–{high}"


def _title(place: tuple[str, str], arms: Sequence[ArmSummary]) -> str:
    text = f"{place[0]} on {place[1]}"
    if _are_alike(arms):
        trials = (
            "" if arms[0].trials is None else f", {_trials(arms[0])} run{'' if arms[0].trials == (1, 1) else 's'} each"
        )
        text += f": {arms[0].tasks:,} tasks{trials}"
    caps = {arm.step_cap for arm in arms if arm.step_cap is not None}
    if len(caps) == 1:
        text += f", stopped at {caps.pop()} steps"
    return text


def _legend(diagnosis: Diagnosis) -> Iterator[str]:
    if any(arm.tally.set_aside for arm in diagnosis.arms):
        yield (
            "success rate: among judged runs; a range where some are infra or unjudged: all of these failed, all of "
            "these succeeded"
        )
    ways = dict.fromkeys(cell.pairing for cell in diagnosis.cells if cell.pairing is not PairedBy.NONE)
    if ways:
        yield f"F, S: baseline failures and successes among the pairs; paired by {', '.join(ways)}"


# What runs carry, estimands ----------------------------------------------------------------------------------------


def _carried(arms: Sequence[ArmSummary]) -> str:
    heads = "".join(f" {head:>{len(head)}}" for head in CARRIED)
    lines = [f"  {'runs with':<10}{heads}"]
    for name, kept in (
        ("baseline", [arm for arm in arms if arm.is_baseline]),
        ("intervened" if any(arm.is_baseline for arm in arms) else "all arms", [a for a in arms if not a.is_baseline]),
    ):
        if kept:
            shares = [_share(kept, part) for part in CARRIED]
            cells = "".join(f" {share:>{len(head)}}" for share, head in zip(shares, CARRIED, strict=True))
            lines.append(f"  {name:<10}{cells}")
    return "\n".join(lines)


def _share(arms: Sequence[ArmSummary], part: str) -> str:
    carried = sum(arm.runs * cast(float, getattr(_of(arm), part)) for arm in arms)
    share = carried / sum(arm.runs for arm in arms)
    if not share:
        return "–"
    return "<1 %" if share < 0.01 else f"{math.floor(100 * share + 1e-9)} %"


def _of(arm: ArmSummary) -> Carried:
    assert arm.carried is not None  # noqa: S101 # arms of runs say what they carry
    return arm.carried


def _estimands(items: Sequence[Estimand], width: int) -> Iterator[str]:
    """One paragraph for all estimands that share a reason and a fix."""
    groups: dict[tuple[bool, str, str | None], list[str]] = {}
    for item in items:
        groups.setdefault((item.answerable, item.why, item.fix), []).append(item.name)
    for (is_answerable, why, fix), names in groups.items():
        mark = "no" if not is_answerable else "yes" if fix is None else "partly"
        yield paragraph(f"{mark:<6} {', '.join(names)}: {why}", width, indent=0)
        if fix is not None:
            yield paragraph(f"fix: {fix}", width, indent=7)
