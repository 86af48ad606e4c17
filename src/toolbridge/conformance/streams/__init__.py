"""Scores structured streams: a scripted model writes valid and broken text, and clients check events.

Cases are data, in `conformance/stream/`. Each is played several times with a different chunking of
the model's text, and must give the same events.
"""
