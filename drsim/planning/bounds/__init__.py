"""Whether intervening can ever pay."""
