"""Checks between reported rows: one figure printed twice, pools and their parts, the best of several, tests."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from drsim.pilot.records import BASELINE
from drsim.planning.audit.row import Checked, Finding, Row, ends
from drsim.planning.audit.within import counts_of
from drsim.theory.consistency import (
    Span,
    disruption_bounds,
    expected_largest,
    holm_rejects,
    largest,
    printed,
    recovery_bounds,
    single_threshold,
)

__all__ = ["checks_between"]

DEFAULT_ALPHA = Fraction(1, 20)

RULES = {"none": "one test", "bonferroni": "Bonferroni", "sidak": "Šidák", "holm": "Holm"}

ANYTHING = Span(low=Fraction(0), high=Fraction(1))


def checks_between(rows: Sequence[Row]) -> Checked:
    """Every check that takes several rows, or the number of comparisons.

    Parameters
    ----------
    rows : sequence of Row
        All rows of all files.

    Yields
    ------
    Finding or None
        In the order of the codes.
    """
    by_id = {row.claim.id: row for row in rows if row.claim.id is not None}
    yield from _printed_twice(rows)
    for row in rows:
        parts = [by_id[name] for name in row.claim.pools]
        if parts:
            yield from _pool(row, parts)
    for row in rows:
        if row.claim.best_of:
            yield _is_largest(row, [by_id[name] for name in row.claim.best_of])
    yield from _tests(rows)
    for row in rows:
        if row.claim.is_best or row.claim.best_of:
            yield _best_of_several(row, by_id)


type Print = tuple[Row, str, Span]
"""A row, a field, and the span of what it says about a subject."""


def _printed_twice(rows: Sequence[Row]) -> Checked:
    prints: dict[tuple[str, ...], list[Print]] = defaultdict(list)
    for row in rows:
        for subject, field, span in _subjects(row):
            prints[subject].append((row, field, span))
    for same in prints.values():
        yield from _disagreements(same)


def _subjects(row: Row) -> Iterator[tuple[tuple[str, ...], str, Span]]:
    claim = row.claim
    if claim.agent is None or claim.benchmark is None:
        return
    base = (claim.agent, claim.benchmark, BASELINE, "arm_success")
    for name, span in row.spans.items():
        if name == "base_success":
            yield base, name, span
        elif name == "p" and "base_success" not in row.spans:
            yield base, name, span.complement()
        elif name != "p" and claim.arm is not None:
            yield (claim.agent, claim.benchmark, claim.arm, name), name, span


def _disagreements(same: Sequence[Print]) -> Checked:
    """One finding for each figure that does not meet an earlier one, each figure taken once."""
    distinct: dict[tuple[object, ...], Print] = {}
    for row, field, span in same:
        distinct.setdefault((span.low, span.high, row.claim.n), (row, field, span))
    seen: list[Print] = []
    for row, field, span in distinct.values():
        comparable = [other for other in seen if _may_be_compared(row, other[0])]
        if comparable:
            yield next((_disagreement(row, field, other) for other in comparable if not span.meets(other[2])), None)
        seen.append((row, field, span))


def _may_be_compared(row: Row, other: Row) -> bool:
    return row.claim.n is None or other.claim.n is None or row.claim.n == other.claim.n


def _disagreement(row: Row, field: str, other: Print) -> Finding:
    first, first_field, span = other
    message = (
        f"{field} = {row.figure(field)}, but {first.place} prints {first_field} = {first.figure(first_field)} "
        "for the same agent, benchmark and arm"
    )
    return row.finding("AUD401", field, message, span if field != "p" else span.complement())


def _pool(row: Row, parts: Sequence[Row]) -> Checked:
    counts = counts_of(row)
    pairs = _sum_of(counts.fails, counts.base_successes)
    p = row.failure_rate or _share(counts.fails, pairs)
    net = None if row.claim.success_fail is None else _minus(row.claim.fail_success, row.claim.success_fail)
    gain = row.gain or _share(net, counts.n or pairs)
    for field, what, whole, spans in (
        ("p", "failure rate", p, [part.failure_rate for part in parts]),
        ("delta", "gain", gain, [part.gain for part in parts]),
    ):
        known = [span for span in spans if span is not None]
        if whole is not None and len(known) == len(parts):
            yield _outside_parts(row, field, what, whole, known, _tables(parts))
    r = row.spans.get("r") or _share(row.claim.fail_success, counts.fails)
    d = row.spans.get("d") or _share(row.claim.success_fail, counts.base_successes)
    if r is not None:
        yield _outside_bounds(row, "r", r, {part.place: _allowed(part, "r") for part in parts})
    if d is not None:
        yield _outside_bounds(row, "d", d, {part.place: _allowed(part, "d") for part in parts})


def _tables(parts: Sequence[Row]) -> str:
    names = sorted({part.claim.table for part in parts if part.claim.table is not None})
    return f" ({', '.join(names)})" if names else ""


def _sum_of(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _minus(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first - second


def _share(part: int | None, whole: int | None) -> Span | None:
    return None if part is None or not whole or abs(part) > whole else Span.exactly(Fraction(part, whole))


def _allowed(part: Row, name: str) -> Span:
    if name in part.spans:
        return part.spans[name]
    if part.base is None or part.arm is None:
        return ANYTHING
    bounds = recovery_bounds if name == "r" else disruption_bounds
    return bounds(part.base, part.arm)


def _outside_parts(row: Row, field: str, what: str, whole: Span, parts: Sequence[Span], tables: str) -> Finding | None:
    hull = _hull(parts)
    if whole.meets(hull):
        return None
    message = (
        f"the {what} of the pooled runs is {row.shown(whole, field)}, but that of the {len(parts)} rows that they come "
        f"from{tables} is {row.shown(hull, field)}"
    )
    return _pooled_finding("AUD402", row, field, message, whole, hull)


def _outside_bounds(row: Row, field: str, whole: Span, parts: Mapping[str, Span]) -> Finding | None:
    hull = _hull(list(parts.values()))
    if whole.meets(hull):
        return None
    is_low = whole.high < hull.low
    place, span = min(parts.items(), key=lambda item: item[1].low if is_low else -item[1].high)
    end = span.low if is_low else span.high
    figure = row.figure(field) if field in row.spans else row.shown(whole, field)
    message = (
        f"{field} = {figure}, but the success rates of the {len(parts)} rows that it pools allow nothing "
        f"{'below' if is_low else 'above'} {row.number(end, field)} ({place})"
    )
    return _pooled_finding("AUD403", row, field, message, whole, hull)


def _pooled_finding(code: str, row: Row, field: str, message: str, whole: Span, hull: Span) -> Finding:
    middle = float((whole.low + whole.high) / 2)
    return Finding(code=code, where=row.where(field), message=message, reported=(middle,), implied=ends(hull))


def _hull(spans: Sequence[Span]) -> Span:
    return Span(low=min(span.low for span in spans), high=max(span.high for span in spans))


def _is_largest(row: Row, compared: Sequence[Row]) -> Finding | None:
    gains = [(other, other.gain) for other in compared]
    known = [gain for _, gain in gains if gain is not None]
    if len(known) < len(compared) or "delta" not in row.spans:
        return None
    best = largest(known)
    if row.spans["delta"].meets(best):
        return None
    winner = max(((other, gain) for other, gain in gains if gain is not None), key=lambda item: item[1].high)[0]
    message = (
        f"delta = {row.figure('delta')} is called the largest of {len(compared)} differences, but "
        f"{winner.place} gains {row.shown(best, 'delta')}"
    )
    return row.finding("AUD404", "delta", message, best)


def _tests(rows: Sequence[Row]) -> Checked:
    families: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        claim = row.claim
        if claim.p_value is not None:
            families[claim.table, claim.agent, claim.benchmark, claim.correction, claim.n_comparisons].append(row)
    for family in families.values():
        for row in family:
            if row.claim.significant:
                yield _too_large(row, [_lowest_p(other) for other in family])


def _lowest_p(row: Row) -> Fraction:
    return max(Fraction(0), printed(row.claim.p_value or Decimal(0)).low)


def _too_large(row: Row, known: Sequence[Fraction]) -> Finding | None:
    claim = row.claim
    p_low = _lowest_p(row)
    alpha = DEFAULT_ALPHA if claim.alpha is None else Fraction(claim.alpha)
    m = max(claim.n_comparisons or 1, len(known) if claim.correction == "holm" else 1)
    is_smallest = bool(claim.is_best or claim.best_of)
    threshold = single_threshold(claim.correction, float(alpha), m)
    if claim.correction == "holm":
        # p-values that are not known are set as low as they can be, which can only help this one
        unknown = [p_low if is_smallest else Fraction(0)] * (m - len(known))
        passes = holm_rejects([p_low, *_without(known, p_low), *unknown], alpha)[0]
    else:
        passes = float(p_low) <= threshold
    if passes:
        return None
    rule = RULES[claim.correction]
    side = f"; it is one-sided, two-sided it would be {float(2 * Fraction(claim.p_value or 0)):.3g}"
    among = f" with {m} comparisons" if m > 1 else ""
    message = (
        f"p = {claim.p_value} is called significant, but {rule}{among} at alpha = {float(alpha):g} "
        f"asks for p ≤ {threshold:.4g}{_first_step(claim.correction)}{side if claim.one_sided else ''}"
    )
    return Finding(
        code="AUD501",
        where=row.where("p_value"),
        message=message,
        reported=(float(claim.p_value or 0),),
        implied=(0.0, threshold),
    )


def _first_step(correction: str) -> str:
    return " of the smallest one" if correction == "holm" else ""


def _without(values: Sequence[Fraction], value: Fraction) -> list[Fraction]:
    rest = list(values)
    rest.remove(value)
    return rest


def _best_of_several(row: Row, by_id: Mapping[str, Row]) -> Finding | None:
    claim, m = row.claim, row.claim.n_comparisons or 1
    if m < 2 or claim.delta_corrected is not None:
        return None
    message = f"delta = {row.figure('delta')} is the largest of {m} differences and no corrected value is given"
    sources = [row, *(by_id[name] for name in claim.best_of)]
    rates = [source.success for source in sources if source.success is not None]
    if claim.n is not None and rates:
        arm = float(max(rate.low + rate.high for rate in rates)) / 2
        luck = Fraction(expected_largest(m) * math.sqrt(arm * (1 - arm) / claim.n))
        message += (
            f"; were all arms alike, the largest would still lead by {row.number(luck, 'delta')} on average "
            f"({m} arms, {claim.n} runs each)"
        )
    return row.finding("AUD502", "delta", message, None)
