from collections.abc import Iterable

import numpy as np
import pytest
from scipy import stats

from drsim.pilot import retries
from drsim.pilot.records import Outcome, Run
from drsim.pilot.retries import Retried, find_retries

ENDS = {"s": Outcome.SUCCESS, "f": Outcome.FAIL, "i": Outcome.INFRA, "c": Outcome.CAPPED, "u": Outcome.UNJUDGED}


def arm(tasks: Iterable[str]) -> dict[str, list[Run]]:
    """One word a task, one letter a trial."""
    return {
        str(i): [Run(task_id=str(i), arm="a", trial=k, outcome=ENDS[end]) for k, end in enumerate(word)]
        for i, word in enumerate(tasks)
    }


def test_a_retry_loop_is_told_from_repeats() -> None:
    found = find_retries(arm(["s"] * 30 + ["fs"] * 12 + ["fff"] * 8))
    assert found is not None
    assert found.after is Retried.FAILURE
    # 20 of 50 go on, all of them failed; then 8 of the 20, all of them failed.
    assert (found.followed, found.followed_bad) == (28, 28)
    chances = [stats.hypergeom.cdf(0, 50, 30, 20), stats.hypergeom.cdf(0, 20, 12, 8)]
    assert found.chance == pytest.approx(stats.combine_pvalues(chances, "fisher").pvalue, rel=1e-9)


def test_a_harness_that_disagrees_with_the_file_about_one_end_is_still_a_retry_loop() -> None:
    found = find_retries(arm(["s"] * 99 + ["ss"] + ["ff"] * 60))
    assert found is not None
    assert (found.followed, found.followed_bad) == (61, 60)
    assert found.chance == pytest.approx(stats.hypergeom.cdf(1, 160, 100, 61), rel=1e-9)


def test_infra_retries_are_named_as_such_and_do_not_pass_for_retried_failures() -> None:
    found = find_retries(arm(["s"] * 20 + ["f"] * 20 + ["is", "if", "iis"] * 3))
    assert found is not None
    assert found.after is Retried.INFRA


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param(["ss", "sf", "fs", "ff"] * 20, id="everything repeated"),
        pytest.param(["s"] * 40 + ["f"] * 40, id="nothing repeated"),
        pytest.param(["s"] * 2 + ["ff"] * 2, id="too few to tell"),
        pytest.param(["f"] * 40 + ["ff"] * 40, id="no success to tell by"),
        # A regression: a significance test alone calls this a retry loop.
        pytest.param(["s"] * 800 + ["f"] * 200 + ["sf"] * 200 + ["ff"] * 800, id="second pass over the harder half"),
    ],
)
def test_repeats_are_not_called_retries(tasks: list[str]) -> None:
    assert find_retries(arm(tasks)) is None


def test_order_of_runs_means_nothing() -> None:
    tasks = arm(["s"] * 30 + ["fs"] * 12 + ["fff"] * 8)
    backwards = {name: runs[::-1] for name, runs in reversed(tasks.items())}
    assert find_retries(backwards) == find_retries(tasks)


def null_chances(n_arms: int, *, looks_at_ends: bool) -> list[float]:
    """Combined chances of arms whose tasks differ much; trials are planned, or follow failures twice as often."""
    rng = np.random.default_rng(20)
    chances = []
    for _ in range(n_arms):
        words = []
        for success in rng.beta(0.3, 0.3, size=60):
            word = ""
            while True:
                word += "s" if rng.random() < success else "f"
                go_on = (0.3 if word[-1] == "s" else 0.6) if looks_at_ends else 0.5
                if rng.random() > go_on:
                    break
            words.append(word)
        found = find_retries(arm(words), chance=1.1)
        assert found is not None
        chances.append(found.chance)
    return chances


def test_false_alarms_are_as_rare_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "ALMOST_ONLY", float("inf"))
    n, level = 300, 0.05
    limit = level + 5 * (level * (1 - level) / n) ** 0.5
    assert np.mean(np.array(null_chances(n, looks_at_ends=False)) < level) <= limit
    assert np.mean(np.array(null_chances(n, looks_at_ends=True)) < level) > limit
