"""Contradictions in reported figures."""
