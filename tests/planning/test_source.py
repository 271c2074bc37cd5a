"""Sources: every form of input becomes draws that reproduce what it says, and sentences for what it does not."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planning.forks import forked_pair, written

from drsim.arrays import FloatArray
from drsim.cli.options import resolve
from drsim.engine.records import simulated_runs
from drsim.engine.simulate import Engine
from drsim.errors import DataError, ParameterError
from drsim.inference.posterior_file import StoredPosterior, StoredVariable, save_posterior
from drsim.inference.rho_prior import RhoPrior
from drsim.inference.stored import stored_timing
from drsim.inference.timing import fit_timing
from drsim.pilot.cells import cells_of
from drsim.pilot.reading import read
from drsim.pilot.records import Run
from drsim.pilot.timed import timed_pairs
from drsim.planning.base_model import base_for, policy_for
from drsim.planning.cell_rates import Selection, rates_of_pilot
from drsim.planning.source import Source, SourceKind, read_source
from drsim.process.compile import compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.flips import PrefixCoupling
from drsim.process.shipped import find_model
from drsim.process.spec import Agent, Decay, Mechanism, Mode, Model, Policy, Signal
from drsim.process.stacks import stack_draws, stack_policies
from drsim.process.success_many import success_many
from drsim.process.toml import format_model

EXAMPLE = find_model("example")
TRUTH = replace(
    EXAMPLE,
    name="truth",
    policies={
        "p": Policy(mechanism="rollback", threshold=0.5, budget=2),
        "late": Policy(mechanism="rollback", threshold=0.6, budget=3, first_step=4),
    },
)
"""Its first policy fires from the start and loses 4.6 pp of 81.2; the late one gains 2.7."""

ALFWORLD = resolve(["example:alfworld"])[0]
TOY = resolve(["example:toy"])[0]


def model_file(model: Model, folder: Path) -> str:
    path = folder / f"{model.name}.toml"
    path.write_text(format_model(model), encoding="utf-8")
    return str(path)


def simulated(folder: Path, *, n: int, seed: int, trials: int = 1, model: Model = TRUTH) -> str:
    compiled = compile_model(model)
    arms = {"p": (compile_policy(model, "p"), "rollback")}
    made = simulated_runs(compiled, arms, name="x", n=n, seed=seed, engine=Engine.REFERENCE, trials=trials)
    return written(list(made), folder / f"pilot-{n}-{seed}.jsonl")


def forked(folder: Path, *, n: int, seed: int, model: Model = TRUTH) -> str:
    compiled, policy, rng = compile_model(model), compile_policy(model, "p"), np.random.default_rng(seed)
    runs: list[Run] = []
    for i in range(n):
        runs += forked_pair(compiled, policy, "rollback", rng, f"t{i:04d}")
    return written(runs, folder / f"forked-{n}-{seed}.jsonl")


def truth_of(model: Model, policy: str) -> float:
    return evaluate(compile_model(model), compile_policy(model, policy)).gain


def gains(source: Source, model: Model, policy: str) -> FloatArray:
    table = stack_policies([compile_policy(model, policy)])
    gain: FloatArray = success_many(source.draws, table).gain[0]
    return gain


def subjects(sentences: Iterable[str]) -> list[str]:
    return [sentence.partition(":")[0] for sentence in sentences]


def assert_reproduces(source: Source, *, policy: str) -> None:
    """Matched numbers, against the recursion on every draw as it is written down."""
    matched = source.matched
    assert matched is not None
    assert matched.arm_success is not None
    for i in range(source.n_draws):
        exact = evaluate(source.compiled(i), compile_policy(source.specifications[i], policy))
        assert exact.baseline == pytest.approx(1.0 - matched.failure_rate[i], abs=1e-10)
        assert exact.success == pytest.approx(matched.arm_success[i], abs=1e-10)
        if matched.coupling is PrefixCoupling.SHARED_PREFIX:
            assert matched.recovery is not None
            assert matched.disruption is not None
            assert exact.shared_prefix.recovery == pytest.approx(matched.recovery[i], abs=1e-10)
            assert exact.shared_prefix.disruption == pytest.approx(matched.disruption[i], abs=1e-10)
    stacked = stack_draws([source.compiled(i) for i in range(source.n_draws)])
    for name in ("start", "transitions", "kernels", "score_mean", "score_sd", "run_sd"):
        np.testing.assert_allclose(getattr(source.draws, name), getattr(stacked, name), rtol=0, atol=1e-12)


def test_a_model_is_one_draw_of_itself(tmp_path: Path) -> None:
    for given in ("example", model_file(EXAMPLE, tmp_path)):
        source = read_source(given, seed=1)
        assert (source.kind, source.n_draws, source.cell, source.policy) == (SourceKind.MODEL, 1, None, None)
        assert source.model == EXAMPLE
        assert source.matched is None
        assert source.is_reached is None
        assert source.assumptions[0].startswith("all numbers are those of the model example (made up")
        np.testing.assert_array_equal(source.draws.transitions, stack_draws([compile_model(EXAMPLE)]).transitions)
    with pytest.raises(ParameterError, match="base, arm must be left out where a model is given"):
        read_source("example", base="example", arm="rollback", seed=1)


def test_the_published_pilot_is_placed_in_the_shipped_model_of_its_agent() -> None:
    source = read_source(ALFWORLD, n_draws=200, seed=1)
    assert source.kind is SourceKind.PILOT
    assert source.cell == "Qwen-3-8B on ALFWorld, rollback"
    assert (source.policy, source.n_draws) == ("rollback", 200)
    assert source.is_reached is not None
    evidence = read([ALFWORLD])
    rates = rates_of_pilot(evidence, Selection(), n_draws=200, seed=1, rho_prior=None)
    matched, reached = source.matched, source.is_reached
    assert matched is not None
    assert matched.gain is not None
    assert rates.targets.failure_rate is not None
    assert rates.targets.gain is not None
    np.testing.assert_allclose(matched.failure_rate, rates.targets.failure_rate, rtol=0, atol=1e-10)
    np.testing.assert_allclose(matched.gain[reached], rates.targets.gain[reached], rtol=0, atol=1e-10)
    # what is out of reach are losses that so accurate a critic cannot do; they stay losses
    lost = np.flatnonzero(~reached)
    assert 0 < lost.size < 40
    assert np.all(rates.targets.gain[lost] < matched.gain[lost])
    assert np.all(matched.gain[lost] < 0.0)
    assert np.mean(matched.gain > 0.0) == np.mean(rates.targets.gain > 0.0)
    assert any(f"{lost.size} of 200 posterior draws have a gain" in warning for warning in source.warnings)
    assert_reproduces(source, policy="rollback")
    assert {
        "base model",
        "horizon",
        "critic scores",
        "costs",
        "finish profile",
        "self-recovery and abandoning",
        "tasks",
        "policy",
        "effect",
        "extra steps",
        "other mechanisms",
        "coupling",
        "timing profile",
        "draws out of reach",
    } == set(subjects(source.assumptions))
    assert source.carried == ()
    point = evaluate(compile_model(source.model), compile_policy(source.model, "rollback"))
    assert point.baseline == pytest.approx(1.0 - matched.failure_rate.mean(), abs=1e-10)
    assert point.gain == pytest.approx(matched.gain.mean(), abs=1e-10)


def test_the_same_seed_gives_the_same_draws() -> None:
    one, same, other = (read_source(ALFWORLD, n_draws=20, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.draws.transitions, same.draws.transitions)
    np.testing.assert_array_equal(one.draws.kernels, same.draws.kernels)
    assert not np.array_equal(one.draws.transitions, other.draws.transitions)


def test_simulated_pilots_cover_the_gain_of_their_policy_and_of_another(tmp_path: Path) -> None:
    base = model_file(TRUTH, tmp_path)
    n_pilots, hits = 40, np.zeros(2)
    for seed in range(n_pilots):
        source = read_source(simulated(tmp_path, n=300, seed=seed), base=base, n_draws=400, seed=seed)
        assert source.is_reached is not None
        assert source.is_reached.mean() > 0.9
        for k, policy in enumerate(("p", "late")):
            low, high = np.quantile(gains(source, TRUTH, policy), (0.025, 0.975))
            hits[k] += low <= truth_of(TRUTH, policy) <= high
    # at .95 each, five standard errors below
    assert np.all(hits / n_pilots > 0.95 - 5 * (0.95 * 0.05 / n_pilots) ** 0.5)


def test_the_data_overrule_a_base_model_whose_mechanism_is_wrong(tmp_path: Path) -> None:
    wrong = replace(
        TRUTH, name="wrong", mechanisms={"rollback": Mechanism(recover={"off": 0.9}, disrupt=0.02, extra_steps=1)}
    )
    pilot = simulated(tmp_path, n=1500, seed=5)
    source = read_source(pilot, base=model_file(wrong, tmp_path), n_draws=400, seed=1)
    found = gains(source, wrong, "p")
    assert abs(found.mean() - truth_of(TRUTH, "p")) < 5 * found.std()
    # what the wrong model says of itself is far from what the data let it say
    assert abs(found.mean() - truth_of(wrong, "p")) > 5 * found.std()


def test_forked_pairs_fix_r_and_d_and_their_profile(tmp_path: Path) -> None:
    base = model_file(TRUTH, tmp_path)
    pilot = forked(tmp_path, n=1500, seed=2)
    source = read_source(pilot, base=base, n_draws=100, seed=1)
    evidence = read([pilot])
    (cell,) = cells_of(evidence).cells
    assert cell.paired_by == "fork"
    rates = rates_of_pilot(evidence, Selection(), n_draws=100, seed=1, rho_prior=None)
    matched, reached, targets = source.matched, source.is_reached, rates.targets
    assert matched is not None
    assert matched.disruption is not None
    assert matched.gain is not None
    assert reached is not None
    assert reached.mean() > 0.9
    assert targets.failure_rate is not None
    assert targets.gain is not None
    assert targets.disruption is not None
    assert matched.coupling is targets.coupling is PrefixCoupling.SHARED_PREFIX
    np.testing.assert_allclose(matched.failure_rate[reached], targets.failure_rate[reached], rtol=0, atol=1e-10)
    np.testing.assert_allclose(matched.gain[reached], targets.gain[reached], rtol=0, atol=1e-10)
    np.testing.assert_allclose(matched.disruption[reached], targets.disruption[reached], rtol=0, atol=1e-10)
    assert_reproduces(source, policy="p")
    truth = evaluate(compile_model(TRUTH), compile_policy(TRUTH, "p")).shared_prefix
    assert abs(matched.disruption.mean() - truth.disruption) < 5 * matched.disruption.std()
    assert "timing profile" in subjects(source.carried)
    assert any(it.startswith("timing profile: no run fired first in steps ") for it in source.assumptions)


def test_forked_pairs_tell_early_from_late_whatever_the_base_model_says_of_them(tmp_path: Path) -> None:
    rising = Mechanism(recover={"off": 0.1}, disrupt=Decay(start=0.05, end=0.6, half_life=3), extra_steps=1)
    upside = replace(TRUTH, name="upside", mechanisms={"rollback": rising})
    p = TRUTH.policies["p"]
    others = replace(TRUTH, policies={"late": replace(p, first_step=3), "early": replace(p, last_step=1), "p": p})
    wrong = replace(upside, policies=others.policies)
    truth, wrong_truth = (np.array([truth_of(it, name) for name in others.policies]) for it in (others, wrong))
    found = []
    for seed in range(5):
        pilot = forked(tmp_path, n=1000, seed=seed)
        placed = [
            read_source(pilot, base=model_file(base, tmp_path), policy="p", n_draws=100, seed=seed)
            for base in (TRUTH, upside)
        ]
        drawn = [[gains(source, others, name) for name in others.policies] for source in placed]
        found.append((np.mean(drawn, axis=2), np.std(drawn, axis=2)))
    # pilots, mean or spread, bases, policies
    means, spreads = np.array(found).transpose(1, 0, 2, 3)
    # the posterior's own spread, since five pilots hardly tell theirs
    error = np.sqrt((spreads**2).mean(axis=0) / len(found))
    assert np.all(np.abs(means.mean(axis=0) - truth) < 5 * error)
    early = list(others.policies).index("early")
    own, other = means.mean(axis=0)[:, early]
    assert abs(own - wrong_truth[early]) > 5 * error[0, early]
    # what the wrong base model says of steps that few pairs saw is shrunk to, but not believed
    assert abs(other - truth[early]) < abs(other - wrong_truth[early]) / 2


def test_steps_of_interventions_correct_a_wrong_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = replace(
        TRUTH, name="flat", mechanisms={"rollback": Mechanism(recover={"off": 0.25}, disrupt=0.25, extra_steps=1)}
    )
    base = model_file(flat, tmp_path)
    first = replace(TRUTH, policies={"first": replace(TRUTH.policies["p"], last_step=0)})

    def distance() -> float:
        """From the truth, in standard errors, of the gain of intervening at step 0 alone."""
        drawn = []
        for seed in range(6):
            source = read_source(simulated(tmp_path, n=500, seed=seed), base=base, n_draws=200, seed=seed)
            drawn.append(gains(source, first, "first"))
        spread = np.std(drawn, axis=1)
        return float(abs(np.mean(drawn) - truth_of(first, "first")) / np.sqrt((spread**2).mean() / len(drawn)))

    assert distance() < 5
    # without the steps the flat profile is kept, and is wrong
    monkeypatch.setattr("drsim.planning.staging.levels_by_step", lambda *_: None)
    assert distance() > 5


def test_reruns_bound_what_an_intervention_disrupts(tmp_path: Path) -> None:
    base = model_file(TRUTH, tmp_path)
    pilot = simulated(tmp_path, n=300, seed=3, trials=2)
    measured = read_source(pilot, base=base, n_draws=200, seed=1)
    (note,) = [it for it in measured.assumptions if it.startswith("coupling")]
    assert "reruns of 300 tasks measure it" in note
    (verdict,) = [it for it in measured.assumptions if it.startswith("disruption")]
    assert verdict.endswith("so it stands")
    # tasks are alike here; told that they differ, more flips are the intervention's
    once = simulated(tmp_path, n=300, seed=3)
    told = read_source(once, base=base, n_draws=200, seed=1, rho_prior=RhoPrior(value=0.3))
    silent = read_source(once, base=base, n_draws=200, seed=1)
    assert told.matched is not None
    assert silent.matched is not None
    assert told.matched.disruption is not None
    assert silent.matched.disruption is not None
    assert any(it.startswith("disruption") and it.endswith("it was raised there") for it in told.assumptions)
    assert np.all(told.matched.disruption >= silent.matched.disruption - 1e-9)
    rates = rates_of_pilot(read([once]), Selection(), n_draws=200, seed=1, rho_prior=RhoPrior(value=0.3))
    assert rates.targets.disruption is not None
    assert told.is_reached is not None
    wanted = np.maximum(rates.targets.disruption, silent.matched.disruption)[told.is_reached]
    np.testing.assert_allclose(told.matched.disruption[told.is_reached], wanted, rtol=0, atol=1e-10)
    assert np.all(told.matched.disruption[~told.is_reached] < rates.targets.disruption[~told.is_reached])
    assert "disruption" not in subjects(silent.assumptions)
    assert any("no baseline run was repeated" in it for it in silent.assumptions)


def hierarchical_file(path: Path, *, is_reliable: bool = True, model: str = "hierarchical") -> str:
    rng = np.random.default_rng(4)
    n = 500
    p, gain, least = rng.normal(0.57, 0.02, (n, 2)), rng.normal(0.0, 0.02, (n, 2)), rng.uniform(0.0, 0.02, (n, 2))
    values = {"failure_rate": p, "gain": gain, "least_disruption": least}
    names = ("Qwen-3-8B on HotPotQA, p", "Qwen-3-8B on HotPotQA, rollback")
    stored = StoredPosterior(
        model=model,
        variables={name: StoredVariable(values=it, dims=("cell",)) for name, it in values.items()},
        coords={"cell": names},
        data_hash="0",
        priors={},
        seed=1,
        version="0",
        diagnostics={},
        is_reliable=is_reliable,
    )
    save_posterior(stored, path)
    return str(path)


def test_a_hierarchical_posterior_is_placed_cell_by_cell(tmp_path: Path) -> None:
    given = hierarchical_file(tmp_path / "fit.nc", is_reliable=False)
    with pytest.raises(DataError, match="made for one cell, but 2 are left: Qwen-3-8B on HotPotQA, p; Qwen"):
        read_source(given, seed=1)
    source = read_source(given, arm="rollback", n_draws=50, seed=1)
    assert source.kind is SourceKind.POSTERIOR
    assert source.cell == "Qwen-3-8B on HotPotQA, rollback"
    assert source.model.name == "ip_hotpotqa_qwen3_8b"
    assert source.n_draws == 50
    assert_reproduces(source, policy="rollback")
    assert any("the fit's own checks say" in it for it in source.warnings)
    assert any("least flips" in it for it in source.assumptions)
    assert read_source(given, arm="rollback", n_draws=5_000, seed=1).n_draws == 500
    based = read_source(given, arm="p", base=model_file(TRUTH, tmp_path), n_draws=50, seed=1)
    assert based.matched is not None
    assert based.matched.failure_rate.mean() == pytest.approx(0.57, abs=0.02)


@pytest.mark.parametrize("is_forked", [True, False])
def test_a_timing_posterior_is_placed_by_step(tmp_path: Path, is_forked: bool) -> None:
    pilot = (forked if is_forked else simulated)(tmp_path, n=1000, seed=6)
    fit = fit_timing(timed_pairs(read([pilot])), seed=1, n_draws=1000)  # type: ignore[arg-type] # runs
    path = tmp_path / "timing.nc"
    save_posterior(stored_timing(fit), path)
    source = read_source(str(path), base=model_file(TRUTH, tmp_path), policy="p", n_draws=60, seed=1)
    assert source.n_draws == 60
    assert source.is_reached is not None
    assert source.is_reached.mean() > 0.8
    assert_reproduces(source, policy="p")
    found = gains(source, TRUTH, "p")
    assert abs(found.mean() - truth_of(TRUTH, "p")) < 5 * found.std()
    assert any("follow from r(t) and d(t), step by step" in it for it in source.carried) == is_forked
    assert any("the fit's pairs are independent runs" in it for it in source.assumptions) != is_forked
    disrupt = source.draws.kernels[source.is_reached, 0, :, 0, 1:].sum(axis=-1)
    odds = disrupt / (1.0 - disrupt)
    # on the logit scale a profile that is the base model's moves as a whole
    assert ((odds[:, 0] / odds[:, 4]).std() > 1e-9) == is_forked


def test_short_forms_and_baselines_alone(tmp_path: Path) -> None:
    base = model_file(TRUTH, tmp_path)
    marginals = tmp_path / "marginals.csv"
    marginals.write_text("arm,successes,n\nbaseline,90,200\np,95,200\n", encoding="utf-8")
    source = read_source(str(marginals), base=base, n_draws=50, seed=1)
    assert_reproduces(source, policy="p")
    assert any("share no pair" in it for it in source.assumptions)

    compiled = compile_model(TRUTH)
    runs = simulated_runs(compiled, {}, name="x", n=200, seed=1, engine=Engine.REFERENCE)
    alone = read_source(written(list(runs), tmp_path / "alone.jsonl"), base=base, n_draws=50, seed=1)
    assert alone.policy is None
    assert alone.matched is not None
    assert alone.matched.gain is None
    assert "mechanisms" in subjects(alone.assumptions)
    np.testing.assert_array_equal(alone.draws.kernels[0], compiled.kernels)


def test_a_policy_that_fires_otherwise_than_the_pilot_did_is_told(tmp_path: Path) -> None:
    pilot = simulated(tmp_path, n=400, seed=7)
    rare = replace(TRUTH, name="rare", policies={"p": replace(TRUTH.policies["p"], threshold=0.95)})
    wrong = read_source(pilot, base=model_file(rare, tmp_path), n_draws=20, seed=1)
    right = read_source(pilot, base=model_file(TRUTH, tmp_path), n_draws=20, seed=1)
    assert any("name the policy or the base model that fits" in it for it in wrong.warnings)
    assert right.warnings == ()


def test_real_pilots_run_to_the_end(shared_data: Path, tmp_path: Path) -> None:
    given = str(shared_data / "pilots" / "mint-gpt35-append.jsonl")
    hard = Agent(finish=0.4, modes={"off": Mode(slip=0.35, abandon=0.1, self_recover=0.03)})
    always = replace(
        EXAMPLE,
        name="always",
        agent=hard,
        mechanisms={"append": Mechanism(recover={"off": 0.3}, disrupt=0.05)},
        policies={"append": Policy(mechanism="append", threshold=0.0, budget=5)},
    )
    source = read_source(
        given,
        benchmark="mint/alfworld",
        arm="append-gpt-4-0613-binary",
        base=model_file(always, tmp_path),
        n_draws=100,
        seed=1,
    )
    assert source.policy == "append"
    assert source.is_reached is not None
    assert source.is_reached.mean() > 0.9
    assert "horizon" in subjects(source.carried)
    assert_reproduces(source, policy="append")


def test_mistakes_are_told_with_their_remedy(tmp_path: Path) -> None:
    cases: dict[str, dict[str, Any]] = {
        "n_draws must be at least 1, got 0": {"n_draws": 0},
        "seed must be a whole number ≥ 0, got -1": {"seed": -1},
        "policy must be one of the base model's, got 'rolback'; did you mean 'rollback'": {"policy": "rolback"},
        "model must be a shipped one": {"base": "nothing"},
        "--arm other names no intervened arm": {"arm": "other"},
        "no cell has agent 'GPT'; there are: Qwen-3-8B on ALFWorld, rollback": {"agent": "GPT"},
    }
    for message, wrong in cases.items():
        with pytest.raises((ParameterError, DataError), match=message.replace("?", r"\?")):
            read_source(ALFWORLD, **({"seed": 1} | wrong))
    with pytest.raises(ParameterError, match="got 'exampel'; did you mean 'example'"):
        read_source("exampel", seed=1)
    with pytest.raises(DataError, match="cannot be read"):
        read_source(str(tmp_path / "none.nc"), seed=1)
    with pytest.raises(DataError, match="must hold cells of the hierarchical or the timing model, got static"):
        read_source(hierarchical_file(tmp_path / "static.nc", model="static"), seed=1)
    hopeless = replace(TRUTH, name="hopeless", agent=replace(TRUTH.agent, finish=0.0))
    with pytest.raises(
        DataError, match=r"must reach draws of simulated on x, p, got none of 20 \(out of reach: p: 20\)"
    ):
        read_source(simulated(tmp_path, n=50, seed=1), base=model_file(hopeless, tmp_path), n_draws=20, seed=1)


def test_the_base_is_the_shipped_model_of_the_same_agent_and_benchmark_alone() -> None:
    same = base_for(None, agent="MiniMax-M2.1", benchmark="HotPotQA")
    assert (same.model.name, same.is_made_up) == ("ip_hotpotqa_minimax_m2_1", False)
    for agent, benchmark in (("GPT-5", "ALFWorld"), ("Qwen-3-8B", "GAIA"), (None, None)):
        other = base_for(None, agent=agent, benchmark=benchmark)
        assert (other.model.name, other.is_made_up) == ("example", True)
    assert base_for("signals", agent="Qwen-3-8B", benchmark="ALFWorld").model.name == "signals"


def test_the_policy_of_an_arm_is_found_or_asked_for() -> None:
    paper = find_model("ip_alfworld_qwen3_8b")
    assert policy_for(paper, given=None, arm="append")[0] == "append"
    assert policy_for(paper, given="rollback_late", arm="append")[0] == "rollback_late"
    assert policy_for(EXAMPLE, given=None, arm="rollback") == ("late", "it is the only one with mechanism rollback")
    assert policy_for(EXAMPLE, given=None, arm="x", mechanisms=["rollback"])[0] == "late"
    with pytest.raises(ParameterError, match="example has late; name one of them, or give a base model"):
        policy_for(EXAMPLE, given=None, arm="x")
    looking_back = replace(EXAMPLE, policies={"late": replace(EXAMPLE.policies["late"], signal=Signal.BELIEF)})
    with pytest.raises(ParameterError, match="got late with signal belief"):
        policy_for(looking_back, given=None, arm="late")
