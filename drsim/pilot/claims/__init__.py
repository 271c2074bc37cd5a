"""Figures that somebody reports, as printed."""
