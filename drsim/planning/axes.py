"""What a sweep varies: the product of a timing family, mechanisms, thresholds, budgets and cooldowns.

The product is never held as policies: cell i is worked out from i, many at a time, as columns of numbers, and those
become a `PolicyTable`. Cells are numbered with the mechanism as the slowest axis, then timing, threshold, budget, and
the cooldown as the fastest.

**Timing families**, on a horizon of T steps (THEORY section 5):

| family | cells | fires |
|---|---|---|
| `early-vs-late` | 2T − 1 | `early` only in steps before k = 1 … T − 1, then `late` only from k = 0 … T − 1 on |
| `first-step` | T | only from step k = 0 … T − 1 on: the late half alone |
| `window` | T(T + 1)/2 | only in steps k1 … k2 − 1, for all 0 ≤ k1 < k2 ≤ T |
| `fixed-frequency` | T | in steps n − 1, 2n − 1, …: after every n = 1 … T steps |
| `delay` | T | only after k = 0 … T − 1 steps without interruption |

`delay` is the agent's undisturbed time: it is left alone for its first k steps, and for k steps after each intervention
and its extra steps, so that `first_step` and `cooldown` both are k. Where only the start should wait, that is
`first-step`.

A family replaces all gates of the policy that the sweep starts from. A fixed frequency heeds no critic unless a
threshold is asked for: its threshold is 0, and its budget is the horizon unless budgets are asked for.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.special import logit

from drsim.arrays import FloatArray, IntArray
from drsim.errors import ParameterError
from drsim.process.compile import CompiledPolicy, compile_policy
from drsim.process.spec import Model, Policy, Signal
from drsim.process.stacks import PolicyTable
from drsim.process.steps import step_values

__all__ = ["Axes", "Cells", "Family", "Timing"]

AS_THE_AXIS_SAYS = -1
"""Cooldown of a timing family that leaves it to its own axis."""


class Family(StrEnum):
    """A way to vary when a policy may fire; the module says which cells each one has."""

    EARLY_VS_LATE = "early-vs-late"
    FIRST_STEP = "first-step"
    WINDOW = "window"
    FIXED_FREQUENCY = "fixed-frequency"
    DELAY = "delay"
    AS_GIVEN = "as-given"
    """One cell: the gates of the policy that the sweep starts from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Gates of n cells, (n,) each."""

    first_step: IntArray
    last_step: IntArray
    every: IntArray
    cooldown: IntArray
    """`AS_THE_AXIS_SAYS` where the family leaves it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One timing family on one horizon."""

    family: Family
    horizon: int
    """T ≥ 1."""
    first_step: int = 0
    """Of `as-given`."""
    last_step: int | None = None
    """Of `as-given`; None: the last of the horizon."""
    every: int = 1
    """Of `as-given`."""

    def __len__(self) -> int:
        t = self.horizon
        sizes = {Family.EARLY_VS_LATE: 2 * t - 1, Family.WINDOW: t * (t + 1) // 2, Family.AS_GIVEN: 1}
        return sizes.get(self.family, t)

    def gates(self, index: IntArray) -> Gates:
        """Gates of the cells `index` (n,), each from 0 to `len(self)` − 1."""
        end, one = self.horizon - 1, np.ones_like(index)
        open_cooldown = AS_THE_AXIS_SAYS * one
        match self.family:
            case Family.EARLY_VS_LATE:
                is_early = index < end
                first, last = np.where(is_early, 0, index - end), np.where(is_early, index, end)
                return Gates(first_step=first, last_step=last, every=one, cooldown=open_cooldown)
            case Family.FIRST_STEP:
                return Gates(first_step=index.copy(), last_step=end * one, every=one, cooldown=open_cooldown)
            case Family.WINDOW:
                starts = np.concatenate([[0], np.cumsum(np.arange(self.horizon, 1, -1))])
                first = np.searchsorted(starts, index, side="right") - 1
                return Gates(
                    first_step=first, last_step=first + index - starts[first], every=one, cooldown=open_cooldown
                )
            case Family.FIXED_FREQUENCY:
                return Gates(first_step=index.copy(), last_step=end * one, every=index + 1, cooldown=open_cooldown)
            case Family.DELAY:
                return Gates(first_step=index.copy(), last_step=end * one, every=one, cooldown=index.copy())
            case Family.AS_GIVEN:
                last_step = end if self.last_step is None else self.last_step
                return Gates(
                    first_step=self.first_step * one,
                    last_step=last_step * one,
                    every=self.every * one,
                    cooldown=open_cooldown,
                )

    @property
    def sets_cooldown(self) -> bool:
        """Whether the family says what the cooldown is."""
        return self.family is Family.DELAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """n cells as columns, (n,) each."""

    index: IntArray
    """Number in the product."""
    mechanism: IntArray
    """Index into the mechanisms of the axes, not of the model."""
    threshold: FloatArray
    """NaN where the policy that the sweep starts from has one for each step."""
    first_step: IntArray
    last_step: IntArray
    budget: IntArray
    cooldown: IntArray
    every: IntArray

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The product that is swept, by number: `len(axes)` cells, of which none is held."""

    base: Policy
    """What is not varied is taken from it; its signal and propensity always are."""
    timing: Timing
    mechanisms: tuple[str, ...]
    """At least one."""
    thresholds: tuple[float, ...] | None
    """In [0, 1]; None: that of `base`, which may differ by step."""
    budgets: tuple[int, ...]
    """≥ 0."""
    cooldowns: tuple[int, ...]
    """≥ 0; one, which nothing reads, where the timing family sets the cooldown."""

    def __post_init__(self) -> None:
        for name in ("mechanisms", "budgets", "cooldowns", "thresholds"):
            values = getattr(self, name)
            if values is None:
                continue
            if not values:
                raise ParameterError(f"{name} must hold at least one value, got none; leave the axis out")
            twice = _repeated(values)
            if twice is not None:
                raise ParameterError(f"{name} must differ from each other, got {twice} twice; give each once")
        if not all(0.0 <= it <= 1.0 for it in self.thresholds or ()):
            wrong = next(it for it in self.thresholds or () if not 0.0 <= it <= 1.0)
            raise ParameterError(f"threshold must lie in [0, 1], got {wrong:g}; give a probability and not per cent")
        if min(*self.budgets, *self.cooldowns) < 0:
            raise ParameterError(f"budget and cooldown must be at least 0, got {min(*self.budgets, *self.cooldowns)}")
        if self.timing.sets_cooldown and len(self.cooldowns) > 1:
            raise ParameterError(
                "cooldown cannot be swept with delay, which sets it; sweep first-step with a cooldown instead"
            )

    def __len__(self) -> int:
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Values of mechanism, timing, threshold, budget and cooldown."""
        n_thresholds = 1 if self.thresholds is None else len(self.thresholds)
        return len(self.mechanisms), len(self.timing), n_thresholds, len(self.budgets), len(self.cooldowns)

    @property
    def is_exact(self) -> bool:
        """Whether the recursion holds: the policy fires on the score of a step alone."""
        return Signal(self.base.signal) is Signal.SCORE

    def cells(self, index: IntArray) -> Cells:
        """Cells by number.

        Parameters
        ----------
        index : ndarray
            (n,) from 0 to `len(self)` − 1.

        Returns
        -------
        Cells
            In the order of `index`.

        Raises
        ------
        ParameterError
            A number lies outside the product.
        """
        index = np.asarray(index, dtype=np.int64)
        if index.size and not 0 <= index.min() <= index.max() < len(self):
            raise ParameterError(f"cells are numbered 0 to {len(self) - 1}, got {index.min()} to {index.max()}")
        mechanism, timing, threshold, budget, cooldown = np.unravel_index(index, self.shape)
        gates = self.timing.gates(timing)
        if self.thresholds is None:
            thresholds = np.full(index.size, np.nan if self._by_step else self.base.threshold, dtype=np.float64)
        else:
            # an axis of a million values is not copied for every block
            thresholds = np.array([self.thresholds[i] for i in threshold.tolist()], dtype=np.float64)
        swept = np.array(self.cooldowns, dtype=np.int64)[cooldown]
        return Cells(
            index=index,
            mechanism=mechanism,
            threshold=thresholds,
            first_step=gates.first_step,
            last_step=gates.last_step,
            budget=np.array(self.budgets, dtype=np.int64)[budget],
            cooldown=np.where(gates.cooldown == AS_THE_AXIS_SAYS, swept, gates.cooldown),
            every=gates.every,
        )

    @property
    def _by_step(self) -> bool:
        return self.thresholds is None and not isinstance(self.base.threshold, int | float)

    def table(self, cells: Cells, model: Model) -> PolicyTable:
        """Cells as the recursions read them.

        Parameters
        ----------
        cells : Cells
            P of this product.
        model : Model
            Of the horizon and with the mechanisms of the axes.

        Returns
        -------
        PolicyTable
            P policies, the same numbers as `compile_policy` makes of each.
        """
        steps = np.arange(self.timing.horizon)
        since = steps - cells.first_step[:, None]
        is_open = (since >= 0) & (steps <= cells.last_step[:, None]) & (since % cells.every[:, None] == 0)
        horizon = self.timing.horizon
        threshold = step_values(self.base.threshold, horizon) if self._by_step else cells.threshold[:, None]
        cut = float(model.critic.temperature) * logit(threshold)
        numbers = np.array([list(model.mechanisms).index(name) for name in self.mechanisms], dtype=np.int64)
        propensity = np.broadcast_to(step_values(self.base.propensity, horizon), (len(cells), horizon))
        return PolicyTable(
            mechanism=numbers[cells.mechanism],
            logit_threshold=np.where(is_open, cut, np.inf),
            budget=cells.budget,
            cooldown=cells.cooldown,
            propensity=np.ascontiguousarray(propensity),
        )

    def policies(self, cells: Cells) -> Iterator[Policy]:
        """Cells as policies of a model file, one by one."""
        for i in range(len(cells)):
            threshold = self.base.threshold if self._by_step else float(cells.threshold[i])
            yield replace(
                self.base,
                mechanism=self.mechanisms[cells.mechanism[i]],
                threshold=threshold,
                first_step=int(cells.first_step[i]),
                last_step=int(cells.last_step[i]),
                budget=int(cells.budget[i]),
                cooldown=int(cells.cooldown[i]),
                every=int(cells.every[i]),
            )

    def compiled(self, cells: Cells, model: Model) -> list[CompiledPolicy]:
        """Cells as the engines read them, for signals that the recursions do not hold."""
        named = {str(i): policy for i, policy in zip(cells.index, self.policies(cells), strict=True)}
        swept = replace(model, policies=named)
        return [compile_policy(swept, name) for name in named]

    def to_dict(self) -> dict[str, Any]:
        """Values by axis, for JSON and for the hash of a store."""
        return {
            "timing": self.timing.family.value,
            "mechanism": list(self.mechanisms),
            "threshold": None if self.thresholds is None else list(self.thresholds),
            "budget": list(self.budgets),
            "cooldown": None if self.timing.sets_cooldown else list(self.cooldowns),
        }


def _repeated(values: Sequence[object]) -> object | None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
