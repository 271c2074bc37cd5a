"""What the parts of a model must have in common: lengths of lists, names, and sums over modes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from drsim.process.flaws import Flaw, name_flaws, text_flaws, whole_flaws
from drsim.process.parts import Agent, Critic, Mechanism, Policy
from drsim.process.steps import ROUNDING, length_flaws, step_values

__all__ = ["flaws_between"]


def flaws_between(
    *,
    horizon: int,
    mode_names: Sequence[str],
    mechanism_names: Sequence[str],
    agent: Agent | None,
    critic: Critic | None,
    mechanisms: Mapping[str, Mechanism],
    policies: Mapping[str, Policy],
) -> Iterator[Flaw]:
    """Flaws of parts that are sound in themselves.

    Parameters
    ----------
    horizon : int
        T ≥ 1.
    mode_names, mechanism_names : sequence of str
        All that the model names, also those of parts that are not sound.
    agent, critic : Agent or None, Critic or None
        None where that part is not sound.
    mechanisms, policies : mapping
        Those that are sound.

    Yields
    ------
    Flaw
        With its path from the top of the model.
    """
    if agent is not None:
        yield from _agent_flaws(agent, horizon, mode_names)
    if not mode_names:
        yield Flaw(field="agent.modes", rule="must hold at least one off-track mode", value="")
        return
    if critic is not None and critic.mean_off is not None:
        yield from _by_mode_flaws("critic.mean_off", critic.mean_off, mode_names)
    for name, mechanism in mechanisms.items():
        path = f"mechanisms.{name}"
        yield from text_flaws("mechanisms", name)
        yield from _by_mode_flaws(f"{path}.recover", mechanism.recover, mode_names)
        yield from name_flaws(f"{path}.to", mechanism.to or {}, mode_names, "mode")
        for mode, value in mechanism.recover.items():
            yield from length_flaws(f"{path}.recover.{mode}", value, horizon)
        yield from length_flaws(f"{path}.disrupt", mechanism.disrupt, horizon)
    for name, policy in policies.items():
        yield from text_flaws("policies", name)
        yield from (flaw.under(f"policies.{name}") for flaw in _policy_flaws(policy, horizon, mechanism_names))


def _agent_flaws(agent: Agent, horizon: int, mode_names: Sequence[str]) -> Iterator[Flaw]:
    lengths = list(length_flaws("agent.finish", agent.finish, horizon))
    for name, mode in agent.modes.items():
        for field in ("slip", "abandon", "self_recover"):
            lengths += length_flaws(f"agent.modes.{name}.{field}", getattr(mode, field), horizon)
    yield from lengths
    if isinstance(agent.start_off, Mapping) and mode_names:
        yield from name_flaws("agent.start_off", agent.start_off, mode_names, "mode")
    if lengths or not agent.modes:
        return
    slips = np.sum([step_values(mode.slip, horizon) for mode in agent.modes.values()], axis=0)
    too_much = np.flatnonzero(slips > 1.0 + ROUNDING)
    if too_much.size:
        step = int(too_much[0])
        value = f"a sum of {slips[step]:.12g} at step {step}"
        rule = "must sum to at most 1 over the modes at every step"
        yield Flaw(field=f"agent.modes.{{{','.join(agent.modes)}}}.slip", rule=rule, value=value)


def _by_mode_flaws(field: str, values: Mapping[str, object], modes: Iterable[str]) -> Iterator[Flaw]:
    yield from name_flaws(field, values, modes, "mode")
    for mode in modes:
        if mode not in values:
            yield Flaw(field=f"{field}.{mode}", rule="is required for every mode, but missing", value="")


def _policy_flaws(policy: Policy, horizon: int, mechanism_names: Sequence[str]) -> Iterator[Flaw]:
    if mechanism_names:
        yield from name_flaws("mechanism", {policy.mechanism: None}, mechanism_names, "mechanism")
    else:
        rule = "names a mechanism, but the model has none; add a table [mechanisms.NAME]"
        yield Flaw(field="mechanism", rule=rule, value=policy.mechanism)
    yield from length_flaws("threshold", policy.threshold, horizon)
    yield from length_flaws("propensity", policy.propensity, horizon)
    for name in ("first_step", "last_step"):
        step = getattr(policy, name)
        if step is not None:
            yield from whole_flaws(name, step, 0, horizon - 1, remedy="a step of the horizon")
