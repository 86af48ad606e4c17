"""Connects a request with whoever serves its model, and passes on what is said."""

from toolbridge.routing.router import Router, TokenCount

__all__ = ["Router", "TokenCount"]
