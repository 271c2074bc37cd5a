"""Closed forms: arrays in, arrays out; no files, no sampling."""
