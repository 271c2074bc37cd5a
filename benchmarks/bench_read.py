"""Reading a large pilot: `read` and `pair` against the bare typed decoder, in time and memory.

Each measurement runs in a fresh process, so that one leaves no warm memory to the next; decoder and reader take turns.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from drsim.pilot.evidence import Pilot
from drsim.pilot.pairing import pair
from drsim.pilot.reading import read
from drsim.pilot.records import Run

MAX_TIME_RATIO = 3.0
MAX_MEMORY_RATIO = 6.0
N_TRIALS = 4
KINDS = ("tool", "respond", "search", "think")
MIB = 2**20


def write_pilot(path: Path, n_runs: int, n_steps: int, seed: int) -> None:
    """Two arms with equal tasks and trials; a run has a score, a kind and a token count at each step."""
    rng = np.random.default_rng(seed)
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for i in range(n_runs):
            task, trial = divmod(i // 2, N_TRIALS)
            scores = rng.random(n_steps).round(4).tolist()
            kinds = rng.integers(len(KINDS), size=n_steps).tolist()
            tokens = rng.integers(200, 2000, size=n_steps).tolist()
            run = {
                "task_id": f"task-{task}",
                "agent": "agent-a",
                "benchmark": "benchmark-a",
                "arm": ("baseline", "rollback")[i % 2],
                "trial": trial,
                "outcome": "success" if rng.random() < 0.6 else "fail",
                "n_steps": n_steps,
                "steps": [
                    {"t": t, "score": scores[t], "kind": KINDS[kinds[t]], "tokens": tokens[t]} for t in range(n_steps)
                ],
            }
            file.write(encoder.encode(run) + b"\n")


def summary(runs: list[Run]) -> dict[str, float]:
    """Figures that both ways of reading must agree on."""
    return {
        "runs": len(runs),
        "successes": sum(run.outcome == "success" for run in runs),
        "steps": sum(len(run.steps) for run in runs),
        "scores": sum(step.score or 0.0 for run in runs for step in run.steps),
    }


def decode_bare(path: Path) -> Callable[[], list[Run]]:
    """Decode bytes that are in memory already, with nothing checked but types and bounds."""
    text = path.read_bytes()
    return lambda: msgspec.json.Decoder(Run).decode_lines(text)


def read_only(path: Path) -> Callable[[], list[Run]]:
    """Read and check, between runs too."""

    def work() -> list[Run]:
        pilot = read([str(path)])
        assert isinstance(pilot, Pilot)
        return pilot.runs

    return work


def read_and_pair(path: Path) -> Callable[[], list[Run]]:
    """All that a command does before it computes: read, check between runs, pair."""

    def work() -> list[Run]:
        pilot = read([str(path)])
        assert isinstance(pilot, Pilot)
        pairing = pair(pilot)
        assert sum(cell.n_paired for cell in pairing.cells) == len(pilot.runs) // 2
        return pilot.runs

    return work


WAYS = {"decode": decode_bare, "read": read_only, "read+pair": read_and_pair}


def measure(way: str, path: Path) -> dict[str, float]:
    """Run one way in this process."""
    work = WAYS[way](path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    runs = work()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "growth": (peak - before) * 1024, **summary(runs)}


def measure_apart(way: str, path: Path) -> dict[str, float]:
    """Run one way in a process of its own."""
    command = [sys.executable, __file__, "--measure", way, str(path)]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], Path(options.measure[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pilot.jsonl"
        write_pilot(path, options.runs, options.steps, options.seed)
        size = path.stat().st_size
        answers: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(options.repeats):
            for way, collected in answers.items():
                collected.append(measure_apart(way, path))
    report(answers, size)


def report(answers: dict[str, list[dict[str, float]]], size: int) -> None:
    """Print the table and hold it against the limits."""
    print(f"{answers['read'][0]['runs']:.0f} runs, {size / MIB:.1f} MiB of JSON Lines")
    print(f"{'':10}{'median s':>10}{'fastest s':>11}{'growth MiB':>12}{'growth / file':>15}")
    seconds, memory = {}, {}
    for way, measured in answers.items():
        seconds[way] = statistics.median(answer["seconds"] for answer in measured)
        memory[way] = max(answer["growth"] for answer in measured)
        fastest = min(answer["seconds"] for answer in measured)
        print(f"{way:10}{seconds[way]:10.3f}{fastest:11.3f}{memory[way] / MIB:12.1f}{memory[way] / size:15.2f}")
    ratio = seconds["read+pair"] / seconds["decode"]
    growth = memory["read+pair"] / size
    print(f"read+pair: time ratio {ratio:.2f} (limit {MAX_TIME_RATIO}), memory {growth:.2f} (limit {MAX_MEMORY_RATIO})")
    figures = [
        {name: answer[name] for name in ("runs", "successes", "steps", "scores")} for answer in answers["decode"]
    ]
    for answer in answers["read"] + answers["read+pair"]:
        assert {name: answer[name] for name in figures[0]} == figures[0], "read and the decoder disagree"
    assert ratio < MAX_TIME_RATIO
    assert growth < MAX_MEMORY_RATIO


if __name__ == "__main__":
    main()
