"""Public attempts at tasks: what repeats predict of Best-of-N, and what explains the hazards of retrying."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

from drsim.arrays import FloatArray, IntArray
from drsim.inference.retry_fit import fit_retries
from drsim.inference.task_spread import fit_task_spread

N_SAMPLES, N_FIRST, N_TRAINED = 40, 4, 50
ATTEMPTS = np.arange(1, N_SAMPLES + 1)


def game24(shared_data: Path) -> IntArray:
    """(100, 40) whether a sample succeeded."""
    rows = [json.loads(line) for line in (shared_data / "pilots" / "game24-samples.jsonl").read_text().splitlines()]
    tasks = {name: i for i, name in enumerate(sorted({row["task_id"] for row in rows}))}
    found = np.zeros((len(tasks), N_SAMPLES), dtype=np.int64)
    for row in rows:
        found[tasks[row["task_id"]], row["trial"]] = row["outcome"] == "success"
    return found


def curve(successes: IntArray) -> FloatArray:
    """Unbiased P(any of N samples succeeds) of tasks (…, tasks) with so many of 40, mean over tasks: (…, 40)."""
    failures = (N_SAMPLES - successes)[..., None].astype(np.float64)
    left = np.maximum(failures - ATTEMPTS, 0.0)
    log_none = gammaln(failures + 1) - gammaln(left + 1) + gammaln(N_SAMPLES - ATTEMPTS + 1) - gammaln(N_SAMPLES + 1)
    some: FloatArray = (1.0 - np.where(failures >= ATTEMPTS, np.exp(log_none), 0.0)).mean(axis=-2)
    return some


def test_first_samples_of_half_the_tasks_predict_the_curve_of_the_other_half(shared_data: Path) -> None:
    """90 % bands cover 80 to 97 % of the 40 numbers of samples, over splits; 1 − p^N lies outside of most of them."""
    samples = game24(shared_data)
    assert samples.shape == (100, N_SAMPLES)
    covered, independent = [], []
    for split in range(40):
        rng = np.random.default_rng(split)
        order = rng.permutation(100)
        trained, held_out = order[:N_TRAINED], order[N_TRAINED:]
        first = samples[trained, :N_FIRST].sum(axis=1)
        spread = fit_task_spread(first, np.full(N_TRAINED, N_FIRST), n_draws=2000, seed=split)
        size = 1.0 / spread.rho - 1.0
        shape = (2000, held_out.size)
        a, b = (spread.success * size)[:, None], ((1.0 - spread.success) * size)[:, None]
        tasks = rng.beta(np.maximum(a, 1e-12), np.maximum(b, 1e-12), shape)
        low, high = np.quantile(curve(rng.binomial(N_SAMPLES, tasks)), [0.05, 0.95], axis=0)
        observed = curve(samples[held_out].sum(axis=1))
        covered.append(np.mean((low <= observed) & (observed <= high)))
        alike = 1.0 - (1.0 - first.sum() / (N_TRAINED * N_FIRST)) ** ATTEMPTS
        independent.append(np.mean((low <= alike) & (alike <= high)))
    assert 0.80 <= np.mean(covered) <= 0.97
    assert np.mean(independent) < 0.2


def test_attempts_taken_for_independent_miss_the_curve(shared_data: Path) -> None:
    samples = game24(shared_data)
    observed = curve(samples.sum(axis=1))
    alike = 1.0 - (1.0 - samples.mean()) ** ATTEMPTS
    assert observed[0] == pytest.approx(alike[0])
    assert (round(observed[-1], 2), round(alike[-1], 2)) == (0.29, 0.95)
    spread = fit_task_spread(samples[:, :N_FIRST].sum(axis=1), np.full(100, N_FIRST), n_draws=4000, seed=1)
    assert np.quantile(spread.rho, 0.025) > 0.2


def attempts_of(shared_data: Path, benchmark: str, arm: str) -> tuple[list[int], list[int]]:
    """Tasks solved by each attempt, and tried in it."""
    lines = (shared_data / "pilots" / "reflexion-retry.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if (row["benchmark"], row["arm"]) == (benchmark, arm)]
    tried, solved = (Counter(row["trial"] for row in rows if keep(row)) for keep in (bool, is_success))
    return [solved[t] for t in sorted(tried)], [tried[t] for t in sorted(tried)]


def is_success(row: dict[str, object]) -> bool:
    return row["outcome"] == "success"


def test_plain_retries_are_explained_by_tasks_that_differ(shared_data: Path) -> None:
    solved, tried = attempts_of(shared_data, "alfworld", "retry")
    assert list(zip(solved, tried, strict=True))[:3] == [(84, 134), (10, 50), (3, 40)]
    fit = fit_retries(solved, tried)
    # the independent model has one hazard for all attempts, and is out of the question
    assert fit.p_independent < 1e-20
    assert fit.independent.aic - fit.tasks.aic > 100.0
    # ρ alone explains them; a factor below 1 brings the second hazard from 0.15 to 0.19 of the 0.20 observed
    assert 0.5 < fit.tasks.rho < 0.95
    assert fit.p_fresh > 0.05
    assert fit.context.contamination < 1.0
    assert np.abs(fit.context.hazards[:3] - [84 / 134, 10 / 50, 3 / 40]).max() < 0.03
    assert fit.context.log_likelihood >= fit.tasks.log_likelihood >= fit.independent.log_likelihood


def test_reflections_teach_where_retries_do_not(shared_data: Path) -> None:
    """The same agent on the same tasks, with its own reflections in context: each next attempt has better odds."""
    fit = fit_retries(*attempts_of(shared_data, "alfworld", "reflexion"))
    assert fit.p_fresh < 0.01
    assert fit.context.contamination > 1.2


@pytest.mark.parametrize("arm", ["retry", "reflexion_1", "reflexion_2"])
def test_retries_on_webshop(shared_data: Path, arm: str) -> None:
    fit = fit_retries(*attempts_of(shared_data, "webshop", arm))
    assert fit.p_independent < 1e-10
    assert fit.tasks.rho > 0.8
    assert fit.p_fresh > 0.05
