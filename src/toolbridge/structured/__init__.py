"""Structured streams: sentinels, frames, schemas, and what to do when a frame is broken."""
