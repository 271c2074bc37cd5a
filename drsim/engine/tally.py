"""What simulated runs add up to: means with their errors, histograms, and r and d under both couplings.

**Couplings.** Which pairs of a baseline run and an intervened run one makes decides r and d (THEORY section 4), and
shared draws make pairs of neither kind. So r and d come from the intervened runs alone, each weighted by what the
exact recursion says of the baseline run that it would be paired with: with `shared_prefix` that run succeeds with
probability V_x(t + 1), from the state x in which the first intervention, in step t, found the run; `independent` with
the success rate of unaided runs of the task. The number of baseline runs that fail is exact too.
"""

from dataclasses import dataclass, field

import numpy as np

from drsim.arrays import FloatArray, IntArray
from drsim.engine.estimates import Estimate, Histogram, Moments
from drsim.engine.law import Law
from drsim.engine.random import Purpose, draw_words
from drsim.engine.runs import Ending, SimulatedRuns
from drsim.engine.thresholds import outcomes
from drsim.process.compile import CompiledModel
from drsim.process.exact import unaided

__all__ = ["Couplings", "Histograms", "PolicyEstimates", "Tally", "task_classes"]

TOKEN_BINS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Couplings:
    """Recovery and disruption rate under both couplings; NaN where no baseline run fails, or none succeeds."""

    recovery_shared_prefix: Estimate
    recovery_independent: Estimate
    disruption_shared_prefix: Estimate
    disruption_independent: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Histograms:
    """How runs spread."""

    steps: Histogram
    """Acts; one bin for each number, from 0 to the horizon."""
    tokens: Histogram
    """64 bins of equal width, from 0 to the most that a run can spend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEstimates:
    """What a policy did, in means per run."""

    success: Estimate
    capped: Estimate
    steps: Estimate
    """Acts."""
    interventions: Estimate
    triggered: Estimate | None
    """Share of runs with at least one intervention; None where runs were only counted."""
    tokens: Estimate
    usd: Estimate
    seconds: Estimate
    gain: Estimate
    """Success less that of the baseline, on shared draws; 0 without error for the baseline itself."""
    couplings: Couplings | None
    """None for the baseline, and where runs were only counted."""
    histograms: Histograms | None
    """None where runs were only counted."""


def task_classes(law: Law, *, n: int, seed: int, first: int) -> IntArray:
    """(n,) class of each run's task, for runs that each have a task of their own."""
    if not law.task.size:
        return np.zeros(n, dtype=np.int64)
    return outcomes(draw_words(first + np.arange(n, dtype=np.uint64), 0, Purpose.TASK, seed=seed), law.task)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Running sums of one policy."""

    model: CompiledModel
    is_baseline: bool
    alone: FloatArray
    """(J, T + 1, S) P(success) of an unaided run, by class, step that it is about to act in, and state."""
    most_tokens: float
    success: int = 0
    capped: int = 0
    flips: int = 0
    """Runs that end otherwise than the baseline's run on the same draws."""
    gained: int = 0
    """Successes less those of the baseline."""
    steps: IntArray
    """(T + 1,) runs by acts."""
    interventions: IntArray
    """(T + 1,) runs by interventions."""
    tokens: Moments = field(default_factory=Moments)
    bins: IntArray
    """(TOKEN_BINS,) runs by tokens."""
    flipped: list[Moments]
    """Fail to success and success to fail with a shared prefix, then both for independent runs."""

    @classmethod
    def empty(cls, model: CompiledModel, law: Law, k: int) -> "Tally":
        """Of policy k; the first is the baseline."""
        alone = unaided(model)
        most = law.tokens_to_end[k].max() + law.budget[k] * max(0.0, law.tokens_of_firing[k].max())
        return cls(
            model=model,
            is_baseline=k == 0,
            alone=alone if model.tasks is not None else alone[np.newaxis],
            most_tokens=float(most),
            steps=np.zeros(law.horizon + 1, dtype=np.int64),
            interventions=np.zeros(law.horizon + 1, dtype=np.int64),
            bins=np.zeros(TOKEN_BINS, dtype=np.int64),
            flipped=[Moments() for _ in range(4)],
        )

    def add(self, runs: SimulatedRuns, unaided_runs: SimulatedRuns, classes: IntArray) -> None:
        """Take in runs, with the baseline's runs on the same draws and the classes of their tasks."""
        success = runs.ending == Ending.SUCCESS
        without = unaided_runs.ending == Ending.SUCCESS
        n_success = int(success.sum())
        self.success += n_success
        self.capped += int((runs.ending == Ending.CAPPED).sum())
        self.flips += int((success != without).sum())
        self.gained += n_success - int(without.sum())
        size = len(self.steps)
        self.steps += np.bincount(runs.acts, minlength=size)
        self.interventions += np.bincount(runs.interventions, minlength=size)
        self.tokens.add(runs.tokens)
        scale = TOKEN_BINS / self.most_tokens if self.most_tokens > 0.0 else 0.0
        bins = np.minimum((runs.tokens * scale).astype(np.int64), TOKEN_BINS - 1)
        self.bins += np.bincount(bins, minlength=TOKEN_BINS)
        if not self.is_baseline:
            self._pair(runs, success, classes)

    def _pair(self, runs: SimulatedRuns, success: np.ndarray, classes: IntArray) -> None:
        fired = np.flatnonzero(runs.interventions)
        states, steps = runs.first_state[fired], runs.fired_at[fired, 0] if fired.size else fired
        prefix = success.astype(np.float64)
        prefix[fired] = self.alone[classes[fired], steps + 1, states]
        task = (self.alone[:, 0, :] @ self.model.start)[classes]
        for baseline, (recovered, disrupted) in zip((prefix, task), (self.flipped[:2], self.flipped[2:]), strict=True):
            recovered.add(np.where(success, 1.0 - baseline, 0.0))
            disrupted.add(np.where(success, 0.0, baseline))

    def estimates(self) -> PolicyEstimates:
        """Means and errors of what was taken in."""
        steps, interventions = Moments(), Moments()
        steps.add_counts(self.steps)
        interventions.add_counts(self.interventions)
        n = steps.n
        tokens, acts = self.tokens.estimate(), steps.estimate()
        n_triggered = n - int(self.interventions[0])
        return PolicyEstimates(
            success=Moments(n=n, total=self.success, squares=self.success).estimate(),
            capped=Moments(n=n, total=self.capped, squares=self.capped).estimate(),
            steps=acts,
            interventions=interventions.estimate(),
            triggered=Moments(n=n, total=n_triggered, squares=n_triggered).estimate(),
            tokens=tokens,
            usd=tokens.scaled(self.model.usd_per_token),
            seconds=acts.scaled(self.model.seconds_per_step),
            gain=Moments(n=n, total=self.gained, squares=self.flips).estimate(),
            couplings=None if self.is_baseline else self._couplings(),
            histograms=Histograms(
                steps=Histogram(edges=np.arange(len(self.steps) + 1.0), counts=self.steps),
                tokens=Histogram(edges=np.linspace(0.0, self.most_tokens, TOKEN_BINS + 1), counts=self.bins),
            ),
        )

    def _couplings(self) -> Couplings:
        weights = np.ones(1) if self.model.tasks is None else self.model.tasks.weights
        succeeds = float(weights @ (self.alone[:, 0, :] @ self.model.start))
        recovered, disrupted, again, lost = (it.estimate() for it in self.flipped)
        return Couplings(
            recovery_shared_prefix=_given(recovered, 1.0 - succeeds),
            recovery_independent=_given(again, 1.0 - succeeds),
            disruption_shared_prefix=_given(disrupted, succeeds),
            disruption_independent=_given(lost, succeeds),
        )


def _given(estimate: Estimate, share: float) -> Estimate:
    return estimate.scaled(1.0 / share if share > 0.0 else float("nan"))
