"""`drsim fit` as a whole process: CPU seconds and peak memory on real pilots and on 100,000 pairs.

CPU time is the process's own, start and imports included; beside it stands that of `drsim --version` and of importing
scipy.special, so that a slow machine shows itself.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special

PILOT_LIMIT = 2.0
LARGE_LIMIT = 5.0
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one process took."""

    cpu: float
    peak: int


def spawn(*arguments: str) -> Usage:
    """Run Python with arguments, its output thrown away."""
    read_null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, read_null, 1), (os.POSIX_SPAWN_DUP2, read_null, 2)]
    pid = os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    os.close(read_null)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 2):
        raise SystemExit(f"{' '.join(arguments)} ended with {code}")
    return Usage(cpu=usage.ru_utime + usage.ru_stime, peak=usage.ru_maxrss * 1024)


def fit(*pilots: str, output: str = os.devnull) -> Usage:
    """One fit."""
    return spawn("-m", "drsim", "fit", *pilots, "--json", *(() if output == os.devnull else ("-o", output)))


def write_pairs(path: Path, n_pairs: int) -> None:
    """One pair a task, failures and successes by fair coins."""
    rng = np.random.default_rng(1)
    outcomes = np.array(["fail", "success"])[rng.integers(2, size=(n_pairs, 2))]
    with path.open("w", encoding="utf-8") as file:
        for task, pair in enumerate(outcomes.tolist()):
            for arm, outcome in zip(("baseline", "rollback"), pair, strict=True):
                file.write(json.dumps({"task_id": f"t{task}", "arm": arm, "outcome": outcome}) + "\n")


def check_answer(path: Path, n_pairs: int) -> None:
    """The document agrees with its own counts in closed form."""
    (cell,) = json.loads(path.read_text(encoding="utf-8"))["cells"]
    counts = cell["counts"]
    assert sum(counts.values()) == n_pairs
    expected = special.betaincc(counts["C"] + 0.5, counts["B"] + 0.5, 0.5)
    assert abs(cell["prob_gain"] - expected) < 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=Path, default=Path(__file__).resolve().parents[2] / "shared/data/pilots")
    parser.add_argument("--pairs", type=int, default=100_000)
    arguments = parser.parse_args()
    rows = [
        ("import scipy.special", spawn("-c", "import scipy.special"), None),
        ("drsim --version", spawn("-m", "drsim", "--version"), None),
        ("example:alfworld", fit("example:alfworld"), PILOT_LIMIT),
    ]
    rows += [(path.stem, fit(str(path)), PILOT_LIMIT) for path in sorted(arguments.pilots.glob("*.jsonl"))]
    with tempfile.TemporaryDirectory() as folder:
        pilot, result = Path(folder) / "pairs.jsonl", Path(folder) / "fit.json"
        write_pairs(pilot, arguments.pairs)
        rows.append((f"{arguments.pairs:,} pairs", fit(str(pilot), output=str(result)), LARGE_LIMIT))
        check_answer(result, arguments.pairs)
    print(f"{'process':<28}{'CPU s':>8}{'peak MiB':>10}{'limit s':>9}")
    for name, usage, limit in rows:
        mark = "" if limit is None else f"{limit:>9.1f}{'' if usage.cpu < limit else '  over'}"
        print(f"{name:<28}{usage.cpu:>8.2f}{usage.peak / MIB:>10.0f}{mark}")


if __name__ == "__main__":
    main()
