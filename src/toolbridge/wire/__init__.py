"""Framing: bytes to frames, frames to shapes. Nothing here knows an API."""
