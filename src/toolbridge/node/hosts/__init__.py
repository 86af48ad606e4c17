"""The hosts that serve a model: read from the registry, scored, probed and put into an order."""
