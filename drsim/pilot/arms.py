"""Arms that a user asks for by name."""

from collections.abc import Iterable

from drsim.errors import DataError

__all__ = ["check_wanted"]


def check_wanted(wanted: Iterable[str] | None, found: Iterable[str], *, baseline: str) -> None:
    """Refuse names that no intervened arm has.

    Parameters
    ----------
    wanted : iterable of str or None
        Arms asked for; None asks for all.
    found : iterable of str
        Arms of the evidence.
    baseline : str
        The arm without intervention.

    Raises
    ------
    DataError
        A wanted arm is missing, or is the baseline; the message names the arms that there are.
    """
    names = sorted(set(found))
    for name in wanted or ():
        if name not in names or name == baseline:
            raise DataError(f"--arm {name} names no intervened arm; arms found: {', '.join(names)}")
