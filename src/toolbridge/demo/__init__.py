"""The demo model: it runs in this process, is deterministic and uses no network.

It answers in every API, thinks when asked and calls the tools that the client offers. The gateway
uses it when no provider is configured; demonstrations and tests rely on it. `restaurant` holds the
sample tools of the demonstration. The model is loaded with its first request, so a gateway with a
real provider does not load it.
"""

from typing import TYPE_CHECKING

from toolbridge.demo.identity import MODEL

if TYPE_CHECKING:
    from toolbridge.core.events import Event
    from toolbridge.core.ids import Ids
    from toolbridge.core.messages import Request

__all__ = ["MODEL", "answer"]


def answer(request: "Request", ids: "Ids") -> "list[Event]":
    """Return the whole answer to `request`, the same for the same request and ids."""
    from toolbridge.demo.model import answer as answer_request

    return answer_request(request, ids)
