"""The best times to intervene, as a document and as text for a terminal of 80 columns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from msgspec import Struct

from drsim import __version__
from drsim.arrays import FloatArray
from drsim.inference.posterior import Uncertain
from drsim.planning.ladder import Kind, Ladder, Rung
from drsim.planning.robust import Robust
from drsim.planning.written_policy import written_policy
from drsim.process.compile import CompiledModel, CompiledPolicy, compile_policy
from drsim.process.exact import evaluate
from drsim.process.spec import Model, Policy
from drsim.process.terms import Terms, priced
from drsim.process.toml import format_policy
from drsim.process.trace import trace
from drsim.report.documents import Number
from drsim.report.numbers import counted, points, rate
from drsim.report.text import columns, paragraph

__all__ = ["Answer", "OptimizeDocument", "optimize_document", "optimize_text"]

MOST_ROWS = 26
"""Steps shown of the curve of thresholds."""
MOST_BUDGETS = 5
LONGEST_NAME, LONGEST_MECHANISM = 26, 20
WRITTEN_NAME = "optimal"
MOST_MADE = 0.95
"""Of the interventions, the steps before and after those named hold a twentieth each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What `drsim optimize` found."""

    model: Model
    """The point model."""
    compiled: CompiledModel
    """The same as the ladder takes it: without what a belief about the state cannot hold."""
    ladder: Ladder
    robust: Robust | None
    assumptions: tuple[str, ...]
    """One sentence for each thing that is taken for granted."""
    as_given: Mapping[Kind, float] | None = None
    """Gains of the ladder's policies in the model as given, where the ladder is about its typical model."""

    @property
    def mechanisms(self) -> list[str]:
        """Names by index."""
        return list(self.model.mechanisms)


class TermsDocument(Struct, frozen=True, kw_only=True):
    """What all policies keep, and what they pay in units of success."""

    budget: int
    cooldown: int
    intervention_price: float
    critic_price: float
    mechanisms: list[str]


class HindsightDocument(Struct, frozen=True, kw_only=True):
    """P(fail → success) of the policy, under both couplings: what the hindsight oracle gains."""

    shared_prefix: float
    independent: float


class RungDocument(Struct, frozen=True, kw_only=True):
    """One rung; gains are net of prices and beyond the unaided run."""

    name: str
    kind: str
    gain: float
    low: float
    """What the gain is at least: less the error of the grid, the gap of two bounds, or five standard errors."""
    se: float | None
    below: str | None
    """For a user's policy the kind whose best is no worse; null where it does not keep the terms."""
    mechanism: str | None
    hindsight: HindsightDocument | None


class ThresholdPolicyDocument(Struct, frozen=True, kw_only=True):
    """A plain score-threshold policy."""

    mechanism: str
    threshold: float | list[float]
    budget: int
    cooldown: int
    first_step: int
    last_step: int | None
    gain: float
    """Exact gain of the policy as it is written here."""
    toml: str


class ValueOfInformationDocument(Struct, frozen=True, kw_only=True):
    """What knowing more would be worth."""

    state: float
    """Full information less the optimal belief policy: of seeing whether a run is off track."""
    memory: float
    """Optimal belief policy less the best threshold curve: of remembering all scores, budget and mechanism."""
    parameters: float | None
    """Of knowing exactly what differs between draws; null without draws."""


class RobustDocument(Struct, frozen=True, kw_only=True):
    """The policy that is best for the mean over draws."""

    n_draws: int
    gain: Number
    prob_gain: float
    regret: float
    """What the policy that is best at the point estimate loses against it."""
    perfect_knowledge: float
    varying: list[str]
    threshold_policy: ThresholdPolicyDocument | None
    belief_gain: Number | None
    """Of the belief policy that is best at the point estimate, over the same draws."""


class GridDocument(Struct, frozen=True, kw_only=True):
    """Of beliefs; `error` is the change of the value when the resolution is halved."""

    points: int
    resolution: int
    error: float


type Curve = list[list[float | None]]


class OptimizeDocument(Struct, frozen=True, kw_only=True):
    """`drsim optimize --json`."""

    schema: Literal["drsim.optimize/1"] = "drsim.optimize/1"
    version: str
    model: str
    source: str
    horizon: int
    seed: int
    terms: TermsDocument
    assumptions: list[str]
    baseline: float
    curve: Curve
    """b* by budget left from 1 on and by step: least P(off track) from which any mechanism pays; null: never."""
    curves: dict[str, Curve]
    """Likewise by mechanism: from where it is the best choice."""
    is_upper: list[list[bool]]
    """Whether intervening pays everywhere above the curve."""
    grid: GridDocument
    interventions: float
    """Of the optimal belief policy, per run."""
    threshold_policy: ThresholdPolicyDocument | None
    """The best threshold curve found; null where never to intervene is best."""
    ladder: list[RungDocument]
    as_given: dict[str, float] | None
    """Gains of the ladder's policies in the model as given, where the ladder is about its typical model."""
    value_of_information: ValueOfInformationDocument
    robust: RobustDocument | None


def optimize_document(answer: Answer, seed: int) -> OptimizeDocument:
    """The document that `drsim optimize --json` prints."""
    ladder, programme = answer.ladder, answer.ladder.programme
    return OptimizeDocument(
        version=__version__,
        model=answer.model.name,
        source=answer.model.source,
        horizon=answer.model.horizon,
        seed=seed,
        terms=_terms_document(answer, ladder.terms),
        assumptions=list(answer.assumptions),
        baseline=ladder.baseline,
        curve=_curve(programme.regions.first),
        curves={answer.mechanisms[m]: _curve(programme.regions.lowest[m]) for m in _allowed(answer, ladder.terms)},
        is_upper=programme.regions.is_upper.tolist(),
        grid=GridDocument(points=programme.grid.n_points, resolution=programme.grid.resolution, error=programme.error),
        interventions=programme.interventions,
        threshold_policy=_threshold_document(answer, ladder.rung(Kind.CURVE).policy),
        ladder=[_rung_document(answer, it) for it in ladder.rungs],
        as_given=None if answer.as_given is None else {str(kind): gain for kind, gain in answer.as_given.items()},
        value_of_information=ValueOfInformationDocument(
            state=ladder.rung(Kind.FULL).gain - ladder.rung(Kind.BELIEF).gain,
            memory=ladder.rung(Kind.BELIEF).gain - ladder.rung(Kind.CURVE).gain,
            parameters=None if answer.robust is None else answer.robust.perfect_knowledge,
        ),
        robust=None if answer.robust is None else _robust_document(answer, answer.robust),
    )


def _allowed(answer: Answer, terms: Terms) -> tuple[int, ...]:
    return tuple(range(len(answer.mechanisms))) if terms.mechanisms is None else terms.mechanisms


def _terms_document(answer: Answer, terms: Terms) -> TermsDocument:
    return TermsDocument(
        budget=terms.budget,
        cooldown=terms.cooldown,
        intervention_price=terms.intervention_price,
        critic_price=terms.critic_price,
        mechanisms=[answer.mechanisms[m] for m in _allowed(answer, terms)],
    )


def _curve(thresholds: FloatArray) -> Curve:
    return [[None if math.isnan(it) else float(it) for it in row] for row in thresholds]


def _rung_document(answer: Answer, rung: Rung) -> RungDocument:
    hindsight = None
    if rung.hindsight is not None and rung.hindsight_independent is not None:
        hindsight = HindsightDocument(shared_prefix=rung.hindsight, independent=rung.hindsight_independent)
    return RungDocument(
        name=rung.name,
        kind=rung.kind,
        gain=rung.gain,
        low=rung.low,
        se=rung.se or None,
        below=rung.below,
        mechanism=_mechanism(answer, rung.policy),
        hindsight=hindsight,
    )


def _mechanism(answer: Answer, policy: CompiledPolicy | None) -> str | None:
    return None if policy is None or policy.mechanism < 0 else answer.mechanisms[policy.mechanism]


def _threshold_document(answer: Answer, policy: CompiledPolicy | None) -> ThresholdPolicyDocument | None:
    if policy is None:
        return None
    written = written_policy(answer.model, policy)
    return ThresholdPolicyDocument(
        mechanism=written.mechanism,
        threshold=list(written.threshold) if isinstance(written.threshold, tuple) else float(written.threshold),  # type: ignore[arg-type] # never a decay
        budget=written.budget,
        cooldown=written.cooldown,
        first_step=written.first_step,
        last_step=written.last_step,
        gain=_gain_as_written(answer, written),
        toml=format_policy(WRITTEN_NAME, written),
    )


def _gain_as_written(answer: Answer, policy: Policy) -> float:
    """Exact gain of a policy as it stands in its table, net of prices."""
    spec = replace(answer.model, policies={WRITTEN_NAME: policy})
    exact = evaluate(priced(answer.compiled, answer.ladder.terms), compile_policy(spec, WRITTEN_NAME))
    return exact.gain - exact.tokens


def _robust_document(answer: Answer, robust: Robust) -> RobustDocument:
    return RobustDocument(
        n_draws=len(robust.gain),
        gain=Number.of(Uncertain.from_draws(robust.gain)),
        prob_gain=robust.prob_gain,
        regret=robust.regret,
        perfect_knowledge=robust.perfect_knowledge,
        varying=list(robust.varying),
        threshold_policy=_threshold_document(answer, robust.policy),
        belief_gain=None if robust.belief_gain is None else Number.of(Uncertain.from_draws(robust.belief_gain)),
    )


def optimize_text(answer: Answer, width: int) -> str:
    """The answer for people.

    Parameters
    ----------
    answer : Answer
        Ladder and, with draws, the robust policy.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        Lines without a final newline.
    """
    parts = [_heading(answer, width), paragraph(_verdict(answer), width, indent=0), _ladder_text(answer, width)]
    if answer.ladder.programme.budget:
        parts.append(_curve_text(answer, width))
    if answer.robust is not None:
        parts.append(_robust_text(answer.robust, width))
    policy = answer.ladder.rung(Kind.CURVE).policy if answer.robust is None else answer.robust.policy
    if policy is not None:
        parts.append(_policy_text(answer, policy, width))
    return "\n\n".join(parts)


def _heading(answer: Answer, width: int) -> str:
    terms = answer.ladder.terms
    lines = [
        paragraph(
            f"{answer.model.name}, {answer.model.horizon} steps: {', '.join(_names(answer))}, at most "
            f"{counted(terms.budget, 'intervention')} a run, cooldown {terms.cooldown}",
            width,
            indent=0,
        )
    ]
    if not terms.is_free:
        lines.append(
            paragraph(
                f"prices in units of success: {terms.intervention_price:g} an intervention, {terms.critic_price:g} a "
                "scored step; gains are net of them",
                width,
            )
        )
    return "\n".join([*lines, *(paragraph(f"assumed: {it}", width) for it in answer.assumptions)])


def _names(answer: Answer) -> list[str]:
    return [answer.mechanisms[m] for m in _allowed(answer, answer.ladder.terms)] or ["no mechanism"]


def _verdict(answer: Answer) -> str:
    """One sentence: whether intervening pays, and what a plain threshold reaches of it."""
    ladder = answer.ladder
    best, curve, full = (ladder.rung(kind).gain for kind in (Kind.BELIEF, Kind.CURVE, Kind.FULL))
    if best <= 0.0:
        reach = "not even for a policy that sees the state" if full <= 0.0 else "for no policy that goes by scores"
        return f"Intervening does not pay, {reach}."
    if curve <= 0.0:
        return f"Plain score thresholds do not pay; the best policy on beliefs gains {points(best)} pp."
    policy = ladder.rung(Kind.CURVE).policy
    share = f"{100 * curve / best:.0f} %"
    return (
        f"The best plain thresholds ({_when(answer, policy)}) gain {points(curve)} pp, {share} of the "
        f"{points(best)} pp that any policy on these scores can gain; one that sees the state gains {points(full)} pp."
    )


def _when(answer: Answer, policy: CompiledPolicy | None) -> str:
    """Mechanism, and the steps in which most interventions of a policy are made."""
    if policy is None:
        return "never"
    name = answer.mechanisms[policy.mechanism]
    made = np.cumsum(trace(answer.compiled, policy).interventions)
    if made[-1] <= 0.0:
        return name
    first, last = np.searchsorted(made, np.array([1.0 - MOST_MADE, MOST_MADE]) * made[-1])
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    return f"{name}, mostly in {steps}"


def _ladder_text(answer: Answer, width: int) -> str:
    ladder = answer.ladder
    rows = [("ladder", "gain pp", "success" if ladder.terms.is_free else "net", "oracle pp", "mechanism")]
    for rung in ladder.rungs:
        oracle = "" if rung.hindsight is None else points(rung.hindsight, 2)
        mark = " *" if rung.kind is Kind.USER and rung.below is None else " †" if rung.se > 0.0 else ""
        name = _fitted(rung.name, LONGEST_NAME - len(mark)) + mark
        mechanism = _fitted(_mechanism(answer, rung.policy) or "", LONGEST_MECHANISM)
        rows.append((name, points(rung.gain, 2), rate(ladder.baseline + rung.gain), oracle, mechanism))
    notes = "\n".join(paragraph(it, width) for it in _ladder_notes(answer))
    return columns(rows, right=(1, 2, 3)) + "\n" + notes


def _fitted(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _ladder_notes(answer: Answer) -> list[str]:
    ladder = answer.ladder
    notes = []
    constant = ladder.rung(Kind.CONSTANT).policy
    if constant is not None:
        written = written_policy(answer.model, constant)
        last = answer.model.horizon - 1 if written.last_step is None else written.last_step
        # one threshold in all open steps is written as one number
        threshold = float(np.min(written.threshold))  # type: ignore[arg-type]
        times = counted(written.budget, "intervention")
        notes.append(
            f"best constant threshold: {written.mechanism} when score > {threshold:.3f} in steps "
            f"{written.first_step} to {last}, at most {times}"
        )
    if any(it.kind is Kind.USER and it.below is None for it in ladder.rungs):
        notes.append("* does not keep these terms, so that no rung need lie above it")
    if any(it.se > 0.0 for it in ladder.rungs):
        worst = max(it.se for it in ladder.rungs)
        notes.append(f"† simulated, since it looks back on the run: ± {100 * worst:.2f} pp (one standard error)")
    if any(it.hindsight is not None for it in ladder.rungs):
        notes.append("oracle: applied to just the runs that would fail, P(fail → success), shared prefix")
    notes.append(_accuracy(ladder))
    if answer.as_given is not None:
        gains = [f"{kind} {points(gain, 2)} pp" for kind, gain in answer.as_given.items() if kind is not Kind.NEVER]
        notes.append(f"in the model as given these policies gain: {', '.join(gains)}")
    return notes


def _accuracy(ladder: Ladder) -> str:
    programme, rung = ladder.programme, ladder.rung(Kind.BELIEF)
    halved = f"{programme.grid.n_points} points, which halving the resolution moves by {100 * programme.error:.1g} pp"
    if len(programme.grid.points[0]) == 2:
        return f"optimal belief policy: {programme.interventions:.2f} interventions a run; beliefs on {halved}"
    return (
        f"optimal belief policy: between {points(rung.low, 3)} pp (a policy that is known) and "
        f"{points(rung.gain, 3)} pp (a bound), gap {100 * (rung.gain - rung.low):.2g} pp; beliefs on {halved}"
    )


def _curve_text(answer: Answer, width: int) -> str:
    """b* by step, a column for each mechanism and budget left."""
    regions, horizon = answer.ladder.programme.regions, answer.model.horizon
    shown, names = _shown(answer, width)
    steps = np.unique(np.linspace(0, horizon - 1, min(horizon, MOST_ROWS)).astype(int))
    rows = [("step", *(f"{names[m]}:{b}" for m, b in shown))]
    rows += [(str(t), *(_threshold(regions.lowest[m, b - 1, t]) for m, b in shown)) for t in steps]
    how = "Intervene when P(off track) is above (mechanism:interventions left; – never"
    how += f"; {len(steps)} of {horizon} steps)" if len(steps) < horizon else ")"
    parts = [paragraph(how, width, indent=0), columns(rows, right=range(len(rows[0])))]
    legend = [f"{names[m]} {answer.mechanisms[m]}" for m in names if names[m] != answer.mechanisms[m]]
    if legend:
        parts.append(paragraph(", ".join(legend), width))
    gaps = int((~regions.is_upper).sum())
    if gaps:
        where = f"{counted(gaps, 'pair')} of step and budget"
        parts.append(paragraph(f"in {where} intervening does not pay everywhere above, see is_upper in --json", width))
    return "\n".join(parts)


def _shown(answer: Answer, width: int) -> tuple[list[tuple[int, int]], dict[int, str]]:
    """Mechanisms and budgets left that fit side by side, and what the mechanisms are called there."""
    budgets = list(range(1, answer.ladder.programme.budget + 1))
    mechanisms = _allowed(answer, answer.ladder.terms)
    for names in ({m: answer.mechanisms[m] for m in mechanisms}, {m: f"m{m}" for m in mechanisms}):
        # two blanks between columns, a colon and the budget after the name
        widths = sum(max(len(it) + 1 + len(str(budgets[-1])), 5) + 2 for it in names.values())
        fits = min(MOST_BUDGETS, (width - 4) // widths)
        if fits >= min(2, len(budgets)):
            break
    fits = max(1, fits)
    if len(budgets) > fits:
        budgets = sorted({*budgets[: fits - 1], budgets[-1]})
    most = max(1, (width - 4) // (7 * len(budgets)))
    return [(m, b) for m in mechanisms[:most] for b in budgets], names


def _threshold(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _robust_text(robust: Robust, width: int) -> str:
    gain = Uncertain.from_draws(robust.gain)
    what = " and ".join(robust.varying) or "nothing"
    known = (
        f"over {len(robust.gain)} draws, which differ in {what}: the policy that is best for their mean gains "
        f"{points(gain.mean)} pp [{points(gain.q2_5)}, {points(gain.q97_5)}], P(gain > 0) = {rate(robust.prob_gain)}"
    )
    lines = [
        known,
        f"taking the point estimate for the truth loses {100 * robust.regret:.2f} pp of it",
        f"perfect knowledge would be worth {100 * robust.perfect_knowledge:.2f} pp",
    ]
    if robust.belief_gain is not None:
        belief = Uncertain.from_draws(robust.belief_gain)
        lines.append(
            f"the belief policy that is best at the point estimate gains {points(belief.mean)} pp "
            f"[{points(belief.q2_5)}, {points(belief.q97_5)}] over the same draws"
        )
    return "\n".join(paragraph(it, width, indent=0) for it in lines)


def _policy_text(answer: Answer, policy: CompiledPolicy, width: int) -> str:
    written = written_policy(answer.model, policy)
    gain = _gain_as_written(answer, written)
    head = f"As a policy for drsim simulate and drsim sweep (gain as written {points(gain, 2)} pp at the point model):"
    return "\n".join([paragraph(head, width, indent=0), *_folded(format_policy(WRITTEN_NAME, written), width)])


def _folded(toml: str, width: int) -> list[str]:
    """TOML with its lists broken between numbers, which TOML allows."""
    lines = []
    for line in toml.splitlines():
        if len(line) <= width or "[" not in line[1:]:
            lines.append(line)
            continue
        head, numbers = line.split("[", 1)
        lines.append(f"{head}[")
        lines += paragraph(numbers.rstrip("]") + ",", width).splitlines()
        lines.append("]")
    return lines
