"""The bounds as a document and as text."""
