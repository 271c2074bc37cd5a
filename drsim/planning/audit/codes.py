"""What each finding of the audit means; codes never change their meaning."""

from dataclasses import dataclass

from drsim.errors import ParameterError

__all__ = ["CODES", "Code", "code_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One kind of contradiction."""

    title: str
    """What is wrong, in a line."""
    rule: str
    """The arithmetic that was broken, and how much rounding it was given."""
    innocent: str
    """What may explain it without an error."""


CODES = {
    "AUD101": Code(
        title="the gain is not p·r − (1 − p)·d",
        rule="Δ = p·r − (1 − p)·d holds for every paired table. The three rates, each within half a unit of its last "
        "digit, give no gain that rounds to the one reported (delta, or else arm_success − base_success).",
        innocent="The rates are over other runs than the gain, or r and d are per intervention and not per run.",
    ),
    "AUD102": Code(
        title="the break-even failure rate is not d/(r + d)",
        rule="p* = d/(r + d). No r and d that round to the printed ones give the printed p*.",
        innocent="p* was computed for other runs than r and d.",
    ),
    "AUD103": Code(
        title="the gain is not the difference of the two success rates",
        rule="Δ = arm_success − base_success.",
        innocent="The gain is a mean over tasks that the two rates weigh otherwise.",
    ),
    "AUD104": Code(
        title="the failure rate is not 1 − base_success",
        rule="p = 1 − base_success, over the same runs.",
        innocent="Runs that did not end were counted neither as failed nor as succeeded.",
    ),
    "AUD105": Code(
        title="the recovery rate is impossible at these two success rates",
        rule="C/n lies in [max(0, s1 − s0), min(1 − s0, s1)], so r = (C/n)/(1 − s0) lies between "
        "max(0, s1 − s0)/(1 − s0) and min(1, s1/(1 − s0)), whatever the pairing.",
        innocent="r is over other runs, such as those on which the critic fired.",
    ),
    "AUD106": Code(
        title="the disruption rate is impossible at these two success rates",
        rule="B/n = C/n − (s1 − s0), so d = (B/n)/s0 lies between max(0, s0 − s1)/s0 and min(1, (1 − s1)/s0): an arm "
        "cannot lose more successes than it disrupted. AUD403 is the same for a row that pools others.",
        innocent="d is over other runs, such as those on which the critic fired.",
    ),
    "AUD107": Code(
        title="the gain has the wrong sign for its break-even failure rate",
        rule="Δ = (p − p*)·(r + d): positive above p*, negative below.",
        innocent="p* is another cell's.",
    ),
    "AUD201": Code(
        title="no whole number of runs gives the rate",
        rule="A rate over n runs is k/n. No whole k gives a rate that rounds to the printed digits.",
        innocent="A mean was taken of figures that were rounded already, or the rate is over another number of runs.",
    ),
    "AUD202": Code(
        title="a rate is not the ratio of the counts beside it",
        rule="p = F/n, r = C/F, d = B/S, Δ = (C − B)/n, base_success = S/n, arm_success = (C + D)/n.",
        innocent="The counts are interventions or steps, not runs.",
    ),
    "AUD203": Code(
        title="the counts do not add up",
        rule="A + C = F, B + D = S, F + S = n, C + D = S − B + C = successes; a part is never more than its whole.",
        innocent="Runs that were not judged are in some of the counts only.",
    ),
    "AUD301": Code(
        title="a mean is not the mean of its seeds",
        rule="arm_success is the mean of its k seeds. The printed mean is neither that of rates over n/k runs which "
        "round to the printed seeds, nor that of the printed seeds themselves.",
        innocent="A seed was left out, or seeds have unlike numbers of runs.",
    ),
    "AUD302": Code(
        title="a confidence interval is the smallest and the largest seed",
        rule="Both ends equal the extreme seeds at the printed digits, and no Wald, Wilson or Clopper–Pearson interval "
        "over runs and no normal or t interval over seeds lies near; ranges under 5 units of "
        "the last digit are left alone. The range of k seeds holds the median seed with "
        "probability 1 − 2^(1−k), 0.75 for three, and says nothing about other tasks.",
        innocent="A percentile bootstrap of three seeds gives the same ends; it is no 95 % interval either.",
    ),
    "AUD303": Code(
        title="an estimate lies outside its own interval",
        rule="arm_success lies in interval, delta in delta_interval.",
        innocent="The interval is around another estimate, such as a median.",
    ),
    "AUD304": Code(
        title="a range of seeds is not that of the seeds",
        rule="An interval that is said to be a range ends at the smallest and the largest seed.",
        innocent="The range is over more seeds than are given.",
    ),
    "AUD401": Code(
        title="one figure is printed two ways",
        rule="Rows of equal agent, benchmark and arm (and n, where both have it) report the same rates.",
        innocent="The two rows are of other runs; name their arms apart, or give each its n.",
    ),
    "AUD402": Code(
        title="a pooled rate lies outside the range of its parts",
        rule="Taken together, runs have a failure rate and a gain that are weighted means of those of the parts.",
        innocent="Only some of the parts' runs were pooled, such as those on which the critic fired.",
    ),
    "AUD403": Code(
        title="a pooled recovery or disruption rate is impossible for its parts",
        rule="A pooled r (d) is a mean of the parts', weighted by failures (successes): it lies between the smallest "
        "lower and the largest upper bound that the parts' success rates allow (AUD105, AUD106).",
        innocent="Only some of the parts' runs were pooled; for d that makes the floor higher, not lower.",
    ),
    "AUD404": Code(
        title="the best difference is not the largest of those compared",
        rule="delta is the maximum over the rows that best_of names.",
        innocent="Best by another criterion than the gain.",
    ),
    "AUD501": Code(
        title="a p-value is called significant against the stated correction",
        rule="Bonferroni, and Holm for the smallest p-value, pass p ≤ alpha/m; Šidák passes p ≤ 1 − (1 − alpha)^(1/m). "
        "Larger p-values under Holm are judged with every p-value that is known, and with 0 for those that are not.",
        innocent="The p-value was corrected already, or fewer comparisons were planned.",
    ),
    "AUD502": Code(
        title="the best of several differences is reported without correction",
        rule="The largest of m estimates is biased upwards: were all arms alike, by the mean of the largest of m "
        "standard normals times the standard error of an arm. Report delta_corrected beside it.",
        innocent="The best arm was chosen on other runs than those reported; leave out best_of and is_best then.",
    ),
}
"""In the order of the checks: 1 within the trade-off, 2 counts, 3 seeds and intervals, 4 between rows, 5 tests."""


def code_of(name: str) -> Code:
    """The meaning of a code.

    Parameters
    ----------
    name : str
        Such as `AUD101`; case does not matter.

    Returns
    -------
    Code
        Its text.

    Raises
    ------
    ParameterError
        There is no such code.
    """
    try:
        return CODES[name.upper()]
    except KeyError:
        raise ParameterError(f"there is no finding {name!r}; the codes are {', '.join(CODES)}") from None
