r"""Priors of the hierarchical model: every scale a named field.

Baseline logit of task i in block b: c_b a_b + σ_b u_i; under arm m of cell c: that + c_b (δ_c + τ_c w_im);
u, w ~ N(0, 1). a_b, log σ_b, δ_c and log τ_c are an intercept plus one effect for each factor, N(0, scale²), scale
half-normal; what an agent or a benchmark does to a_b and to δ_c is correlated. c_b = √(1 + 0.346 σ_b²) undoes the
flattening of a logistic curve averaged over N(0, σ_b²) (Zeger, Liang and Albert, Biometrics 44, 1988), so that a_b and
δ_c are, to within a few per cent, logits of the success *rates*: what they say of p and Δ does not depend on how far
the tasks are spread, and cells whose tasks are spread differently can be pooled.

The widths follow from what a logit means, not from data: 1.5 makes a rate nearly uniform on (0, 1), 1 is an odds ratio
of 2.7, 0.5 one of 1.6. Interventions are presumed as likely to harm as to help. Only the spread of tasks has a source:
the noise floors behind the static model's prior on ρ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from drsim.errors import ParameterError

__all__ = ["DEFAULT_PRIORS", "Priors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """Priors of the hierarchical model, on the logit scale; every `…_sd` is in (0, ∞)."""

    baseline_mean: float = 0.0
    """Mean of the intercept of a_b: success and failure are alike before any run."""
    baseline_sd: float = 1.5
    """Its sd; 1.5 makes the success rate of a typical task nearly uniform on (0, 1)."""
    baseline_agent_sd: float = 1.0
    """Scale of the half-normal prior of the spread of a_b over agents."""
    baseline_benchmark_sd: float = 1.0
    """The same, over benchmarks."""
    baseline_block_sd: float = 0.5
    """The same, over what agent and benchmark do not say together."""
    task_median: float = 4.0
    """Median of σ_b, the spread of tasks on the logit scale; 4 is ρ = .64 at p = ½, near the middle of
    `DEFAULT_RHO_PRIOR`. In (0, ∞)."""
    task_log_sd: float = 0.6
    """Sd of the intercept of log σ_b; 0.6 leaves ρ between .2 and .9 at 95 %."""
    task_block_sd: float = 0.25
    """Scale of the half-normal prior of the spread of log σ_b over blocks."""
    gain_mean: float = 0.0
    """Mean of the intercept of δ_c: no intervention is presumed to help."""
    gain_sd: float = 1.0
    """Its sd: an odds ratio of 7 either way is within 95 %."""
    gain_agent_sd: float = 0.5
    """Scale of the half-normal prior of the spread of δ_c over agents."""
    gain_benchmark_sd: float = 0.5
    """The same, over benchmarks."""
    gain_mechanism_sd: float = 0.5
    """The same, over mechanisms (arms)."""
    gain_cell_sd: float = 0.5
    """The same, over what agent, benchmark and mechanism do not say together."""
    correlation_shape: float = 2.0
    """η of the LKJ prior of the correlation between effects on a_b and on δ_c: 1 is uniform on (−1, 1), more holds it
    nearer to 0; 2 leaves it within ±.81 at 95 %. In (0, ∞)."""
    spread_median: float = 0.5
    """Median of τ_c, the spread of an intervention's effect over tasks: as much as from cell to cell. In (0, ∞)."""
    spread_log_sd: float = 0.5
    """Sd of the intercept of log τ_c."""
    spread_cell_sd: float = 0.25
    """Scale of the half-normal prior of the spread of log τ_c over cells."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_mean"):
                if not np.isfinite(value):
                    raise ParameterError(f"{field.name} must be finite, got {value}; give a logit such as 0")
            elif not 0 < value < np.inf:
                raise ParameterError(f"{field.name} must lie in (0, ∞), got {value}; give a scale such as 0.5")

    def scaled(self, factor: float) -> "Priors":
        """The same priors with every sd times `factor`; medians and means stay. For sensitivity: 0.5 and 2."""
        return replace(self, **{name: value * factor for name, value in self.to_dict().items() if name.endswith("_sd")})

    def to_dict(self) -> dict[str, float]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, float]) -> "Priors":
        """The defaults with some fields replaced.

        Raises
        ------
        ParameterError
            A name is none of the fields, or a value is outside its domain.
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise ParameterError(f"no prior is called {name!r}; the priors are {', '.join(known)}")
        return cls(**values)


DEFAULT_PRIORS = Priors()
"""What is assumed unless told otherwise."""
