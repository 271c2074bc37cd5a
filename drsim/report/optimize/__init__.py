"""When to intervene: the answer as a document, as text, and as a picture."""
