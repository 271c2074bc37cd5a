"""How figures of the bounds read, and the answer in one sentence."""

import math

from drsim.inference.posterior import Uncertain
from drsim.planning.bounds.ceilings import Bounds, Ceilings, Figure
from drsim.report.numbers import rate, uncertain_rate

__all__ = [
    "answer",
    "auroc_text",
    "ceiling",
    "median",
    "middle",
    "overall_answer",
    "pp",
    "rate_figure",
    "short",
    "wanted_auroc",
]


def overall_answer(bounds: Bounds) -> str:
    """Whether intervening can pay, over all cells."""
    if len(bounds.cells) == 1:
        return answer(bounds.best, bounds)
    n_possible = sum(cell.possible.is_met for cell in bounds.cells)
    best = bounds.best
    return (
        f"{pp(best.possible.required)} pp is possible in {n_possible} of {len(bounds.cells)} cells; "
        f"most in {best.setting.name}: {answer(best, bounds)}"
    )


def answer(cell: Ceilings, bounds: Bounds) -> str:
    """Whether intervening can pay in one cell: the perfect predictor, the critic that is needed, and Best-of-2."""
    again = f"Best-of-2 with an oracle gains {_gain(cell.best_of[2])} without any critic"
    if not cell.possible.is_met:
        return (
            f"it cannot pay: a perfect predictor gains less than the {pp(cell.possible.required)} pp wanted, "
            f"{_gain(cell.over_cases(lambda case: case.perfect_critic))}; {again}"
        )
    perfect = cell.over_cases(lambda case: case.perfect_critic)
    swept = ""
    if isinstance(perfect, tuple):
        swept = f" for a recovery of {_ends(cell.over_cases(lambda case: case.recovery))}"
    wanted = f"{pp(bounds.question.margin)} pp"
    return (
        f"it can pay: a perfect predictor gains at most {_gain(perfect)}{swept}; "
        f"{_needed(cell.smallest_auroc, wanted)}; {again}"
    )


def _needed(auroc: Figure, wanted: str) -> str:
    """What a critic must be, in words."""
    if isinstance(auroc, tuple):
        return _needed_over_sweep(*auroc, wanted)
    if math.isinf(median(auroc)):
        return f"no critic reaches {wanted}"
    if median(auroc) == 0.5:
        ends = f" (AUROC needed: {wanted_auroc(auroc)})" if isinstance(auroc, Uncertain) and auroc.q97_5 > 0.5 else ""
        return f"always firing gains {wanted} without a critic{ends}"
    return f"a critic needs AUROC ≥ {wanted_auroc(auroc)} for {wanted}"


def _needed_over_sweep(low: float, high: float, wanted: str) -> str:
    if math.isinf(low):
        return f"no critic reaches {wanted}"
    if high == 0.5:
        return f"always firing gains {wanted} without a critic"
    best = "firing always is enough" if low == 0.5 else f"AUROC ≥ {auroc_text(low)} is enough"
    worst = "no critic is enough" if math.isinf(high) else f"AUROC ≥ {auroc_text(high)} is needed"
    return f"for {wanted} at best {best}, at worst {worst}"


def _ends(figure: Figure) -> str:
    if isinstance(figure, tuple):
        return f"{figure[0]:.2g} to {figure[1]:.2g}"
    return f"{figure.mean if isinstance(figure, Uncertain) else figure:.2g}"


def pp(value: float) -> str:
    """A stated gain in percentage points, as short as it was stated."""
    return f"{100 * value:g}"


def _gain(figure: Figure) -> str:
    """A ceiling in percentage points with its unit."""
    if isinstance(figure, Uncertain):
        return f"{short(figure.mean)} pp [{short(figure.q2_5)}, {short(figure.q97_5)}]"
    if isinstance(figure, tuple):
        return f"{short(figure[0])} to {short(figure[1])} pp"
    return f"{short(figure)} pp"


def ceiling(figure: Figure) -> str:
    """A ceiling in percentage points, with its interval or its ends."""
    return _gain(figure).replace(" pp", "")


def short(value: float) -> str:
    """Percentage points with one decimal; `–` when undefined, and no negative zero."""
    return f"{100 * value + 0.0:.1f}".replace("-0.0", "0.0") if math.isfinite(value) else "–"


def auroc_text(value: float) -> str:
    """An AUROC; `none` where no critic reaches the gain."""
    return f"{value:.2f}" if math.isfinite(value) else "none"


def wanted_auroc(figure: Figure) -> str:
    """The smallest AUROC that reaches a gain: median and interval, or ends."""
    if isinstance(figure, Uncertain):
        return f"{auroc_text(figure.q50)} [{auroc_text(figure.q2_5)}, {auroc_text(figure.q97_5)}]"
    if isinstance(figure, tuple):
        return f"{auroc_text(figure[0])} to {auroc_text(figure[1])}"
    return auroc_text(figure)


def rate_figure(figure: Figure) -> str:
    """A probability, with its interval or its ends."""
    if isinstance(figure, Uncertain):
        return uncertain_rate(figure)
    if isinstance(figure, tuple):
        return f"{rate(figure[0])} to {rate(figure[1])}"
    return rate(figure)


def middle(figure: Figure) -> float:
    """Posterior mean, exact number, or lower end."""
    if isinstance(figure, Uncertain):
        return figure.mean
    return figure[0] if isinstance(figure, tuple) else figure


def median(figure: Figure) -> float:
    """Posterior median, exact number, or lower end."""
    return figure.q50 if isinstance(figure, Uncertain) else middle(figure)
