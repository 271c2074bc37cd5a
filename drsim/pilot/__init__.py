"""Evidence in: records of agent runs, reading, pairing, and what a file can answer."""
