"""What outlives a request: small values under keys, for a while."""
