"""Connects a request with whoever serves its model, and passes on what is said."""

from toolbridge.routing.router import Counted, Router

__all__ = ["Counted", "Router"]
