"""What a budget should buy: the answer as a document, as text, and as a picture."""
