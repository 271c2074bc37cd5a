"""Decisions from posteriors."""
