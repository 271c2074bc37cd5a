"""A plan that was written down before its pilot, and in what a pilot departs from it.

The file is TOML; its hash is over the fields in their canonical form, so that comments and blanks may be added, and a
field may not be changed.
"""

import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from drsim.errors import DataError
from drsim.pilot.cell import Cell, PairedBy
from drsim.planning.pilot_rules import PilotRule, RuleKind
from drsim.planning.pilot_world import PairingPlan, PilotPlan, PilotWorld
from drsim.planning.sequential import MonitorRule
from drsim.planning.verdict import DecisionRule

__all__ = ["Preregistration", "fit_deviations", "format_plan", "monitor_deviations", "preregister", "read_plan"]

SCHEMA = "drsim.plan/1"
TABLE = "plan"


class Preregistration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was decided beforehand."""

    tasks: int
    trials: int
    arms: int
    arm_names: list[str]
    """Empty where they were not named."""
    pairing: str
    rule: str
    margin: float
    rope: float
    confidence: float
    alpha: float
    harm_alpha: float
    power: float
    rho: float
    clustering: float
    fires: float
    seed: int
    failure_rate: float | None = None
    discordance: float | None = None

    @property
    def hash(self) -> str:
        """SHA-256 of the fields, in hexadecimal digits."""
        fields = json.dumps(msgspec.to_builtins(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(fields.encode()).hexdigest()


def preregister(
    world: PilotWorld, plan: PilotPlan, rule: PilotRule, *, arm_names: tuple[str, ...] = (), power: float, seed: int
) -> Preregistration:
    """The plan as it is written down."""
    return Preregistration(
        tasks=plan.n_tasks,
        trials=plan.n_trials,
        arms=plan.n_arms,
        arm_names=sorted(arm_names),
        pairing=plan.pairing.value,
        rule=rule.kind.value,
        margin=rule.decision.margin,
        rope=rule.decision.rope,
        confidence=rule.decision.confidence,
        alpha=rule.alpha,
        harm_alpha=rule.harm_alpha,
        power=power,
        rho=world.rho,
        clustering=world.pair_correlation,
        fires=world.fires,
        seed=seed,
        failure_rate=world.failure_rate,
        discordance=world.discordance,
    )


def format_plan(plan: Preregistration) -> str:
    """The plan as TOML, with its hash."""
    fields = {name: value for name, value in msgspec.to_builtins(plan).items() if value is not None}
    # JSON's numbers, lists of text and text are TOML's as well, but for two: TOML knows no surrogate pairs, and JSON
    # leaves the delete character as it is
    texts = {name: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for name, value in fields.items()}
    lines = [f"{name} = {text}" for name, text in texts.items()]
    return "\n".join([f'schema = "{SCHEMA}"', f'hash = "{plan.hash}"', "", f"[{TABLE}]", *lines]) + "\n"


def read_plan(text: str, name: str) -> Preregistration:
    """A plan from its file.

    Parameters
    ----------
    text : str
        TOML.
    name : str
        Of the file, for messages.

    Returns
    -------
    Preregistration

    Raises
    ------
    DataError
        It is no plan, or a field was changed after it was written.
    """
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is no TOML: {error}; give a file that drsim design --preregister wrote") from None
    if raw.get("schema") != SCHEMA or not isinstance(raw.get(TABLE), dict):
        raise DataError(
            f"{name} is no plan: it needs schema = {SCHEMA!r} and a table [{TABLE}]; write it with drsim design"
        )
    try:
        plan = msgspec.convert(raw[TABLE], Preregistration)
    except msgspec.ValidationError as error:
        raise DataError(f"{name} is no plan: {error}; give a file that drsim design --preregister wrote") from None
    if raw.get("hash") != plan.hash:
        raise DataError(
            f"{name} was changed after it was written: its fields have the hash {plan.hash}, not {raw.get('hash')}; "
            "go back to the plan as it was, or register anew"
        )
    return plan


def fit_deviations(plan: Preregistration, cells: tuple[Cell, ...], rule: DecisionRule, *, seed: int) -> tuple[str, ...]:
    """In what a fitted pilot departs from its plan.

    Parameters
    ----------
    plan : Preregistration
        As read.
    cells : tuple of Cell
        Of the pilot.
    rule : DecisionRule
        By which it is read.
    seed : int
        Of the draws.

    Returns
    -------
    tuple of str
        One sentence for each departure; empty where there is none.
    """
    found = [*_differing(plan, {"margin": rule.margin, "rope": rule.rope, "confidence": rule.confidence, "seed": seed})]
    if plan.rule != RuleKind.POSTERIOR:
        found.append(f"the rule was to be {plan.rule}, and the posterior rule decides here")
    compared = [cell for cell in cells if cell.n_compared_tasks and cell.arm_runs.any()]
    found += _differing_arms(plan, {cell.arm for cell in compared})
    for cell in compared:
        found += _differing_sizes(plan, cell)
    return tuple(f"departs from the plan: {it}" for it in found)


def monitor_deviations(plan: Preregistration, rule: MonitorRule, arms: Mapping[str, int]) -> tuple[str, ...]:
    """In what a monitored pilot departs from its plan.

    Parameters
    ----------
    plan : Preregistration
        As read.
    rule : MonitorRule
        By which it is watched.
    arms : mapping of str to int
        Complete tasks of each arm seen so far.

    Returns
    -------
    tuple of str
        One sentence for each departure.
    """
    used = {
        "trials": rule.n_trials,
        "margin": rule.decision.margin,
        "rope": rule.decision.rope,
        "alpha": rule.alpha,
        "harm_alpha": rule.harm_alpha,
        "confidence": rule.decision.confidence,
    }
    found = [*_differing(plan, used)]
    if plan.rule != RuleKind.ANYTIME:
        found.append(f"the rule was to be {plan.rule}, and an anytime-valid one stops here")
    found += _differing_arms(plan, set(arms), is_growing=True)
    found += [f"{n} tasks of {arm}, planned were {plan.tasks}" for arm, n in arms.items() if n > plan.tasks]
    return tuple(f"departs from the plan: {it}" for it in found)


def _differing(plan: Preregistration, used: Mapping[str, float]) -> Iterator[str]:
    for name, value in used.items():
        planned = getattr(plan, name)
        if not math.isclose(planned, value, rel_tol=1e-12):
            yield f"{name} {value:g}, planned was {planned:g}"


def _differing_arms(plan: Preregistration, arms: set[str], *, is_growing: bool = False) -> list[str]:
    """What is still to come in a growing pilot departs from nothing."""
    if plan.arm_names:
        missing, extra = sorted(set(plan.arm_names) - arms), sorted(arms - set(plan.arm_names))
        if is_growing:
            missing = []
        return [
            *(f"no run of the arm {arm}" for arm in missing),
            *(f"the arm {arm} was not planned" for arm in extra),
        ]
    is_planned = len(arms) == plan.arms or (is_growing and len(arms) < plan.arms)
    return [] if is_planned else [f"{len(arms)} intervened arms, planned were {plan.arms}"]


def _differing_sizes(plan: Preregistration, cell: Cell) -> list[str]:
    found = []
    if cell.n_compared_tasks != plan.tasks:
        found.append(f"{cell.name}: {cell.n_compared_tasks} tasks, planned were {plan.tasks}")
    if cell.is_paired and not math.isclose(cell.n_paired / cell.n_paired_tasks, plan.trials):
        mean = cell.n_paired / cell.n_paired_tasks
        found.append(f"{cell.name}: {mean:.3g} pairs a task, planned were {plan.trials}")
    if (cell.paired_by is PairedBy.FORK) != (plan.pairing == PairingPlan.FORK):
        found.append(f"{cell.name}: runs paired by {cell.paired_by}, planned was {plan.pairing}")
    return found
