"""Step caps: arms that were stopped at different numbers of steps measure the cap, not the intervention."""

from collections.abc import Mapping

from drsim.errors import DataError
from drsim.pilot.records import Outcome, Run

__all__ = ["check_caps", "step_cap"]

MIN_CAPPED = 2
"""One capped run may have met a token or time limit; two or more that end at the same longest step are a step cap."""


def step_cap(tasks: Mapping[str, list[Run]]) -> int | None:
    """Number of steps at which an arm's runs were stopped; None when its runs do not show one.

    An arm shows a cap when at least two of its runs are `capped`, all of them after the same number of steps, and no
    run of the arm is longer.
    """
    capped = [run.n_steps for runs in tasks.values() for run in runs if run.outcome is Outcome.CAPPED]
    longest = longest_run(tasks)
    if len(capped) < MIN_CAPPED or longest is None or set(capped) != {longest}:
        return None
    return longest


def longest_run(tasks: Mapping[str, list[Run]]) -> int | None:
    """Steps of an arm's longest run; None when no run states its steps."""
    return max((run.n_steps for runs in tasks.values() for run in runs if run.n_steps is not None), default=None)


def check_caps(place: str, arms: Mapping[str, Mapping[str, list[Run]]]) -> None:
    """Refuse arms that were stopped at different numbers of steps.

    Parameters
    ----------
    place : str
        Agent and benchmark, for the message.
    arms : mapping of str to runs by task
        The arms that are to be compared.

    Raises
    ------
    DataError
        A run of one arm is longer than the cap of another.
    """
    for name, tasks in arms.items():
        cap = step_cap(tasks)
        if cap is None:
            continue
        for other, other_tasks in arms.items():
            longest = longest_run(other_tasks)
            if longest is not None and longest > cap:
                raise DataError(
                    f"arms with unlike caps cannot be compared: {place}, {name} was stopped at {cap} steps, "
                    f"{other} ran up to {longest}; rerun with one cap, or leave an arm out with --arm"
                )
