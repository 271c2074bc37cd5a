"""`drsim schema`: the JSON Schema of what drsim reads and prints."""

from pathlib import Path

import click

from drsim.cli.options import example, write_result

__all__ = ["command"]

NAMES = ("fit", "doctor", "run", "counts", "marginals")


@click.command("schema", epilog=example("drsim schema fit", "drsim schema run"))
@click.argument("name", type=click.Choice(NAMES))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the schema to this file instead.")
def command(name: str, output: Path | None) -> int:
    """Print the JSON Schema of NAME.

    fit and doctor are documents that these commands print with --json; run, counts and marginals are one record of an
    input file.
    """
    import msgspec

    from drsim.pilot.records import CountsRow, MarginalsRow, Run
    from drsim.report.documents import DoctorDocument, FitDocument, encode

    types = {
        "fit": FitDocument,
        "doctor": DoctorDocument,
        "run": Run,
        "counts": CountsRow,
        "marginals": MarginalsRow,
    }
    write_result(encode(msgspec.json.schema(types[name])), output)
    return 0
