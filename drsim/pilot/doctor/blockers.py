"""Why an estimand is out of reach in one place, what would bring it there, and how such verdicts add up over a file."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from drsim.pilot.doctor.diagnosis import Estimand

__all__ = ["Blocker", "Remedy", "settle", "span"]

MAX_REASONS = 3
"""Reasons named for one estimand; each further one is counted."""

type Remedy = Callable[[int, int], str]
"""What to do, given the number of tasks and of runs over all places that need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One obstacle."""

    reason: str
    remedy: Remedy
    key: tuple[str, ...]
    """What the remedy is applied to: two obstacles that one rerun removes share it, and its price is counted once."""
    tasks: int = 0
    runs: int = 0


def settle(name: str, units: Sequence[Blocker | None], *, of: str, found: str) -> Estimand:
    """One estimand over all places.

    Parameters
    ----------
    name : str
        Of the estimand.
    units : sequence of Blocker or None
        For each place what blocks it there; at least one.
    of : str
        What a unit is, in the plural.
    found : str
        What answers it where it is answered.

    Returns
    -------
    Estimand
    """
    blockers = [unit for unit in units if unit is not None]
    n_answered = len(units) - len(blockers)
    parts = []
    if n_answered:
        parts.append(f"{n_answered} of {len(units)} {of}: {found}" if len(units) > 1 else found)
    reasons = _count(blocker.reason for blocker in blockers)
    is_single = len(reasons) == 1 and not n_answered
    parts += [reason if is_single else f"not in {n}: {reason}" for reason, n in reasons[:MAX_REASONS]]
    if len(reasons) > MAX_REASONS:
        parts.append(f"not in {sum(n for _, n in reasons[MAX_REASONS:])}, for other reasons")
    return Estimand(name=name, answerable=n_answered > 0, why="; ".join(parts), fix=_fix(blockers))


def _count(items: Iterable[str]) -> list[tuple[str, int]]:
    """Items by frequency, ties in order of appearance."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return sorted(counts.items(), key=lambda entry: -entry[1])


def _fix(blockers: Sequence[Blocker]) -> str | None:
    prices: dict[Remedy, dict[tuple[str, ...], tuple[int, int]]] = {}
    for blocker in blockers:
        prices.setdefault(blocker.remedy, {})[blocker.key] = (blocker.tasks, blocker.runs)
    fixes = dict.fromkeys(
        remedy(sum(tasks for tasks, _ in price.values()), sum(runs for _, runs in price.values()))
        for remedy, price in prices.items()
    )
    return "; ".join(fixes) or None


def span(values: Iterable[float]) -> str:
    """Least and largest of some counts, in words."""
    found = sorted(values)
    low, high = f"{found[0]:,g}" if found[0] % 1 else f"{found[0]:,.0f}", f"{found[-1]:,.0f}"
    return low if found[0] == found[-1] else f"{low} to {high}"
