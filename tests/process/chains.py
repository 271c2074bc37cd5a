"""The step process by enumeration of every path, straight from the specification: a second witness."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

from hypothesis import strategies as st

from drsim.process.spec import Agent, Cost, Critic, Decay, Mechanism, Mode, Model, Policy, StepValue

LN_2 = math.log(2.0)


def late(value: float) -> tuple[float, ...]:
    """Nothing in the first two of 15 steps, then `value`."""
    return (0.0, 0.0) + (value,) * 13


REFERENCE = Model(
    name="reference",
    source="two modes, hazards that start late; values computed independently of this package",
    horizon=15,
    agent=Agent(
        finish=late(0.18),
        modes={
            "m1": Mode(slip=Decay(start=0.12, end=0.02, half_life=6 * LN_2), abandon=late(0.10), self_recover=0.03),
            "m2": Mode(slip=0.01, abandon=0.05, self_recover=0.0),
        },
    ),
    critic=Critic(mean_on=-1.2, mean_off={"m1": 1.2, "m2": 0.3}, sigma=1.0),
    mechanisms={
        "rollback": Mechanism(
            recover={"m1": 0.25, "m2": 0.10}, disrupt=Decay(start=0.6, end=0.05, half_life=4 * LN_2), extra_steps=1
        )
    },
    policies={
        "middling": Policy(mechanism="rollback", threshold=0.5, budget=3),
        "late": Policy(mechanism="rollback", threshold=0.7, budget=2, first_step=4, cooldown=2),
        "early": Policy(mechanism="rollback", threshold=0.9, budget=1, last_step=3),
    },
)


def at(value: StepValue, t: int) -> float:
    if isinstance(value, Decay):
        return value.end + (value.start - value.end) * math.exp2(-t / value.half_life)
    return float(value) if isinstance(value, int | float) else float(value[t])


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way in which a run can go."""

    probability: float
    end: str
    acts: int
    firings: tuple[tuple[int, str], ...]
    """Step and state in which each intervention was made."""
    tokens: float
    visited: tuple[str, ...]
    """State before every step, and after the last one."""


def paths(model: Model, name: str | None, *, start: Mapping[str, float] | None = None, t: int = 0) -> Iterator[Path]:
    """Every path of positive probability under a policy, or under none, from step `t` on."""
    modes, off = model.agent.modes, model.agent.start_off
    if start is None:
        shares = dict(off) if isinstance(off, Mapping) else dict.fromkeys(modes, off / len(modes))
        start = {"on": 1.0 - sum(shares.values()), **shares}
    policy = model.policies[name] if name else None
    for state, weight in start.items():
        if weight > 0.0:
            first = Path(probability=weight, end="", acts=0, firings=(), tokens=0.0, visited=())
            yield from _onwards(model, policy, t, state, first)


def _onwards(model: Model, policy: Policy | None, t: int, state: str, path: Path) -> Iterator[Path]:
    n_missing = min(t, model.horizon) + 1 - len(path.visited)
    path = replace(path, visited=path.visited + (state,) * n_missing)
    if state in ("success", "fail") or t >= model.horizon:
        n_missing = model.horizon + 1 - len(path.visited)
        end = state if state in ("success", "fail") else "capped"
        yield replace(path, end=end, visited=path.visited + (state,) * n_missing)
        return
    tokens = path.tokens + model.cost.tokens_per_step + model.cost.tokens_per_step_growth * t
    for new, p_act in _act(model, t, state):
        acted = replace(path, probability=path.probability * p_act, acts=path.acts + 1, tokens=tokens)
        if policy is None or new in ("success", "fail"):
            yield from _if_possible(model, policy, t + 1, new, acted)
            continue
        acted = replace(acted, tokens=tokens + model.cost.critic_tokens)
        p_fire = _fires(model, policy, t, new, acted.firings)
        stayed = replace(acted, probability=acted.probability * (1.0 - p_fire))
        yield from _if_possible(model, policy, t + 1, new, stayed)
        mechanism = model.mechanisms[policy.mechanism]
        for moved, p_move in _move(model, mechanism, t, new):
            fired = replace(
                acted,
                probability=acted.probability * p_fire * p_move,
                firings=(*acted.firings, (t, new)),
                tokens=acted.tokens + mechanism.tokens,
            )
            yield from _if_possible(model, policy, t + 1 + mechanism.extra_steps, moved, fired)


def _if_possible(model: Model, policy: Policy | None, t: int, state: str, path: Path) -> Iterator[Path]:
    if path.probability > 0.0:
        yield from _onwards(model, policy, t, state, path)


def _act(model: Model, t: int, state: str) -> list[tuple[str, float]]:
    agent = model.agent
    if state == "on":
        finish = at(agent.finish, t)
        slips = {name: at(mode.slip, t) for name, mode in agent.modes.items()}
        return [
            ("success", finish),
            ("on", (1 - finish) * (1 - sum(slips.values()))),
            *((name, (1 - finish) * slip) for name, slip in slips.items()),
        ]
    mode = agent.modes[state]
    abandon, back = at(mode.abandon, t), at(mode.self_recover, t)
    return [("fail", abandon), ("on", (1 - abandon) * back), (state, (1 - abandon) * (1 - back))]


def _fires(model: Model, policy: Policy, t: int, state: str, firings: tuple[tuple[int, str], ...]) -> float:
    last = model.horizon - 1 if policy.last_step is None else policy.last_step
    extra_steps = model.mechanisms[policy.mechanism].extra_steps
    is_cooling = bool(firings) and t <= firings[-1][0] + extra_steps + policy.cooldown
    is_open = policy.first_step <= t <= last and (t - policy.first_step) % policy.every == 0
    if is_cooling or len(firings) >= policy.budget or not is_open:
        return 0.0
    return at(policy.propensity, t) * _is_above(model, policy, t, state)


def _is_above(model: Model, policy: Policy, t: int, state: str) -> float:
    threshold = at(policy.threshold, t)
    if threshold in (0.0, 1.0):
        return 1.0 - threshold
    raw = model.critic.temperature * math.log(threshold / (1 - threshold))
    mean = model.critic.mean_on if state == "on" else (model.critic.mean_off or {})[state]
    return 1.0 - NormalDist(mean or 0.0, model.critic.sigma or 1.0).cdf(raw)


def _move(model: Model, mechanism: Mechanism, t: int, state: str) -> list[tuple[str, float]]:
    if state != "on":
        recover = at(mechanism.recover[state], t)
        return [("on", recover), (state, 1 - recover)]
    modes = list(model.agent.modes)
    weights = dict.fromkeys(modes, 1.0) if mechanism.to is None else {k: mechanism.to.get(k, 0.0) for k in modes}
    disrupt = at(mechanism.disrupt, t)
    return [("on", 1 - disrupt), *((k, disrupt * weights[k] / sum(weights.values())) for k in modes)]


PROPENSITIES: list[StepValue] = [1.0, 0.25, Decay(start=0.9, end=0.3, half_life=2.0)]
probabilities = st.one_of(st.sampled_from([0.0, 1.0, 0.5]), st.floats(0.0, 1.0, allow_subnormal=False))


@st.composite
def step_value(draw: st.DrawFn, horizon: int, top: float = 1.0) -> StepValue:
    def one() -> float:
        return top * draw(probabilities)

    kind = draw(st.sampled_from(["number", "list", "decay"]))
    if kind == "list":
        return tuple(one() for _ in range(horizon))
    return one() if kind == "number" else Decay(start=one(), end=one(), half_life=draw(st.floats(0.1, 20.0)))


@st.composite
def models(draw: st.DrawFn, *, most_steps: int = 4, most_modes: int = 2, run_sd: float = 0.0) -> Model:
    """Any small model with one mechanism and one policy."""
    horizon = draw(st.integers(1, most_steps))
    names = ["loop", "wrong file", "ärger"][: draw(st.integers(1, most_modes))]
    any_value = step_value(horizon)
    modes = {
        name: Mode(
            slip=draw(step_value(horizon, 1 / len(names))), abandon=draw(any_value), self_recover=draw(any_value)
        )
        for name in names
    }
    first = draw(st.integers(0, horizon - 1))
    weights = draw(st.none() | st.fixed_dictionaries({names[0]: st.floats(0.1, 1.0), names[-1]: st.floats(0.1, 1.0)}))
    start_off = draw(probabilities | st.fixed_dictionaries({names[-1]: probabilities}))
    return Model(
        name="any",
        source="drawn",
        horizon=horizon,
        agent=Agent(finish=draw(any_value), modes=modes, start_off=start_off),
        critic=Critic(
            mean_on=draw(st.floats(-3, 3)),
            mean_off={name: draw(st.floats(-3, 3)) for name in names},
            sigma=draw(st.floats(0.2, 3)),
            temperature=draw(st.floats(0.2, 3)),
            run_sd=run_sd,
        ),
        mechanisms={
            "m": Mechanism(
                recover={name: draw(any_value) for name in names},
                disrupt=draw(any_value),
                to=weights,
                extra_steps=draw(st.integers(0, 3)),
                tokens=draw(st.floats(0, 100)),
            )
        },
        policies={
            "p": Policy(
                mechanism="m",
                threshold=draw(any_value),
                budget=draw(st.integers(0, 3)),
                first_step=first,
                last_step=draw(st.none() | st.integers(first, horizon - 1)),
                cooldown=draw(st.integers(0, 3)),
                every=draw(st.integers(1, 3)),
                propensity=draw(st.sampled_from(PROPENSITIES)),
            )
        },
        cost=Cost(
            tokens_per_step=draw(st.floats(0, 100)),
            tokens_per_step_growth=draw(st.floats(0, 10)),
            critic_tokens=draw(st.floats(0, 10)),
            usd_per_million_tokens=2.0,
            seconds_per_step=3.0,
        ),
    )
