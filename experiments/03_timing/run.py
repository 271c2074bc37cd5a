"""When to intervene: the published statements on timing against step models, and the best first step of a pilot.

`python run.py` writes expected.json; `python run.py --check` answers again and compares.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import logit

from drsim.arrays import FloatArray
from drsim.inference.rho_prior import DEFAULT_RHO_PRIOR
from drsim.planning.source import Source, read_source
from drsim.process.compile import compile_model, compile_policy
from drsim.process.exact import evaluate
from drsim.process.flips import PrefixCoupling, flips_many
from drsim.process.shipped import find_model
from drsim.process.spec import Decay, Model
from drsim.process.stacks import PolicyTable, stack_draws, stack_policies
from drsim.process.success_many import success_many
from drsim.process.toml import format_model

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = ROOT / ".." / "shared" / "data"
FIGURES = Path("papers") / "intervention_paradox.json"
PILOT = ROOT / "drsim" / "pilot" / "examples" / "alfworld.json"
HOTPOTQA = ("ip_hotpotqa_qwen3_8b", "ip_hotpotqa_glm_4_7", "ip_hotpotqa_minimax_m2_1")
MINIMAX = "ip_hotpotqa_minimax_m2_1"
ALFWORLD = "ip_alfworld_qwen3_8b"
MECHANISMS = ("rollback", "append")
ARMS = {"rollback": "Cal+Roll", "append": "Cal+App"}
MIN_STEP = 2
"""Recommended by the paper."""
PUBLISHED_PP = "2 to 3"
"""What a minimum step wins back: quoted second-hand from the text, in no table."""
THRESHOLDS = np.round(np.arange(0.0, 1.0, 0.02), 2)
BUDGETS = (1, 2, 3)
RECOVERS = np.round(np.arange(0.0, 0.2501, 0.01), 2)
"""The range that experiment 02 sweeps."""
SHIPPED_RECOVER = 0.1
"""Assumed in the shipped model."""
HALF_LIVES: dict[str, float] = {"1": 1.0, "2": 2.0, "4": 4.0, "none: the same at every step": 1e6}
GAINS_PP = (0.1, 1.0, 5.0)
"""5 pp is what the paper's own table 20 calls detectable on HotPotQA."""
N_DRAWS = 1_000
SEED = 1

type Tables = dict[str, Any]


def pp(value: float, digits: int = 1) -> float:
    """Percentage points at the digits that are compared; no negative zero."""
    return round(100.0 * float(value), digits) + 0.0


def gain(model: Model, name: str, **gates: Any) -> float:
    """Exact gain of one of the model's policies with other gates."""
    changed = replace(model, policies={name: replace(model.policies[name], **gates)})
    return evaluate(compile_model(changed), compile_policy(changed, name)).gain


def early_harm(model: Model, mechanism: str) -> dict[str, Any]:
    """What interventions at steps 0 and 1 do, what those from step 2 on do, and what a minimum step wins back."""
    whole = gain(model, mechanism)
    early, late = gain(model, mechanism, last_step=MIN_STEP - 1), gain(model, mechanism, first_step=MIN_STEP)
    flips = flips_many(stack_draws([compile_model(model)]), compile_policy(model, mechanism))
    shares = {}
    for coupling in PrefixCoupling:
        down = flips.down(coupling)[0]
        shares[coupling.value] = round(float(down[:MIN_STEP].sum() / down.sum()), 2) if down.sum() > 0 else None
    return {
        "gain_pp": pp(whole),
        "only steps 0-1, pp": pp(early),
        "from step 2 on, pp": pp(late),
        "won back by a minimum step, pp": pp(late - whole),
        "share of disruptions in runs first intervened in at steps 0-1": shares,
    }


def at_recover(model: Model, mechanism: str, recover: float, half_life: float, success: float) -> Model | None:
    """The model at a recover, with the disrupt that gives the published success of the arm; None where none does."""

    def moved(disrupt: float) -> Model:
        changed = replace(
            model.mechanisms[mechanism],
            recover={"off": recover},
            disrupt=Decay(start=disrupt, end=0.0, half_life=half_life),
        )
        return replace(model, mechanisms={**model.mechanisms, mechanism: changed})

    def excess(disrupt: float) -> float:
        at = moved(disrupt)
        return evaluate(compile_model(at), compile_policy(at, mechanism)).success - success

    if excess(0.0) * excess(1.0) > 0.0:
        return None
    return moved(float(brentq(excess, 0.0, 1.0, xtol=1e-10)))


def all_policies(model: Model, mechanism: str) -> tuple[PolicyTable, list[tuple[float, int, int, int]]]:
    """Every constant threshold in every window of steps with every budget: (threshold, first, last, budget)."""
    index = list(model.mechanisms).index(mechanism)
    rows = [
        (float(threshold), first, last, budget)
        for threshold in THRESHOLDS
        for first in range(model.horizon)
        for last in range(first, model.horizon)
        for budget in BUDGETS
    ]
    cut, first, last, budget = np.array(rows).T
    steps = np.arange(model.horizon)
    is_open = (steps >= first[:, None]) & (steps <= last[:, None])
    with np.errstate(divide="ignore"):
        levels = model.critic.temperature * logit(cut)
    return (
        PolicyTable(
            mechanism=np.full(len(rows), index, dtype=np.int64),
            logit_threshold=np.where(is_open, levels[:, None], np.inf),
            budget=budget.astype(np.int64),
            cooldown=np.zeros(len(rows), dtype=np.int64),
            propensity=np.ones((len(rows), model.horizon)),
        ),
        rows,
    )


def published_family(rows: Sequence[tuple[float, int, int, int]], horizon: int) -> FloatArray:
    """Which of them the paper ran or recommends: thresholds .4 to .9, budget 3, no gate or a minimum step of 2."""
    cut, first, last, budget = np.array(rows).T
    chosen: FloatArray = (cut >= 0.4) & (cut <= 0.9) & np.isin(first, (0, MIN_STEP)) & (last == horizon - 1)
    return chosen & (budget == 3)


def least_recovery(model: Model, mechanism: str) -> float:
    """Share of runs that the arm turns from fail to success at least, however its runs are paired with the others."""
    flips = flips_many(stack_draws([compile_model(model)]), compile_policy(model, mechanism))
    return float(flips.up(PrefixCoupling.LEAST).sum())


def minimax(tables: Tables) -> dict[str, Any]:
    """Whether some policy makes MiniMax-M2.1 gain on HotPotQA, by recover, which success rates do not identify."""
    model = find_model(MINIMAX)
    (row,) = [
        it for it in tables["table4_main"]["rows"] if (it["model"], it["benchmark"]) == ("MiniMax-M2.1", "HotPotQA")
    ]
    seeds = tables["tables11_18_per_seed"]["tables"]
    (printed,) = [block["rows"] for title, block in seeds.items() if title.endswith("MiniMax-M2.1 HotPotQA")]
    (oracle,) = [it for it in tables["oracle_derived_CalRoll_HotPotQA"]["rows"] if it["model"] == "MiniMax-M2.1"]
    found: dict[str, Any] = {"failure_rate": round(1.0 - row["Baseline"]["mean"] / 100, 3)}
    for mechanism in MECHANISMS:
        success = round(printed[ARMS[mechanism]]["mean_reported"] / 100, 3)
        policies, rows = all_policies(model, mechanism)
        is_published = published_family(rows, model.horizon) > 0
        found[mechanism] = {
            "published success": success,
            "early harm by half-life of disrupt": {
                name: early_harm(at, mechanism)
                for name, half_life in HALF_LIVES.items()
                if (at := at_recover(model, mechanism, SHIPPED_RECOVER, half_life, success)) is not None
            },
            "by half-life of disrupt": {
                name: by_recover(model, mechanism, half_life, success, policies, rows, is_published)
                for name, half_life in HALF_LIVES.items()
            },
        }
        if mechanism == "rollback":
            share = oracle["C"] / (oracle["S"] + oracle["F"])
            found[mechanism]["recover that the oracle allows"] = oracle_limit(model, mechanism, success, share)
    return found


def by_recover(
    model: Model,
    mechanism: str,
    half_life: float,
    success: float,
    policies: PolicyTable,
    rows: Sequence[tuple[float, int, int, int]],
    is_published: FloatArray,
) -> dict[str, Any]:
    """Best gain over all policies at each recover, and from which recover on it passes each mark."""
    drawn = [(float(r), at_recover(model, mechanism, float(r), half_life, success)) for r in RECOVERS]
    kept = [(recover, it) for recover, it in drawn if it is not None]
    gains = success_many(stack_draws([compile_model(it) for _, it in kept]), policies).gain
    best, best_published = gains.argmax(axis=0), gains[is_published].max(axis=0)
    highest = gains.max(axis=0)
    shown = {f"{recover:g}": i for i, (recover, _) in enumerate(kept) if recover in (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)}
    recovers = np.array([recover for recover, _ in kept])
    starts = [it.mechanisms[mechanism].disrupt for _, it in kept]
    return {
        "recover without a fit": [float(recover) for recover, it in drawn if it is None],
        "at recover": {
            name: {
                "disrupt at step 0": round(starts[i].start, 3) if isinstance(starts[i], Decay) else None,
                "best gain, pp": pp(highest[i]),
                "best policy (threshold, first, last, budget)": list(rows[best[i]]) if pp(highest[i]) > 0.0 else None,
                "best gain of the published policies, pp": pp(best_published[i]),
            }
            for name, i in shown.items()
        },
        "least recover for a best gain": {f"{mark:g} pp": first_at(recovers, highest, mark) for mark in GAINS_PP},
        "least recover for a published policy to gain": first_at(recovers, best_published, GAINS_PP[0]),
    }


def first_at(recovers: FloatArray, gains: FloatArray, mark_pp: float) -> float | None:
    """First recover of the grid at which a gain passes a mark; None where it never does."""
    above = np.flatnonzero(gains >= mark_pp / 100.0)
    return float(recovers[above[0]]) if above.size else None


def oracle_limit(model: Model, mechanism: str, success: float, share: float) -> dict[str, Any]:
    """Largest recover whose least flips do not exceed the published share of runs turned from fail to success."""
    limits = {}
    for name, half_life in HALF_LIVES.items():
        allowed = []
        for recover in RECOVERS:
            at = at_recover(model, mechanism, float(recover), half_life, success)
            if at is not None and least_recovery(at, mechanism) <= share:
                allowed.append(float(recover))
        limits[name] = max(allowed) if allowed else None
    return {"published C/n": round(share, 3), "largest recover by half-life": limits}


def first_steps(source: Source) -> dict[str, Any]:
    """Gain by first step k over posterior draws: the pilot's policy that may fire only from step k on."""
    policy, model = source.policy, source.model
    if policy is None:
        raise ValueError("the pilot has no intervened arm")
    horizon = model.horizon

    def table(gates: Sequence[Mapping[str, int]]) -> PolicyTable:
        changed = [replace(model, policies={"k": replace(model.policies[policy], **gate)}) for gate in gates]
        return stack_policies([compile_policy(it, "k") for it in changed])

    gains = success_many(source.draws, table([{"first_step": k} for k in range(horizon)])).gain
    early = success_many(source.draws, table([{"first_step": 0, "last_step": k} for k in range(horizon - 1)])).gain
    mean = gains.mean(axis=1)
    # a first step that can no longer change anything ties with its neighbours at 0; the earliest of equals is named
    chosen = np.argmax(np.round(gains, 12), axis=0)
    best = int(np.argmax(mean))
    counts = np.bincount(chosen, minlength=horizon) / chosen.size
    low, high = np.quantile(chosen, (0.025, 0.975))
    return {
        "draws": source.n_draws,
        "out of reach": 0 if source.is_reached is None else int(np.sum(~source.is_reached)),
        "from step k": [interval(row) for row in gains],
        "before step k": [interval(row) for row in early],
        "best k by mean gain": best,
        "gain at best k": interval(gains[best]),
        "gain at k = 0": interval(gains[0]),
        "P(gain at best k > 0)": round(float(np.mean(gains[best] > 0.0)), 2),
        "P(k is best)": {str(k): round(float(share), 2) for k, share in enumerate(counts) if share >= 0.005},
        "95 % interval of the best k": [int(low), int(high)],
        "difference of best k and 0": interval(gains[best] - gains[0]),
        "worth of knowing k, pp": pp(gains.max(axis=0).mean() - mean[best], 2),
    }


def interval(values: FloatArray) -> str:
    """Mean and 95 % interval, in pp."""
    low, high = np.quantile(values, (0.025, 0.975))
    return f"{pp(values.mean()):+.1f} [{pp(low):+.1f}, {pp(high):+.1f}]"


def alfworld(folder: Path) -> dict[str, Any]:
    """Best first step of the ALFWorld pilot in the shipped model of its agent, and with one assumption moved."""
    base = find_model(ALFWORLD)
    found = {"as shipped": first_steps(read_source(str(PILOT), n_draws=N_DRAWS, seed=SEED))}

    def briefly(source: Source) -> dict[str, Any]:
        return {key: it for key, it in first_steps(source).items() if not key.endswith("step k")}

    rollback = base.mechanisms["rollback"]
    cases: dict[str, Model] = {
        f"half-life of disrupt {h:g}": with_rollback(base, replace(rollback, disrupt=replaced(rollback.disrupt, h)))
        for h in (1.0, 4.0)
    }
    cases["disrupt the same at every step"] = with_rollback(base, replace(rollback, disrupt=0.05))
    stronger = replace(rollback, recover={"off": 0.25}, disrupt=find_model(MINIMAX).mechanisms["rollback"].disrupt)
    cases["recover .25 and disrupt as fitted to MiniMax-M2.1"] = with_rollback(base, stronger)
    cases["a rollback costs no step"] = with_rollback(base, replace(rollback, extra_steps=0))
    closed, opened = (0.0,) * 3, (0.02,) * 12
    cases["recover from step 3 on only"] = with_rollback(base, replace(rollback, recover={"off": closed + opened}))
    for name, model in cases.items():
        path = folder / "base.toml"
        path.write_text(format_model(model), encoding="utf-8")
        found[name] = briefly(read_source(str(PILOT), base=str(path), policy="rollback", n_draws=N_DRAWS, seed=SEED))
    path = folder / "base.toml"
    agent = replace(base.agent, finish=0.2)
    path.write_text(format_model(replace(base, name="moved", agent=agent)), encoding="utf-8")
    found["a run can succeed at every step"] = briefly(
        read_source(str(PILOT), base=str(path), policy="rollback", n_draws=N_DRAWS, seed=SEED)
    )
    found["in the model example"] = briefly(
        read_source(str(PILOT), base="example", policy="late", n_draws=N_DRAWS, seed=SEED)
    )
    found["rho beta:4.5,2, so that d bounds what is disrupted"] = briefly(
        read_source(str(PILOT), rho_prior=DEFAULT_RHO_PRIOR, n_draws=N_DRAWS, seed=SEED)
    )
    return found


def with_rollback(model: Model, mechanism: Any) -> Model:
    return replace(model, name="moved", mechanisms={**model.mechanisms, "rollback": mechanism})


def replaced(disrupt: Any, half_life: float) -> Decay:
    return Decay(start=disrupt.start, end=disrupt.end, half_life=half_life)


def answer(tables: Tables, folder: Path) -> dict[str, Any]:
    return {
        "early harm": {
            name: {mechanism: early_harm(find_model(name), mechanism) for mechanism in MECHANISMS} for name in HOTPOTQA
        },
        "published: won back by a minimum step, pp (second-hand)": PUBLISHED_PP,
        "published: share of disruptions at steps 0-1, % (table 22)": tables["table22_early_step"]["early_0_1"],
        "MiniMax-M2.1 on HotPotQA": minimax(tables),
        "ALFWorld pilot": alfworld(folder),
    }


def show(result: dict[str, Any]) -> None:
    print(json.dumps(result, indent=1, ensure_ascii=False))


def main(arguments: Sequence[str]) -> int:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with expected.json instead of writing it")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with papers/intervention_paradox.json")
    options = parser.parse_args(arguments)
    if not (options.data / FIGURES).is_file():
        print(f"{options.data / FIGURES} is missing; name the folder of published figures with --data", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        result = answer(json.loads((options.data / FIGURES).read_text(encoding="utf-8")), Path(folder))
    show(result)
    if options.check:
        is_equal = json.loads((HERE / "expected.json").read_text(encoding="utf-8")) == json.loads(json.dumps(result))
        print("equal to expected.json") if is_equal else print("differs from expected.json", file=sys.stderr)
        return 0 if is_equal else 1
    (HERE / "expected.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
