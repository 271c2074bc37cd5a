"""What a plan takes for granted of selectors, verifiers and contexts, which no run of a single agent measures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from drsim.planning.alternatives import Selector, Verifier

__all__ = ["KNOBS", "Assumed", "Knob", "Tools", "assumed", "swept", "tools_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """Something that is asked for, or assumed and swept."""

    text: str
    default: float
    swept: tuple[float, float]
    """A bad and a good value that are both met in practice."""


KNOBS = {
    "selector_auroc": Knob(text="AUROC of the selector", default=0.8, swept=(0.6, 0.95)),
    "selector_shared": Knob(text="share of its errors that like attempts share", default=0.3, swept=(0.8, 0.0)),
    "verifier_tpr": Knob(text="P(verifier accepts a success)", default=0.9, swept=(0.7, 1.0)),
    "verifier_fpr": Knob(text="P(verifier accepts a failure)", default=0.1, swept=(0.3, 0.0)),
    "contamination": Knob(text="factor on the odds of each next try in context", default=0.7, swept=(0.4, 1.0)),
}
"""By option. Plain retries of public agents under an oracle are explained by factors of 0.2 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """The value of one knob."""

    name: str
    value: float
    is_given: bool
    """Whether the caller said so; else it is the default, and swept."""

    @property
    def knob(self) -> Knob:
        """What it is about."""
        return KNOBS[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What attempts are chosen, judged and repeated with."""

    selector: Selector
    verifier: Verifier
    contamination: float


def assumed(given: Mapping[str, float | None]) -> tuple[Assumed, ...]:
    """All knobs, as given or at their defaults.

    Parameters
    ----------
    given : mapping of str to float or None
        By names of `KNOBS`.

    Returns
    -------
    tuple of Assumed
    """
    return tuple(
        Assumed(
            name=name, value=knob.default if (value := given.get(name)) is None else value, is_given=value is not None
        )
        for name, knob in KNOBS.items()
    )


def tools_of(knobs: Mapping[str, float]) -> Tools:
    """Selector, verifier and context at some values.

    Raises
    ------
    ParameterError
        A value is outside its domain.
    """
    return Tools(
        selector=Selector(auroc=knobs["selector_auroc"], shared=knobs["selector_shared"]),
        verifier=Verifier(tpr=knobs["verifier_tpr"], fpr=knobs["verifier_fpr"]),
        contamination=knobs["contamination"],
    )


def swept(knobs: tuple[Assumed, ...]) -> Iterator[tuple[Assumed, float, Tools]]:
    """Each knob that was not given, at each of its swept values, the others as they are."""
    values = {it.name: it.value for it in knobs}
    for it in knobs:
        if not it.is_given:
            for value in it.knob.swept:
                yield it, value, tools_of({**values, it.name: value})
