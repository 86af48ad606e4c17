"""Whether a gateway should get new requests, for load balancers.

Liveness means that the process answers. Readiness is false from the beginning of a shutdown on;
before the providers were looked up, the port does not answer at all.
"""

from typing import Literal, TypeAlias

Phase: TypeAlias = Literal["ready", "draining"]


class Lifecycle:
    """The phase of one gateway process."""

    def __init__(self) -> None:
        self.phase: Phase = "ready"

    def drain(self) -> None:
        """Report from now on that new requests should go elsewhere."""
        self.phase = "draining"
