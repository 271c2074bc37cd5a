"""Parts of a model, each of which checks its own fields when it is made."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from drsim.process.flaws import Flaw, number_flaws, raise_flaws, text_flaws, whole_flaws
from drsim.process.steps import NOT_PER_CENT, ROUNDING, StepValue, probability_flaws, smallest

__all__ = ["LONGEST_HORIZON", "Agent", "Cost", "Critic", "Mechanism", "Mode", "Policy", "Signal"]

LONGEST_HORIZON = 10_000
"""Arrays by step, state and budget must stay small; agents of today take tens to hundreds of steps."""
LARGEST_COUNT = 2**31 - 1
LARGEST_SCORE = 1e6
"""Limit of means, spreads and temperature of the scores, so that no difference of theirs overflows."""
LARGEST_COST = 1e15
LARGEST_TASK_SD = 3.0
"""On the logit scale; beyond it tasks are either hopeless or sure."""
LONGEST_WINDOW = 1000


class Signal(StrEnum):
    """What a policy holds against its threshold after each scored step."""

    SCORE = "score"
    """The step's own score."""
    BELIEF = "belief"
    """P(off track | the run's scores and interventions so far, and that it is live), by the model's own filter."""
    MEAN = "mean"
    """The mean of the last `window` scores."""
    VOTES = "votes"
    """How many of the last `window` scores lay above the threshold; fires from `votes` on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way of being off track."""

    slip: StepValue
    """P(on track → this mode) of a step that does not finish, in [0, 1]."""
    abandon: StepValue
    """P(fail) of a step in this mode, in [0, 1]."""
    self_recover: StepValue
    """P(back on track) of a step in this mode that does not fail, in [0, 1]."""

    def __post_init__(self) -> None:
        raise_flaws(
            flaw
            for name in ("slip", "abandon", "self_recover")
            for flaw in probability_flaws(name, getattr(self, name))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """How a run moves when nobody intervenes."""

    finish: StepValue
    """P(success) of a step on track, in [0, 1]."""
    modes: Mapping[str, Mode]
    """Off-track modes by name, at least one."""
    start_off: float | Mapping[str, float] = 0.0
    """P(a run starts off track): a number, spread evenly over the modes, or a share per mode; sum at most 1."""
    finish_task_sd: float = 0.0
    """Spread over tasks of the logit of `finish`, ≥ 0: tasks differ in how easy they are."""
    slip_task_sd: float = 0.0
    """Spread over tasks of the logit of all slips together, ≥ 0: a task that is easier to finish has fewer of them."""

    def __post_init__(self) -> None:
        raise_flaws(self._flaws())

    def _flaws(self) -> Iterator[Flaw]:
        yield from probability_flaws("finish", self.finish)
        for name in ("finish_task_sd", "slip_task_sd"):
            yield from number_flaws(name, getattr(self, name), 0.0, LARGEST_TASK_SD)
        for name in self.modes:
            yield from text_flaws("modes", name)
        if not isinstance(self.start_off, Mapping):
            yield from number_flaws("start_off", self.start_off, 0.0, 1.0, remedy=NOT_PER_CENT)
            return
        found = [
            flaw
            for name, share in self.start_off.items()
            for flaw in number_flaws(f"start_off.{name}", share, 0.0, 1.0, remedy=NOT_PER_CENT)
        ]
        yield from found
        if not found and sum(self.start_off.values()) > 1.0 + ROUNDING:
            value = f"a sum of {sum(self.start_off.values()):.12g}"
            yield Flaw(field="start_off", rule="must have shares that sum to at most 1", value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """Logit scores of live runs: Normal by state. Means and `sigma`, or `auroc` alone."""

    mean_on: float | None = None
    """Mean on track."""
    mean_off: Mapping[str, float] | None = None
    """Mean in each mode."""
    sigma: float | None = None
    """σ, spread of the score in every state, positive; None: 1."""
    auroc: float | None = None
    """In [0.5, 1), for one step on track against one step off track, given the run-level shift. Means are then −μ/2 on
    track and μ/2 in every mode, μ = √2 Φ⁻¹(auroc), and σ = 1."""
    run_sd: float = 0.0
    """ω ≥ 0, spread of the run-level shift."""
    temperature: float = 1.0
    """T > 0; score = 1/(1 + exp(−z/T)) of the logit score z."""

    def __post_init__(self) -> None:
        raise_flaws(self._flaws())

    def _flaws(self) -> Iterator[Flaw]:
        if self.auroc is None:
            yield from self._flaws_of_means()
        else:
            remedy = "for a perfect critic give mean_on and mean_off far apart"
            found = list(number_flaws("auroc", self.auroc, 0.5, 1.0, remedy="below one half its scores are reversed"))
            yield from found or number_flaws("auroc", self.auroc, 0.5, 1.0 - 2.0**-53, remedy=remedy)
            for name in ("mean_on", "mean_off", "sigma"):
                if getattr(self, name) is not None:
                    rule = "must be left out where auroc is given, which fixes it"
                    yield Flaw(field=name, rule=rule, value="both")
        yield from number_flaws("run_sd", self.run_sd, 0.0, LARGEST_SCORE)
        yield from number_flaws("temperature", self.temperature, 1 / LARGEST_SCORE, LARGEST_SCORE)

    def _flaws_of_means(self) -> Iterator[Flaw]:
        if self.mean_on is None or self.mean_off is None:
            rule = "must be given, both of them, where auroc is not"
            yield Flaw(field="mean_on and mean_off", rule=rule, value="")
        if self.mean_on is not None:
            yield from number_flaws("mean_on", self.mean_on, -LARGEST_SCORE, LARGEST_SCORE)
        for name, mean in (self.mean_off or {}).items():
            yield from number_flaws(f"mean_off.{name}", mean, -LARGEST_SCORE, LARGEST_SCORE)
        if self.sigma is not None:
            yield from number_flaws("sigma", self.sigma, 1 / LARGEST_SCORE, LARGEST_SCORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """What an intervention does."""

    recover: Mapping[str, StepValue]
    """r_k: P(mode k → on track) for every mode, in [0, 1]."""
    disrupt: StepValue
    """d: P(on track → some mode), in [0, 1]."""
    to: Mapping[str, float] | None = None
    """Weights of the modes to which it disrupts, ≥ 0, not all 0; a mode left out has 0; None: all alike."""
    extra_steps: int = 0
    """Further steps of the horizon that one intervention uses up, ≥ 0."""
    tokens: float = 0.0
    """Tokens of one intervention, ≥ 0."""

    def __post_init__(self) -> None:
        raise_flaws(self._flaws())

    def _flaws(self) -> Iterator[Flaw]:
        for name, value in self.recover.items():
            yield from probability_flaws(f"recover.{name}", value)
        yield from probability_flaws("disrupt", self.disrupt)
        yield from whole_flaws("extra_steps", self.extra_steps, 0, LONGEST_HORIZON)
        yield from number_flaws("tokens", self.tokens, 0.0, LARGEST_COST)
        if self.to is not None:
            weights = [(name, list(number_flaws(f"to.{name}", w, 0.0, LARGEST_COST))) for name, w in self.to.items()]
            found = [flaw for _, flaws in weights for flaw in flaws]
            yield from found
            if not found and not any(self.to.values()):
                yield Flaw(field="to", rule="must give some mode a positive weight", value="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When to intervene, and with which mechanism."""

    mechanism: str
    """Name of the mechanism."""
    threshold: StepValue
    """τ, in [0, 1]: fires when the signal is above it; 1 never fires, and a score is above 0 always."""
    budget: int
    """Most interventions in one run, ≥ 0."""
    first_step: int = 0
    """First step that may fire, from 0."""
    last_step: int | None = None
    """Last step that may fire; None: the last of the horizon."""
    cooldown: int = 0
    """Steps in which nothing fires after an intervention and its extra steps, ≥ 0."""
    every: int = 1
    """Fires only in the steps `first_step`, `first_step` + `every`, … ≥ 1."""
    propensity: StepValue = 1.0
    """P(the policy acts when it fires), in (0, 1]; below 1 the trigger is micro-randomised. A trigger that is withheld
    uses up nothing."""
    signal: Signal = Signal.SCORE
    """What is held against the threshold."""
    window: int | None = None
    """Scores that `mean` and `votes` look back on; an intervention starts the window anew."""
    votes: int | None = None
    """Scores above the threshold that `votes` asks for, at most `window`."""

    def __post_init__(self) -> None:
        raise_flaws(self._flaws())

    def _flaws(self) -> Iterator[Flaw]:
        yield from text_flaws("mechanism", self.mechanism)
        yield from probability_flaws("threshold", self.threshold)
        for name in ("budget", "first_step", "cooldown"):
            yield from whole_flaws(name, getattr(self, name), 0, LARGEST_COUNT)
        yield from whole_flaws("every", self.every, 1, LARGEST_COUNT)
        yield from self._propensity_flaws()
        yield from self._signal_flaws()
        if self.last_step is not None:
            found = list(whole_flaws("last_step", self.last_step, 0, LARGEST_COUNT))
            yield from found
            if not found and isinstance(self.first_step, int) and self.last_step < self.first_step:
                rule = f"must not come before first_step ({self.first_step})"
                yield Flaw(field="last_step", rule=rule, value=str(self.last_step))

    def _propensity_flaws(self) -> Iterator[Flaw]:
        found = list(probability_flaws("propensity", self.propensity))
        yield from found
        if not found and smallest(self.propensity) <= 0.0:
            rule = "must be above 0 at every step; a threshold of 1 closes a step"
            yield Flaw(field="propensity", rule=rule, value="0")

    def _signal_flaws(self) -> Iterator[Flaw]:
        known = [str(signal) for signal in Signal]
        if self.signal not in known:
            near = get_close_matches(str(self.signal), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "score is the usual one"
            rule = f"must be one of {', '.join(known)}; {hint}"
            yield Flaw(field="signal", rule=rule, value=repr(str(self.signal)))
            return
        wanted = {Signal.MEAN: ("window",), Signal.VOTES: ("window", "votes")}.get(Signal(self.signal), ())
        highest = {"window": LONGEST_WINDOW, "votes": self.window if isinstance(self.window, int) else LONGEST_WINDOW}
        for name in ("window", "votes"):
            value = getattr(self, name)
            if name in wanted:
                remedy = "the scores looked back on" if name == "window" else "at most window"
                yield from whole_flaws(name, value, 1, highest[name], remedy=remedy)
            elif value is not None:
                rule = f"must be left out where the signal is {Signal(self.signal)}, which does not read it"
                yield Flaw(field=name, rule=rule, value=str(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What runs cost; the default counts steps."""

    tokens_per_step: float = 1.0
    """Tokens of the agent's step 0, ≥ 0."""
    tokens_per_step_growth: float = 0.0
    """Tokens by which each step costs more than the one before, ≥ 0: the context grows."""
    critic_tokens: float = 0.0
    """Tokens of scoring one step, ≥ 0."""
    usd_per_million_tokens: float = 0.0
    """Price, ≥ 0."""
    seconds_per_step: float = 0.0
    """Time of one step, ≥ 0."""

    def __post_init__(self) -> None:
        raise_flaws(
            flaw for name in self.__slots__ for flaw in number_flaws(name, getattr(self, name), 0.0, LARGEST_COST)
        )
