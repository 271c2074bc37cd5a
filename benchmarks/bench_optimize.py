"""The belief programme: seconds by horizon, budget and grid, and how far its value is from where it must lie.

The value lies between that of the best threshold curve, or of a policy on bins of scores, and that of a policy which
sees the state; halving the grid bounds by how much it is too high. The limit is one second for 50 steps, three
interventions and 1001 points of one mode.
"""

import argparse
import time
from dataclasses import replace

from drsim.planning.ladder import Kind, ladder
from drsim.process.belief_bounds import lower_bound
from drsim.process.belief_programme import belief_programme
from drsim.process.compile import CompiledModel, compile_model
from drsim.process.full_information import full_information
from drsim.process.shipped import find_model
from drsim.process.spec import Model
from drsim.process.terms import Terms

SECONDS = 1.0


def with_modes(model: Model, n_modes: int) -> Model:
    """The model with its mode split into several that are scored apart."""
    (mode,), (mechanism,) = model.agent.modes.values(), model.mechanisms.values()
    names = [f"off {k}" for k in range(n_modes)]
    recover = dict.fromkeys(names, next(iter(mechanism.recover.values())))
    means = {name: 1.2 - 0.8 * k for k, name in enumerate(names)}
    return replace(
        model,
        policies={},
        agent=replace(model.agent, modes=dict.fromkeys(names, replace(mode, slip=0.05 / n_modes))),
        critic=replace(model.critic, mean_off=means),
        mechanisms={"rollback": replace(mechanism, recover=recover)},
    )


def fastest(model: CompiledModel, terms: Terms, n_points: int, times: int = 3) -> float:
    """Seconds of the quickest of a few."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        belief_programme(model, terms, n_points=n_points)
        took.append(time.perf_counter() - start)
    return min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--budget", type=int, default=3)
    parser.add_argument("--points", type=int, default=1001)
    arguments = parser.parse_args()
    example = replace(find_model("example"), horizon=arguments.steps)
    for n_modes in (1, 2, 3):
        model = compile_model(with_modes(example, n_modes))
        for terms in (Terms(budget=arguments.budget), Terms(budget=arguments.budget, cooldown=3)):
            programme = belief_programme(model, terms, n_points=arguments.points)
            seconds = fastest(model, terms, arguments.points)
            start = time.perf_counter()
            low = lower_bound(model, terms)
            bound_seconds = time.perf_counter() - start
            assert low <= programme.value <= full_information(model, terms) + 1e-9, (low, programme.value)
            mark = "  over" if n_modes == 1 and seconds >= SECONDS else ""
            print(
                f"{n_modes} modes, {arguments.steps} steps, budget {terms.budget}, cooldown {terms.cooldown}, "
                f"{programme.grid.n_points} points  {seconds:.2f} s{mark}, value {programme.value:.6f}, halving "
                f"moves it {programme.error:.1e}, policy on bins {programme.value - low:.1e} lower "
                f"in {bound_seconds:.1f} s"
            )
    start = time.perf_counter()
    found = ladder(compile_model(with_modes(example, 1)), {}, Terms(budget=arguments.budget), seed=1)
    gains = [found.rung(kind).gain for kind in (Kind.CONSTANT, Kind.CURVE, Kind.BELIEF, Kind.FULL)]
    assert gains == sorted(gains), gains
    print(f"ladder of {arguments.steps} steps  {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
