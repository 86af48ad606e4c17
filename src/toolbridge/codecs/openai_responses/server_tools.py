"""How the Responses API reports that one of its own tools failed: an item with `status: failed`."""

from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Foreign, Tool


def encode_unavailable(tool: Tool, subject: str, ids: Ids) -> tuple[Foreign | str, ...] | None:
    """Return a failed call of `tool` and a text that says so; None for tools of another kind."""
    type = str((tool.hosted or {}).get("type", ""))
    fields: dict[str, tuple[str, JsonObject]] = {
        "web_search": ("ws", {"action": {"type": "search", "query": subject}}),
        "file_search": ("fs", {"queries": [subject], "results": None}),
        "code_interpreter": ("ci", {"code": "", "container_id": "", "outputs": None}),
        "image_generation": ("ig", {"result": None}),
    }
    name = next((name for name in fields if type.startswith(name)), None)
    if name is None:
        return None
    prefix, own = fields[name]
    item: JsonObject = {
        "type": f"{name}_call",
        "id": f"{prefix}_{ids.draw(24)}",
        "status": "failed",
        **own,
    }
    return (
        Foreign(ORIGIN, f"{name}_call", item),
        f"{name} is not available: the model behind this gateway has no such tool.",
    )
