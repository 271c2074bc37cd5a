"""What a pilot can and cannot answer, before anything is fitted."""

from drsim.pilot.doctor.examine import examine

__all__ = ["examine"]
