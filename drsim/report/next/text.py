"""Which run next, as text for a terminal of 80 columns."""

from drsim.planning.allocation import Allocation, MoveKind, Sample
from drsim.report.numbers import counted, points, rate
from drsim.report.text import columns, paragraph

__all__ = ["next_text"]

LONGEST_ARM, LONGEST_TASK = 24, 26


def next_text(found: Allocation, prices: dict[str, float], width: int, *, is_priced: bool) -> str:
    """The next runs, for people.

    Parameters
    ----------
    found : Allocation
        Runs, and where the arms stand.
    prices : dict
        Dollars of a run by arm.
    width : int
        Columns of the terminal.
    is_priced : bool
        Whether prices are dollars; otherwise they are not shown.

    Returns
    -------
    str
        Lines without a final newline.
    """
    parts = [_heading(found, width, is_priced=is_priced), _arms(found, prices if is_priced else {})]
    if found.runs:
        parts.append(_runs(found, is_priced=is_priced))
    parts.append("\n".join(paragraph(it, width, indent=0) for it in _notes(found)))
    return "\n\n".join(parts)


def _heading(found: Allocation, width: int, *, is_priced: bool) -> str:
    evidence = found.evidence
    if not found.runs:
        words = f"Nothing more to run: {found.stopped}."
    else:
        n = counted(len(found.runs), "run")
        price = f" for {found.usd:,.4g} USD" if is_priced else ""
        words = f"{n}{price} {'is' if len(found.runs) == 1 else 'are'} listed below in order; {found.stopped}."
    return paragraph(f"{evidence.agent} on {evidence.benchmark}. {words}", width, indent=0)


def _arms(found: Allocation, prices: dict[str, float]) -> str:
    evidence = found.evidence
    rows = [["arm", "tasks", "runs", "gain pp", "sd", "P(best)", *(["USD a run"] if prices else [])]]
    for i, name in enumerate(evidence.arms):
        gain = float(evidence.mean[i - 1]) if i else 0.0
        sd = float(evidence.cov[i - 1, i - 1] ** 0.5) if i else 0.0
        numbers = [points(gain), f"{100 * sd:.1f}"] if i else ["", ""]
        tasks, runs = int((evidence.runs[:, i] > 0).sum()), int(evidence.runs[:, i].sum())
        rows.append(
            [
                _cut(name, LONGEST_ARM),
                str(tasks),
                str(runs),
                *numbers,
                rate(found.prob_best[name]),
                *([f"{prices[name]:.4g}"] if prices else []),
            ]
        )
    return columns(rows, right=range(1, len(rows[0])))


def _runs(found: Allocation, *, is_priced: bool) -> str:
    rows = [["", "task", "arm", "trial", *(["USD"] if is_priced else [])]]
    for i, it in enumerate(found.runs, 1):
        task = "a new task" if it.task_id is None else _cut(it.task_id, LONGEST_TASK)
        price = [f"{it.usd:.4g}"] if is_priced else []
        rows.append([str(i), task, _cut(it.arm, LONGEST_ARM), str(it.trial), *price])
    return columns(rows, right=(0, *range(3, len(rows[0]))))


def _notes(found: Allocation) -> list[str]:
    evidence = found.evidence
    source = "measured" if evidence.is_rho_measured else "assumed, since no baseline run was repeated"
    share = f"{100 * found.limit_share:.0f} % of the variance between the two likeliest arms"
    rho = f"ρ = {evidence.rho:.2f} ({source})"
    notes = [f"{rho}; {share} is of runs within the same tasks, which repeats take away; the rest takes further tasks"]
    kinds = [str(it.kind) for it in found.runs]
    for kind, words in (("repeat-baseline", "of the baseline again"), ("repeat-arm", "of an arm again")):
        if kind in kinds:
            notes.append(f"{counted(kinds.count(kind), 'run')} {words}, since reruns of a task end differently")
    if any(kind.startswith("repeat") for kind in kinds):
        notes.append("drsim fit --model hierarchical reads every repeat; the static model those that pair by trial")
    if found.sample is not None:
        it = found.sample
        notes.append(f"best sample: {_sample(it)}, worth {it.value:,.4g} USD on average for {it.usd:,.4g} USD")
    return notes


def _sample(sample: Sample) -> str:
    match sample.kind:
        case MoveKind.NEW_TASK:
            return f"{counted(sample.n, 'further task')} for {sample.arm}"
        case MoveKind.REPEAT_BASELINE:
            return f"{counted(sample.n, 'repeat')} of the baseline"
    return f"{counted(sample.n, 'repeat')} of {sample.arm}"


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
