"""Ollama's `/api/generate`, in both directions: one prompt where `/api/chat` takes messages.

Used for requests to a completion endpoint. Ollama, docs/api: the server fills in the middle when
there is a `suffix` and the model's template has a place for one (the capability `insert`).
"""

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.decode_request import decode_extra, decode_settings
from toolbridge.codecs.ollama.media import decode_media
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.codec import Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Completion, Image, Part, Request, Text, Turn
from toolbridge.wire import shapes as wire

PATH = "/api/generate"

_generates = msgspec.json.Decoder(shapes.GenerateBody)


def decode_generate(body: bytes, *, model: str = "", stream: bool | None = None) -> Request:
    """Return the request in a body of `/api/generate`; its answer has the shape of that endpoint."""
    asked = wire.decode_request(body, _generates)
    extra = decode_extra(asked)
    extra[shapes.GENERATE] = True
    for name in shapes.GENERATE_EXTRAS:
        if (value := getattr(asked, name)) is not None:
            extra[name] = value
    parts: list[Part] = [Text(asked.prompt)] if asked.prompt else []
    parts += [decode_media(image) for image in asked.images or ()]
    if not parts:
        extra[shapes.LOAD] = True
    return msgspec.structs.replace(
        decode_settings(asked, model=model, stream=stream, extra=extra),
        system=(Text(asked.system),) if asked.system else (),
        turns=(Turn("user", tuple(parts)),) if parts else (),
        completion=Completion(suffix=asked.suffix or ""),
    )


def completes(request: Request, target: Target) -> bool:
    """Return whether `/api/generate` can take this request: one turn, no tools, no unknown suffix."""
    if request.completion is None or len(request.turns) > 1 or request.tools:
        return False
    return not request.completion.suffix or target.can("insert", unknown=False)


def encode_generate(body: JsonObject, request: Request) -> JsonObject:
    """Return the body of `/api/generate` with the settings of the chat body `body`."""
    found = {name: value for name, value in body.items() if name not in {"messages", "tools"}}
    parts = request.turns[-1].content if request.turns else ()
    found["prompt"] = "".join(part.text for part in parts if isinstance(part, Text))
    if request.system:
        found["system"] = "\n\n".join(part.text for part in request.system)
    if images := [part.data for part in parts if isinstance(part, Image) and part.data]:
        found["images"] = [*images]
    if request.completion is not None and request.completion.suffix:
        found["suffix"] = request.completion.suffix
    if request.origin == ORIGIN:
        found |= {n: request.extra[n] for n in shapes.GENERATE_EXTRAS if n in request.extra}
    return found
