"""Token counts and cost."""
