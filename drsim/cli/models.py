"""`drsim models`: the step processes that come with drsim, or one in a file."""

from pathlib import Path

import click

from drsim.cli.options import common_options, example, terminal_width, write_result

__all__ = ["command"]


@click.command("models", epilog=example("drsim models", "drsim models example", "drsim models example --json"))
@click.argument("name", required=False, metavar="[NAME]")
@common_options
def command(
    name: str | None,
    as_json: bool,
    seed: int,  # part of every command's contract; nothing is drawn here
    quiet: bool,  # likewise: there are no warnings
    output: Path | None,
) -> int:
    """List the models that come with drsim, or show one.

    A model says how runs of an agent go step by step: how they finish, go off track and come back, how a critic scores
    them, and what interventions do. NAME is one of the list, or the path of a model file (.toml), which is checked.

    The success of the baseline and of the model's policies is exact.
    """
    from drsim.process.shipped import find_model, shipped_models
    from drsim.process.toml import read_model
    from drsim.report.documents import encode
    from drsim.report.models import model_text, models_document, models_text

    if name is None:
        found = {shipped: read_model(path) for shipped, path in shipped_models().items()}
    else:
        model = find_model(name)
        found = {model.name if name.endswith(".toml") else name: model}
    if as_json:
        text = encode(models_document(found))
    elif name is None:
        text = models_text(found, terminal_width())
    else:
        text = "\n".join(model_text(shown, model, terminal_width()) for shown, model in found.items())
    write_result(text, output)
    return 0
