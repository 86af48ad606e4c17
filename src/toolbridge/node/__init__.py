"""The encrypted node: a model on somebody's machine, reached over a sealed WebSocket.

Sealing, messages, framing and the reading of answers are pure; only `session` waits.
"""
