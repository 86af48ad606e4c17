"""Functions that return decisions. Whoever waits, and whoever rolls dice, is the caller."""
