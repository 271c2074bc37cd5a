"""What policies that are best in the typical model are worth in the model as it was given."""

from drsim.planning.ladder import Kind, Ladder
from drsim.planning.net_values import net_values
from drsim.process.belief_execution import run_in_worlds
from drsim.process.compile import CompiledModel, never
from drsim.process.full_information import full_information
from drsim.process.stacks import stack_draws
from drsim.process.threshold_ascent import worlds_of

__all__ = ["gains_as_given"]


def gains_as_given(given: CompiledModel, model: CompiledModel, found: Ladder) -> dict[Kind, float]:
    """Gains of a ladder's policies where tasks differ or scores of a run hang together.

    Parameters
    ----------
    given : CompiledModel
        With tasks that differ, or a run-level shift.
    model : CompiledModel
        Its typical model, for which the ladder was made.
    found : Ladder
        Whose policies are run as they are.

    Returns
    -------
    dict of Kind to float
        Net of prices, beyond an unaided run of the model as given: exact for thresholds and full information; on the
        grid for the belief policy, whose filter takes the typical model for the truth.
    """
    draws = stack_draws([given])
    baseline = float(net_values(draws, [never(given)], found.terms)[0, 0])
    gains = {Kind.NEVER: 0.0}
    for kind in (Kind.CONSTANT, Kind.CURVE):
        policy = found.rung(kind).policy
        gains[kind] = 0.0
        if policy is not None:
            gains[kind] = float(net_values(draws, [policy], found.terms)[0, 0]) - baseline
    worlds = worlds_of(draws)
    gains[Kind.BELIEF] = float(worlds.weight @ run_in_worlds(model, found.programme, worlds)) - baseline
    gains[Kind.FULL] = full_information(given, found.terms) - baseline
    return gains
