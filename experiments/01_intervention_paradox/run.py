"""Every published figure of arXiv:2602.03338 that follows from others, computed again and compared as printed.

`python run.py` writes expected.json, `python run.py --check` compares with it; `--data` names the folder of figures.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from drsim.pilot.claims.reading import read_claims
from drsim.planning.audit.auditing import audit
from drsim.theory.consistency import Span, printed
from drsim.theory.tradeoff import break_even, gain, marginal_bounds

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / ".." / "shared" / "data"
FIGURES = Path("papers") / "intervention_paradox.json"
ARMS = ("Uncal+Roll", "Cal+Roll", "Uncal+App", "Cal+App")

type Tables = dict[str, Any]
type Line = dict[str, Any]


def line(place: str, figure: Any, ours: float, status: str, *, slack: float = 0.0, why: str = "") -> Line:
    """One figure: agrees when ours rounds to it, or would for inputs within `slack` of those as printed."""
    span = printed(Decimal(figure))
    low, high = Fraction(ours) - Fraction(slack), Fraction(ours) + Fraction(slack)
    # ours is a binary fraction; a tie may fall to either side of it
    nearly = Fraction(1, 10**9)
    agrees = span.meets(Span(low=low - nearly, high=high + nearly))
    return {
        "place": place,
        "printed": str(figure),
        "ours": round(ours, 4),
        "agrees": agrees,
        "why_not": "" if agrees else why or "it does not follow from the figures beside it",
        "status": status.partition(" in ")[0].partition(" by ")[0],
    }


def shares(tables: Tables) -> Iterator[Line]:
    """Tables 1 to 3, 24 and 27: sums, ratios and ranges."""
    block = tables["table1_critic_heldout"]
    *parts, whole = block["rows"]
    yield line("Table 1, n overall", whole["n"], sum(row["n"] for row in parts), block["status"])
    block = tables["table2_calibration"]
    for row in block["rows"]:
        ours = 100 * float(1 - row["ECE_after"] / row["ECE_before"])
        yield line(f"Table 2, {row['model']}, reduction %", row["rel_reduction_pct"], ours, block["status"])
    block = tables["table3_benchmarks"]
    for row in block["rows"]:
        means = [
            float(cell["Baseline"]["mean"])
            for cell in tables["table4_main"]["rows"]
            if cell["benchmark"] == row["benchmark"]
        ]
        for end, figure, ours in zip(
            ("lowest", "highest"), row["baseline_range_as_printed"].split("-"), (min(means), max(means)), strict=True
        ):
            why = "table 4 prints another baseline"
            yield line(f"Table 3, {row['benchmark']}, {end} baseline %", figure, ours, block["status"], why=why)
    block = tables["table24_intervention_rate"]
    for agent, _, before, after, change in block["rows"]:
        ours = 100 * float(after / before - 1)
        yield line(f"Table 24, {agent}, change %", change, ours, block["status"])
    block = tables["table27_selection_contested"]
    for agent, _, contested, _, _, critic, judge in block["rows"]:
        for name, figure in (("critic", critic), ("judge", judge)):
            ours = 100 * round(float(figure) * contested / 100) / contested
            why = f"no count of {contested} contested tasks gives it; ours is the nearest"
            yield line(f"Table 27, {agent}, {name} accuracy %", figure, ours, block["status"], why=why)


def seed_means(tables: Tables) -> Iterator[Line]:
    """Tables 11 to 18 and 28, and the main table: means of seeds."""
    block = tables["tables11_18_per_seed"]
    main = {(row["benchmark"], row["model"]): row for row in tables["table4_main"]["rows"]}
    for title, table in block["tables"].items():
        number, agent, benchmark = title.split()
        for arm, row in table["rows"].items():
            seeds = [value for name, value in row.items() if name.startswith("seed")]
            counts = [round(float(seed) * table["n"] / 100) for seed in seeds]
            ours = 100 * sum(counts) / (table["n"] * len(counts))
            twice = float(sum(Decimal(seed) for seed in seeds) / len(seeds))
            why = f"the counts give it not; the mean of the rounded seeds, {twice:.2f}, does"
            place = f"{agent}, {benchmark}, {arm}, mean %"
            yield line(f"Table {number[1:]}, {place}", row["mean_reported"], ours, block["status"], why=why)
            if arm in ("Baseline", *ARMS):
                figure = main[benchmark, agent][arm]["mean"]
                is_rounded_twice = printed(Decimal(figure)).meets(Span.exactly(Fraction(twice)))
                other = "" if is_rounded_twice else f"the seeds {', '.join(map(str, seeds))} have another mean"
                yield line(f"Table 4, {place}", figure, ours, tables["table4_main"]["status"], why=other or why)
    block = tables["table28_swebench_lite_single_shot_Qwen"]
    for arm, (*seeds, average) in block["rows"].items():
        ours = 100 * sum(round(float(seed) * 30 / 100) for seed in seeds) / 90
        yield line(f"Table 28, {arm}, mean %", average, ours, block["status"])


def main_table(tables: Tables) -> Iterator[Line]:
    """Table 4: best differences, and brackets against the seeds."""
    block = tables["table4_main"]
    for row in block["rows"]:
        ours = max(float(row[arm]["mean"] - row["Baseline"]["mean"]) for arm in ARMS)
        place = f"Table 4, {row['model']}, {row['benchmark']}, best difference pp"
        yield line(place, row["best_delta_reported"], ours, block["status"], why="another arm does better")
    cells = {(row["benchmark"], row["model"]): row for row in block["rows"]}
    for title, table in tables["tables11_18_per_seed"]["tables"].items():
        _, agent, benchmark = title.split()
        for arm, row in table["rows"].items():
            if arm not in cells[benchmark, agent]:
                continue
            seeds = [float(value) for name, value in row.items() if name.startswith("seed")]
            for end, ours in (("lo", min(seeds)), ("hi", max(seeds))):
                place = f"Table 4, {agent}, {benchmark}, {arm}, bracket {end} % as extreme seed"
                figure = cells[benchmark, agent][arm][end]
                yield line(place, figure, ours, block["status"], why="this bracket is not the range of the seeds")


def printed_again(tables: Tables) -> Iterator[Line]:
    """Tables 7 to 9: figures of the main table and of table 6 that are printed once more."""
    main = {row["model"]: row for row in tables["table4_main"]["rows"] if row["benchmark"] == "HotPotQA"}
    block = tables["table7_feedback_HotPotQA"]
    for agent, arm, figure, _ in block["rows"]:
        place = f"Table 7, {agent}, {arm} with feedback, as in table 4 %"
        yield line(place, figure, float(main[agent][arm]["mean"]), block["status"], why="table 4 prints ours")
    block = tables["table8_contextual_feedback_HotPotQA"]
    for agent, baseline, feedback, _ in block["rows"]:
        for name, arm, figure in (("baseline", "Baseline", baseline), ("feedback", "Cal+App", feedback)):
            place = f"Table 8, {agent}, {name}, as in table 4 %"
            yield line(place, figure, float(main[agent][arm]["mean"]), block["status"], why="table 4 prints ours")
    sweep = tables["table6_threshold_sweep_Qwen_HotPotQA_CalRoll"]["rows"]
    block = tables["table9_heuristics_Qwen_HotPotQA_CalRoll"]
    for name, figure in block["rows"].items():
        threshold = name.rpartition("tau=")[2]
        if threshold in sweep:
            yield line(f"Table 9, {name}, as in table 6 %", figure, float(sweep[threshold]), block["status"])


def against_main_table(tables: Tables, agent: str, counts: Line, status: str) -> Iterator[Line]:
    """Table 21 pools both benchmarks and all arms, so it cannot leave the range of table 4's cells."""
    pairs = [
        (float(cell["Baseline"]["mean"]) / 100, float(cell[arm]["mean"]) / 100)
        for cell in tables["table4_main"]["rows"]
        if cell["model"] == agent and cell["benchmark"] != "ALFWorld"
        for arm in ARMS
    ]
    floor = min(float(marginal_bounds(*pair).disruption_lower) for pair in pairs)
    why = f"no arm of table 4 allows a d below {floor:.3f}; ours is that floor"
    ours = max(floor, float(counts["d"]))
    yield line(f"Table 21, {agent}, d against its floor", counts["d"], ours, status, why=why)
    gains = [100 * (arm - base) for base, arm in pairs]
    net = 100 * (counts["C"] - counts["B"]) / (counts["F"] + counts["S"])
    why = f"its counts gain {net:+.1f}, the arms of table 4 {min(gains):+.1f} to {max(gains):+.1f}; ours is the nearest"
    nearest = min(max(net, min(gains)), max(gains))
    place = f"Table 21, {agent}, gain pp of its counts within table 4"
    yield line(place, f"{net:.1f}", nearest, status, why=why)


def flips(tables: Tables) -> Iterator[Line]:
    """Tables 10, 19, 21 and 25, and the pilot: the trade-off."""
    block = tables["table10_26_oracle_HotPotQA"]
    for row in block["rows"]:
        for name, success, figure in (
            ("intervention", row["oracle_intervention_CalRoll"], row["d_int"]),
            ("best of two", row["oracle_bo2"], row["d_bo2"]),
        ):
            ours = float(success - row["baseline"])
            yield line(f"Table 10, {row['model']}, oracle {name}, gain pp", figure, ours, block["status"])
    block = tables["table19_seed42_Qwen_HotPotQA"]
    yield line("Table 19, net tasks", block["net_tasks"], block["recoveries"] - block["disruptions"], block["status"])
    block = tables["table21_counts_HotPotQA_GAIA"]
    recovery = tables["table25_recovery"]
    for row in block["rows"]:
        agent, r, d = row["model"], row["C"] / row["F"], row["B"] / row["S"]
        yield line(f"Table 21, {agent}, r", row["r"], r, block["status"])
        yield line(f"Table 21, {agent}, d", row["d"], d, block["status"])
        yield line(f"Table 25, {agent}, r %", recovery["rows"][agent], 100 * r, recovery["status"])
        yield from against_main_table(tables, agent, row, block["status"])
    yield from pilot(tables)


def pilot(tables: Tables) -> Iterator[Line]:
    """The ALFWorld pilot and the stated thresholds, at the precision of their inputs."""
    block = tables["pilot_ALFWorld_Qwen"]
    status = block["status_text"]
    p, r, d = (float(block[name]) for name in ("p", "r", "d"))
    yield line("pilot, p", block["p"], 1 - float(block["baseline_success"]) / 100, status)
    yield line("pilot, p*", block["p_star"], float(break_even(r, d)), status)
    counts, figure = block["derived"], block["figure1"]
    ours = 100 * float(gain(p, r, d))
    # p, r and d are known to half a hundredth each: ∂Δ = r + d, p and 1 − p times that
    slack = 100 * 0.005 * (r + d + 1)
    yield line("pilot, figure 1, gain pp from p, r, d", figure["gain_pp"], ours, figure["status"], slack=slack)
    ours = 100 * (figure["C"] - figure["B"]) / counts["N_runs"]
    yield line("pilot, figure 1, gain pp from counts", figure["gain_pp"], ours, figure["status"])
    yield line("pilot, r from counts", block["r"], figure["C"] / counts["F"], status)
    yield line("pilot, d from counts", block["d"], figure["B"] / counts["S"], status)
    glm = next(
        row for row in tables["table4_main"]["rows"] if (row["benchmark"], row["model"]) == ("ALFWorld", "GLM-4.7")
    )
    thresholds = tables["thresholds_reported"]
    p_glm = thresholds["ALFWorld GLM"]["p"]
    yield line("thresholds, GLM-4.7, p", p_glm, 1 - float(glm["Baseline"]["mean"]) / 100, thresholds["status"])


def derived(tables: Tables) -> Iterator[Line]:
    """Figures that the data file derives itself, by drsim's own functions."""
    block = tables["net_counts_and_bounds"]
    for row in block["rows"]:
        place = f"derived, {row['model']}, {row['benchmark']}, {row['condition']}"
        bounds = marginal_bounds(row["S"] / row["N"], row["I"] / row["N"])
        yield line(f"{place}, gain pp", row["delta_pp"], 100 * float(bounds.gain), block["status"])
        yield line(f"{place}, lowest d", row["d_lower_bound"], float(bounds.disruption_lower), block["status"])
        yield line(f"{place}, lowest r", row["r_lower_bound"], float(bounds.recovery_lower), block["status"])
    block = tables["oracle_derived_CalRoll_HotPotQA"]
    for row in block["rows"]:
        r, d = row["C"] / row["F"], row["B"] / row["S"]
        ours = {"p": row["F"] / (row["F"] + row["S"]), "r": r, "d": d, "p_star": float(break_even(r, d))}
        for name, value in ours.items():
            yield line(f"derived, oracle, {row['model']}, {name}", row[name], value, block["status"])
    block = tables["table21_counts_HotPotQA_GAIA"]
    for row in block["rows"]:
        figures = block["derived"][row["model"]]
        r, d, n = row["C"] / row["F"], row["B"] / row["S"], row["F"] + row["S"]
        status = tables["status_legend"]["derived"]
        yield line(f"derived, table 21, {row['model']}, p*", figures["p_star"], float(break_even(r, d)), status)
        net = 100 * (row["C"] - row["B"]) / n
        yield line(f"derived, table 21, {row['model']}, net pp", figures["net_pp"], net, status)


def recompute(data: Path) -> dict[str, Any]:
    """Every line, and what `drsim audit` finds on the same file."""
    path = data / FIGURES
    tables = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    lines = [
        *shares(tables),
        *main_table(tables),
        *seed_means(tables),
        *printed_again(tables),
        *flips(tables),
        *derived(tables),
    ]
    findings = audit(read_claims([str(path)])).findings
    return {
        "source": tables["source"],
        "lines": lines,
        "findings": [{"code": found.code, "where": found.where} for found in findings],
    }


def show(result: dict[str, Any], *, is_whole: bool) -> None:
    lines = result["lines"]
    width = max(len(item["place"]) for item in lines)
    print(f"{'figure':{width}}  {'printed':>8}  {'ours':>9}  agrees, or why not")
    for item in lines:
        if is_whole or not item["agrees"]:
            verdict = "yes" if item["agrees"] else item["why_not"]
            print(f"{item['place']:{width}}  {item['printed']:>8}  {item['ours']:>9.4f}  {verdict}")
    for status, n in Counter(item["status"] for item in lines).items():
        n_agree = sum(item["agrees"] for item in lines if item["status"] == status)
        print(f"{status}: {n_agree} of {n} figures agree")
    kinds = Counter(found["code"] for found in result["findings"])
    print("drsim audit: " + ", ".join(f"{code} {n}×" for code, n in sorted(kinds.items())))


def one_line_each(result: dict[str, Any]) -> str:
    """JSON with one figure or finding a line, so that a change shows as a line."""
    parts = []
    for name, value in result.items():
        items = [f"  {json.dumps(item, ensure_ascii=False)}" for item in value] if isinstance(value, list) else None
        text = "[\n" + ",\n".join(items) + "\n ]" if items is not None else json.dumps(value, ensure_ascii=False)
        parts.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with expected.json instead of writing it")
    parser.add_argument("--all", action="store_true", help="print figures that agree as well")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with papers/intervention_paradox.json")
    options = parser.parse_args(arguments)
    if not (options.data / FIGURES).is_file():
        print(f"{options.data / FIGURES} is missing; name the folder of published figures with --data", file=sys.stderr)
        return 2
    result = recompute(options.data)
    show(result, is_whole=options.all)
    expected = HERE / "expected.json"
    if not options.check:
        expected.write_text(one_line_each(result), encoding="utf-8")
        return 0
    if json.loads(expected.read_text(encoding="utf-8")) != result:
        print("differs from expected.json", file=sys.stderr)
        return 1
    print("equal to expected.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
