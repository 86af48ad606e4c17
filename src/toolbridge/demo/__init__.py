"""The embedded model: in process, deterministic, no network.

It answers in every API, thinks when asked and uses the tools that the client offers. It is what
answers when nothing else is configured, and what demonstrations and tests can rely on.
"""

from toolbridge.demo.answer import MODEL, WINDOW, answer

__all__ = ["MODEL", "WINDOW", "answer"]
