"""Sessions with a host: connection, queue, one prompt at a time, and recovery from failures."""
