"""`drsim schema`: the JSON Schema of what drsim reads and prints."""

from pathlib import Path

import click

from drsim.cli.options import example, write_result

__all__ = ["command"]

NAMES = (
    "fit",
    "doctor",
    "bounds",
    "audit",
    "critic",
    "models",
    "simulate",
    "sweep",
    "optimize",
    "plan",
    "design",
    "monitor",
    "next",
    "run",
    "counts",
    "marginals",
    "claims",
)


@click.command("schema", epilog=example("drsim schema fit", "drsim schema run"))
@click.argument("name", type=click.Choice(NAMES))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the schema to this file instead.")
def command(name: str, output: Path | None) -> int:
    """Print the JSON Schema of NAME.

    run, counts, marginals and claims are one record of an input file; the others are the documents that the commands of
    these names print with --json.
    """
    import msgspec

    from drsim.pilot.claims.records import claim_schema
    from drsim.pilot.records import CountsRow, MarginalsRow, Run
    from drsim.report.bounds.document import BoundsDocument
    from drsim.report.critic.document import CriticDocument
    from drsim.report.design.document import DesignDocument
    from drsim.report.documents import AuditDocument, DoctorDocument, FitDocument, encode
    from drsim.report.models import ModelsDocument
    from drsim.report.monitor.document import MonitorDocument
    from drsim.report.next.document import NextRunsDocument
    from drsim.report.optimize.document import OptimizeDocument
    from drsim.report.plan.document import PlanDocument
    from drsim.report.simulate import SimulateDocument
    from drsim.report.sweep.document import SweepDocument

    types = {
        "fit": FitDocument,
        "doctor": DoctorDocument,
        "bounds": BoundsDocument,
        "audit": AuditDocument,
        "critic": CriticDocument,
        "models": ModelsDocument,
        "simulate": SimulateDocument,
        "sweep": SweepDocument,
        "optimize": OptimizeDocument,
        "plan": PlanDocument,
        "design": DesignDocument,
        "monitor": MonitorDocument,
        "next": NextRunsDocument,
        "run": Run,
        "counts": CountsRow,
        "marginals": MarginalsRow,
    }
    schema = claim_schema() if name == "claims" else msgspec.json.schema(types[name])
    write_result(encode(schema), output)
    return 0
