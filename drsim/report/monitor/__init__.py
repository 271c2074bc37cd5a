"""Where a running pilot stands: as a document and as text."""
