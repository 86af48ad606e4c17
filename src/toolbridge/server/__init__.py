"""The gateway: everything that waits for a client."""
