"""Posteriors from evidence."""
