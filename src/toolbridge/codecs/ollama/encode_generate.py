"""Our request as a body for `/api/generate`: a prompt, where `/api/chat` takes messages.

Used for requests that came to a completion endpoint. The server fills in the middle when there is
a `suffix` and the model's template has a place for one (the capability `insert`).
"""

from toolbridge.codecs.ollama import shapes
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Image, Request, Text

PATH = "/api/generate"


def encode_generate(body: JsonObject, request: Request) -> JsonObject:
    """Return the chat body `body` as one of `/api/generate`: the same settings around a prompt."""
    found = {name: value for name, value in body.items() if name not in {"messages", "tools"}}
    parts = request.turns[-1].content if request.turns else ()
    found["prompt"] = "".join(part.text for part in parts if isinstance(part, Text))
    if request.system:
        found["system"] = "\n\n".join(part.text for part in request.system)
    if images := [part.data for part in parts if isinstance(part, Image) and part.data]:
        found["images"] = [*images]
    if request.completion is not None and request.completion.suffix:
        found["suffix"] = request.completion.suffix
    if request.origin == "ollama":
        found |= {n: request.extra[n] for n in shapes.GENERATE_EXTRAS if n in request.extra}
    return found
