"""Step models of the agents of arXiv:2602.03338, fitted to the published figures by the exact recursion.

`python run.py` writes ../../models/ip_*.toml and expected.json; `python run.py --check` fits again and compares.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy.optimize import brentq, least_squares
from scipy.special import expit, logit

from drsim.process.compile import compile_model, compile_policy
from drsim.process.exact import Exact, evaluate, unaided
from drsim.process.spec import Agent, Critic, Decay, Mechanism, Mode, Model, Policy
from drsim.process.toml import parse_model
from drsim.theory.critic import binormal_shift

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = ROOT / ".." / "shared" / "data"
FIGURES = Path("papers") / "intervention_paradox.json"
MECHANISMS = ("rollback", "append")
ARMS = {
    "rollback": "Cal+Roll",
    "rollback_uncal": "Uncal+Roll",
    "append": "Cal+App",
    "append_uncal": "Uncal+App",
}
AGENTS = {"Qwen-3-8B": "qwen3_8b", "GLM-4.7": "glm_4_7", "MiniMax-M2.1": "minimax_m2_1"}
N_SEEDS = 3
CAN_FIT_SPREAD = ("Qwen-3-8B", "GLM-4.7")
"""MiniMax-M2.1 has T = 1.05: both thresholds nearly agree, and neither sigma nor recover can be told."""
MOST_TURNS = 40
"""Of scores and levels; few are needed, since the rates hardly depend on the levels."""
SATURATED = 4.0
"""A mean_on above it fires at every step: the rate is then at its ceiling and fixes no score."""
LATE = 4
"""First step of `rollback_late`."""

type Tables = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Published figures of one agent on one benchmark; rates in [0, 1]."""

    agent: str
    benchmark: str
    n: int
    """Runs of one arm."""
    baseline: float
    arms: Mapping[str, float]
    """Success rate by policy."""
    auroc: float
    temperature: float
    rate: float
    """Interventions per run, calibrated."""
    rate_uncalibrated: float

    @property
    def name(self) -> str:
        """Of the model, and of its file."""
        return f"ip_{self.benchmark.lower()}_{AGENTS[self.agent]}"

    def standard_error(self, policy: str) -> float:
        """Of a published success rate, as of independent runs."""
        rate = self.arms[policy]
        return math.sqrt(rate * (1.0 - rate) / self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What the paper does not print."""

    first_end: int = 3
    """First step that can end a run."""
    finish: float = 0.25
    """From that step on."""
    abandon: float = 0.1
    """From that step on."""
    self_recover: float = 0.03
    off_share: float = 0.5
    """start_off as a share of the published failure rate."""
    half_life: float = 2.0
    """Of disrupt, in steps."""
    run_sd_share: float = 0.0
    """run_sd as a share of sigma."""
    spread: float = 1.0
    """sigma, where the rates do not fix it."""
    recover: float = 0.1
    """On HotPotQA, where the two arms of a mechanism do not fix it and disrupt."""


SWEPT: dict[str, tuple[float, float]] = {
    "first_end": (2, 4),
    "finish": (0.15, 0.4),
    "abandon": (0.05, 0.2),
    "self_recover": (0.0, 0.06),
    "off_share": (0.25, 0.75),
    "half_life": (1.0, 4.0),
    "run_sd_share": (0.0, 0.5),
    "spread": (0.5, 2.0),
    "recover": (0.0, 0.25),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What is fitted, or carried over from the HotPotQA fit of the same agent."""

    slip: float
    mean_on: float
    sigma: float
    disrupt: Mapping[str, float]
    recover: Mapping[str, float]


NOTHING = Parameters(
    slip=0.0,
    mean_on=0.0,
    sigma=1.0,
    disrupt=dict.fromkeys(MECHANISMS, 0.0),
    recover=dict.fromkeys(MECHANISMS, 0.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted model."""

    target: Target
    assumed: Assumed
    parameters: Parameters

    @property
    def model(self) -> Model:
        """As shipped."""
        return build(self.target, self.assumed, self.parameters)


def read_targets(tables: Tables) -> list[Target]:
    """Figures by benchmark and agent; means of seeds where those are printed, which tells of the slip of table 4."""
    seeds = {
        tuple(title.split()[1:]): block["rows"] for title, block in tables["tables11_18_per_seed"]["tables"].items()
    }
    auroc = {row["model"]: row["AUROC"] for row in tables["table1_critic_heldout"]["rows"]}
    rates = {row[0]: row[1:4] for row in tables["table24_intervention_rate"]["rows"]}
    tasks = {row["benchmark"]: row["tasks"] for row in tables["table3_benchmarks"]["rows"]}
    targets = []
    for row in tables["table4_main"]["rows"]:
        agent, benchmark = row["model"], row["benchmark"]
        if benchmark == "GAIA":
            continue
        block = seeds.get((agent, benchmark), {})
        success = {
            arm: round((block[arm]["mean_reported"] if arm in block else row[arm]["mean"]) / 100, 3)
            for arm in ("Baseline", *ARMS.values())
        }
        temperature, uncalibrated, calibrated = rates[agent]
        targets.append(
            Target(
                agent=agent,
                benchmark=benchmark,
                n=N_SEEDS * tasks[benchmark],
                baseline=success["Baseline"],
                arms={policy: success[arm] for policy, arm in ARMS.items()},
                auroc=auroc[agent],
                temperature=temperature,
                rate=calibrated,
                rate_uncalibrated=uncalibrated,
            )
        )
    return targets


def policies(temperature: float) -> dict[str, Policy]:
    """The published arms (threshold .6, budget 3), and rollback with a late first step."""
    # uncalibrated: score above .6 before the temperature, on the calibrated scale
    raw = round(float(expit(logit(0.6) / temperature)), 4)
    made = {
        f"{mechanism}{ending}": Policy(mechanism=mechanism, threshold=threshold, budget=3)
        for mechanism in MECHANISMS
        for ending, threshold in (("", 0.6), ("_uncal", raw))
    }
    return made | {"rollback_late": replace(made["rollback"], first_step=LATE)}


def build(target: Target, assumed: Assumed, at: Parameters) -> Model:
    """The model at some parameters."""
    wait = int(assumed.first_end)

    def once_ending(value: float) -> tuple[float, ...]:
        return (0.0,) * wait + (value,) * (15 - wait)

    mode = Mode(slip=at.slip, abandon=once_ending(assumed.abandon), self_recover=assumed.self_recover)
    # run_sd spreads both states alike; the published AUROC is over steps of many runs
    total_sd = at.sigma * math.hypot(1.0, assumed.run_sd_share)
    return Model(
        name=target.name,
        source=source(target),
        horizon=15,
        agent=Agent(
            finish=once_ending(assumed.finish),
            modes={"off": mode},
            start_off=round(assumed.off_share * (1.0 - target.baseline), 4),
        ),
        critic=Critic(
            mean_on=at.mean_on,
            mean_off={"off": round(at.mean_on + total_sd * float(binormal_shift(target.auroc)), 4)},
            sigma=at.sigma,
            run_sd=assumed.run_sd_share * at.sigma,
            temperature=target.temperature,
        ),
        mechanisms={
            name: Mechanism(
                recover={"off": at.recover[name]},
                disrupt=Decay(start=at.disrupt[name], end=0.0, half_life=assumed.half_life),
                extra_steps=1 if name == "rollback" else 0,
            )
            for name in MECHANISMS
        },
        policies=policies(target.temperature),
    )


def source(target: Target) -> str:
    where = "the same agent's HotPotQA fit" if target.benchmark == "ALFWorld" else "tables 1 and 24"
    disrupt = ", disrupt from it as well" if target.benchmark == "ALFWorld" else ""
    return (
        f"fitted to arXiv:2602.03338, {target.agent} on {target.benchmark}: success by arm of table 4, critic from "
        f"{where}{disrupt}, T of table 2, protocol; how runs end, come back and start is assumed, see "
        "experiments/02_published_models"
    )


def values(model: Model, names: Sequence[str]) -> dict[str, Exact]:
    compiled = compile_model(model)
    return {name: evaluate(compiled, compile_policy(model, name)) for name in names}


def solve_slip(target: Target, assumed: Assumed) -> float | None:
    """The slip at which unaided runs succeed as often as published; None where none does."""

    def excess(slip: float) -> float:
        compiled = compile_model(build(target, assumed, replace(NOTHING, slip=slip)))
        return float(compiled.start @ unaided(compiled)[0]) - target.baseline

    if excess(0.0) < 0.0 or excess(1.0) > 0.0:
        return None
    return float(brentq(excess, 0.0, 1.0, xtol=1e-12))


def misses(target: Target, found: Mapping[str, Exact]) -> list[float]:
    """Distances from the published success rates, in standard errors."""
    return [(found[name].success - target.arms[name]) / target.standard_error(name) for name in found]


def rates_of(found: Mapping[str, Exact]) -> tuple[float, float]:
    """Interventions per run, calibrated and not; table 24 does not split them by mechanism."""
    ending = ("", "_uncal")
    calibrated, raw = (sum(found[f"{name}{end}"].interventions for name in MECHANISMS) / 2.0 for end in ending)
    return calibrated, raw


def rounded(at: Parameters) -> Parameters:
    """At the digits that the files print; a machine's last bits then cannot show."""
    return Parameters(
        slip=round(at.slip, 5),
        mean_on=round(at.mean_on, 3),
        sigma=round(at.sigma, 3),
        disrupt={name: round(value, 3) for name, value in at.disrupt.items()},
        recover={name: round(value, 3) for name, value in at.recover.items()},
    )


def fit_scores(target: Target, assumed: Assumed, at: Parameters) -> Parameters:
    """Score mean and spread that give the published interventions per run."""
    has_spread = target.agent in CAN_FIT_SPREAD

    def unpack(x: Sequence[float]) -> Parameters:
        return replace(at, mean_on=float(x[0]), sigma=math.exp(x[1]) if has_spread else assumed.spread)

    def residuals(x: Sequence[float]) -> list[float]:
        rate, raw = rates_of(values(build(target, assumed, unpack(x)), list(ARMS)))
        return [rate - target.rate, raw - target.rate_uncalibrated][: len(x)]

    start = [at.mean_on, math.log(at.sigma)][: 2 if has_spread else 1]
    return unpack(least_squares(residuals, start, max_nfev=40).x)


def fit_mechanism(target: Target, assumed: Assumed, at: Parameters, name: str, free: Sequence[str]) -> Parameters:
    """`recover`, `disrupt` or both of one mechanism, by least squares on its two arms."""
    arms = [name, f"{name}_uncal"]

    def unpack(x: Sequence[float]) -> Parameters:
        levels = {"recover": at.recover, "disrupt": at.disrupt}
        for field, level in zip(free, x, strict=True):
            levels[field] = {**levels[field], name: float(level)}
        return replace(at, recover=levels["recover"], disrupt=levels["disrupt"])

    def residuals(x: Sequence[float]) -> list[float]:
        return misses(target, values(build(target, assumed, unpack(x)), arms))

    start = [getattr(at, field)[name] for field in free]
    # dogbox steps along a bound, and recover often lies at one
    return unpack(least_squares(residuals, start, bounds=(0.0, 1.0), x_scale=0.1, method="dogbox", max_nfev=40).x)


def fit_hotpotqa(target: Target, assumed: Assumed) -> Fit | None:
    """Scores meet the rates, and the levels come nearest to the arms, in turn until neither moves."""
    slip = solve_slip(target, assumed)
    if slip is None:
        return None
    is_identified = target.agent in CAN_FIT_SPREAD
    start = 0.0 if is_identified else assumed.recover
    recover, disrupt = dict.fromkeys(MECHANISMS, start), dict.fromkeys(MECHANISMS, 0.1)
    at = replace(NOTHING, slip=slip, mean_on=0.5, sigma=assumed.spread, recover=recover, disrupt=disrupt)
    free = ("recover", "disrupt") if is_identified else ("disrupt",)
    for _ in range(MOST_TURNS):
        before = rounded(at)
        at = fit_scores(target, assumed, at)
        for name in MECHANISMS:
            at = fit_mechanism(target, assumed, at, name, free)
        if rounded(at) == before:
            break
    else:
        return None
    if at.mean_on > SATURATED:
        return None
    return Fit(target=target, assumed=assumed, parameters=rounded(at))


def fit_alfworld(target: Target, assumed: Assumed, other: Fit) -> Fit | None:
    """Scores and disrupt are those of the agent's HotPotQA fit; slip and each mechanism's recover are fitted."""
    slip = solve_slip(target, assumed)
    if slip is None:
        return None
    at = replace(other.parameters, slip=slip, recover=dict.fromkeys(MECHANISMS, 0.03))
    for name in MECHANISMS:
        at = fit_mechanism(target, assumed, at, name, ("recover",))
    return Fit(target=target, assumed=assumed, parameters=rounded(at))


def fit_all(targets: Sequence[Target], assumed: Assumed) -> dict[str, Fit]:
    """Every model that can be fitted under the assumptions, by name."""
    fits: dict[str, Fit] = {}
    for target in targets:
        if target.benchmark == "HotPotQA":
            fit = fit_hotpotqa(target, assumed)
        else:
            other = fits.get(f"ip_hotpotqa_{AGENTS[target.agent]}")
            fit = fit_alfworld(target, assumed, other) if other else None
        if fit:
            fits[target.name] = fit
    return fits


def numbers(fit: Fit) -> dict[str, float]:
    """Fitted parameters, predicted gains in percentage points, and how far the fit is from its figures."""
    at, found = fit.parameters, values(fit.model, list(fit.model.policies))
    arms = {name: found[name] for name in ARMS}
    rate, raw = rates_of(found)
    miss = 0.0
    if fit.target.benchmark == "HotPotQA":
        miss = abs(rate - fit.target.rate)
        if fit.target.agent in CAN_FIT_SPREAD:
            miss = max(miss, abs(raw - fit.target.rate_uncalibrated))
    return {
        "slip": at.slip,
        "mean_on": at.mean_on,
        "sigma": at.sigma,
        **{f"disrupt {name}": at.disrupt[name] for name in MECHANISMS},
        **{f"recover {name}": at.recover[name] for name in MECHANISMS},
        **{f"gain_pp {name}": round(100 * it.gain, 1) + 0.0 for name, it in found.items()},
        "largest miss of an arm, in standard errors": round(max(map(abs, misses(fit.target, arms))), 1),
        "largest miss of a rate that is fitted": round(miss, 2),
    }


def against_figures(fit: Fit) -> dict[str, Any]:
    """What the shipped model gives beside what is published."""
    found = values(fit.model, list(ARMS))
    rate, rate_uncalibrated = rates_of(found)
    flips = found["rollback"].shared_prefix
    return {
        "baseline": [fit.target.baseline, round(found["append"].baseline, 3)],
        "rate": [fit.target.rate, round(rate, 2)],
        "rate_uncalibrated": [fit.target.rate_uncalibrated, round(rate_uncalibrated, 2)],
        "success": {name: [fit.target.arms[name], round(it.success, 3)] for name, it in found.items()},
        "standard_errors": dict(zip(found, (round(it, 1) + 0.0 for it in misses(fit.target, found)), strict=True)),
        "r_d_of_rollback": [
            round(flips.fail_success / (flips.fail_success + flips.fail_fail), 3),
            round(flips.success_fail / (flips.success_fail + flips.success_success), 3),
        ],
    }


def sweep(targets: Sequence[Target], central: Mapping[str, Fit]) -> dict[str, Any]:
    """Lowest and highest of every number while one assumption at a time is moved; names of those with no fit."""
    seen = {name: [numbers(fit)] for name, fit in central.items()}
    without: dict[str, list[str]] = {name: [] for name in central}
    for quantity, ends in SWEPT.items():
        for end in ends:
            changed: dict[str, Any] = {quantity: end}
            fits = fit_all(targets, replace(Assumed(), **changed))
            for name in central:
                if name in fits:
                    seen[name].append(numbers(fits[name]))
                else:
                    without[name].append(f"{quantity} = {end}")
    return {
        name: {
            "range": {key: [min(it[key] for it in rows), max(it[key] for it in rows)] for key in rows[0]},
            "no_fit": without[name],
        }
        for name, rows in seen.items()
    }


def written(fit: Fit) -> str:
    """The model file, each line marked as quoted, fitted or assumed."""
    model, at = fit.model, fit.parameters
    is_carried = fit.target.benchmark == "ALFWorld"
    scores = "carried over from HotPotQA" if is_carried else "fitted to the rates of table 24"
    spread = scores if fit.target.agent in CAN_FIT_SPREAD else "assumed"
    disrupt = "from: carried over from HotPotQA" if is_carried else "from: fitted"
    mean_off = model.critic.mean_off or {}
    is_assumed = not is_carried and fit.target.agent not in CAN_FIT_SPREAD
    recover = "assumed, not identified" if is_assumed else "fitted to its arms of table 4"
    lines = [
        "[model]",
        f"name = {json.dumps(model.name)}",
        f"source = {json.dumps(model.source)}",
        "horizon = 15  # quoted: step budget",
        "\n[agent]",
        f"finish = {json.dumps(model.agent.finish)}  # assumed",
        f"start_off = {model.agent.start_off}  # assumed: half of the published failure rate",
        "\n[agent.modes.off]",
        f"slip = {at.slip}  # fitted: unaided success {100 * fit.target.baseline:.1f} % (table 4)",
        f"abandon = {json.dumps(model.agent.modes['off'].abandon)}  # assumed",
        f"self_recover = {fit.assumed.self_recover}  # assumed",
        "\n[critic]",
        f"mean_on = {at.mean_on}  # {scores}",
        f"mean_off = {{ off = {mean_off['off']} }}  # quoted: AUROC {fit.target.auroc} (table 1), above mean_on",
        f"sigma = {at.sigma}  # {spread}",
        f"run_sd = {model.critic.run_sd}  # assumed",
        f"temperature = {fit.target.temperature}  # quoted: table 2",
    ]
    for name, mechanism in model.mechanisms.items():
        decay = f"{{ from = {at.disrupt[name]}, to = 0.0, half_life = {fit.assumed.half_life} }}"
        lines += [
            f"\n[mechanisms.{name}]",
            f"recover = {{ off = {at.recover[name]} }}  # {recover}",
            f"disrupt = {decay}  # {disrupt}; to, half_life: assumed, after table 22",
            f"extra_steps = {mechanism.extra_steps}  # assumed",
        ]
    for name, policy in model.policies.items():
        threshold = "quoted" if policy.threshold == 0.6 else "quoted .6 before the temperature"
        lines += [
            f"\n[policies.{name}]",
            f'mechanism = "{policy.mechanism}"',
            f"threshold = {policy.threshold}  # {threshold}",
            "budget = 3  # quoted",
        ]
        lines += [f"first_step = {policy.first_step}  # assumed"] if policy.first_step else []
    return "\n".join(lines) + "\n"


def differences(fits: Mapping[str, Fit], result: dict[str, Any], expected: dict[str, Any], models: Path) -> list[str]:
    """What is not as the files say."""
    found = []
    for name, fit in fits.items():
        path = models / f"{name}.toml"
        if not path.is_file() or path.read_text(encoding="utf-8") != written(fit):
            found.append(f"differs from {path.name}")
    if expected != result:
        found.append("differs from expected.json")
    return found


def show(result: dict[str, Any]) -> None:
    for name, entry in result.items():
        figures = entry["figures"]
        print(f"\n{name}: baseline {figures['baseline']}, rates {figures['rate']}, {figures['rate_uncalibrated']}")
        print("standard errors from the published success:", figures["standard_errors"])
        for key, value in entry["fitted"].items():
            low, high = entry["sweep"]["range"][key]
            print(f"  {key:44} {value:>9}  {low:>9} to {high}")
        if entry["sweep"]["no_fit"]:
            print("  no fit at", ", ".join(entry["sweep"]["no_fit"]))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with papers/intervention_paradox.json")
    parser.add_argument("--models", type=Path, default=ROOT / "models", help="folder of the model files")
    parser.add_argument("--no-sweep", action="store_true", help="with --check: take the sweep as it is expected")
    options = parser.parse_args(arguments)
    if options.no_sweep and not options.check:
        parser.error("--no-sweep needs --check; what is written holds the sweep")
    if not (options.data / FIGURES).is_file():
        print(f"{options.data / FIGURES} is missing; name the folder of published figures with --data", file=sys.stderr)
        return 2
    expected = json.loads((HERE / "expected.json").read_text(encoding="utf-8")) if options.check else {}
    targets = read_targets(json.loads((options.data / FIGURES).read_text(encoding="utf-8")))
    fits = fit_all(targets, Assumed())
    swept = {} if options.no_sweep else sweep(targets, fits)
    result = {
        name: {
            "figures": against_figures(fit),
            "fitted": numbers(fit),
            "sweep": swept[name] if swept else expected.get(name, {}).get("sweep"),
        }
        for name, fit in fits.items()
    }
    show(result)
    if options.check:
        found = differences(fits, result, expected, options.models)
        print("\n".join(found), file=sys.stderr) if found else print("equal to expected.json and the model files")
        return 1 if found else 0
    for name, fit in fits.items():
        text = written(fit)
        parse_model(text, source=name)
        (options.models / f"{name}.toml").write_text(text, encoding="utf-8")
    (HERE / "expected.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
