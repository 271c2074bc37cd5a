"""The run-level 2×2 table of an unaided run and a run under a policy."""

from dataclasses import dataclass

from drsim.arrays import FloatArray
from drsim.theory.domain import ratio

__all__ = ["Joint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """How two coupled runs end; capped counts as fail. The four probabilities sum to 1."""

    fail_fail: float
    """P(baseline run fails, intervened run fails)."""
    fail_success: float
    """P(baseline run fails, intervened run succeeds)."""
    success_fail: float
    """P(baseline run succeeds, intervened run fails)."""
    success_success: float
    """P(baseline run succeeds, intervened run succeeds)."""

    @property
    def recovery(self) -> float:
        """Recovery rate r = P(intervened run succeeds | baseline run fails); NaN where no baseline run fails."""
        return _share(self.fail_success, self.fail_fail + self.fail_success)

    @property
    def disruption(self) -> float:
        """Disruption rate d = P(intervened run fails | baseline run succeeds); NaN where no baseline run succeeds."""
        return _share(self.success_fail, self.success_fail + self.success_success)

    @property
    def gain(self) -> float:
        """Δ = P(intervened run succeeds) − P(baseline run succeeds), whatever the coupling."""
        return self.fail_success - self.success_fail

    @property
    def table(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Rows: baseline fails, succeeds; columns: intervened fails, succeeds."""
        return (self.fail_fail, self.fail_success), (self.success_fail, self.success_success)

    @classmethod
    def of_independent(cls, weights: FloatArray, baseline: FloatArray, success: FloatArray) -> "Joint":
        """The table of two runs that share only the task.

        Parameters
        ----------
        weights : ndarray
            (J,) shares of the classes of tasks, with sum 1.
        baseline, success : ndarray
            (J,) P(success) of the unaided and of the intervened run in each class.
        """
        return cls(
            fail_fail=float(weights @ ((1.0 - baseline) * (1.0 - success))),
            fail_success=float(weights @ ((1.0 - baseline) * success)),
            success_fail=float(weights @ (baseline * (1.0 - success))),
            success_success=float(weights @ (baseline * success)),
        )


def _share(part: float, whole: float) -> float:
    share: FloatArray = ratio(part, whole)  # type: ignore[arg-type] # numbers broadcast like arrays
    return float(share)
