"""Complete output items of an answer.

The stream encoder writes an item in its first and its last event, `encode_message` in the whole
response. Both build it here, so that they are equal.
"""

from typing import TypeGuard

from toolbridge.codecs.openai_responses.builtins import Builtin, builtins_of, encode_call_content
from toolbridge.codecs.openai_responses.encode_turns import free_text
from toolbridge.codecs.openai_responses.free_input import FreeInput
from toolbridge.codecs.openai_responses.hosted_items import HostedItems, encode_server_parts
from toolbridge.codecs.openai_responses.item_fields import (
    item_fields,
    name_fields,
    namespaces,
    own_id,
    tokens,
)
from toolbridge.codecs.openai_responses.shapes import ANNOTATIONS, CONTENT, ORIGIN
from toolbridge.core.citations import link, maybe_link
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.logprobs import split_logprobs, write_logprobs
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Part,
    Request,
    StopDetails,
    Text,
    Thinking,
    TokenLogprob,
)


class ToolNames:
    """The names of the client's tools in this API, and which are custom or built-in."""

    def __init__(self, request: Request) -> None:
        self._builtins = builtins_of(request.tools)
        self._namespaces = namespaces(request.tools)
        self._freeform = {tool.name for tool in request.tools if tool.freeform}

    def is_custom(self, name: str) -> bool:
        return name in self._freeform

    def maybe_builtin(self, name: str) -> Builtin | None:
        return self._builtins.get(name)

    def fields(self, name: str) -> JsonObject:
        return name_fields(name, self._namespaces.get(name, ""))


def text_part(part: Text, logprobs: list[Json] | None = None) -> JsonObject:
    """Return a content part; the SDKs require `annotations` and `logprobs`, also empty ones."""
    annotations: list[Json] = [*citations(part)]
    return {
        "type": "output_text",
        "text": part.text,
        "annotations": annotations,
        "logprobs": logprobs or [],
    }


def add_logprobs(output: list[Json], tokens: tuple[TokenLogprob, ...]) -> None:
    """Add the log probabilities of their tokens to the texts of a whole answer."""
    items = [item for item in output if isinstance(item, dict) and item.get("type") == "message"]
    contents = [item["content"] for item in items]
    parts = [p for c in contents if isinstance(c, list) for p in c if isinstance(p, dict)]
    texts = [str(part.get("text") or "") for part in parts]
    for part, own in zip(parts, split_logprobs(tokens, texts), strict=False):
        part["logprobs"] = write_logprobs(own)


def citations(part: Text) -> list[JsonObject]:
    """Return the citations that this API has a type for; a link becomes a `url_citation`."""
    found: list[JsonObject] = []
    for citation in part.citations:
        cited = maybe_link(citation, part.text)
        if cited is not None:
            found.append(link(cited.url, cited.title, (cited.start, cited.end)))
        elif citation.get("type") in ANNOTATIONS:
            found.append(citation)
    return found


def message_item(id: str, status: str, content: list[Json]) -> JsonObject:
    """Return a message of the assistant."""
    return {
        "id": id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def text_item(id: str, part: Text, logprobs: list[Json] | None = None) -> JsonObject:
    """Return a message with one text.

    OpenAI Responses, gpt-5.3-codex and later: `phase` must come back with the next request.
    """
    item = message_item(id, "completed", [text_part(part, logprobs)])
    phase = item_fields(part.opaque).get("phase")
    return item if phase is None else item | {"phase": phase}


def refusal_item(id: str, details: StopDetails) -> JsonObject:
    """Return a message with the provider's explanation of a refusal."""
    part: JsonObject = {"type": "refusal", "refusal": details.explanation}
    return message_item(id, "completed", [part])


def reasoning_item(id: str, text: str, sealed: str | None) -> JsonObject:
    """Return a thought as a summary; `sealed` is its encrypted content."""
    summary: list[Json] = [{"type": "summary_text", "text": text}] if text else []
    item: JsonObject = {"id": id, "type": "reasoning", "summary": summary}
    # Without a token the field is left out: Mistral Vibe rejects a null.
    return item | {"encrypted_content": sealed} if sealed else item


def seal_of(thought: Thinking) -> str | None:
    """Return the encrypted content of a thought; None without one."""
    return next(iter(tokens(thought.opaque, "encrypted")), None)


def hidden_id(thought: Thinking, id: str) -> str:
    """Return the provider's id of a thought without text; `id` without one."""
    kept = item_fields(thought.opaque).get("id")
    return kept if isinstance(kept, str) else id


def call_item(id: str, call: Call, names: ToolNames, arguments: str) -> JsonObject:
    """Return a function call; one whose arguments are not valid JSON is `incomplete`."""
    return {
        "id": id,
        "type": "function_call",
        "status": "incomplete" if call.raw else "completed",
        # OpenAI Responses: the output refers to `call_id`; `id` names the item itself.
        "call_id": call.id,
        **names.fields(call.name),
        "arguments": arguments,
    }


def custom_call_item(id: str, call: Call, names: ToolNames, text: str) -> JsonObject:
    """Return a custom tool call with the input `text`."""
    return {
        "id": id,
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": call.id,
        **names.fields(call.name),
        "input": text,
    }


def maybe_builtin_item(id: str, call: Call, builtin: Builtin) -> JsonObject | None:
    """Return the call of a built-in tool; None if the arguments do not fit the tool."""
    content = None if call.raw else encode_call_content(builtin, call.arguments)
    if content is None:
        return None
    head: JsonObject = {"id": id, "type": builtin.call, "status": "completed"}
    return head | {"call_id": call.id} | content


def image_item(id: str, image: Image) -> JsonObject | None:
    """Return a generated image; None for one that is only a link, which this API cannot have."""
    if not image.data:
        return None
    format = image.media_type.removeprefix("image/") or "png"
    # OpenAI Responses: the model's images are calls of the hosted tool `image_generation`.
    item: JsonObject = {
        "id": id,
        "type": "image_generation_call",
        "status": "completed",
        "result": image.data,
        "output_format": format,
    }
    return item | item_fields(image.opaque)


def is_own(part: Part) -> TypeGuard[Foreign]:
    """Return True for a foreign part that is an item of this API."""
    if not isinstance(part, Foreign):
        return False
    return part.origin == ORIGIN and not part.kind.startswith(CONTENT)


def encode_parts(parts: tuple[Part, ...], request: Request, stem: str) -> list[Json]:
    """Return the items of a whole answer."""
    names = ToolNames(request)
    hosted = encode_server_parts(parts, HostedItems(request))
    items: list[Json] = []
    for position, part in enumerate(parts):
        item = hosted.get(position) or _encode_part(part, names, stem, len(items))
        if item is not None:
            items.append(item)
    return items


def _encode_part(part: Part, names: ToolNames, stem: str, number: int) -> JsonObject | None:
    match part:
        case Text():
            return text_item(own_id("msg", stem, number), part)
        case Thinking(text):
            sealed = seal_of(part)
            id = own_id("rs", stem, number)
            if text:
                return reasoning_item(id, text, sealed)
            return reasoning_item(hidden_id(part, id), "", sealed) if sealed else None
        case Call(_, name) if names.is_custom(name):
            return _encode_custom_call(own_id("ctc", stem, number), part, names)
        case Call():
            return _encode_call(part, names, stem, number)
        case Image():
            return image_item(own_id("ig", stem, number), part)
        case Foreign() if is_own(part):
            return part.raw
        case _:
            return None


def _encode_call(call: Call, names: ToolNames, stem: str, number: int) -> JsonObject:
    builtin = names.maybe_builtin(call.name)
    if builtin is not None:
        item = maybe_builtin_item(own_id(builtin.prefix, stem, number), call, builtin)
        if item is not None:
            return item
    arguments = call.raw or dumps(call.arguments)
    return call_item(own_id("fc", stem, number), call, names, arguments)


def _encode_custom_call(id: str, call: Call, names: ToolNames) -> JsonObject:
    read = FreeInput()
    read.feed(call.raw)
    if call.raw and read.cut:
        # Clients run a completed call, and cannot see that its text is cut.
        return custom_call_item(id, call, names, read.given) | {"status": "incomplete"}
    return custom_call_item(id, call, names, free_text(call))
