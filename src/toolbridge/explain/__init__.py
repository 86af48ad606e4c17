"""Explains what toolbridge changed in a request: edits with reasons, and the prompt prefix.

Everything here is computed from bytes that were kept, when an explanation is asked for; a request
that is not explained costs nothing. `server/explanations.py` keeps the bytes.
"""
