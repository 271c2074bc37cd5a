"""A reported row in exact spans, and how its figures read in a message."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from drsim.pilot.claims.records import DIFFERENCES, WITHOUT_UNIT, Claim
from drsim.theory.consistency import Span, mean, printed, whole_counts

__all__ = ["Checked", "Finding", "Row", "row_of"]

RATES = {
    "p": "p",
    "r": "r",
    "d": "d",
    "delta": "gain",
    "p_star": "break_even",
    "base_success": "base_success",
    "arm_success": "arm_success",
}
"""Name in files to name in records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One contradiction, or one claim that the figures do not carry."""

    code: str
    """Key of `CODES`."""
    where: str
    """Place of the row, and the field."""
    message: str
    """The arithmetic, in the unit of the row."""
    reported: tuple[float, ...]
    """The figure as a probability or a count; two for an interval."""
    implied: tuple[float, ...]
    """What the others imply: one number, or two ends; empty where there is no number to set against it."""
    subject: tuple[object, ...] = ()
    """What it is about, where several rows repeat one figure."""


type Checked = Iterator[Finding | None]
"""A finding, or None for a check that held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A claim, its place, and the span of each rate that it reports."""

    claim: Claim
    place: str
    spans: dict[str, Span]

    @property
    def failure_rate(self) -> Span | None:
        """p, or else 1 − base_success."""
        if "p" in self.spans:
            return self.spans["p"]
        base = self.spans.get("base_success")
        return None if base is None else base.complement()

    @property
    def base(self) -> Span | None:
        """base_success, or else 1 − p."""
        rate = self.failure_rate
        return self.spans.get("base_success", None if rate is None else rate.complement())

    @property
    def arm(self) -> Span | None:
        """arm_success, or else base_success + delta."""
        if "arm_success" in self.spans:
            return self.spans["arm_success"]
        if self.base is None or "delta" not in self.spans:
            return None
        return self.base.plus(self.spans["delta"]).within(0, 1)

    @property
    def gain(self) -> Span | None:
        """Delta, or else arm_success − base_success."""
        if "delta" in self.spans:
            return self.spans["delta"]
        base, arm = self.base, self.spans.get("arm_success")
        return None if base is None or arm is None else arm.minus(base)

    @property
    def seeds(self) -> list[Span]:
        """Success rate of each seed, as sharp as its runs allow."""
        claim = self.claim
        if claim.seed_successes:
            n = self.runs_per_seed or 1
            return [Span.exactly(Fraction(successes, n)) for successes in claim.seed_successes]
        return [self._sharpened(span) for span in self.printed_seeds]

    @property
    def printed_seeds(self) -> list[Span]:
        """Success rate of each seed as printed."""
        return [printed(seed, is_percent=self.claim.is_percent).within(0, 1) for seed in self.claim.seeds]

    @property
    def runs_per_seed(self) -> int | None:
        """Runs of each seed, None where it is not known."""
        claim = self.claim
        n_seeds = len(claim.seed_successes) or len(claim.seeds)
        if claim.n is None or not n_seeds or claim.n % n_seeds:
            return None
        return claim.n // n_seeds

    def _sharpened(self, span: Span) -> Span:
        n = self.runs_per_seed
        counts = range(0) if n is None else whole_counts(span, n)
        if n is None or not counts:
            return span
        return Span(low=Fraction(counts[0], n), high=Fraction(counts[-1], n))

    @property
    def success(self) -> Span | None:
        """The arm's success rate, or else the mean of its seeds."""
        span = self.spans.get("arm_success")
        return mean(self.seeds) if span is None and self.seeds else span

    def where(self, field: str) -> str:
        """Place of a field."""
        return f"{self.place}: {field}"

    def figure(self, name: str) -> str:
        """A figure as it was printed, with its unit."""
        value = getattr(self.claim, RATES.get(name, name))
        return f"{value}{self._unit(name)}".replace("-", "−")

    def shown(self, span: Span, name: str) -> str:
        """A span in the unit that the figure `name` has."""
        if span.low == span.high:
            return self.number(span.low, name)
        return f"{self.number(span.low, name)} to {self.number(span.high, name)}"

    def number(self, value: Fraction, name: str) -> str:
        """A number in the unit that the figure `name` has."""
        scaled = float(100 * value) if self.claim.is_percent and name not in WITHOUT_UNIT else float(value)
        digits = 2 if self.claim.is_percent and name not in WITHOUT_UNIT else 4
        return f"{scaled:.{digits}f}{self._unit(name)}".replace("-", "−")

    def _unit(self, name: str) -> str:
        if not self.claim.is_percent or name in WITHOUT_UNIT:
            return ""
        return " pp" if name in DIFFERENCES else "%"

    def compare(self, code: str, name: str, implied: Span, formula: str) -> Finding | None:
        """A finding unless the figure `name` meets what `formula` implies."""
        reported = self.spans[name]
        if reported.meets(implied):
            return None
        return self.finding(
            code, name, f"{name} = {self.figure(name)}, but {formula} = {self.shown(implied, name)}", implied
        )

    def finding(self, code: str, name: str, message: str, implied: Span | None) -> Finding:
        """A finding about the rate `name`."""
        span = self.spans[name]
        claim = self.claim
        is_base = name == "base_success" or (name == "arm_success" and claim.arm == "baseline")
        is_named = claim.agent is not None and claim.benchmark is not None
        return Finding(
            code=code,
            where=self.where(name),
            message=message,
            reported=(float((span.low + span.high) / 2),),
            implied=() if implied is None else ends(implied),
            subject=(claim.agent, claim.benchmark, claim.n, self.figure(name)) if is_base and is_named else (),
        )


def ends(span: Span) -> tuple[float, ...]:
    """A span for JSON: one number when its ends are equal."""
    low, high = float(span.low), float(span.high)
    return (low,) if low == high else (low, high)


def row_of(claim: Claim, place: str) -> Row:
    """The row of a claim.

    Parameters
    ----------
    claim : Claim
        As read.
    place : str
        Where it stands.

    Returns
    -------
    Row
        With a span for each rate that is given, cut to its domain.
    """
    spans = {}
    for name, attribute in RATES.items():
        value = getattr(claim, attribute)
        if value is not None:
            spans[name] = printed(value, is_percent=claim.is_percent).within(-1 if name == "delta" else 0, 1)
    return Row(claim=claim, place=place, spans=spans)
