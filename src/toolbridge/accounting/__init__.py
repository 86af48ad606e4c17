"""Token counts, their calibration by reported usage, and the cost of answers."""
