"""What a tool gave back, fit to be told: of bounded size, and without anything like a sentinel."""

import re

from toolbridge.core.json import Json, JsonObject, dump_bytes, loads
from toolbridge.framed.sentinels import OPENING

# In JSON text, where white space may stand as an escape.
_LIKE_A_SENTINEL = re.compile(rf"{OPENING}(?=(?:\s|\\[nrt]){{0,8}}/?(?:BEGIN|END))", re.IGNORECASE)


def presentable(result: Json, most: int) -> Json:
    """Return `result` as it may be told to the client and to the model.

    The bracket of whatever looks like a sentinel becomes the six characters of its escape, so that
    neither a model that repeats it nor a client that looks for it takes it for one. What is longer
    than `most` bytes is cut, and says so.
    """
    try:
        written = dump_bytes(result)
    except (RecursionError, TypeError, ValueError):
        return failure("tool_failed", "the result is not JSON, or is nested too deeply")
    if OPENING.encode() in written:
        written = _LIKE_A_SENTINEL.sub(r"\\\\u27E6", written.decode()).encode()
        result = loads(written)
    return result if len(written) <= most else _cut(written, most)


def failure(code: str, message: str) -> JsonObject:
    """Return the result of a tool that failed."""
    return {"error": {"code": code, "message": message}}


def _cut(written: bytes, most: int) -> Json:
    """Return the beginning of a result, as text, and how long the whole is."""
    room = most
    while True:
        start = written[:room].decode("utf-8", "ignore")
        cut: JsonObject = {"truncated": True, "bytes": len(written), "start": start}
        over = len(dump_bytes(cut)) - most
        if over <= 0 or room == 0:
            return cut
        # Quotes take two bytes inside a string, so that more than the overhang may have to go.
        room = max(0, min(room - over, room * 3 // 4))
