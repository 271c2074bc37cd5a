"""Monte Carlo: runs drawn from the compiled process, the same to the bit in every engine."""
