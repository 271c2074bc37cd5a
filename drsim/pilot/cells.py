"""The one door from evidence of any form to cells."""

from collections.abc import Iterable
from dataclasses import replace

from drsim.pilot.arms import check_wanted
from drsim.pilot.cell import Pairing
from drsim.pilot.evidence import Counts, Evidence, Pilot
from drsim.pilot.pairing import pair
from drsim.pilot.records import BASELINE
from drsim.pilot.short_forms import cells_of_counts, cells_of_marginals

__all__ = ["cells_of"]


def cells_of(evidence: Evidence, *, baseline: str = BASELINE, arms: Iterable[str] | None = None) -> Pairing:
    """Cells of a pilot, of counts, or of marginals.

    Parameters
    ----------
    evidence : Pilot, Counts or Marginals
        As read.
    baseline : str
        Name of the arm without intervention; counts have none, since their rows are pairs already.
    arms : iterable of str, optional
        Intervened arms to keep; all by default.

    Returns
    -------
    Pairing

    Raises
    ------
    DataError
        No run belongs to `baseline`, a wanted arm is missing, or arms were stopped at different caps.
    """
    if isinstance(evidence, Pilot):
        return pair(evidence, baseline=baseline, arms=arms)
    pairing = cells_of_counts(evidence) if isinstance(evidence, Counts) else cells_of_marginals(evidence, baseline)
    return pairing if arms is None else _keep(pairing, tuple(arms))


def _keep(pairing: Pairing, arms: tuple[str, ...]) -> Pairing:
    check_wanted(arms, (cell.arm for cell in pairing.cells), baseline=pairing.baseline)
    return replace(pairing, cells=tuple(cell for cell in pairing.cells if cell.arm in arms))
