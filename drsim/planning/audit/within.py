"""Checks within one reported row; each yields None where it held, so that the checks can be counted."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from drsim.planning.audit.row import Checked, Finding, Row, ends
from drsim.theory.consistency import (
    Span,
    between_seeds,
    break_even_span,
    disruption_bounds,
    gain_span,
    mean,
    median_coverage,
    printed,
    recovery_bounds,
    usual_intervals,
    whole_counts,
)

__all__ = ["Counts", "checks_within", "counts_of"]

DEFAULT_LEVEL = 0.95

NEAR = 0.02
"""An interval is a usual one when both its ends lie within this share of its width, beyond rounding: what a bootstrap
of a few thousand draws and the choice of a quantile rule can move."""

UNITS = 5
"""A range is told from an interval that happens to end there only when it is this many units of the last digit wide."""


def checks_within(row: Row) -> Checked:
    """Every check that the figures of one row allow.

    Parameters
    ----------
    row : Row
        The row.

    Yields
    ------
    Finding or None
        In the order of the codes.
    """
    yield from _trade_off(row)
    yield from _bounds(row)
    yield from _sign(row)
    yield from _whole(row)
    yield from _ratios(row)
    yield from _sums(row)
    yield from _seeds(row)
    yield from _intervals(row)


def _trade_off(row: Row) -> Checked:
    spans = row.spans
    p, base, gain = row.failure_rate, spans.get("base_success"), row.gain
    if p is not None and gain is not None and "r" in spans and "d" in spans:
        yield _gain_identity(row, p, gain)
    if "p_star" in spans and "r" in spans and "d" in spans:
        implied = break_even_span(spans["r"], spans["d"])
        if implied is not None:
            formula = f"d/(r + d) = {row.figure('d')}/({row.figure('r')} + {row.figure('d')})"
            yield row.compare("AUD102", "p_star", implied, formula)
    if "delta" in spans and "arm_success" in spans and base is not None:
        formula = f"arm_success − base_success = {row.figure('arm_success')} − {row.figure('base_success')}"
        yield row.compare("AUD103", "delta", spans["arm_success"].minus(base), formula)
    if "p" in spans and base is not None:
        yield row.compare("AUD104", "p", base.complement(), f"1 − base_success = 1 − {row.figure('base_success')}")


def _gain_identity(row: Row, p: Span, gain: Span) -> Finding | None:
    implied = gain_span(p, row.spans["r"], row.spans["d"])
    if gain.meets(implied):
        return None
    rate = row.figure("p") if "p" in row.spans else row.shown(p, "p")
    formula = f"p·r − (1 − p)·d at p = {rate}, r = {row.figure('r')}, d = {row.figure('d')}"
    if "delta" in row.spans:
        return row.compare("AUD101", "delta", implied, formula)
    return row.finding(
        "AUD101",
        "arm_success",
        f"arm_success − base_success = {row.shown(gain, 'delta')}, but {formula} = {row.shown(implied, 'delta')}",
        implied,
    )


def _bounds(row: Row) -> Checked:
    base, arm = row.base, row.arm
    if base is None or arm is None:
        return
    allowed = {
        "r": ("AUD105", recovery_bounds(base, arm)),
        "d": ("AUD106", disruption_bounds(base, arm)),
    }
    for name, (code, span) in allowed.items():
        if name not in row.spans:
            continue
        if row.spans[name].meets(span):
            yield None
            continue
        message = (
            f"{name} = {row.figure(name)}, but success rates of {row.shown(base, name)} and {row.shown(arm, name)} "
            f"allow {row.shown(span, name)} only"
        )
        yield row.finding(code, name, message, span)


def _sign(row: Row) -> Checked:
    p, gain, turn = row.failure_rate, row.gain, row.spans.get("p_star")
    if p is None or gain is None or turn is None:
        return
    is_above, is_below = p.low > turn.high, p.high < turn.low
    if not (is_above and gain.high < 0) and not (is_below and gain.low > 0):
        yield None
        return
    side, sign = ("above", "positive") if is_above else ("below", "negative")
    message = (
        f"the failure rate {row.shown(p, 'p')} lies {side} p_star = {row.figure('p_star')}, so the gain is {sign}, "
        f"but it is reported as {row.shown(gain, 'delta')}"
    )
    yield row.finding("AUD107", "p_star", message, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a row, also those that follow from its others; None where one does not."""

    n: int | None
    fails: int | None
    base_successes: int | None
    successes: int | None


def counts_of(row: Row) -> Counts:
    """The counts of a row."""
    claim = row.claim
    a, b, c, d = claim.fail_fail, claim.success_fail, claim.fail_success, claim.success_success
    fails = claim.fails if claim.fails is not None else _sum(a, c)
    base = claim.base_successes if claim.base_successes is not None else _sum(b, d)
    n = claim.n if claim.n is not None else _sum(fails, base)
    successes = claim.successes if claim.successes is not None else _sum(c, d)
    return Counts(n=n, fails=fails, base_successes=base, successes=successes)


def _sum(*parts: int | None) -> int | None:
    return sum(part for part in parts if part is not None) if None not in parts else None


def _whole(row: Row) -> Checked:
    """AUD201, for rates whose count is not given; a difference of two printed rates may have been rounded twice."""
    counts, spans = counts_of(row), row.spans
    is_difference = bool(row.claim.best_of) or {"base_success", "arm_success"} <= set(spans)
    wholes = {
        "p": (counts.n, counts.fails),
        "r": (counts.fails, row.claim.fail_success),
        "d": (counts.base_successes, row.claim.success_fail),
        "base_success": (counts.n, counts.base_successes),
        "arm_success": (counts.n, counts.successes),
        "delta": (None if is_difference else counts.n, _net(row)),
    }
    for name, (n, count) in wholes.items():
        if n and count is None and name in spans:
            yield _whole_finding(row, name, spans[name], n, row.figure(name))
    n = row.runs_per_seed
    if n is not None:
        for i, span in enumerate(row.printed_seeds):
            yield _whole_finding(
                row, f"seeds[{i}]", span, n, f"{row.claim.seeds[i]}{'%' if row.claim.is_percent else ''}"
            )


def _whole_finding(row: Row, name: str, span: Span, n: int, figure: str) -> Finding | None:
    if whole_counts(span, n):
        return None
    below = math.floor(span.low * n)
    around = Span(low=Fraction(below, n), high=Fraction(below + 1, n))
    message = (
        f"{name} = {figure}, but of {n} runs {below} are {row.number(around.low, name)} and "
        f"{below + 1} are {row.number(around.high, name)}{_rounded_twice(row, name)}"
    ).replace(" -", " −")
    if name in row.spans:
        return row.finding("AUD201", name, message, around)
    middle = float((span.low + span.high) / 2)
    return Finding(code="AUD201", where=row.where(name), message=message, reported=(middle,), implied=ends(around))


def _rounded_twice(row: Row, name: str) -> str:
    if name != "arm_success" or not row.printed_seeds or not row.spans[name].meets(_mean_as_printed(row)):
        return ""
    return "; the mean of the printed seeds gives it, rounded a second time"


def _net(row: Row) -> int | None:
    b, c = row.claim.success_fail, row.claim.fail_success
    return None if b is None or c is None else c - b


def _ratios(row: Row) -> Checked:
    counts, claim, net = counts_of(row), row.claim, _net(row)
    ratios = (
        ("p", "F/n", counts.fails, counts.n),
        ("r", "C/F", claim.fail_success, counts.fails),
        ("d", "B/S", claim.success_fail, counts.base_successes),
        ("delta", "(C − B)/n", net, counts.n),
        ("base_success", "S/n", counts.base_successes, counts.n),
        ("arm_success", "successes/n", counts.successes, counts.n),
    )
    for name, formula, part, whole in ratios:
        # A part above its whole is a finding of the sums, and its ratio no rate.
        if name in row.spans and part is not None and whole and abs(part) <= whole:
            yield row.compare("AUD202", name, Span.exactly(Fraction(part, whole)), f"{formula} = {part}/{whole}")
    b, c, f, s = claim.success_fail, claim.fail_success, counts.fails, counts.base_successes
    if "p_star" in row.spans and b is not None and c is not None and f and s and c <= f and b <= s:
        implied = break_even_span(Span.exactly(Fraction(c, f)), Span.exactly(Fraction(b, s)))
        if implied is not None:
            yield row.compare("AUD202", "p_star", implied, f"(B/S)/(C/F + B/S) at B/S = {b}/{s}, C/F = {c}/{f}")


def _sums(row: Row) -> Checked:
    for field, reported, formula, implied in _equal_sums(row):
        if reported is not None and implied is not None:
            message = f"{field} = {reported}, but {formula} = {implied}"
            yield None if reported == implied else _count_finding(row, field, message, reported, implied)
    for field, part, formula, whole in _parts(row):
        if part is not None and whole is not None:
            message = f"{field} = {part} is more than {formula} = {whole}"
            yield None if part <= whole else _count_finding(row, field, message, part, whole)


def _equal_sums(row: Row) -> Iterator[tuple[str, int | None, str, int | None]]:
    claim, counts, net = row.claim, counts_of(row), _net(row)
    a, b, c, d = claim.fail_fail, claim.success_fail, claim.fail_success, claim.success_success
    yield "F", claim.fails, "A + C", _sum(a, c)
    yield "S", claim.base_successes, "B + D", _sum(b, d)
    yield "n", claim.n, "F + S", _sum(counts.fails, counts.base_successes)
    yield "successes", claim.successes, "C + D", _sum(c, d)
    if d is None:
        yield "successes", claim.successes, "S + C − B", _sum(counts.base_successes, net)
    if claim.seed_successes:
        yield "successes", claim.successes, "the sum of seed_successes", sum(claim.seed_successes)


def _parts(row: Row) -> Iterator[tuple[str, int | None, str, int | None]]:
    claim, counts = row.claim, counts_of(row)
    yield "C", claim.fail_success, "F", claim.fails
    yield "B", claim.success_fail, "S", claim.base_successes
    yield "F", claim.fails, "n", claim.n
    yield "S", claim.base_successes, "n", claim.n
    yield "successes", counts.successes, "n", claim.n
    for i, successes in enumerate(claim.seed_successes):
        yield f"seed_successes[{i}]", successes, "n over the number of seeds", row.runs_per_seed


def _count_finding(row: Row, field: str, message: str, reported: int, implied: int) -> Finding:
    return Finding(
        code="AUD203",
        where=row.where(field),
        message=message,
        reported=(float(reported),),
        implied=(float(implied),),
    )


def _seeds(row: Row) -> Checked:
    seeds = row.seeds
    if not seeds or "arm_success" not in row.spans:
        return
    implied = mean(seeds)
    if row.printed_seeds and row.spans["arm_success"].meets(_mean_as_printed(row)):
        yield None
        return
    figures = [row.number((span.low + span.high) / 2, "arm_success") for span in seeds]
    yield row.compare("AUD301", "arm_success", implied, f"the mean of the seeds {', '.join(figures)}")


def _mean_as_printed(row: Row) -> Span:
    return mean([Span.exactly((span.low + span.high) / 2) for span in row.printed_seeds])


def _intervals(row: Row) -> Checked:
    claim, spans = row.claim, row.spans
    for name, about in (("interval", "arm_success"), ("delta_interval", "delta")):
        pair = getattr(claim, name)
        if pair is not None and about in spans:
            low, high = (printed(end, is_percent=claim.is_percent) for end in pair)
            yield _holds_estimate(row, name, about, Span(low=low.low, high=high.high))
    if claim.interval is not None and row.seeds:
        yield _seed_range(row)


def _holds_estimate(row: Row, name: str, about: str, whole: Span) -> Finding | None:
    if row.spans[about].meets(whole):
        return None
    ends_text = " to ".join(f"{end}" for end in getattr(row.claim, name)).replace("-", "−")
    return row.finding("AUD303", about, f"{about} = {row.figure(about)} lies outside {name} {ends_text}", whole)


def _seed_range(row: Row) -> Finding | None:
    claim, seeds = row.claim, row.seeds
    if claim.interval is None:
        return None
    low, high = (printed(end, is_percent=claim.is_percent) for end in claim.interval)
    smallest, largest = between_seeds(seeds)
    is_range = low.meets(smallest) and high.meets(largest)
    extremes = f"{row.shown(smallest, 'arm_success')} and {row.shown(largest, 'arm_success')}"
    reported = tuple(float((end.low + end.high) / 2) for end in (low, high))
    implied = tuple(float((end.low + end.high) / 2) for end in (smallest, largest))
    if claim.interval_is == "range":
        message = f"the range ends at {_ends_text(row)}, but the extreme seeds are {extremes}"
        code = "AUD304"
        is_wrong = not is_range
    else:
        message = (
            f"{_ends_text(row)} {_called(row)}, but its ends are the smallest and the largest "
            f"of {len(seeds)} seeds; such a range holds the median seed with probability "
            f"{median_coverage(len(seeds)):.2g}"
        )
        code = "AUD302"
        is_wrong = is_range and _is_notable(row, low, high) and not _is_usual(row, low, high)
    if not is_wrong:
        return None
    return Finding(code=code, where=row.where("interval"), message=message, reported=reported, implied=implied)


def _level(row: Row) -> float:
    level = row.claim.interval_level
    return DEFAULT_LEVEL if level is None or not 0 < level < 1 else float(level)


def _called(row: Row) -> str:
    return "is given as an interval" if row.claim.interval_level is None else f"is called a {_level(row):.0%} interval"


def _ends_text(row: Row) -> str:
    low, high = row.claim.interval or ("", "")
    return f"[{low}, {high}]{'%' if row.claim.is_percent else ''}"


def _is_notable(row: Row, low: Span, high: Span) -> bool:
    """Whether the digits could have shown other ends: two coarse figures agree by chance."""
    unit = max(end.high - end.low for end in (low, high))
    blur = max(seed.high - seed.low for seed in row.seeds)
    return high.low + high.high - low.low - low.high >= 2 * UNITS * max(unit, blur)


def _is_usual(row: Row, low: Span, high: Span) -> bool:
    success = row.success
    if success is None:
        return False
    seeds = [float((span.low + span.high) / 2) for span in row.seeds]
    blur = max(float(span.high - span.low) for span in [*row.seeds, success])
    for first, last in usual_intervals(float(success.low + success.high) / 2, row.claim.n, seeds, _level(row)):
        slack = NEAR * (last - first) + blur
        is_near_low = float(low.low) - slack <= first <= float(low.high) + slack
        if is_near_low and float(high.low) - slack <= last <= float(high.high) + slack:
            return True
    return False
