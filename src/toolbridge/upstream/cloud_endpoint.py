"""The interface of a cloud's endpoint, without the code of any cloud.

`routing` uses endpoints through this interface and loads `upstream.clouds` only for providers that are
in a cloud.
"""

from collections.abc import Mapping
from typing import Protocol

from toolbridge.core.messages import Loss, Problem
from toolbridge.core.stage import Stage
from toolbridge.upstream.http_request import HttpRequest, SignedRequest


class CloudEndpoint(Protocol):
    """The endpoint of one provider in a cloud."""

    async def sign(self, api: str, model: str, request: HttpRequest, /) -> SignedRequest:
        """Return a request of an API for a model with its URL and its credentials."""
        ...

    def renew(self) -> bool:
        """Drop credentials that were rejected; return whether new ones can be fetched."""
        ...

    def explain(
        self, problem: Problem, status: int, headers: Mapping[str, str], body: bytes, /
    ) -> Problem:
        """Return a rejection with the cloud's own kind and the next step."""
        ...

    def unwrapping(self, api: str, content_type: str, /) -> Stage[bytes, bytes] | None:
        """Return the stage that turns the body of an answer into that of its API, if it needs one."""
        ...

    def adapt(self, model: str, problem: Problem, /) -> Loss | None:
        """Change how requests for a model are sent, after a rejection; return what has changed."""
        ...
