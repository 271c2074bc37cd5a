"""What a pilot of runs can answer, estimand by estimand, and the cheapest way to what it cannot.

The gain, r, d, p*, timing, causal effects and cost are asked of each cell; churn, Best-of-N and the critic of each
baseline arm.
"""

from collections.abc import Callable, Iterator, Sequence

from drsim.pilot.doctor import estimands_dynamic as dynamic
from drsim.pilot.doctor import estimands_static as static
from drsim.pilot.doctor.blockers import Blocker, Remedy, settle
from drsim.pilot.doctor.diagnosis import Estimand
from drsim.pilot.doctor.places import Place, Seen

__all__ = ["pilot_estimands"]


def pilot_estimands(places: Sequence[Place], *, baseline: str) -> tuple[Estimand, ...]:
    """Every estimand of a pilot.

    Parameters
    ----------
    places : sequence of Place
        At least one.
    baseline : str
        Name of the arm without intervention.

    Returns
    -------
    tuple of Estimand
    """
    sight = _Sight(places, baseline)
    return (
        sight.ask_cells("gain", static.gain_blocker, static.gain_found),
        sight.ask_cells("recovery-disruption", static.rates_blocker, static.rates_found),
        sight.ask_cells("break-even", static.break_even_blocker, static.break_even_found),
        sight.ask_baselines("churn", static.churn_blocker, static.churn_found),
        sight.ask_cells("timing", dynamic.timing_blocker, dynamic.timing_found),
        sight.ask_baselines("critic", dynamic.critic_blocker, dynamic.critic_found),
        sight.ask_cells("causal-effect", dynamic.causal_blocker, dynamic.causal_found),
        settle("cost", list(sight.costs()), of="cells", found="tokens or usd of the runs of every arm compared"),
        sight.ask_baselines("best-of-n", static.churn_blocker, static.best_of_found),
    )


class _Sight:
    """Places of a file; a missing arm blocks them before anything else is asked."""

    def __init__(self, places: Sequence[Place], baseline: str) -> None:
        self.places = places
        self.baseline = baseline
        self.no_baseline = "the agent has no baseline run on the benchmark"
        self.find_baseline: Remedy = _run_baseline
        if not any(place.baseline for place in places):
            self.no_baseline = f"no run belongs to the arm {baseline!r}"
            self.find_baseline = _name_baseline(sorted({name for place in places for name in place.arms}))

    def ask_cells(
        self, name: str, check: Callable[[Seen], Blocker | None], found: Callable[[Sequence[Seen]], str]
    ) -> Estimand:
        units: list[Blocker | None] = []
        answered: list[Seen] = []
        for place in self.places:
            if not place.baseline:
                units += [self._without_baseline(place) for _ in place.arms]
            elif not place.cells:
                units.append(_baseline_only(place))
            verdicts = [check(cell) for cell in place.cells]
            units += verdicts
            answered += [cell for cell, blocker in zip(place.cells, verdicts, strict=True) if blocker is None]
        return settle(name, units, of="cells", found=found(answered) if answered else "")

    def ask_baselines(
        self, name: str, check: Callable[[Place], Blocker | None], found: Callable[[Sequence[Place]], str]
    ) -> Estimand:
        units = [check(place) if place.baseline else self._without_baseline(place) for place in self.places]
        answered = [place for place, blocker in zip(self.places, units, strict=True) if blocker is None]
        return settle(name, units, of="baseline arms", found=found(answered) if answered else "")

    def costs(self) -> Iterator[Blocker | None]:
        """Units of cost: a cell, or an arm that has nothing to be compared with."""
        for place in self.places:
            base = dynamic.cost_blocker(place, self.baseline, place.baseline, "baseline ")
            for cell in place.cells:
                yield base or dynamic.cost_blocker(place, cell.summary.arm, cell.arm, "intervened ")
            if not place.baseline:
                for name, tasks in place.arms.items():
                    yield dynamic.cost_blocker(place, name, tasks)
            elif not place.cells:
                yield base

    def _without_baseline(self, place: Place) -> Blocker:
        n_tasks = len(set().union(*place.arms.values()))
        return Blocker(reason=self.no_baseline, remedy=self.find_baseline, key=place.key, tasks=n_tasks, runs=n_tasks)


def _baseline_only(place: Place) -> Blocker:
    n_tasks = len(place.baseline)
    return Blocker(
        reason="there are baseline runs only", remedy=_run_an_arm, key=place.key, tasks=n_tasks, runs=n_tasks
    )


def _name_baseline(names: Sequence[str]) -> Remedy:
    text = f"say which arm is without intervention: --baseline ARM, one of {', '.join(names)}"
    if len(names) == 1:
        text = f"if {names[0]} is the arm without intervention, say so: --baseline {names[0]}"

    def remedy(_tasks: int, _runs: int) -> str:
        return text

    return remedy


def _run_baseline(tasks: int, runs: int) -> str:
    return f"run the baseline on the same {tasks:,} tasks ({runs:,} runs)"


def _run_an_arm(tasks: int, runs: int) -> str:
    return f"run an intervened arm on the same {tasks:,} tasks ({runs:,} runs)"
