"""The critic as a document and as text."""
