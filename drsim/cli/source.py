"""`--from MODEL | POSTERIOR | PILOT` and the options that say which cell of it, and what lends the rest."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from drsim.cli.options import resolve, warn

if TYPE_CHECKING:
    from drsim.arrays import FloatArray
    from drsim.planning.corrected_winner import Corrected
    from drsim.planning.source import Source
    from drsim.planning.sweep_cells import Fold

__all__ = ["ORIGIN_HELP", "SourceOptions", "cell_options", "considered_mechanisms", "source_options"]

ORIGIN_HELP = (
    "A shipped model (drsim models lists them), a model file (.toml), a posterior that drsim fit -o FILE.nc wrote, or a"
    " pilot (files of runs, counts or marginals; example:NAME), which is fitted."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What was asked for beside the origin itself."""

    base: str | None
    ran: str | None
    agent: str | None
    benchmark: str | None
    arm: str | None
    baseline: str
    rho: str | None = None
    draws: int = 200

    def folds(self, origin: str, *, n_folds: int, seed: int) -> "tuple[Fold, ...]":
        """Folds of a pilot's tasks; none of a model, of a posterior, and where `n_folds` is 0.

        Raises
        ------
        DrsimError
            As `drsim.planning.task_folds.task_folds`.
        """
        from drsim.planning.task_folds import task_folds

        if not n_folds:
            return ()
        return task_folds(
            resolve([origin])[0], **self._asked(), n_folds=n_folds, n_draws=max(1, self.draws // n_folds), seed=seed
        )

    def rho_draws(self, origin: str, *, seed: int) -> "FloatArray | None":
        """Draws of ρ where a pilot's baseline runs were repeated; None elsewhere.

        Raises
        ------
        DrsimError
            As `drsim.planning.measured_rho.measured_rho`.
        """
        from drsim.planning.measured_rho import measured_rho

        asked = {name: value for name, value in self._asked().items() if name not in ("base", "policy")}
        return measured_rho(resolve([origin])[0], **asked, n_draws=self.draws, seed=seed)

    def winners(self, origin: str, *, seed: int) -> "tuple[Corrected, ...]":
        """The best arm of a pilot without the luck of having been picked.

        Raises
        ------
        DrsimError
            As `drsim.planning.corrected_winner.winners_of`.
        """
        from drsim.planning.corrected_winner import winners_of

        return winners_of(
            resolve([origin])[0], agent=self.agent, benchmark=self.benchmark, baseline=self.baseline, seed=seed
        )

    def _asked(self) -> dict[str, Any]:
        """Which cell, and what lends the rest, as sources take it."""
        from drsim.inference.rho_prior import RhoPrior

        return {
            "base": self.base,
            "policy": self.ran,
            "agent": self.agent,
            "benchmark": self.benchmark,
            "arm": self.arm,
            "baseline": self.baseline,
            "rho_prior": None if self.rho is None else RhoPrior.parse(self.rho),
        }

    def read(self, origin: str, *, seed: int, quiet: bool) -> "Source":
        """The model with its draws; what the user should know of it goes to stderr.

        Raises
        ------
        DrsimError
            As `drsim.planning.source.read_source`.
        """
        from drsim.planning.source import read_source

        source = read_source(resolve([origin])[0], **self._asked(), n_draws=self.draws, seed=seed)
        warn(source.warnings, quiet=quiet)
        return source


DRAW_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--draws",
        type=click.IntRange(min=1),
        default=200,
        show_default=True,
        help="Posterior draws, where --from is a pilot or a posterior.",
    ),
    click.option(
        "--rho", metavar="PRIOR", help="Prior of the correlation within tasks: a number, or beta:A,B (see fit)."
    ),
)
CELL_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--baseline", default="baseline", show_default=True, metavar="ARM", help="Arm without intervention."),
    click.option("--arm", help="Likewise: its intervened arm."),
    click.option("--benchmark", help="Likewise: its benchmark."),
    click.option("--agent", help="Cell of the pilot or posterior, where there are several: its agent."),
    click.option("--ran", metavar="POLICY", help="Policy of the base model that the pilot's arm ran."),
    click.option(
        "--base",
        metavar="MODEL",
        help="Model that lends a pilot or posterior what it does not say.  [default: the shipped one of the same"
        " agent and benchmark, else example]",
    ),
)


def cell_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--base`, `--ran`, `--agent`, `--benchmark`, `--arm` and `--baseline`, given as `origin_options`."""
    return _collected(command, CELL_OPTIONS, ("base", "ran", "agent", "benchmark", "arm", "baseline"))


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same with `--rho` and `--draws`."""
    return _collected(command, (*DRAW_OPTIONS, *CELL_OPTIONS), SourceOptions.__slots__)


def _collected(
    command: Callable[..., Any], options: Iterable[Callable[[Any], Any]], names: Iterable[str]
) -> Callable[..., Any]:
    def collected(**values: Any) -> Any:
        own = {name: values.pop(name) for name in names}
        return command(origin_options=SourceOptions(**own), **values)

    collected.__doc__ = command.__doc__
    decorated: Callable[..., Any] = collected
    for option in options:
        decorated = option(decorated)
    return decorated


def considered_mechanisms(source: "Source", asked: Iterable[str]) -> tuple[str, ...] | None:
    """Mechanisms to choose among, as asked for, which may be with commas between.

    Without any, of a pilot or posterior the one that it tried; None for all.

    Raises
    ------
    ParameterError
        The model has no mechanism of that name.
    """
    from drsim.planning.axes_text import known_name

    names = dict.fromkeys(it.strip() for text in asked for it in text.split(","))
    if not names and source.policy is not None:
        return (source.model.policies[source.policy].mechanism,)
    return tuple(known_name(name, source.model.mechanisms, "--mechanism") for name in names) or None
