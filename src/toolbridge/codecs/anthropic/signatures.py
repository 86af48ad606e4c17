"""Signatures of thinking blocks, and the other tokens that only Anthropic reads.

Anthropic, extended thinking: a thinking block goes back unchanged with its `signature`, and a
signature that Anthropic did not make is a 400. Clients keep only signed blocks, so a thought of
another model gets a signature of ours, which never reaches Anthropic.
"""

from hashlib import blake2b
from typing import Literal

from toolbridge.codecs.anthropic.shapes import ORIGIN
from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.messages import Call, Opaque, Thinking

OWN = "tb1."
"""The beginning of every token that this gateway made."""


def own_signature(thinking: str) -> str:
    """Return a signature for a thought that Anthropic did not sign."""
    return OWN + blake2b(thinking.encode(), digest_size=16).hexdigest()


def decode_signature(signature: str | None) -> tuple[Opaque, ...]:
    """Return Anthropic's signature as a token; nothing for an empty one or one of ours."""
    if not signature or signature.startswith(OWN):
        return ()
    return (Opaque(ORIGIN, "signature", signature),)


def decode_caller(caller: Json) -> tuple[Opaque, ...]:
    """Return the field `caller` of a call as a token; nothing where the model made the call itself.

    Anthropic, programmatic tool calling: a call that code in a container made is sent back with
    its `caller`.
    """
    if not isinstance(caller, dict) or caller.get("type") == "direct":
        return ()
    return (Opaque(ORIGIN, "item", dumps({"caller": caller})),)


def encode_caller(call: Call) -> JsonObject:
    """Return the field `caller` that `decode_caller` kept, to be merged into a block."""
    return next(filter(None, map(maybe_object, own_tokens(call, "item"))), {})


def own_tokens(part: Thinking | Call, kind: Literal["signature", "redacted", "item"]) -> list[str]:
    """Return the tokens of a thought or a call that Anthropic made."""
    return [
        opaque.value
        for opaque in part.opaque
        if opaque.kind == kind and opaque.origin.partition("/")[0] == ORIGIN
    ]
