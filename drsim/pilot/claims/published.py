"""The tables of one publication, each under its own key, as rows of claims.

The layout is that of the figures of R. Vasudev et al., arXiv:2602.03338: one object a table, figures by their column.
Only what was printed is taken; figures that were derived from others are left out, since they would check themselves.
"""

from collections.abc import Iterator
from decimal import Decimal
from math import prod
from typing import Any

__all__ = ["is_published", "published_rows"]

KEYS = ("source", "table4_main", "tables11_18_per_seed", "table21_counts_HotPotQA_GAIA")
"""What tells the layout from any other document."""

ARMS = ("Uncal+Roll", "Cal+Roll", "Uncal+App", "Cal+App")
"""The four intervened conditions of the main table, compared with one baseline within each agent and benchmark."""

BASELINE = "baseline"

ABSTRACT_TEST = {
    "table": "Table 4 and abstract",
    "p_value": "0.014",
    "alpha": "0.05",
    "one_sided": True,
    "significant": True,
    "correction": "holm",
}
"""The abstract presents the best arm of Qwen-3-8B on ALFWorld as an improvement of "+2.8 pp, p=0.014"; section 4 states
a one-sided bootstrap and Holm–Bonferroni within each agent and benchmark, while its tables print uncorrected p."""

ABSTRACT_CELL = ("Qwen-3-8B", "ALFWorld")
PILOT_RUNS = 150
"""50 tasks, three seeds."""

type Row = dict[str, Any]


def is_published(raw: dict[str, Any]) -> bool:
    """Whether a document has this layout."""
    return "rows" not in raw and all(key in raw for key in KEYS)


def published_rows(raw: dict[str, Any]) -> list[Row]:
    """Every row that can be checked.

    Parameters
    ----------
    raw : dict
        The document; numbers with fractions as `Decimal`, so that their digits are known.

    Returns
    -------
    list of dict
        Rows of `drsim.claims/1`, of which the reader checks each field.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError, IndexError
        A table has another layout than its key says.
    """
    runs_of = _runs_of(raw)
    rows = [
        *_main_rows(raw, runs_of),
        *_seed_rows(raw),
        *_sweep_rows(raw),
        *_feedback_rows(raw),
        *_oracle_rows(raw, runs_of),
        *_count_rows(raw),
        *_elsewhere_rows(raw),
        *_pilot_rows(raw),
    ]
    return [row | {"status": _status(raw)} for row in rows]


def _status(raw: dict[str, Any]) -> str:
    return str(raw["table4_main"]["status"])


def _runs_of(raw: dict[str, Any]) -> dict[str, int]:
    n_seeds = len(raw["table3_benchmarks"]["seeds"])
    return {row["benchmark"]: row["tasks"] * n_seeds for row in raw["table3_benchmarks"]["rows"]}


def _id(benchmark: str, agent: str, arm: str) -> str:
    return f"{benchmark}/{agent}/{arm}"


def _seeds(row: Row) -> list[Any]:
    return [value for name, value in row.items() if name.startswith("seed")]


def _seeds_by_cell(raw: dict[str, Any]) -> dict[tuple[str, str, str], list[Any]]:
    found = {}
    for title, table in raw["tables11_18_per_seed"]["tables"].items():
        _, agent, benchmark = title.split()
        for arm, row in table["rows"].items():
            found[benchmark, agent, arm] = _seeds(row)
    return found


def _main_rows(raw: dict[str, Any], runs_of: dict[str, int]) -> Iterator[Row]:
    seeds_of = _seeds_by_cell(raw)
    for printed in raw["table4_main"]["rows"]:
        agent, benchmark = printed["model"], printed["benchmark"]
        cell = {
            "agent": agent,
            "benchmark": benchmark,
            "unit": "percent",
            "n": runs_of[benchmark],
            "table": "Table 4",
        }
        for arm in ("Baseline", *ARMS):
            ends = printed[arm]
            is_baseline = arm == "Baseline"
            yield cell | {
                "id": _id(benchmark, agent, arm),
                "arm": BASELINE if is_baseline else arm,
                "arm_success": ends["mean"],
                "base_success": None if is_baseline else printed["Baseline"]["mean"],
                "interval": [ends["lo"], ends["hi"]],
                "interval_level": "0.95",
                "seeds": seeds_of.get((benchmark, agent, arm), []),
            }
        test = ABSTRACT_TEST if (agent, benchmark) == ABSTRACT_CELL else {}
        yield {
            **cell,
            "arm": "best of four",
            "delta": printed["best_delta_reported"],
            "best_of": [_id(benchmark, agent, arm) for arm in ARMS],
            **test,
        }


def _seed_rows(raw: dict[str, Any]) -> Iterator[Row]:
    for title, table in raw["tables11_18_per_seed"]["tables"].items():
        number, agent, benchmark = title.split()
        for arm, row in table["rows"].items():
            seeds = _seeds(row)
            yield {
                "table": f"Table {number.removeprefix('T')}",
                "agent": agent,
                "benchmark": benchmark,
                "arm": BASELINE if arm == "Baseline" else arm,
                "unit": "percent",
                "n": table["n"] * len(seeds),
                "arm_success": row["mean_reported"],
                "seeds": seeds,
            }


def _sweep_rows(raw: dict[str, Any]) -> Iterator[Row]:
    """Thresholds and heuristics; the two tables share two thresholds, and so may contradict each other."""
    cell = {"agent": "Qwen-3-8B", "benchmark": "HotPotQA", "unit": "percent"}
    sweep = raw["table6_threshold_sweep_Qwen_HotPotQA_CalRoll"]
    heuristics = raw["table9_heuristics_Qwen_HotPotQA_CalRoll"]
    for table, block in (("Table 6", sweep), ("Table 9", heuristics)):
        for name, success in block["rows"].items():
            threshold = name.rpartition("tau=")[2]
            arm = f"Cal+Roll at τ = {threshold}" if threshold.startswith("0") else name
            yield cell | {"table": table, "arm": arm, "base_success": block["baseline"], "arm_success": success}


def _feedback_rows(raw: dict[str, Any]) -> Iterator[Row]:
    """Arms of the main table printed once more, beside variants of their text."""
    for agent, arm, with_feedback, without in raw["table7_feedback_HotPotQA"]["rows"]:
        cell = {"table": "Table 7", "agent": agent, "benchmark": "HotPotQA", "unit": "percent"}
        yield cell | {"arm": arm, "arm_success": with_feedback}
        yield cell | {"arm": f"{arm} without feedback", "arm_success": without}
    for agent, baseline, feedback, contextual in raw["table8_contextual_feedback_HotPotQA"]["rows"]:
        cell = {"table": "Table 8", "agent": agent, "benchmark": "HotPotQA", "unit": "percent"}
        yield cell | {"arm": "Cal+App", "base_success": baseline, "arm_success": feedback}
        yield cell | {"arm": "Cal+App, contextual", "base_success": baseline, "arm_success": contextual}


def _oracle_rows(raw: dict[str, Any], runs_of: dict[str, int]) -> Iterator[Row]:
    for row in raw["table10_26_oracle_HotPotQA"]["rows"]:
        cell = {
            "table": "Table 10",
            "agent": row["model"],
            "benchmark": "HotPotQA",
            "unit": "percent",
            "n": runs_of["HotPotQA"],
            "base_success": row["baseline"],
        }
        success = row["oracle_intervention_CalRoll"]
        yield cell | {"arm": "oracle intervention", "arm_success": success, "delta": row["d_int"]}
        yield cell | {"arm": "oracle best of two", "arm_success": row["oracle_bo2"], "delta": row["d_bo2"]}


def _count_rows(raw: dict[str, Any]) -> Iterator[Row]:
    """Flips by agent, over both benchmarks and all four arms, and the same recovery rates in another table."""
    pooled = {"benchmark": "HotPotQA and GAIA", "arm": "all four"}
    for row in raw["table21_counts_HotPotQA_GAIA"]["rows"]:
        parts = [_id(benchmark, row["model"], arm) for benchmark in ("HotPotQA", "GAIA") for arm in ARMS]
        counts = {name: row[name] for name in ("F", "C", "S", "B", "r", "d")}
        yield {"table": "Table 21", "agent": row["model"], "pools": parts, **pooled, **counts}
    for agent, recovery in raw["table25_recovery"]["rows"].items():
        yield {"table": "Table 25", "agent": agent, "unit": "percent", "r": recovery, **pooled}


def _elsewhere_rows(raw: dict[str, Any]) -> Iterator[Row]:
    flips = raw["table19_seed42_Qwen_HotPotQA"]
    yield {
        "table": "Table 19",
        "agent": "Qwen-3-8B",
        "benchmark": "HotPotQA, seed 42",
        "unit": "percent",
        "n": flips["n"],
        "B": flips["disruptions"],
        "C": flips["recoveries"],
        "delta": Decimal(flips["net_tasks"]) * 100 / flips["n"],
    }
    swe = raw["table28_swebench_lite_single_shot_Qwen"]
    for arm, (*seeds, average) in swe["rows"].items():
        yield {
            "table": "Table 28",
            "agent": "Qwen-3-8B",
            "benchmark": "SWE-bench Lite",
            "arm": BASELINE if arm == "Baseline" else arm,
            "unit": "percent",
            "n": prod(int(part) for part in swe["n"].split("x")),
            "seeds": seeds,
            "arm_success": average,
        }


def _pilot_rows(raw: dict[str, Any]) -> Iterator[Row]:
    pilot = raw["pilot_ALFWorld_Qwen"]
    figure = pilot["figure1"]
    yield {
        "table": "pilot, figure 1",
        "agent": "Qwen-3-8B",
        "benchmark": "ALFWorld, pilot",
        "arm": "ROLLBACK",
        "n": PILOT_RUNS,
        "base_success": _share(pilot["baseline_success"]),
        "p": pilot["p"],
        "r": pilot["r"],
        "d": pilot["d"],
        "p_star": pilot["p_star"],
        "delta": _share(figure["gain_pp"]),
        "C": figure["C"],
        "B": figure["B"],
    }
    places = {"ALFWorld Qwen pilot": ("Qwen-3-8B", "ALFWorld, pilot"), "ALFWorld GLM": ("GLM-4.7", "ALFWorld")}
    for name, (agent, benchmark) in places.items():
        row = raw["thresholds_reported"][name]
        yield {"table": "thresholds", "agent": agent, "benchmark": benchmark, "p": row["p"], "p_star": row["p_star"]}


def _share(percent: Any) -> Decimal:
    """Per cent as a share of one with the same digits."""
    return Decimal(percent).scaleb(-2)
