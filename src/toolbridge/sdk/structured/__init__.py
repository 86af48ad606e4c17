"""Structured streams from Python: `start_stream`, its handle, transports and errors."""
