"""Thought signatures, in both directions.

Gemini API, thought signatures: from Gemini 3 on, the function calls of the current turn must come
back with the `thoughtSignature` that the model gave them; otherwise the request is a 400.
"""

from toolbridge.codecs.gemini.shapes import ORIGIN
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Opaque

SKIP = "skip_thought_signature_validator"
"""Gemini API, thought signatures: the documented value for a call that Gemini did not sign. It is
sent as this text; its base64 is rejected (langchain-ai/langchain-google#1972)."""
_PLACEHOLDERS = frozenset(
    {
        "", SKIP, "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
        "context_engineering_is_the_way_to_go", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
    }
)  # fmt: skip
"""Values that clients send instead of a signature, and their base64 as SDKs write it."""


def decode_signature(signature: str | None) -> tuple[Opaque, ...]:
    """Return a signature as a token; nothing for a placeholder."""
    if not signature or signature in _PLACEHOLDERS:
        return ()
    return (Opaque(ORIGIN, "thought_signature", signature),)


def encode_signature(opaque: tuple[Opaque, ...]) -> JsonObject:
    """Return the field with Gemini's last signature, to be merged into a part."""
    own = [
        token.value
        for token in opaque
        if token.kind == "thought_signature" and token.origin.partition("/")[0] == ORIGIN
    ]
    return {"thoughtSignature": own[-1]} if own else {}
