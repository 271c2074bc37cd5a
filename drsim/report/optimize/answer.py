"""What `drsim optimize` found, and what both its forms say of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from drsim.planning.ladder import Kind, Ladder
from drsim.planning.robust import Robust
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_policy
from drsim.process.exact import evaluate
from drsim.process.spec import Model, Policy
from drsim.process.terms import priced

__all__ = ["WRITTEN_NAME", "Answer"]

WRITTEN_NAME = "optimal"
"""Of the policy that is written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What `drsim optimize` found."""

    model: Model
    """The point model."""
    compiled: CompiledModel
    """The same as the ladder takes it: without what a belief about the state cannot hold."""
    ladder: Ladder
    robust: Robust | None
    assumptions: tuple[str, ...]
    """One sentence for each thing that is taken for granted."""
    as_given: Mapping[Kind, float] | None = None
    """Gains of the ladder's policies in the model as given, where the ladder is about its typical model."""

    @property
    def mechanisms(self) -> list[str]:
        """Names by index."""
        return list(self.model.mechanisms)

    @property
    def allowed(self) -> tuple[int, ...]:
        """Indices of the mechanisms that were chosen among."""
        chosen = self.ladder.terms.mechanisms
        return tuple(range(len(self.mechanisms))) if chosen is None else chosen

    def mechanism(self, policy: CompiledPolicy | None) -> str | None:
        """Name of a policy's mechanism; None where it has none."""
        return None if policy is None or policy.mechanism < 0 else self.mechanisms[policy.mechanism]

    def gain_as_written(self, policy: Policy) -> float:
        """Exact gain of a policy as it stands in its table, net of prices."""
        spec = replace(self.model, policies={WRITTEN_NAME: policy})
        exact = evaluate(priced(self.compiled, self.ladder.terms), compile_policy(spec, WRITTEN_NAME))
        return exact.gain - exact.tokens
