"""Model files: TOML in and out (SCHEMA section 3)."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from drsim.errors import DataError, Mistake
from drsim.pilot.mistakes import show, unknown_field
from drsim.process.agreement import flaws_between
from drsim.process.flaws import Flaw, SpecError
from drsim.process.spec import Agent, Cost, Critic, Mechanism, Mode, Model, Policy, header_flaws
from drsim.process.steps import Decay

__all__ = ["format_model", "parse_model", "read_model"]

LARGEST_FILE = 2**20
"""Bytes; a model of 10000 steps and ten modes stays below it, and nothing else should be read as one."""

TABLES = ("model", "agent", "critic", "mechanisms", "policies", "cost")
HEADER = ("name", "source", "horizon")
DECAY_KEYS = {"from": "start", "to": "end", "half_life": "half_life"}
STEP_VALUES = ("finish", "slip", "abandon", "self_recover", "disrupt", "threshold", "propensity")


def read_model(path: Path) -> Model:
    """Read a model file.

    Parameters
    ----------
    path : Path
        TOML, UTF-8, at most 1 MiB.

    Returns
    -------
    Model
        Checked.

    Raises
    ------
    DataError
        The file cannot be read, or has mistakes; carries all of them that could be seen.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > LARGEST_FILE:
        raise DataError(f"{path} is larger than 1 MiB; a model file is short")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be UTF-8 text; byte 0x{raw[error.start]:02x} at {error.start} is not") from None
    return parse_model(text, source=str(path))


def parse_model(text: str, *, source: str) -> Model:
    """Read a model from the text of a model file.

    Parameters
    ----------
    text : str
        TOML.
    source : str
        What messages call it.

    Returns
    -------
    Model
        Checked.

    Raises
    ------
    DataError
        The text is no TOML, or has mistakes; carries all of them that could be seen.
    """
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise DataError(f"{source} must be TOML; this one is nested too deeply") from None
    except ValueError as error:  # also what Python says of an integer with thousands of digits
        raise DataError(f"{source} must be TOML; {str(error)[:1].lower()}{str(error)[1:]}") from None
    reader = _Reader()
    model = reader.model(document)
    if model is None:
        n = len(reader.flaws)
        message = f"{n} mistake{'s' if n > 1 else ''}; nothing was computed"
        raise DataError(
            message,
            [Mistake(source=source, line=None, field=it.field, value=it.value, rule=it.rule) for it in reader.flaws],
        )
    return model


class _Reader:
    """Walks a document and keeps every flaw."""

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []

    def model(self, document: dict[str, Any]) -> Model | None:
        """The model, or None when there is a flaw."""
        self.only(document, TABLES, "")
        header = self.header(self.required(document, "model"))
        raw_agent = self.required(document, "agent")
        raw_modes = self.table(raw_agent or {}, "modes", "agent.")
        agent = None
        if raw_agent is not None:
            modes = self.parts(Mode, raw_modes, "agent.modes")
            agent = self.part(Agent, raw_agent | ({"modes": modes} if "modes" in raw_agent else {}), "agent")
        raw_critic = self.required(document, "critic")
        critic = None if raw_critic is None else self.part(Critic, raw_critic, "critic")
        raw_mechanisms = self.table(document, "mechanisms")
        mechanisms = self.parts(Mechanism, raw_mechanisms, "mechanisms")
        policies = self.parts(Policy, self.table(document, "policies"), "policies")
        cost = self.part(Cost, self.table(document, "cost"), "cost")
        if header is not None:
            self.flaws += flaws_between(
                horizon=header["horizon"],
                mode_names=list(raw_modes),
                mechanism_names=list(raw_mechanisms),
                agent=agent,
                critic=critic,
                mechanisms=mechanisms,
                policies=policies,
            )
        if self.flaws or header is None or agent is None or critic is None or cost is None:
            return None
        return Model(**header, agent=agent, critic=critic, mechanisms=mechanisms, policies=policies, cost=cost)

    def header(self, raw: dict[str, Any] | None) -> dict[str, Any] | None:
        """The table `model`; None when it cannot even tell the horizon."""
        if raw is None:
            return None
        self.only(raw, HEADER, "model")
        values = {name: raw.get(name) for name in HEADER}
        missing = [f"model.{name}" for name in HEADER if name not in raw]
        found = [flaw for flaw in header_flaws(**values) if flaw.field not in missing]
        self.flaws += [*map(_missing, missing), *found]
        has_horizon = "model.horizon" not in [*missing, *(flaw.field for flaw in found)]
        return values if has_horizon else None

    def required(self, document: dict[str, Any], name: str) -> dict[str, Any] | None:
        """The table `name`; None, with a flaw, where there is none."""
        if name not in document:
            self.flaws.append(Flaw(field=name, rule="is required, but missing; add the table", value=""))
            return None
        value = self.table(document, name)
        return value if isinstance(document[name], dict) else None

    def table(self, raw: dict[str, Any], name: str, path: str = "") -> dict[str, Any]:
        """The table `name`, empty where there is none; anything else there is a flaw."""
        value = raw.get(name, {})
        if isinstance(value, dict):
            return value
        self.flaws.append(Flaw(field=path + name, rule="must be a table", value=show(value)))
        return {}

    def only(self, raw: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
        """Keep a flaw for every key that is not known."""
        for key in raw:
            if key not in known:
                rule = unknown_field(key, list(known), f"known are {', '.join(known)}")
                self.flaws.append(Flaw(field=f"{path}.{key}" if path else key, rule=rule, value=""))

    def parts[T](self, cls: Callable[..., T], raw: dict[str, Any], path: str) -> dict[str, T]:
        """The sound ones among named tables."""
        made = {name: self.part(cls, self.table(raw, name, f"{path}."), f"{path}.{name}") for name in raw}
        return {name: part for name, part in made.items() if part is not None}

    def part[T](self, cls: Callable[..., T], raw: dict[str, Any], path: str) -> T | None:
        """One part from its table; None, with its flaws kept, where it is not sound."""
        known = fields(cls)  # type: ignore[arg-type] # every part is a dataclass
        self.only(raw, tuple(field.name for field in known), path)
        missing = [
            _missing(f"{path}.{field.name}")
            for field in known
            if field.default is MISSING and field.default_factory is MISSING and field.name not in raw
        ]
        if missing:
            self.flaws += missing
            return None
        n_before = len(self.flaws)
        values = {field.name: self.value(field.name, raw[field.name], path) for field in known if field.name in raw}
        if len(self.flaws) > n_before:
            return None
        try:
            return cls(**values)
        except SpecError as error:
            self.flaws += [flaw.under(path) for flaw in error.flaws]
            return None

    def value(self, name: str, raw: object, path: str) -> object:
        """One field as its dataclass wants it."""
        if name in STEP_VALUES:
            return self.step_value(raw, f"{path}.{name}")
        if name in ("recover", "mean_off", "to"):
            if not isinstance(raw, dict):
                rule = "must be a table with one value per mode, such as { off = 0.25 }"
                self.flaws.append(Flaw(field=f"{path}.{name}", rule=rule, value=show(raw)))
                return {}
            if name == "recover":
                return {mode: self.step_value(value, f"{path}.{name}.{mode}") for mode, value in raw.items()}
        return raw

    def step_value(self, raw: object, path: str) -> object:
        """Tables as decays; all else as it is."""
        if not isinstance(raw, dict):
            return tuple(raw) if isinstance(raw, list) else raw
        self.only(raw, tuple(DECAY_KEYS), path)
        missing = [_missing(f"{path}.{key}") for key in DECAY_KEYS if key not in raw]
        self.flaws += missing
        if missing:
            return None
        try:
            return Decay(**{field: raw[key] for key, field in DECAY_KEYS.items()})
        except SpecError as error:
            self.flaws += [flaw.under(path) for flaw in error.flaws]
            return None


def _missing(field: str) -> Flaw:
    return Flaw(field=field, rule="is required, but missing", value="")


def format_model(model: Model) -> str:
    """The text of a model file that reads back as exactly this model.

    Parameters
    ----------
    model : Model
        Checked.

    Returns
    -------
    str
        TOML, ending in a newline; every number in the shortest digits that give it back.
    """
    header = {"name": model.name, "source": model.source, "horizon": model.horizon}
    agent = {field.name: getattr(model.agent, field.name) for field in fields(model.agent) if field.name != "modes"}
    blocks = [_block("model", header), _block("agent", agent)]
    blocks += [_block(f"agent.modes.{_key(name)}", _values(mode)) for name, mode in model.agent.modes.items()]
    blocks.append(_block("critic", _values(model.critic)))
    blocks += [_block(f"mechanisms.{_key(name)}", _values(it)) for name, it in model.mechanisms.items()]
    blocks += [_block(f"policies.{_key(name)}", _values(it)) for name, it in model.policies.items()]
    blocks.append(_block("cost", _values(model.cost)))
    return "\n".join(blocks)


def _values(part: Mode | Critic | Mechanism | Policy | Cost) -> dict[str, object]:
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _block(heading: str, values: Mapping[str, object]) -> str:
    lines = [f"{name} = {_literal(value)}" for name, value in values.items() if value is not None]
    return "".join(f"{line}\n" for line in [f"[{heading}]", *lines])


def _literal(value: object) -> str:
    match value:
        case str():
            return _quoted(value)
        case Decay():
            return _literal({key: getattr(value, field) for key, field in DECAY_KEYS.items()})
        case Mapping():
            inside = ", ".join(f"{_key(str(key))} = {_literal(entry)}" for key, entry in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case list() | tuple():
            return f"[{', '.join(map(_literal, value))}]"
        case int():
            return str(int(value))
    return repr(float(value))  # type: ignore[arg-type] # a checked number is all that is left


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    # JSON escapes what TOML wants escaped, all but DEL
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
