"""`drsim audit`: contradictions among figures that somebody reports."""

from pathlib import Path

import click

from drsim.cli.options import REQUIREMENT_FAILED, common_options, example, resolve, terminal_width, write_result

__all__ = ["command"]


@click.command(
    "audit",
    epilog=example(
        "drsim audit example:claims",
        "drsim audit example:claims --json",
        "drsim audit --explain AUD302",
    ),
)
@click.argument("files", nargs=-1, metavar="FILE…")
@click.option("--explain", metavar="CODE", help="Say what a finding means, and what may explain it without an error.")
@click.option("--details", is_flag=True, help="Every finding, instead of the first four of a kind.")
@common_options
def command(
    files: tuple[str, ...],
    explain: str | None,
    details: bool,
    as_json: bool,
    seed: int,  # part of every command's contract; nothing is drawn here
    quiet: bool,  # likewise: findings are this command's result
    output: Path | None,
) -> int:
    """Check reported figures against each other; exit with 3 if any contradict.

    FILE… hold rows of a publication: JSON (a list, or a document drsim.claims/1), CSV with lists separated by `;`, or
    the tables of arXiv:2602.03338. `drsim schema claims` prints the fields: p, r, d, delta, p_star, base_success,
    arm_success, n, counts, seeds, interval, p_value and what is said about them; every one is optional.

    Figures are probabilities, or per cent where a row says `"unit": "percent"`. Their digits count: "38.0" stands for
    any number that rounds to it, 38 for any from 37.5 to 38.5. A figure is contradicted only when no such numbers
    satisfy the identity that binds them, so a table that was rounded once is never accused.
    """
    from drsim.report.audit import audit_document, audit_text, explain_text
    from drsim.report.documents import encode

    if explain is not None:
        text = encode(_explained(explain)) if as_json else explain_text(explain, terminal_width())
        write_result(text, output)
        return 0
    if not files:
        raise click.UsageError("Missing argument 'FILE…'.")

    from drsim.pilot.claims.reading import read_claims
    from drsim.planning.audit.auditing import audit

    result = audit(read_claims(resolve(files)))
    text = encode(audit_document(result)) if as_json else audit_text(result, terminal_width(), details=details)
    write_result(text, output)
    return REQUIREMENT_FAILED if result.findings else 0


def _explained(name: str) -> dict[str, str]:
    from drsim.planning.audit.codes import code_of

    code = code_of(name)
    return {
        "schema": "drsim.audit-code/1",
        "code": name.upper(),
        "title": code.title,
        "rule": code.rule,
        "innocent": code.innocent,
    }
