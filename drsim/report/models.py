"""Models as a document and as text for a terminal."""

import tomllib
from collections.abc import Mapping
from math import isnan
from typing import Any, Literal

from msgspec import Struct

from drsim import __version__
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_model, compile_policy, never
from drsim.process.exact import evaluate
from drsim.process.spec import Model, Policy, Signal
from drsim.process.steps import Decay, StepValue, step_values
from drsim.process.toml import format_model
from drsim.report.numbers import counted, points, rate
from drsim.report.text import columns, paragraph

__all__ = ["ModelDocument", "ModelPolicyDocument", "ModelsDocument", "model_text", "models_document", "models_text"]


class ModelPolicyDocument(Struct, frozen=True, kw_only=True):
    """What a policy does, exactly; null where its signal looks back on the run, so that it has to be simulated."""

    name: str
    success: float | None
    gain: float | None
    interventions: float | None


class ModelDocument(Struct, frozen=True, kw_only=True):
    """One model; `specification` is its file, table by table."""

    name: str
    source: str
    horizon: int
    modes: list[str]
    mechanisms: list[str]
    baseline: float
    rho: float | None
    """Intraclass correlation of unaided runs of one task; 0 where tasks are alike."""
    policies: list[ModelPolicyDocument]
    specification: dict[str, Any]


class ModelsDocument(Struct, frozen=True, kw_only=True):
    """`drsim models --json`."""

    schema: Literal["drsim.models/1"] = "drsim.models/1"
    version: str
    models: list[ModelDocument]


def models_document(models: Mapping[str, Model]) -> ModelsDocument:
    """The document that `drsim models --json` prints.

    Parameters
    ----------
    models : mapping
        By the names under which they were found.

    Returns
    -------
    ModelsDocument
        In their order.
    """
    return ModelsDocument(version=__version__, models=[_document(name, model) for name, model in models.items()])


def _document(name: str, model: Model) -> ModelDocument:
    arrays = compile_model(model)
    unaided = evaluate(arrays, never(arrays))
    return ModelDocument(
        name=name,
        source=model.source,
        horizon=model.horizon,
        modes=list(model.agent.modes),
        mechanisms=list(model.mechanisms),
        baseline=unaided.success,
        rho=None if isnan(unaided.rho) else unaided.rho,
        policies=[_policy_document(policy, arrays, compile_policy(model, policy)) for policy in model.policies],
        specification=tomllib.loads(format_model(model)),
    )


def _policy_document(name: str, model: CompiledModel, policy: CompiledPolicy) -> ModelPolicyDocument:
    if policy.history is not None:
        return ModelPolicyDocument(name=name, success=None, gain=None, interventions=None)
    exact = evaluate(model, policy)
    return ModelPolicyDocument(name=name, success=exact.success, gain=exact.gain, interventions=exact.interventions)


def models_text(models: Mapping[str, Model], width: int) -> str:
    """The list of models for people.

    Parameters
    ----------
    models : mapping
        By the names under which they were found.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    blocks = []
    for name, model in models.items():
        entry = _document(name, model)
        blocks += [paragraph(f"{name}: {_extent(entry)}", width, indent=0), paragraph(f"source: {model.source}", width)]
    return "\n".join([*blocks, "", paragraph("drsim models NAME shows one of them", width, indent=0)])


def _extent(entry: ModelDocument) -> str:
    mechanisms = f"mechanisms {', '.join(entry.mechanisms)}" if entry.mechanisms else "no mechanism"
    differ = f", tasks differ with ρ {rate(entry.rho)}" if entry.rho else ""
    return (
        f"{counted(entry.horizon, 'step')}, off-track {', '.join(entry.modes)}, {mechanisms}, "
        f"{counted(len(entry.policies), 'policy', 'policies')}; baseline success {rate(entry.baseline)}{differ}"
    )


def model_text(name: str, model: Model, width: int) -> str:
    """One model for people: its rates, and what its policies do.

    Parameters
    ----------
    name : str
        Under which it was found.
    model : Model
        Checked.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    entry = _document(name, model)
    heading = [paragraph(f"{name}: {_extent(entry)}", width, indent=0), paragraph(f"source: {model.source}", width)]
    blocks = ["\n".join(heading), columns(_rate_rows(model), right=(1, 2))]
    if entry.policies:
        blocks.append(columns(_policy_rows(model, entry), right=(2, 4, 5, 6, 7)))
    return "\n\n".join(blocks)


def _rate_rows(model: Model) -> list[list[str]]:
    rows = [["probability in a step", "first", "last"], _rate_row("finish", model.agent.finish, model.horizon)]
    for name, mode in model.agent.modes.items():
        rows += [
            _rate_row(f"slip to {name}", mode.slip, model.horizon),
            _rate_row(f"abandon in {name}", mode.abandon, model.horizon),
            _rate_row(f"recover from {name} alone", mode.self_recover, model.horizon),
        ]
    for name, mechanism in model.mechanisms.items():
        rows += [_rate_row(f"{name} recovers {mode}", it, model.horizon) for mode, it in mechanism.recover.items()]
        rows.append(_rate_row(f"{name} disrupts", mechanism.disrupt, model.horizon))
    return rows


def _rate_row(label: str, value: StepValue, horizon: int) -> list[str]:
    values = step_values(value, horizon)
    return [label, rate(float(values[0])), rate(float(values[-1]))]


def _policy_rows(model: Model, entry: ModelDocument) -> list[list[str]]:
    rows = [["policy", "mechanism", "fires where", "steps", "budget", "cool.", "success", "gain pp"]]
    for result in entry.policies:
        policy = model.policies[result.name]
        last = model.horizon - 1 if policy.last_step is None else policy.last_step
        every = f"/{policy.every}" if policy.every > 1 else ""
        steps, budget, cooldown = f"{policy.first_step}-{last}{every}", str(policy.budget), str(policy.cooldown)
        success, gain = ("simulate", "") if result.success is None else (rate(result.success), "")
        if result.gain is not None:
            gain = points(result.gain)
        rows.append([result.name, policy.mechanism, _rule(policy), steps, budget, cooldown, success, gain])
    return rows


def _rule(policy: Policy) -> str:
    """When a policy fires, in a few characters."""
    is_constant = not isinstance(policy.threshold, Decay | list | tuple)
    threshold = f"{policy.threshold:g}" if is_constant else "τ(t)"
    match Signal(policy.signal):
        case Signal.MEAN:
            rule = f"mean of {policy.window}>{threshold}"
        case Signal.VOTES:
            rule = f"{policy.votes} of {policy.window}>{threshold}"
        case signal:
            rule = f"{signal}>{threshold}"
    if policy.propensity == 1.0:
        return rule
    share = f"{policy.propensity:g}" if isinstance(policy.propensity, float | int) else "q(t)"
    return f"{rule} ×{share}"
