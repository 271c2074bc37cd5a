"""What should be known of a critic's figures before they are trusted."""

from collections.abc import Iterator, Sequence

from drsim.inference.critic.firing_rates import FiringRates, RateSource
from drsim.pilot.doctor.places import MIN_DENOMINATOR
from drsim.planning.critic.gains import CriticGains
from drsim.planning.critic.judgement import CriticJudgement, Granularity

__all__ = ["critic_warnings"]

LONG = 0.7
"""AUROC of the number of steps from which it is said that run scores may owe theirs to length."""
EDGE = 1e-9
"""Rates that are cut off at 0 or 1 come out there up to rounding."""


def critic_warnings(
    critics: Sequence[CriticJudgement], *, intervened: Sequence[str], baseline: str, refusals: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each thing to beware of.

    Parameters
    ----------
    critics : sequence of CriticJudgement
        As judged.
    intervened : sequence of str
        Arms other than the baseline.
    baseline : str
        The arm without intervention.
    refusals : sequence of str
        Why pairs could not be used.

    Yields
    ------
    str
    """
    for critic in critics:
        yield from _scores(critic, baseline)
        yield from _gains(critic, intervened)
    for refusal in refusals:
        yield f"no gain is implied by these pairs: {refusal}; or state --recovery and --disruption"


def _scores(critic: CriticJudgement, baseline: str) -> Iterator[str]:
    scored = critic.scored
    if scored.is_contaminated:
        yield (
            f"CONTAMINATED: the scores of {scored.arm} are judged by ends that its interventions changed, which may "
            f"flatter or belittle the critic; let it score the {baseline} runs, from their transcripts (no new runs)"
        )
    if scored.unscored:
        n_judged = scored.unscored + critic.runs.n
        yield f"{scored.unscored:,} of {n_judged:,} judged runs of {scored.arm} carry no score and are left out"
    n_aside = sum(scored.set_aside.values())
    if n_aside:
        yield f"{n_aside:,} scored runs of {scored.arm} ended as infra or unjudged and are left out"
    if scored.n_tasks == 1:
        yield f"all scored runs of {scored.arm} are of one task: no interval and no held-out figure can be had"
    if not scored.runs.has_both_ends:
        end = "failed" if scored.runs.n_failed else "succeeded"
        yield f"every scored run of {scored.arm} {end}, so that there is nothing for a critic to tell apart"
    elif critic.runs.plain_auroc in (0.0, 1.0):
        yield f"the scores of {scored.arm} part failing from succeeding runs without a mistake: look for a leak"
    if scored.length_auroc >= LONG:
        yield (
            f"failing runs of {scored.arm} have more scored steps: their number alone has AUROC "
            f"{scored.length_auroc:.3f}, and the highest of many scores is high whatever the critic knows; firings "
            "late in long runs may also recover less"
        )
    yield from _granularity(critic)
    if critic.steps.n_impossible:
        yield (
            f"{critic.steps.n_impossible:,} step scores of {scored.arm} were exactly 0 or 1 and wrong: their "
            "likelihood is 0, and the NLL infinite; the temperature takes 0 and 1 to lie 2⁻⁵³ off"
        )


def _granularity(critic: CriticJudgement) -> Iterator[str]:
    found = critic.granularity
    if found.is_coarse:
        values = "value" if found.n_distinct == 1 else "values"
        yield (
            f"run scores of {critic.scored.arm} take {found.n_distinct} {values}, the commonest on "
            f"{100 * found.largest_tie:.0f} % of the runs: {_reach(found)}"
        )


def _reach(found: Granularity) -> str:
    rates = found.reachable
    if found.is_few:
        shown = ", ".join(f"{100 * rate:.0f}" for rate in rates)
        return f"no trigger rate can be reached but {shown} %"
    gap = max(range(1, len(rates)), key=lambda i: rates[i] - rates[i - 1])
    low, high = (100 * rates[i] for i in (gap - 1, gap))
    return f"no trigger rate between {low:.0f} and {high:.0f} % can be reached"


def _gains(critic: CriticJudgement, intervened: Sequence[str]) -> Iterator[str]:
    gains = critic.gains
    if gains is None:
        return
    rates = gains.rates
    if rates is None:
        yield (
            f"nothing tells what firing on {critic.scored.arm} recovers and disrupts, so no gain is implied; pair it "
            "with an intervened arm, or state --recovery and --disruption"
        )
        return
    counts = rates.counts
    if counts is None:
        return
    if not critic.scored.is_contaminated and len(intervened) > 1:
        yield f"there are {len(intervened)} intervened arms; gains rest on {rates.arm} (--rates-from names another)"
    for name, n in (("recovery", counts["A"] + counts["C"]), ("disruption", counts["B"] + counts["D"])):
        if n < MIN_DENOMINATOR:
            yield f"{name} given firing rests on {n:g} pairs of {rates.arm}"
    yield from _beyond_the_pairs(gains, rates)


def _beyond_the_pairs(gains: CriticGains, rates: FiringRates) -> Iterator[str]:
    """Yield where the table says more than the pairs can: rates at the edge of what they can be, looser thresholds."""
    for name, rate in (("recovery", gains.recovery), ("disruption", gains.disruption)):
        if rate is not None and min(rate.q50, 1 - rate.q50) < EDGE:
            yield (
                f"{name} given firing comes out at {rate.q50:.0f}, the edge of what it can be: the churn taken off "
                "leaves the pairs no room for it, so that how the gain splits into recovery and disruption is not "
                f"known, and its interval is too narrow; fork the pairs, or state --{name}"
            )
    pairs, best = rates.pairs, gains.best
    if pairs is None or best is None or rates.source is not RateSource.ACTED_PAIRS:
        return
    share = pairs.n_acted / pairs.n_pairs
    if best.trigger_rate > share:
        yield (
            f"the best threshold fires on {100 * best.trigger_rate:.0f} % of the runs, {rates.arm} acted on "
            f"{100 * share:.0f} %: beyond that the rates given firing are extrapolated, to runs that looked better"
        )
