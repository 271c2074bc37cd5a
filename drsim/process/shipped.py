"""The models that come with drsim: `models/` of a checkout, `drsim/models_data` of an installed wheel."""

from difflib import get_close_matches
from pathlib import Path

from drsim.errors import ParameterError
from drsim.process.spec import Model
from drsim.process.toml import read_model

__all__ = ["find_model", "models_folder", "shipped_models"]

SUFFIX = ".toml"
PACKAGE = Path(__file__).resolve().parents[1]


def models_folder(package: Path = PACKAGE) -> Path:
    """The folder of the shipped models.

    Parameters
    ----------
    package : Path
        Folder of the package `drsim`.

    Returns
    -------
    Path
        Inside the package where a wheel put it, else beside the package.

    Raises
    ------
    ParameterError
        There is no such folder.
    """
    for folder in (package / "models_data", package.parent / "models"):
        if folder.is_dir():
            return folder
    raise ParameterError(f"no models are shipped with {package}; install drsim again, or give the path of a model file")


def shipped_models() -> dict[str, Path]:
    """Files of the shipped models by name, in the order of their names."""
    return {path.stem: path for path in sorted(models_folder().glob(f"*{SUFFIX}"))}


def find_model(name: str) -> Model:
    """A shipped model, or one in a file of the user's.

    Parameters
    ----------
    name : str
        Name of a shipped model, or a path that ends in `.toml`.

    Returns
    -------
    Model
        Checked.

    Raises
    ------
    ParameterError
        No shipped model has that name.
    DataError
        The file cannot be read, or has mistakes.
    """
    if name.endswith(SUFFIX):
        return read_model(Path(name))
    shipped = shipped_models()
    if name not in shipped:
        near = get_close_matches(name, shipped, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"shipped are {', '.join(shipped)}"
        raise ParameterError(f"model must be a shipped one or the path of a .toml file, got {name!r}; {hint}")
    return read_model(shipped[name])
