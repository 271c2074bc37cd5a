"""Simulated pilots whose critic is known: beta tasks, binormal scores, a mechanism that acts when the critic fires."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from drsim.arrays import BoolArray, FloatArray
from drsim.inference.critic.scores import ScoredItems
from drsim.pilot.evidence import Pilot
from drsim.pilot.records import Fork, Intervention, Outcome, Run, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticWorld:
    """Success s ~ Beta; logit scores N(0, 1) on runs that would succeed, N(shift, 1) on those that would fail."""

    failure_rate: float = 0.5
    rho: float = 0.4
    shift: float = 1.5
    recovery: float = 0.0
    disruption: float = 0.0
    fires_above: float = 0.7
    """Threshold with which the intervened arm ran."""

    def tpr(self, threshold: float) -> float:
        """TPR at a threshold on scores."""
        return float(special.ndtr(self.shift - special.logit(threshold)))

    def fpr(self, threshold: float) -> float:
        """FPR at a threshold on scores."""
        return float(special.ndtr(-special.logit(threshold)))

    def gain(self, threshold: float) -> float:
        """Δ(τ) in closed form."""
        p = self.failure_rate
        return p * self.tpr(threshold) * self.recovery - (1 - p) * self.fpr(threshold) * self.disruption

    @property
    def auroc(self) -> float:
        """Φ(shift/√2)."""
        return float(special.ndtr(self.shift / np.sqrt(2)))

    def success(self, n_tasks: int, rng: np.random.Generator) -> FloatArray:
        """(n_tasks,) success probabilities."""
        size = 1 / self.rho - 1
        return rng.beta((1 - self.failure_rate) * size, self.failure_rate * size, n_tasks)

    def runs(self, success: FloatArray, rng: np.random.Generator) -> tuple[BoolArray, FloatArray]:
        """Whether each run would fail, and its score."""
        failed = rng.random(success.shape) >= success
        return failed, special.expit(rng.standard_normal(success.shape) + self.shift * failed)

    def act(self, failed: BoolArray, fired: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Ends after the mechanism acted on the runs that fired."""
        flips = rng.random(failed.shape) < np.where(failed, self.recovery, self.disruption)
        return np.asarray(failed ^ (fired & flips))

    def items(self, n_tasks: int, n_trials: int, rng: np.random.Generator, task_sd: float = 0.0) -> ScoredItems:
        """Scored baseline runs; with `task_sd`, the logit scores of one task share a shift, which keeps the AUROC."""
        success = np.repeat(self.success(n_tasks, rng), n_trials)
        failed, scores = self.runs(success, rng)
        task = np.repeat(np.arange(n_tasks), n_trials)
        logits = special.logit(scores) + task_sd * rng.standard_normal(n_tasks)[task]
        return ScoredItems(scores=special.expit(logits), failed=failed, task=task, place=np.zeros(len(task), np.int64))

    def pilot(self, n_tasks: int, n_trials: int, rng: np.random.Generator, *, is_forked: bool = False) -> Pilot:
        """Baseline runs with scores, and an intervened arm; independent of them, or forked."""
        success = np.repeat(self.success(n_tasks, rng), n_trials)
        failed, scores = self.runs(success, rng)
        other, other_scores = (failed, scores) if is_forked else self.runs(success, rng)
        fired = other_scores > self.fires_above
        ended = self.act(other, fired, rng)
        runs: list[Run] = []
        for i in range(len(success)):
            base = Run(
                task_id=f"t{i // n_trials}",
                arm="baseline",
                trial=i % n_trials,
                run_id=f"b{i}",
                outcome=_outcome(failed[i]),
                steps=(Step(t=0, score=float(scores[i])),),
            )
            runs.append(base)
            runs.append(
                Run(
                    task_id=base.task_id,
                    arm="rollback",
                    trial=base.trial,
                    outcome=_outcome(ended[i]),
                    forked_from=Fork(run_id=f"b{i}", t=0) if is_forked else None,
                    interventions=(Intervention(t=0, mechanism="rollback"),) if fired[i] else (),
                )
            )
        lines = np.arange(1, len(runs) + 1)
        return Pilot(runs=runs, sources=("simulated",), source_of=np.zeros_like(lines), line_of=lines)


def _outcome(failed: np.bool_) -> Outcome:
    return Outcome.FAIL if failed else Outcome.SUCCESS


def as_own_tasks(items: ScoredItems) -> ScoredItems:
    """The same runs, each taken for a task of its own: the wrong unit."""
    return replace(items, task=np.arange(len(items.task)))
