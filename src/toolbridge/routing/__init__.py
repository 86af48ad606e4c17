"""Routing: which provider serves a model, and how its answer is requested.

`Router` is the entry point. The gateway, the SDK and structured streams ask it for a route
(`models.py`) and for the attempts that produce an answer (`attempts.py`).
"""

from toolbridge.routing.router import Router, TokenCount

__all__ = ["Router", "TokenCount"]
