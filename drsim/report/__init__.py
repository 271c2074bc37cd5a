"""Results as text and as documents."""
