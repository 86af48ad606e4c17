"""The list of models, in the shapes that clients read."""

import time

from toolbridge.core.json import Json, JsonObject
from toolbridge.server.roster import Listed


def anthropic_list(listed: list[Listed], since: float) -> JsonObject:
    data: list[Json] = [anthropic_model(m.id, m.window, since) for m in listed]
    return {
        "data": data,
        "has_more": False,
        "first_id": listed[0].id if listed else None,
        "last_id": listed[-1].id if listed else None,
    }


def anthropic_model(name: str, window: int, since: float) -> JsonObject:
    shown: JsonObject = {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since)),
    }
    if window:
        shown["max_input_tokens"] = window
    return shown
