"""Compaction: replace a conversation by its user messages and a summary.

OpenAI Responses, `POST /v1/responses/compact`: the item that it returns has `encrypted_content`,
which only OpenAI can read. The items made here contain a summary that a model wrote, as base64 with
a prefix, not encrypted. As input they become the summary again, for any model.
"""

import base64
import binascii

import msgspec

from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Request, Text, ToolChoice, Turn

PREFIX = "toolbridge-summary-1."
_ORDER = (
    "The conversation above is about to be replaced by a handoff summary. Write that summary now, "
    "for another language model that will continue the work: the task and its constraints, what "
    "was decided and why, what was done with which files, commands and results, what is left, and "
    "every name, path and value that will be needed. Answer with the summary only; call no tools."
)
_INTRODUCTION = "Summary of the conversation so far, written by the assistant:\n\n"


def summary_request(request: Request) -> Request:
    """Return the request that asks the model for a summary of the conversation in `request`."""
    return msgspec.structs.replace(
        request,
        turns=(*request.turns, Turn("user", (Text(_ORDER),))),
        # The tools are still sent: the beginning of the prompt is in the provider's cache.
        tool_choice=ToolChoice("none"),
        output=None,
        stream=False,
        extra={},
    )


def compaction_output(items: list[Json], summary: str, ids: Ids) -> list[Json]:
    """Return the items that replace the conversation: the user messages, then the summary."""
    kept: list[Json] = [
        {"id": ids.message(), **item}
        for item in items
        if isinstance(item, dict) and item.get("role") == "user"
    ]
    packed = PREFIX + base64.b64encode(summary.encode()).decode()
    id = f"cmp_{ids.message().removeprefix('msg_')}"
    return [*kept, {"id": id, "type": "compaction", "encrypted_content": packed}]


def read_summary(item: JsonObject) -> str | None:
    """Return the summary in a compaction item of `compaction_output`; None for any other item."""
    packed = item.get("encrypted_content")
    if item.get("type") != "compaction" or not isinstance(packed, str):
        return None
    if not packed.startswith(PREFIX):
        return None
    try:
        return _INTRODUCTION + base64.b64decode(packed.removeprefix(PREFIX)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
