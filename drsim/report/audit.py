"""The audit as a document and as text for a terminal of 80 columns."""

from itertools import groupby

from drsim import __version__
from drsim.planning.audit.auditing import Audit
from drsim.planning.audit.codes import CODES, code_of
from drsim.planning.audit.row import Finding
from drsim.report.documents import AuditDocument, FindingDocument
from drsim.report.text import paragraph

__all__ = ["audit_document", "audit_text", "explain_text"]

SHOWN = 4
"""Findings of one kind in the text; a table whose every interval is wrong would hide the rest."""


def audit_document(audit: Audit) -> AuditDocument:
    """The document that `drsim audit --json` prints."""
    return AuditDocument(
        version=__version__,
        sources=list(audit.sources),
        rows=audit.n_rows,
        findings=[_finding_document(finding) for finding in audit.findings],
        checked=audit.n_checks,
    )


def _finding_document(finding: Finding) -> FindingDocument:
    return FindingDocument(
        code=finding.code,
        where=finding.where,
        message=finding.message,
        reported=_numbers(finding.reported),
        implied=_numbers(finding.implied) if finding.implied else None,
    )


def _numbers(numbers: tuple[float, ...]) -> float | tuple[float, float]:
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def audit_text(audit: Audit, width: int, *, details: bool = False) -> str:
    """The audit for people: findings by kind, then how much was checked.

    Parameters
    ----------
    audit : Audit
        Result of the audit.
    width : int
        Columns of the terminal.
    details : bool
        Every finding, instead of the first four of a kind.

    Returns
    -------
    str
        Lines without a final newline.
    """
    extent = f"{_number_of(audit.n_checks, 'check')} on {_number_of(audit.n_rows, 'row')}"
    if not audit.findings:
        return paragraph(f"no contradiction found in {extent}", width, indent=0)
    blocks = [
        _block(code, list(found), width, details=details) for code, found in groupby(audit.findings, lambda it: it.code)
    ]
    last = f"{_number_of(len(audit.findings), 'finding')} in {extent}; drsim audit --explain CODE says what a finding "
    return "\n\n".join([*blocks, paragraph(f"{last}means, and what may explain it without an error", width, indent=0)])


def _block(code: str, found: list[Finding], width: int, *, details: bool) -> str:
    times = f" ({len(found)} times)" if len(found) > 1 else ""
    lines = [paragraph(f"{code} {CODES[code].title}{times}", width, indent=0)]
    n_shown = len(found) if details or len(found) <= SHOWN + 1 else SHOWN
    lines += [paragraph(_line(finding), width) for finding in found[:n_shown]]
    if n_shown < len(found):
        lines.append(f"  … and {len(found) - n_shown} more (--details)")
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    place, _, field = finding.where.rpartition(": ")
    # most messages begin with the figure, so that its name need not stand before it once more
    return f"{place if finding.message.startswith(field) else finding.where}: {finding.message}"


def _number_of(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def explain_text(name: str, width: int) -> str:
    """What a code means.

    Parameters
    ----------
    name : str
        Such as `AUD101`.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.

    Raises
    ------
    ParameterError
        There is no such code.
    """
    code = code_of(name)
    return "\n".join(
        [
            paragraph(f"{name.upper()} {code.title}", width, indent=0),
            paragraph(f"rule: {code.rule}", width),
            paragraph(f"may be innocent: {code.innocent}", width),
        ]
    )
