"""Connects a request with whoever serves its model, and passes on what is said."""

from toolbridge.switchboard.board import Counted, Switchboard

__all__ = ["Counted", "Switchboard"]
