"""What a pilot plan will say: the answer, as a document, and as text."""
