"""The step process as a user writes it down (THEORY section 4, SCHEMA section 3).

The parts check their own fields; `Model` checks what they must have in common: lengths of lists, names of modes and
mechanisms, sums over modes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drsim.process.agreement import flaws_between
from drsim.process.flaws import Flaw, raise_flaws, text_flaws, whole_flaws
from drsim.process.parts import LONGEST_HORIZON, Agent, Cost, Critic, Mechanism, Mode, Policy, Signal
from drsim.process.steps import Decay, StepValue

__all__ = [
    "Agent",
    "Cost",
    "Critic",
    "Decay",
    "Mechanism",
    "Mode",
    "Model",
    "Policy",
    "Signal",
    "StepValue",
    "header_flaws",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A step process with its critic, its mechanisms, and policies to judge."""

    name: str
    """What the model is called."""
    source: str
    """Where the numbers come from, down to the table."""
    horizon: int
    """T, the number of steps after which a run is capped; 1 to 10000."""
    agent: Agent
    critic: Critic
    mechanisms: Mapping[str, Mechanism] = field(default_factory=dict)
    policies: Mapping[str, Policy] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)

    def __post_init__(self) -> None:
        found = list(header_flaws(self.name, self.source, self.horizon))
        raise_flaws(
            found
            or flaws_between(
                horizon=self.horizon,
                mode_names=list(self.agent.modes),
                mechanism_names=list(self.mechanisms),
                agent=self.agent,
                critic=self.critic,
                mechanisms=self.mechanisms,
                policies=self.policies,
            )
        )


def header_flaws(name: object, source: object, horizon: object) -> Iterator[Flaw]:
    """Flaws of what the file's table `model` holds."""
    yield from text_flaws("model.name", name)
    yield from text_flaws("model.source", source)
    yield from whole_flaws("model.horizon", horizon, 1, LONGEST_HORIZON)
