"""The audit of reported figures: every contradiction that arithmetic alone can show.

A figure is contradicted only when no numbers that round to the printed ones satisfy the identity that binds them, so
that a table which was computed from counts and rounded once is never accused.
"""

from dataclasses import dataclass

from drsim.pilot.claims.records import Claims
from drsim.planning.audit.between import checks_between
from drsim.planning.audit.row import Finding, row_of
from drsim.planning.audit.within import checks_within

__all__ = ["Audit", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was checked, and what was found."""

    findings: tuple[Finding, ...]
    """By code, then in the order of the rows."""
    n_checks: int
    """Comparisons made."""
    n_rows: int
    sources: tuple[str, ...]


def audit(claims: Claims) -> Audit:
    """Check reported figures against each other.

    Parameters
    ----------
    claims : Claims
        Checked rows.

    Returns
    -------
    Audit
        Findings; none for a consistent table.
    """
    rows = [row_of(claim, place) for claim, place in zip(claims.rows, claims.places, strict=True)]
    checks = [check for row in rows for check in checks_within(row)]
    checks += checks_between(rows)
    found = sorted((check for check in checks if check is not None), key=lambda finding: finding.code)
    return Audit(
        findings=tuple(_each_once(found)),
        n_checks=len(checks),
        n_rows=len(rows),
        sources=claims.sources,
    )


def _each_once(found: list[Finding]) -> list[Finding]:
    """One finding for a baseline that each of its arms prints again."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for finding in found:
        key = (finding.code, *finding.subject)
        if not finding.subject or finding.code != "AUD201" or key not in seen:
            kept.append(finding)
        seen.add(key)
    return kept
