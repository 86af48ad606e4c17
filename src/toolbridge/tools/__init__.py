"""Tools that a structured stream can run: a registry, and those that come with the house."""
