"""How well a critic tells failures, and what firing on its scores does."""
