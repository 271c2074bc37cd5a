"""What is compared in a plan: policies with the best timing, critics that end runs, and all alternatives."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.special import expit

from drsim.planning.alternatives import (
    Abort,
    Alternative,
    BestOf,
    Escalate,
    Halt,
    Intervene,
    Nothing,
    Retry,
    RetryInContext,
    Selector,
)
from drsim.planning.assumed import Tools
from drsim.planning.net_values import net_values
from drsim.planning.robust import mean_draw
from drsim.planning.threshold_policies import best_constant, best_curve, is_constant, is_within
from drsim.process.compile import CompiledModel, CompiledPolicy, never
from drsim.process.stacks import ModelDraws
from drsim.process.terms import Terms

__all__ = ["alternatives_of", "best_timings", "triggers_of"]

N_STARTS = 3
"""Best constant thresholds of each mechanism from which the ascent of the curve begins."""
N_TRIGGERS = 5
DIGITS = range(2, 18)
MOST_RESTARTS = 2
GAINS = 1e-9
"""A gain that is smaller is that of never intervening."""


def best_timings(
    draws: ModelDraws,
    model: CompiledModel,
    mechanisms: Sequence[str],
    given: Mapping[str, CompiledPolicy],
    budget: int,
) -> dict[str, CompiledPolicy]:
    """For each mechanism the policies with the best thresholds at the mean of the draws.

    Parameters
    ----------
    draws : ModelDraws
        D draws.
    model : CompiledModel
        The point model.
    mechanisms : sequence of str
        Names in the order of the model.
    given : mapping of str to CompiledPolicy
        Further policies to begin with.
    budget : int
        Most interventions in one run.

    Returns
    -------
    dict of str to CompiledPolicy
        Named `best NAME`, or `best NAME (found)` where a given policy is called so; mechanisms that gain nothing at
        any time are left out.
    """
    middle, found = mean_draw(draws), {}
    for m, name in enumerate(mechanisms):
        terms = Terms(budget=budget, mechanisms=(m,))
        starts = [it for it in given.values() if it.mechanism == m and is_within(it, terms, len(mechanisms))]
        constants = best_constant(middle, terms, [it for it in starts if is_constant(it)])
        begun = [it.policy for it in constants[:N_STARTS]] + [it for it in starts if not is_constant(it)]
        curves = best_curve(middle, terms, begun)
        alone = float(net_values(middle, [never(model)], terms)[0, 0])
        if curves and curves[0].value - alone > GAINS:
            label = f"best {name}"
            found[f"{label} (found)" if label in given else label] = curves[0].policy
    return found


def triggers_of(model: CompiledModel) -> dict[str, CompiledPolicy]:
    """Critics that end a run at the first score above a threshold, from a low to a high one.

    Parameters
    ----------
    model : CompiledModel
        The point model, whose scores place the thresholds.

    Returns
    -------
    dict of str to CompiledPolicy
        Named by the score.
    """
    low, high = model.score_mean.min(), (model.score_mean + model.score_sd).max()
    horizon = len(model.transitions)
    cuts = np.linspace(low, high, N_TRIGGERS)
    scores = expit(cuts / model.temperature)
    # as few digits as tell the thresholds apart; scores that a low temperature drives to 0 and 1 none do
    written = ([f"score > {score:.{n}f}" for score in scores] for n in DIGITS)
    raw = [f"logit score > {float(cut)!r}" for cut in cuts]
    names = next((it for it in written if len(set(it)) == cuts.size), raw)
    return {
        name: CompiledPolicy(mechanism=0, logit_threshold=np.full(horizon, cut), budget=1, cooldown=0)
        for cut, name in zip(cuts, names, strict=True)
    }


def alternatives_of(
    policies: Sequence[str], triggers: Sequence[str], tools: Tools, *, n_max: int, has_second: bool
) -> list[Alternative]:
    """All alternatives, one plain run first, in an order that hangs on the names alone.

    Parameters
    ----------
    policies, triggers : sequence of str
        Names.
    tools : Tools
        Selector, verifier, contamination.
    n_max : int
        Most attempts.
    has_second : bool
        Whether there is a second agent.

    Returns
    -------
    list of Alternative
    """
    found: list[Alternative] = [Nothing(), *(Intervene(policy=it) for it in policies)]
    for trigger in triggers:
        found.append(Halt(trigger=trigger))
        found += [Abort(trigger=trigger, restarts=r) for r in range(1, MOST_RESTARTS + 1)]
        found += [Escalate(trigger=trigger)] * has_second
    for n in range(2, n_max + 1):
        found.append(Retry(attempts=n, verifier=tools.verifier))
        found.append(RetryInContext(attempts=n, verifier=tools.verifier, contamination=tools.contamination))
        found += _best_of(n, policies, tools.selector)
    return found


def _best_of(n: int, policies: Sequence[str], selector: Selector) -> Iterator[Alternative]:
    for in_sequence in (False, True):
        yield BestOf(attempts=n, selector=selector, in_sequence=in_sequence)
        if not selector.is_perfect:
            perfect = Selector(auroc=1.0)
            yield BestOf(attempts=n, selector=perfect, in_sequence=in_sequence, is_named_perfect=True)
    for policy in policies:
        yield BestOf(attempts=n, selector=selector, policy=policy)
