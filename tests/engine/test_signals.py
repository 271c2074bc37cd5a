"""What policies read: levels of scores, the integer belief filter, means and votes, each against its definition."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from engine.laws import all_equal, looking_back, policy, random_model
from engine.test_engines import worst_z
from scipy.special import expit, logit, ndtr

from drsim.arrays import FloatArray, IntArray
from drsim.engine import numba, reference
from drsim.engine.law import Law, law_of
from drsim.engine.random import Block, Purpose, WordArray, draw_block, draw_words
from drsim.engine.runs import SimulatedRuns
from drsim.engine.signals import CELL_BITS, LEVELS, REACH, SCORE_BITS, deviations, signal_tables
from drsim.engine.thresholds import outcomes, score_table
from drsim.process.compile import CompiledModel, CompiledPolicy
from drsim.process.exact import evaluate
from drsim.process.spec import Signal

HORIZON = 8
LEVELS_OFF = 3
"""What a score may be off by, as signals.py states."""


def scale(model: CompiledModel) -> tuple[float, float]:
    """Lowest level and the size of one: 2²⁸ levels for 4.5 standard deviations to either side."""
    reach = REACH * (model.score_sd + model.run_sd)
    low = float(np.min(model.score_mean - reach))
    return low, (float(np.max(model.score_mean + reach)) - low) / LEVELS


def jittered(rng: np.random.Generator, rows: list[list[float]], *shape: int) -> FloatArray:
    moved = np.array(rows) * rng.uniform(0.8, 1.2, (*shape, len(rows), len(rows[0])))
    normed: FloatArray = moved / moved.sum(axis=-1, keepdims=True)
    return normed


def watched_model(run_sd: float = 0.0) -> CompiledModel:
    """Runs stay long in their states, and every move is possible."""
    rng = np.random.default_rng(8)
    acts = [[0.68, 0.10, 0.08, 0.12, 0.02], [0.12, 0.66, 0.04, 0.03, 0.15], [0.06, 0.04, 0.80, 0.02, 0.08]]
    moves = [[0.85, 0.10, 0.05], [0.55, 0.40, 0.05], [0.40, 0.05, 0.55]]
    return replace(
        random_model(0, HORIZON, run_sd=run_sd),
        start=np.array([0.8, 0.12, 0.08]),
        transitions=jittered(rng, acts, HORIZON),
        kernels=jittered(rng, moves, 3, HORIZON),
        score_mean=np.array([-0.7, 0.6, 0.9]),
        score_sd=np.array([1.0, 1.1, 1.2]),
    )


@dataclass(frozen=True, slots=True)
class Scored:
    """A score that the policy took in."""

    t: int
    z: float
    may_fire: bool
    is_acted: bool


def reached(word: np.uint32, thresholds: WordArray) -> int:
    return int(np.sum(thresholds <= min(int(word), 2**32 - 2)))


def scored(model: CompiledModel, law: Law, runs: SimulatedRuns, seed: int) -> Iterator[tuple[int, list[Scored]]]:
    """Run by run what the policy of a law saw, in float64, along the interventions that the engine made."""
    normals, index = score_table(SCORE_BITS), np.arange(runs.n)
    words = draw_block(index[:, None], np.arange(law.horizon), Block.STEP, seed=seed)
    starts, shifts = (draw_words(index, 0, it, seed=seed) for it in (Purpose.START, Purpose.RUN_SHIFT))
    for i in range(runs.n):
        shift = model.run_sd * normals[shifts[i] >> 16]
        fired = set(runs.fired_at[i, : runs.interventions[i]].tolist())
        state, t, fires_from, left, found = reached(starts[i], law.start), 0, 0, int(law.budget[0]), []
        while t < law.horizon and left:
            act, score, mechanism = (words[it, i, t] for it in (Purpose.ACT, Purpose.SCORE, Purpose.MECHANISM))
            state = reached(act, law.act[0, t, state])
            if state >= law.n_states:
                break
            z = float(model.score_mean[state] + model.score_sd[state] * normals[score >> 16] + shift)
            found.append(Scored(t, z, bool(law.is_open[0, t]) and t >= fires_from, t in fired))
            t += 1
            if found[-1].is_acted:
                state = reached(mechanism, law.intervene[0, t - 1, state])
                left -= 1
                fires_from = t + int(law.cooldown[0])
                t += int(law.extra_steps[0])
        yield i, found


def widest_slope(model: CompiledModel, spread: FloatArray, z: float, off: float) -> float:
    """Largest slope of a difference of two log likelihoods within `off` of z; the slopes are straight lines in z."""
    slopes = -(z + np.array([[-off], [off]]) - model.score_mean) / spread**2
    return float(np.max(np.max(slopes, axis=1) - np.min(slopes, axis=1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """P(off track | scores and interventions so far) from the definition, in float64."""

    model: CompiledModel
    mechanism: int
    spread: FloatArray
    knows_interventions: bool = True

    def beliefs(self, seen: list[Scored]) -> Iterator[tuple[float, float]]:
        """After each score, with how far the engines' may be from it.

        Errors of weights are taken as the largest difference of their logarithms, which no move can widen. Weights are
        whole numbers with a sum of at least 2²⁷, of which a move gives each state at least the smallest move's share
        m, and the score at least l of that. To it come one unit for each of the terms rounded up, the nearest multiples
        of 2⁻³² in the tables, and a score that is off by half a cell and three levels. A difference of e in the
        logarithms of odds moves a probability by at most e/4.
        """
        model, n_states = self.model, self.model.start.size
        half_cell = (2 ** (CELL_BITS - 1) + LEVELS_OFF) * scale(model)[1]
        weights, error = model.start.copy(), 2.0**-30 / model.start.min()
        for it in seen:
            moves = model.transitions[it.t, :, :n_states]
            density = np.exp(-0.5 * ((it.z - model.score_mean) / self.spread) ** 2) / self.spread
            weights = weights @ moves * density
            weights /= weights.sum()
            error += self._rounded(moves, n_states)
            slope = widest_slope(model, self.spread, it.z, half_cell)
            # a likelihood at the middle of the cell is less than this one's share of the largest by the slope's factor
            least = float(density.min() / density.max()) * np.exp(-slope * half_cell)
            error += 1.0 / (2.0**27 * moves.min() * least) + 2.0**-33 / least + slope * half_cell
            yield 1.0 - weights[0], error / 4.0
            if it.is_acted and self.knows_interventions:
                kernel = model.kernels[self.mechanism, it.t]
                weights = weights @ kernel
                error += self._rounded(kernel, n_states)

    @staticmethod
    def _rounded(moves: FloatArray, n_states: int) -> float:
        return float((n_states / 2.0**27 + 2.0**-33) / moves.min())


class Recorded(reference._Signal):
    """Keeps every belief of the reference engine, policy by policy, by run and step."""

    kept: list[FloatArray]

    def __init__(self, law: Law, k: int, shift_words: WordArray) -> None:
        super().__init__(law, k, shift_words)
        self.kept.append(np.full((len(shift_words), law.horizon), np.nan))

    def _believes(self, t: int, runs: IntArray, cells: IntArray, limit: np.uint32) -> np.ndarray:
        is_above = super()._believes(t, runs, cells, limit)
        weights = self.weights[runs].astype(np.float64)
        self.kept[-1][runs, t] = 1.0 - weights[:, 0] / weights.sum(axis=1)
        return is_above


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[FloatArray]:
    """Beliefs (n, T) of the reference engine, one array for each policy that it runs; NaN where there was none."""
    Recorded.kept = []
    monkeypatch.setattr(reference, "_Signal", Recorded)
    return Recorded.kept


def compare(
    law: Law, model: CompiledModel, rule: CompiledPolicy, filtered: Filter, kept: list[FloatArray]
) -> tuple[int, int, int]:
    """Beliefs compared, those too far apart, and decisions that differ although they are not close."""
    assert rule.history is not None
    n_seen, n_apart, n_other = 0, 0, 0
    (runs,) = reference.run_law(law, n=400, seed=3)
    for i, seen in scored(model, law, runs, 3):
        for it, (belief, error) in zip(seen, filtered.beliefs(seen), strict=True):
            n_seen += 1
            n_apart += not abs(kept[0][i, it.t] - belief) <= error
            gap = belief - rule.history.threshold[it.t]
            n_other += it.is_acted != (it.may_fire and gap > 0) and abs(gap) > error
    return n_seen, n_apart, n_other


@pytest.mark.parametrize("run_sd", [0.0, 0.8])
@pytest.mark.parametrize("mechanism", [0, 1])
def test_beliefs_are_those_of_bayes_rule(run_sd: float, mechanism: int, kept: list[FloatArray]) -> None:
    model = watched_model(run_sd)
    rule = looking_back(policy(HORIZON, mechanism), Signal.BELIEF, 0.45)
    law, spread = law_of(model, [rule]), np.hypot(model.score_sd, run_sd)
    n_seen, n_apart, n_other = compare(law, model, rule, Filter(model=model, mechanism=mechanism, spread=spread), kept)
    assert n_seen > 1_000
    assert (n_apart, n_other) == (0, 0)
    kept.clear()
    wrong = Filter(model=model, mechanism=mechanism, spread=spread, knows_interventions=False)
    assert min(compare(law, model, rule, wrong, kept)[1:]) > 0


def test_a_filter_that_knows_no_shift_is_found_out(kept: list[FloatArray]) -> None:
    model = watched_model(0.8)
    rule = looking_back(policy(HORIZON), Signal.BELIEF, 0.45)
    wrong = Filter(model=model, mechanism=0, spread=model.score_sd)
    assert min(compare(law_of(model, [rule]), model, rule, wrong, kept)[1:]) > 0


def calibration_z(law: Law, kept: list[FloatArray], steps: list[int]) -> list[float]:
    """Distance of how many fired runs were off track from the sum of their beliefs, policy by policy."""
    found = []
    for runs, beliefs, t in zip(reference.run_law(law, n=100_000, seed=6), kept, steps, strict=True):
        fired = runs.interventions > 0
        believed = beliefs[fired, t]
        gap = np.sum(runs.first_state[fired] != 0) - believed.sum()
        found.append(float(gap / np.sqrt(np.sum(believed * (1 - believed)))))
    return found


def test_beliefs_are_calibrated(kept: list[FloatArray]) -> None:
    model = watched_model()
    cases = [(t, threshold) for t in (1, 5) for threshold in (0.0, 0.3, 0.7)]
    rules = [
        replace(
            looking_back(policy(HORIZON, 1, budget=1), Signal.BELIEF, threshold),
            logit_threshold=np.where(np.arange(HORIZON) == t, -np.inf, np.inf),
        )
        for t, threshold in cases
    ]
    law, steps = law_of(model, rules), [t for t, _ in cases]
    assert max(map(abs, calibration_z(law, kept, steps))) <= 5
    kept.clear()
    doubled = model.transitions.copy()
    doubled[:, 0, 0] -= doubled[:, 0, 1:3].sum(axis=1)
    doubled[:, 0, 1:3] *= 2.0
    tables = signal_tables(replace(model, transitions=doubled), rules)
    wrong = replace(law, signals=replace(law.signals, predict=tables.predict))
    assert min(map(abs, calibration_z(wrong, kept, steps))) > 5


def forgetful_model() -> CompiledModel:
    """Where a run goes does not depend on where it was; only whether it ends well does."""
    off = np.linspace(0.15, 0.4, HORIZON)
    acts = np.empty((HORIZON, 2, 4))
    acts[:, :, 0], acts[:, :, 1] = 0.85 - off[:, None], off[:, None]
    acts[:, 0, 2:], acts[:, 1, 2:] = (0.13, 0.02), (0.02, 0.13)
    rng = np.random.default_rng(2)
    return replace(
        random_model(0, HORIZON, 2),
        start=np.array([0.5, 0.5]),
        transitions=acts,
        kernels=jittered(rng, [[0.9, 0.1], [0.7, 0.3]], 3, HORIZON),
        score_mean=np.array([-0.5, 0.9]),
        score_sd=np.array([1.1, 1.1]),
    )


def score_of_belief(model: CompiledModel, belief: float, prior: FloatArray) -> FloatArray:
    """Score from which two states with one spread leave P(off track) at `belief`: Bayes' rule solved for the score."""
    on, off = model.score_mean
    score: FloatArray = (on + off) / 2 + model.score_sd[0] ** 2 / (off - on) * (logit(belief) - logit(prior))
    return score


def test_belief_without_memory_is_a_threshold_on_the_score() -> None:
    model = forgetful_model()
    rule = looking_back(policy(HORIZON, 1, budget=3), Signal.BELIEF, 0.55)
    prior = model.transitions[:, 0, 1] / model.transitions[:, 0, :2].sum(axis=1)
    same = replace(rule, logit_threshold=score_of_belief(model, 0.55, prior), history=None)
    (runs,) = numba.run_law(law_of(model, [rule]), n=100_000, seed=12)
    assert worst_z(model, same, runs) <= 5
    unknowing = replace(same, logit_threshold=score_of_belief(model, 0.55, np.full(HORIZON, 0.5)))
    assert worst_z(model, unknowing, runs) > 5


@pytest.mark.parametrize("run_sd", [0.0, 0.8])
def test_mean_and_votes_of_one_score_are_the_score(run_sd: float) -> None:
    model = random_model(4, run_sd=run_sd)
    low, unit = scale(model)
    # half a level below the edge of a cell, so that a score as a cell lies above it just where it does as a level
    cell = int((0.2 - low) / unit) >> CELL_BITS
    threshold = low + unit * ((cell << CELL_BITS) - 0.5)
    alone = policy(6, 1, threshold)
    mean = looking_back(alone, Signal.MEAN, float(expit(threshold / model.temperature)), 1)
    votes = looking_back(alone, Signal.VOTES, threshold, 1, 1)
    by_mean, by_votes, by_score = numba.run_law(law_of(model, [mean, votes, alone]), n=200_000, seed=2)
    assert all_equal([by_mean], [by_votes])
    # scores are read as levels by a score policy too where runs share a shift, else its firing is one draw of a chance
    assert by_score.is_equal(by_votes) == (run_sd > 0)
    assert worst_z(model, alone, by_votes) <= 5
    assert worst_z(model, replace(alone, logit_threshold=alone.logit_threshold + 0.2), by_votes) > 5


@pytest.mark.parametrize("run_sd", [0.0, 0.8])
@pytest.mark.parametrize("starts_anew", [True, False])
def test_mean_of_a_window(run_sd: float, starts_anew: bool) -> None:
    model = watched_model(run_sd)
    rule = looking_back(policy(HORIZON, 1, budget=3, cooldown=0), Signal.MEAN, 0.55, 3)
    law = law_of(model, [rule])
    (runs,) = numba.run_law(law, n=1_000, seed=3)
    # a score is off by half a cell and three levels, and a probability by a quarter of that and half of 2⁻³²
    error = (2 ** (CELL_BITS - 1) + LEVELS_OFF) * scale(model)[1] / model.temperature / 4 + 2.0**-32
    n_seen, n_close, n_other = 0, 0, 0
    for _, seen in scored(model, law, runs, 3):
        window: list[float] = []
        for it in seen:
            window = [*window, float(expit(it.z / model.temperature))][-3:]
            gap = sum(window) / len(window) - 0.55
            n_seen += 1
            n_close += abs(gap) <= error
            n_other += it.is_acted != (it.may_fire and gap > 0) and abs(gap) > error
            window = [] if it.is_acted and starts_anew else window
    assert n_seen > 2_000
    # the mean's density is below 10 (scores spread over [0, 1] with more than 0.1), so 20 error of them are close
    assert n_close <= 20 * error * n_seen + 5 * np.sqrt(20 * error * n_seen)
    assert (n_other == 0) == starts_anew


@pytest.mark.parametrize("run_sd", [0.0, 0.8])
@pytest.mark.parametrize("starts_anew", [True, False])
def test_votes_of_a_window(run_sd: float, starts_anew: bool) -> None:
    model = watched_model(run_sd)
    rule = looking_back(policy(HORIZON, 1, budget=3, cooldown=0), Signal.VOTES, 0.1, 3, 2)
    law = law_of(model, [rule])
    (runs,) = numba.run_law(law, n=1_000, seed=3)
    n_other = 0
    for _, seen in scored(model, law, runs, 3):
        window: list[bool] = []
        for it in seen:
            # no score of these lies on the threshold but for three levels: all votes are certain
            assert abs(it.z - 0.1) > LEVELS_OFF * scale(model)[1]
            window = [*window, it.z > 0.1][-3:]
            n_other += it.is_acted != (it.may_fire and sum(window) >= 2)
            window = [] if it.is_acted and starts_anew else window
    assert (n_other == 0) == starts_anew


def test_levels_are_the_normal_scores_within_the_stated_error() -> None:
    model = watched_model(0.8)
    tables = signal_tables(model, [policy(HORIZON)])
    low, unit = scale(model)
    words = np.arange(2**16, dtype=np.uint32) << np.uint32(16)
    normals = score_table(SCORE_BITS)
    shift = deviations(tables, np.array(tables.run_spread), words)
    for state in range(3):
        away = deviations(tables, np.array(int(tables.spreads[state])), words)
        # shifts in another order, so that the quantiles of both meet at random
        other = np.random.default_rng(1).permutation(2**16)
        levels = int(tables.means[state]) + away + shift[other]
        exact = model.score_mean[state] + model.score_sd[state] * normals + model.run_sd * normals[other]
        assert np.max(np.abs(low + unit * levels - exact)) <= LEVELS_OFF * unit
        assert levels.min() >= 0
        assert levels.max() < LEVELS
        # the law of a score without its shift: 2⁻¹⁷ from the table, and three levels of density at most 0.4/σ
        alone = low + unit * (int(tables.means[state]) + away)
        cuts = np.linspace(alone.min() - 0.1, alone.max() + 0.1, 501)
        share = np.searchsorted(np.sort(alone), cuts, side="right") / 2**16
        normal = ndtr((cuts - model.score_mean[state]) / model.score_sd[state])
        bound = 2.0**-17 + LEVELS_OFF * unit * 0.4 / model.score_sd[state]
        assert np.max(np.abs(share - normal)) <= bound
        assert np.max(np.abs(share - ndtr((cuts - model.score_mean[state]) / (1.01 * model.score_sd[state])))) > bound


def test_words_give_scores_in_order() -> None:
    """The word's leading bits are the quantile; the others say nothing."""
    tables = signal_tables(watched_model(0.8), [policy(HORIZON)])
    words = np.sort(draw_words(np.arange(1_000), 0, Purpose.SCORE, seed=1))
    spread = np.array(int(tables.spreads[0]))
    levels = deviations(tables, spread, words)
    assert np.all(np.diff(levels) >= 0)
    np.testing.assert_array_equal(levels, deviations(tables, spread, words | np.uint32(0xFFFF)))
    np.testing.assert_array_equal(levels, -deviations(tables, spread, ~words))


@pytest.mark.parametrize("seed", range(3))
def test_score_policy_with_a_shift_agrees_with_the_exact_recursion(seed: int) -> None:
    model, rule = random_model(seed, run_sd=0.8), policy(6, 1, 0.2, budget=3)
    (runs,) = numba.run_law(law_of(model, [rule]), n=200_000, seed=21)
    assert worst_z(model, rule, runs) <= 5


def test_shifts_drawn_anew_in_each_step_are_found_out() -> None:
    """What a shift does beside spreading each score: it makes the scores of a run hang together."""
    model, rule = watched_model(2.0), policy(HORIZON, 1, 1.0, budget=1)
    (runs,) = numba.run_law(law_of(model, [rule]), n=200_000, seed=21)
    assert worst_z(model, rule, runs) <= 5
    anew = replace(model, run_sd=0.0, score_sd=np.hypot(model.score_sd, model.run_sd))
    assert abs(evaluate(anew, rule).interventions - evaluate(model, rule).interventions) > 0.02
    assert worst_z(anew, rule, runs) > 5


def test_states_are_drawn_as_outcomes() -> None:
    """The loop over runs above counts thresholds as `outcomes` does."""
    law = law_of(watched_model(), [policy(HORIZON)])
    words = draw_words(np.arange(200), 0, Purpose.ACT, seed=1)
    assert [reached(word, law.act[0, 0, 1]) for word in words] == outcomes(words, law.act[0, 0, 1]).tolist()
