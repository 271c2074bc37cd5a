"""The step process: specification, compiled arrays, exact recursion (THEORY section 4)."""
