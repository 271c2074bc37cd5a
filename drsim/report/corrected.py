"""The winner of several arms with its luck taken off, in both forms."""

from drsim.planning.corrected_winner import Corrected
from drsim.report.documents import CorrectedDocument
from drsim.report.numbers import points
from drsim.report.text import paragraph

__all__ = ["corrected_document", "corrected_text"]


def corrected_document(found: Corrected) -> CorrectedDocument:
    """As JSON has it."""
    return CorrectedDocument(
        agent=found.agent,
        benchmark=found.benchmark,
        arms=list(found.arms),
        winner=found.winner,
        n_tasks=found.n_tasks,
        gain=found.gain,
        gain_nested=found.nested,
        gain_nested_se=found.nested_se,
        gain_shrunk=found.shrunk,
        luck=found.luck,
    )


def corrected_text(found: Corrected, width: int) -> str:
    """One paragraph for people."""
    shrunk = "" if found.shrunk is None else f", shrunk {points(found.shrunk)} pp"
    text = (
        f"{found.agent} on {found.benchmark}: the best of {len(found.arms)} arms is {found.winner}, "
        f"{points(found.gain)} pp on {found.n_tasks} tasks; without the luck of having been picked "
        f"{points(found.nested)} pp ± {100 * found.nested_se:.1f} (picked and read on different tasks){shrunk}"
    )
    return paragraph(text, width, indent=0)
