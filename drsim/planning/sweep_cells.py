"""The values of a block of cells under every draw, and what is kept of them: one row of numbers for each cell."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from drsim import __version__
from drsim.arrays import FloatArray
from drsim.errors import ParameterError
from drsim.planning.axes import Axes, Cells
from drsim.planning.store import digest_of
from drsim.planning.winner import Champions, Contest, champions_of
from drsim.process.compile import CompiledModel, TaskClasses, compile_model
from drsim.process.coupled_many import coupled_many
from drsim.process.spec import Model
from drsim.process.stacks import ModelDraws
from drsim.process.success_many import success_many

if TYPE_CHECKING:
    from drsim.engine.estimates import Estimate
    from drsim.engine.simulate import PolicyEstimates

__all__ = ["COLUMNS", "SPREAD", "CellValues", "Fold", "SweepInputs", "block_of", "cell_values", "summary"]

SPREAD = ("mean", "sd", "q2.5", "q50", "q97.5")
"""What is kept of a quantity's draws."""
UNCERTAIN = ("gain", "success", "tokens", "r", "d")
"""Quantities whose spread over draws is kept."""
COLUMNS = (
    *(f"{name}_{part}" for name in UNCERTAIN for part in SPREAD),
    *(f"{name}_mc_se" for name in UNCERTAIN),
    "prob_gain",
    "interventions",
    "trigger_rate",
    "capped",
    "break_even",
    "leverage_break_even",
    "leverage_off_share",
)
"""Numbers of a cell, in order."""
LEVELS = (0.025, 0.5, 0.975)
NUMBERS_AT_ONCE = 2**17
"""Cells × draws of one block: some 40 arrays of as many float64 are alive at a time, 40 MiB a thread."""
MOST_CELLS = 4096
FEWEST_CELLS = 16
SIMULATED_CELLS = 64
"""Cells of a block by Monte Carlo, which takes far longer for each."""
ROUNDING = 1e-12
"""Gains and rates up to here are what rounding makes of none."""
STREAM = 0x7377_6565
"""Keeps the seeds of a sweep's draws apart from those of anything else under the same seed."""
ONE_AT_A_TIME = Lock()
"""The engine has threads of its own, and bears to be called from one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One fold of a pilot's tasks, for nested resampling: posteriors that do not share a task."""

    choose: ModelDraws
    """Of all tasks outside the fold."""
    value: ModelDraws
    """Of the tasks in the fold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepInputs:
    """All that a sweep depends on; the same inputs give the same bytes."""

    model: Model
    """Names, horizon, temperature and costs; its rates are those of a point estimate."""
    draws: ModelDraws
    """D ≥ 1 draws of the model; one for a model that is taken as it stands."""
    axes: Axes
    seed: int
    """Of Monte Carlo; what is exact does not read it."""
    n_runs: int
    """Runs of each cell and draw where Monte Carlo is needed, ≥ 2."""
    source: str
    """Where the model comes from."""
    assumptions: tuple[str, ...] = ()
    """What the source's data do not carry."""
    folds: tuple[Fold, ...] = field(default=())
    """For nested resampling, where the draws come from data."""
    cells_at_once: int | None = None
    """Cells of a block, ≥ 1; None: as many as keep a block's arrays small."""

    def __post_init__(self) -> None:
        n_mechanisms, horizon = self.draws.kernels.shape[1:3]
        if (horizon, n_mechanisms) != (self.model.horizon, len(self.model.mechanisms)):
            raise ParameterError(
                f"draws must have the {self.model.horizon} steps and {len(self.model.mechanisms)} mechanisms of the "
                f"model, got {horizon} and {n_mechanisms}; draw from that model"
            )
        if self.n_runs < 2:
            raise ParameterError(f"runs must be at least 2, got {self.n_runs}; one run has no standard error")
        if self.cells_at_once is not None and self.cells_at_once < 1:
            raise ParameterError(f"cells_at_once must be at least 1, got {self.cells_at_once}; leave it out")

    @property
    def n_draws(self) -> int:
        """D."""
        return len(self.draws.start)

    @property
    def block_cells(self) -> int:
        """Cells of a block: it depends on the inputs alone, so that every machine cuts them alike."""
        if self.cells_at_once is not None:
            return self.cells_at_once
        if not self.axes.is_exact:
            return SIMULATED_CELLS
        draws = (self.draws, *(part for fold in self.folds for part in (fold.choose, fold.value)))
        widest = max(self.model.horizon, *(len(it.start) for it in draws))
        return min(MOST_CELLS, max(FEWEST_CELLS, NUMBERS_AT_ONCE // widest))

    @property
    def n_blocks(self) -> int:
        """Blocks of the sweep."""
        return -(-len(self.axes) // self.block_cells)

    def bounds(self, block: int) -> tuple[int, int]:
        """First cell of a block, and the first after it."""
        size = self.block_cells
        return block * size, min((block + 1) * size, len(self.axes))

    @property
    def data_sizes(self) -> tuple[int, ...]:
        """Draws of each fold's own posterior."""
        return tuple(len(fold.value.start) for fold in self.folds)

    def digests(self) -> dict[str, str]:
        """Hash of each input by its name."""
        return {
            "version": __version__,
            "model": digest_of(repr(self.model).encode()),
            "draws": _digest(self.draws),
            "axes": digest_of(repr(self.axes).encode()),
            "seed": str(self.seed),
            "runs": str(self.n_runs),
            "block size": str(self.block_cells),
            "folds": digest_of(*(_digest(part).encode() for fold in self.folds for part in (fold.choose, fold.value))),
        }


def _digest(draws: ModelDraws) -> str:
    arrays = [np.asarray(getattr(draws, it.name)) for it in fields(draws)]
    return digest_of(*(part for it in arrays for part in (repr(it.shape).encode(), it.astype("<f8").tobytes())))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellValues:
    """P cells under D draws, (P, D) each; NaN where a quantity is undefined or not known."""

    baseline: FloatArray
    """(D,) P(success) of an unaided run."""
    gain: FloatArray
    success: FloatArray
    tokens: FloatArray
    recovery: FloatArray
    """r with a shared prefix."""
    disruption: FloatArray
    """d with a shared prefix."""
    interventions: FloatArray
    triggered: FloatArray
    capped: FloatArray
    loss: FloatArray
    """As in `CoupledMany`; so are `win` and `hit`. NaN by Monte Carlo."""
    win: FloatArray
    hit: FloatArray
    errors: dict[str, FloatArray] = field(default_factory=dict)
    """Monte Carlo error of gain, success, tokens, r and d by name; empty where all is exact."""


def block_of(inputs: SweepInputs, start: int, stop: int) -> tuple[FloatArray, Champions]:
    """Cells `start` … `stop` − 1.

    Parameters
    ----------
    inputs : SweepInputs
        What is swept.
    start, stop : int
        Numbers of the first cell, and of the first after the block.

    Returns
    -------
    rows : ndarray
        (stop − start, len(COLUMNS)).
    champions : Champions
        The best of them.
    """
    cells = inputs.axes.cells(np.arange(start, stop))
    values = cell_values(inputs, cells)
    return summary(values), champions_of(values.gain, start, _by_data(inputs, cells))


def cell_values(inputs: SweepInputs, cells: Cells) -> CellValues:
    """Cells under every draw, exactly where the recursion holds, else by Monte Carlo.

    By Monte Carlo, all cells share the runs' random numbers under one draw; different draws have different ones, so
    that their errors are independent. The spread over draws then holds the error of the runs too, which `errors` tells.

    Parameters
    ----------
    inputs : SweepInputs
        D draws.
    cells : Cells
        P of the axes' cells.

    Returns
    -------
    CellValues
    """
    if not inputs.axes.is_exact:
        return _simulated(inputs, cells)
    table = inputs.axes.table(cells, inputs.model)
    coupled = coupled_many(inputs.draws, table)
    return CellValues(
        baseline=coupled.baseline,
        gain=coupled.gain,
        success=coupled.success,
        tokens=coupled.tokens,
        recovery=coupled.recovery,
        disruption=coupled.disruption,
        interventions=coupled.interventions,
        triggered=coupled.triggered,
        capped=coupled.capped,
        loss=coupled.loss,
        win=coupled.win,
        hit=coupled.hit,
    )


def _simulated(inputs: SweepInputs, cells: Cells) -> CellValues:
    from drsim.engine.simulate import simulate  # an exact sweep does without the engines

    policies = inputs.axes.compiled(cells, inputs.model)
    point = compile_model(inputs.model)
    seeds = np.random.SeedSequence([inputs.seed, STREAM]).generate_state(inputs.n_draws, np.uint64)
    found: dict[str, list[list[Estimate | None]]] = {name: [] for name in SIMULATED}
    baseline = np.zeros(inputs.n_draws)
    for d, seed in enumerate(seeds):
        named = {str(i): policy for i, policy in enumerate(policies)}
        with ONE_AT_A_TIME:
            done = simulate(_draw(inputs.draws, d, point), named, n=inputs.n_runs, seed=int(seed))
        baseline[d] = done.baseline.success.value
        for name, of in SIMULATED.items():
            found[name].append([of(it) for it in done.policies.values()])
    values = {name: _field(column, "value") for name, column in found.items()}
    unknown = np.full((len(cells), inputs.n_draws), np.nan)
    return CellValues(
        baseline=baseline,
        gain=values["gain"],
        success=values["success"],
        tokens=values["tokens"],
        recovery=values["r"],
        disruption=values["d"],
        interventions=values["interventions"],
        triggered=values["trigger_rate"],
        capped=values["capped"],
        loss=unknown,
        win=unknown,
        hit=unknown,
        errors={name: _field(found[name], "se") for name in UNCERTAIN},
    )


SIMULATED: dict[str, Callable[["PolicyEstimates"], "Estimate | None"]] = {
    "gain": lambda it: it.gain,
    "success": lambda it: it.success,
    "tokens": lambda it: it.tokens,
    "r": lambda it: None if it.couplings is None else it.couplings.recovery_shared_prefix,
    "d": lambda it: None if it.couplings is None else it.couplings.disruption_shared_prefix,
    "interventions": lambda it: it.interventions,
    "trigger_rate": lambda it: it.triggered,
    "capped": lambda it: it.capped,
}
"""What a simulation says of a policy, by the name it has in a sweep."""


def _field(column: "list[list[Estimate | None]]", name: str) -> FloatArray:
    """(P, D) values or errors of estimates by draw and policy; NaN where there is none."""
    numbers = [[np.nan if it is None else getattr(it, name) for it in row] for row in column]
    return np.array(numbers, dtype=np.float64).T


def _draw(draws: ModelDraws, d: int, point: CompiledModel) -> CompiledModel:
    """One draw as the engines read it; what draws share comes from the point estimate."""
    by_class = draws.transitions[d]
    tasks = None
    typical = by_class[0]
    if point.tasks is not None:
        tasks = TaskClasses(effects=point.tasks.effects, weights=draws.task_weights, transitions=by_class)
        typical = by_class[int(np.argmin(np.abs(point.tasks.effects)))]
    return CompiledModel(
        start=draws.start[d],
        transitions=typical,
        kernels=draws.kernels[d],
        extra_steps=draws.extra_steps,
        score_mean=draws.score_mean[d],
        score_sd=draws.score_sd[d],
        run_sd=float(draws.run_sd[d]),
        temperature=point.temperature,
        tokens=draws.tokens,
        critic_tokens=draws.critic_tokens,
        mechanism_tokens=draws.mechanism_tokens,
        usd_per_token=draws.usd_per_token,
        seconds_per_step=draws.seconds_per_step,
        tasks=tasks,
    )


def _by_data(inputs: SweepInputs, cells: Cells) -> Contest | None:
    """The block's best cell by each fold's other tasks, valued by the fold's own."""
    if not inputs.folds:
        return None
    if not inputs.axes.is_exact:
        raise ParameterError("nested resampling needs exact cells; sweep a policy whose signal is score")
    table = inputs.axes.table(cells, inputs.model)
    best, scores, gains = [], [], []
    for fold in inputs.folds:
        means = success_many(fold.choose, table).gain.mean(axis=1)
        winner = int(np.argmax(means))
        alone = inputs.axes.table(inputs.axes.cells(cells.index[winner : winner + 1]), inputs.model)
        best.append(int(cells.index[winner]))
        scores.append(float(means[winner]))
        gains.append(success_many(fold.value, alone).gain[0])
    return Contest(
        cell=np.array(best, dtype=np.int64),
        score=np.array(scores),
        sizes=inputs.data_sizes,
        gain=np.concatenate(gains),
    )


def summary(values: CellValues) -> FloatArray:
    """One row a cell.

    The static break-even is d/(r + d) of the mean r and d, the leverage-weighted one Σℓ/(Σℓ + Σw) over steps and draws,
    and its counterpart, the leverage-weighted share of first interventions that find the run off track, Σhit/(Σℓ + Σw);
    NaN where the denominator is not positive, up to rounding. With a budget of 1 the mean gain is positive exactly
    where that share exceeds that break-even.

    Parameters
    ----------
    values : CellValues
        P cells, D draws.

    Returns
    -------
    ndarray
        (P, len(COLUMNS)).

    References
    ----------
    THEORY sections 1 and 4.
    """
    n_draws = values.gain.shape[1]
    spreads = (values.gain, values.success, values.tokens, values.recovery, values.disruption)
    columns: list[FloatArray] = [column for it in spreads for column in _spread(it)]
    stakes = (values.loss + values.win).sum(axis=1)
    r, d = values.recovery.mean(axis=1), values.disruption.mean(axis=1)
    columns += [
        *(_error(values.errors.get(name), len(r), n_draws) for name in UNCERTAIN),
        (values.gain > ROUNDING).mean(axis=1),
        values.interventions.mean(axis=1),
        values.triggered.mean(axis=1),
        values.capped.mean(axis=1),
        _ratio(d, r + d),
        _ratio(values.loss.sum(axis=1), stakes),
        _ratio(values.hit.sum(axis=1), stakes),
    ]
    return np.stack(columns, axis=1)


def _error(errors: FloatArray | None, n_cells: int, n_draws: int) -> FloatArray:
    """Monte Carlo error of a mean over draws, whose errors (P, D) are independent."""
    if errors is None:
        return np.zeros(n_cells)
    total: FloatArray = np.sqrt((errors**2).sum(axis=1)) / n_draws
    return total


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    quotient: FloatArray = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > ROUNDING)
    return quotient


def _spread(draws: FloatArray) -> tuple[FloatArray, ...]:
    """Mean, sd and quantiles of (P, D) over draws, NaN but for the mean where D = 1; the quantiles as `numpy.quantile`
    has them, without its lock.
    """
    n = draws.shape[1]
    mean = draws.mean(axis=1)
    if n == 1:
        # one model says nothing of spread
        return mean, *(np.full(len(draws), np.nan) for _ in SPREAD[1:])
    sd = draws.std(axis=1, ddof=1)
    ordered = np.sort(draws, axis=1)
    found = [mean, sd]
    for level in LEVELS:
        place = level * (n - 1)
        low = int(place)
        value = ordered[:, low] + (place - low) * (ordered[:, low + 1] - ordered[:, low])
        # undefined draws are sorted to the end, and make the whole undefined
        found.append(np.where(np.isnan(mean), np.nan, value))
    return tuple(found)
