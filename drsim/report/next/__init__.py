"""Which run next: as a document and as text."""
