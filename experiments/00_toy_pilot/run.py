"""Simulate the toy pilot that is shipped as `example:toy`."""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
PILOT = HERE.parents[1] / "drsim" / "pilot" / "examples" / "toy.jsonl"
EXPECTED = HERE / "expected.json"

SEED = 20_260
N_TASKS, N_TRIALS, HORIZON = 30, 2, 10
FINISH, SLIP, ABANDON, SELF_RECOVER = 0.24, 0.10, 0.12, 0.05
THRESHOLD, BUDGET = 0.75, 2
RECOVER, DISRUPT = 0.35, 0.20
TOKENS_PER_STEP, CRITIC_TOKENS, USD_PER_TOKEN = 900, 200, 1e-6


def simulate(task: int, trial: int, ease: float, *, intervene: bool, rng: np.random.Generator) -> dict[str, object]:
    """One run: act, score, intervene, until it ends or meets the horizon."""
    steps: list[dict[str, object]] = []
    interventions: list[dict[str, object]] = []
    is_on, outcome = True, "capped"
    for t in range(HORIZON):
        if is_on and rng.random() < FINISH * ease:
            outcome = "success"
        elif is_on:
            is_on = rng.random() >= SLIP
        elif rng.random() < ABANDON:
            outcome = "fail"
        else:
            is_on = rng.random() < SELF_RECOVER
        score = round(float(1 / (1 + np.exp(-rng.normal(-1.2 if is_on else 1.2, 1.0)))), 3)
        steps.append({"t": t, "score": score})
        if outcome != "capped":
            break
        if intervene and score > THRESHOLD and len(interventions) < BUDGET:
            interventions.append({"t": t, "mechanism": "rollback", "score": score})
            is_on = rng.random() >= DISRUPT if is_on else rng.random() < RECOVER
    tokens, critic_tokens = TOKENS_PER_STEP * len(steps), CRITIC_TOKENS * len(steps)
    record: dict[str, object] = {
        "task_id": f"toy-{task:02d}",
        "agent": "toy-agent",
        "benchmark": "toy",
        "arm": "rollback" if intervene else "baseline",
        "trial": trial,
        "outcome": outcome,
        "n_steps": len(steps),
        "steps": steps,
        "cost": {"tokens": tokens, "critic_tokens": critic_tokens, "usd": round(tokens * USD_PER_TOKEN, 6)},
    }
    if interventions:
        record["interventions"] = interventions
    return record


def pilot() -> str:
    """The file's text."""
    rng = np.random.default_rng(SEED)
    lines = []
    for task in range(N_TASKS):
        ease = float(rng.choice([0.15, 0.6, 1.4]))
        for trial in range(N_TRIALS):
            for intervene in (False, True):
                record = simulate(task, trial, ease, intervene=intervene, rng=rng)
                lines.append(json.dumps(record, separators=(",", ":")) + "\n")
    return "".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the shipped file instead of writing it")
    arguments = parser.parse_args()
    text = pilot()
    summary = {"runs": text.count("\n"), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    if not arguments.check:
        PILOT.write_text(text, encoding="utf-8", newline="\n")
        EXPECTED.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    agrees = PILOT.read_text(encoding="utf-8") == text and json.loads(EXPECTED.read_text()) == summary
    print(f"{PILOT.name}: {summary['runs']} runs, {'as shipped' if agrees else 'differs from the shipped file'}")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
