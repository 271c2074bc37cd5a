"""A pilot's critics judged: what their scores tell, what firing on them gains, and what to beware of."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import DataError
from drsim.inference.critic.firing_rates import FiringRates, acted_pairs, firing_rates, given_rates
from drsim.inference.critic.metrics import critic_metrics
from drsim.inference.critic.scores import (
    ScoredArm,
    ScoredItems,
    Task,
    baseline_ends,
    index_tasks,
    runs_of_evidence,
    scored_arms,
)
from drsim.inference.critic.task_weights import DEFAULT_DRAWS, TaskWeights
from drsim.inference.critic.temperature import Temperature, held_out_temperature
from drsim.inference.critic.weighted_auroc import auroc_draws
from drsim.inference.posterior import Uncertain
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR, RhoPrior
from drsim.pilot.evidence import Evidence
from drsim.pilot.records import BASELINE, Outcome, Run
from drsim.planning.critic.gains import CriticGains, critic_gains, stakes_of
from drsim.planning.critic.judgement import CriticAssessment, CriticJudgement, CriticRule, Granularity, PlaceRow
from drsim.planning.critic.operating_points import NEVER, OperatingPoint, arm_critic, value_thresholds
from drsim.planning.critic.warnings import critic_warnings
from drsim.theory.roc import auroc, roc_points

__all__ = ["judge_critics"]

SPLIT_STREAM = 6
"""Stream of the splits into halves."""


def judge_critics(
    evidence: Evidence,
    *,
    seed: int,
    baseline: str = BASELINE,
    arms: Iterable[str] | None = None,
    rates_from: str | None = None,
    recovery: float | None = None,
    disruption: float | None = None,
    rho_prior: RhoPrior | None = None,
    rule: CriticRule | None = None,
    n_draws: int = DEFAULT_DRAWS,
) -> CriticAssessment:
    """Judge the scores of every wanted arm.

    Parameters
    ----------
    evidence : Pilot, Counts or Marginals
        As read.
    seed : int
        Seed of all draws, ≥ 0.
    baseline : str
        Name of the arm without intervention.
    arms : iterable of str, optional
        Arms whose scores to judge; by default the baseline where it carries scores, else every arm that does.
    rates_from : str, optional
        Intervened arm whose pairs tell ρ_m and δ_m; by default the judged arm itself, or for the baseline the arm with
        most acted pairs.
    recovery, disruption : float, optional
        ρ_m and δ_m as stated, instead of those of the pairs.
    rho_prior : RhoPrior, optional
        Intraclass correlation where independent pairs are not measured by repeated baseline runs.
    rule : CriticRule, optional
        Margin and confidence.
    n_draws : int
        Draws of each posterior, at least 1,000.

    Returns
    -------
    CriticAssessment

    Raises
    ------
    DataError
        There are no scores, or an arm is missing.
    ParameterError
        A parameter is outside its domain.
    """
    runs = runs_of_evidence(evidence)
    judge = _Judge(
        runs=runs,
        tasks=index_tasks(runs),
        intervened=tuple(sorted({run.arm for run in runs} - {baseline})),
        baseline=baseline,
        stated=given_rates(recovery, disruption),
        rates_from=rates_from,
        rho_prior=rho_prior or DEFAULT_RHO_PRIOR,
        rule=rule or CriticRule(),
        seed=seed,
        n_draws=n_draws,
    )
    if rates_from is not None and rates_from not in judge.intervened:
        found = ", ".join(judge.intervened) or "none"
        raise DataError(f"--rates-from {rates_from} names no intervened arm; arms found: {found}")
    critics = tuple(judge.judge(scored) for scored in scored_arms(runs, baseline=baseline, arms=arms))
    return CriticAssessment(
        critics=critics,
        warnings=tuple(
            critic_warnings(critics, intervened=judge.intervened, baseline=baseline, refusals=judge.refusals)
        ),
        rule=judge.rule,
        baseline=baseline,
        n_runs=len(runs),
        n_tasks=judge.n_tasks,
        set_aside={
            outcome.value: sum(run.outcome is outcome for run in runs) for outcome in (Outcome.INFRA, Outcome.UNJUDGED)
        },
        seed=seed,
        n_draws=n_draws,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """What every arm of a pilot is judged with."""

    runs: list[Run]
    tasks: dict[Task, int]
    intervened: tuple[str, ...]
    """Arms other than the baseline, by name."""
    baseline: str
    stated: FiringRates | None
    rates_from: str | None
    rho_prior: RhoPrior
    rule: CriticRule
    seed: int
    n_draws: int
    refusals: list[str] = field(default_factory=list)
    """Why pairs could not be used."""

    def judge(self, scored: ScoredArm) -> CriticJudgement:
        key = (self.seed, *scored.arm.encode("utf-8", "surrogatepass"))
        weights = TaskWeights(n_tasks=self.n_tasks, n_draws=self.n_draws, seed=key)
        step_temperature = held_out_temperature(scored.steps, seed=(*key, SPLIT_STREAM))
        steps = critic_metrics(scored.steps, weights)
        gains = self._gains(scored, weights, step_temperature, steps.ece_floor)
        best = None if gains is None or gains.best is None else gains.best.threshold
        parts = [scored.at(place) for place in scored.places] if len(scored.places) > 1 else []
        return CriticJudgement(
            scored=scored,
            runs=critic_metrics(scored.runs, weights),
            steps=steps,
            run_temperature=held_out_temperature(scored.runs, seed=(*key, SPLIT_STREAM)),
            step_temperature=step_temperature,
            granularity=_granularity(scored.runs),
            gains=gains,
            places=tuple(self._row(part, weights, best) for part in parts),
        )

    @property
    def n_tasks(self) -> int:
        return len(self.tasks)

    def _gains(
        self, scored: ScoredArm, weights: TaskWeights, temperature: Temperature, ece_floor: float
    ) -> CriticGains | None:
        if not scored.runs.has_both_ends:
            return None
        ends = self._ends(scored)
        return critic_gains(
            scored.runs,
            weights,
            rates=self._rates(scored),
            ends=ends,
            failure_rate_of=scored.arm if ends is None else self.baseline,
            temperature=temperature,
            ece_floor=ece_floor,
            margin=self.rule.margin,
            seed=(*weights.seed, SPLIT_STREAM),
        )

    def _row(self, part: ScoredArm, weights: TaskWeights, threshold: float | None) -> PlaceRow:
        runs = part.runs
        return PlaceRow(
            place=part.places[0],
            n_tasks=part.n_tasks,
            n_runs=len(runs.scores),
            n_failed=runs.n_failed,
            plain_auroc=auroc(runs.scores, runs.failed),
            auroc=Uncertain.from_draws(auroc_draws([runs], weights)) if runs.has_both_ends else None,
            at_best=self._point(part, weights, threshold),
        )

    def _point(self, part: ScoredArm, weights: TaskWeights, threshold: float | None) -> OperatingPoint | None:
        """One threshold at one place; None where nothing is to be valued."""
        if threshold is None or threshold == NEVER or not part.runs.has_both_ends:
            return None
        rates = self._rates(part)
        if rates is None:
            return None
        critic = arm_critic(part.runs, weights, stakes=stakes_of(rates, weights), ends=self._ends(part))
        (point,) = value_thresholds(critic, [threshold], margin=self.rule.margin)
        return point

    def _ends(self, scored: ScoredArm) -> FloatArray | None:
        """Ends of the baseline, where the scored runs are not the baseline themselves."""
        if not scored.is_contaminated:
            return None
        ends = baseline_ends(self.runs, scored, self.tasks, baseline=self.baseline)
        return ends if ends.any() else None

    def _rates(self, scored: ScoredArm) -> FiringRates | None:
        arm = self.rates_from or (scored.arm if scored.is_contaminated else self._most_acted())
        if self.stated is not None or arm is None:
            return self.stated
        try:
            return firing_rates(self.runs, scored.places, arm, baseline=self.baseline, rho_prior=self.rho_prior)
        except DataError as error:
            # Scores can be judged without pairs; that these could not be used is said among the warnings.
            if str(error) not in self.refusals:
                self.refusals.append(str(error))
            return None

    def _most_acted(self) -> str | None:
        """The intervened arm with most acted pairs, the first by name among equals."""
        if len(self.intervened) < 2:
            return next(iter(self.intervened), None)
        return max(self.intervened, key=lambda arm: acted_pairs(self.runs, arm, baseline=self.baseline))


def _granularity(runs: ScoredItems) -> Granularity:
    _, counts = np.unique(runs.scores, return_counts=True)
    reachable = np.sort(roc_points(runs.scores, runs.failed).trigger_rate)
    return Granularity(
        n_distinct=len(counts),
        largest_tie=float(counts.max() / counts.sum()),
        reachable=tuple(float(rate) for rate in reachable),
    )
