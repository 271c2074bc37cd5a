"""A sweep as an answer of one line, as text, as a document, as a table of all cells, and as a picture."""
