"""The response object: what every answer and half of its events are wrapped in."""

from typing import TypeGuard

from toolbridge.codecs.openai_responses.builtins import Builtin, builtins_of, write_call
from toolbridge.codecs.openai_responses.encode_items import ItemEncoder, free_text
from toolbridge.codecs.openai_responses.encode_request import encode_format
from toolbridge.codecs.openai_responses.encode_tools import ToolEncoder
from toolbridge.codecs.openai_responses.free_input import FreeInput
from toolbridge.codecs.openai_responses.marks import (
    item_fields,
    name_fields,
    namespaces,
    own_id,
    tokens,
    write_counts,
)
from toolbridge.codecs.openai_responses.quirks import Quirks
from toolbridge.codecs.openai_responses.shapes import (
    ANNOTATIONS,
    CONTENT,
    FAILURE_CODES,
    ORIGIN,
    REASONS,
)
from toolbridge.core.citations import link, maybe_link
from toolbridge.core.codec import AnswerContext, Target
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.logprobs import split_logprobs, write_logprobs
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Part,
    Problem,
    Request,
    StopDetails,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.usage import Usage

_ECHOED: JsonObject = {
    "background": False,
    "max_tool_calls": None,
    "previous_response_id": None,
    "service_tier": "default",
    "store": False,
    "truncation": "disabled",
    "metadata": {},
}
"""Fields that an answer repeats from the request, and what they are when it does not have them."""


class ResponseEnvelope:
    """The response object of one answer, at any time of it."""

    def __init__(self, asked: AnswerContext, id: str, model: str) -> None:
        self.id = response_id(id)
        self._asked = asked
        self._head: JsonObject = {
            "id": self.id,
            "object": "response",
            "created_at": int(asked.at),
            "model": asked.request.model or model,
        }
        self._echo = _echo(asked.request)

    def begun(self) -> JsonObject:
        return self._object("in_progress", [])

    def ended(self, reason: StopReason, usage: Usage, output: list[Json]) -> JsonObject:
        why = REASONS.get(reason)
        response = self._object("incomplete" if why else "completed", output)
        response["incomplete_details"] = {"reason": why} if why else None
        response["completed_at"] = None if why else int(self._asked.at)
        response["usage"] = write_counts(usage, self._asked.estimate)
        return response

    def failed(self, problem: Problem, usage: Usage, output: list[Json]) -> JsonObject:
        response = self._object("failed", output)
        response["error"] = failure(problem)
        if usage != Usage():
            response["usage"] = write_counts(usage, self._asked.estimate)
        return response

    def _object(self, status: str, output: list[Json]) -> JsonObject:
        state: JsonObject = {
            "status": status,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "output": output,
            "usage": None,
        }
        return self._head | state | self._echo


def response_id(id: str) -> str:
    return id if id.startswith("resp_") else f"resp_{id}"


def failure(problem: Problem) -> JsonObject:
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    return {"code": FAILURE_CODES.get(problem.kind, "server_error"), "message": text}


def _echo(request: Request) -> JsonObject:
    """Return what clients expect to read again in an answer."""
    quirks = Quirks()
    extra = request.extra if request.origin == ORIGIN else {}
    instructions, _ = ItemEncoder(_opening(request), Target(), quirks).encode()
    tools = ToolEncoder(request, quirks)
    plain: JsonObject = {"type": "text"}
    format = plain if request.output is None else encode_format(request.output)
    given = extra.get("text")
    text: JsonObject = given | {"format": format} if isinstance(given, dict) else {"format": format}
    temperature, top_p = request.sampling.temperature, request.sampling.top_p
    parallel = request.tool_choice.parallel
    return {
        "instructions": instructions or None,
        "max_output_tokens": request.max_tokens,
        "parallel_tool_calls": True if parallel is None else parallel,
        "prompt_cache_key": request.session or None,
        "reasoning": {
            "effort": request.think.effort or None,
            "summary": "auto" if request.think.show else None,
        },
        "safety_identifier": request.user or None,
        "temperature": 1.0 if temperature is None else temperature,
        "text": text,
        "tool_choice": tools.choice().get("tool_choice", "auto"),
        "tools": tools.tools(),
        "top_logprobs": request.sampling.logprobs or 0,
        "top_p": 1.0 if top_p is None else top_p,
        **{name: extra.get(name, value) for name, value in _ECHOED.items()},
    }


def _opening(request: Request) -> Request:
    """Return as much of a request as its instructions need."""
    return Request(model=request.model, system=request.system[:1], origin=request.origin)


# ── items ────────────────────────────────────────────────────────────────────


class ToolNames:
    """How the client's own tools are called, and which of them are no plain functions."""

    def __init__(self, request: Request) -> None:
        self._builtins = builtins_of(request.tools)
        self._namespaces = namespaces(request.tools)
        self._freeform = {tool.name for tool in request.tools if tool.freeform}

    def is_free(self, name: str) -> bool:
        return name in self._freeform

    def maybe_builtin(self, name: str) -> Builtin | None:
        return self._builtins.get(name)

    def fields(self, name: str) -> JsonObject:
        return name_fields(name, self._namespaces.get(name, ""))


def text_part(part: Text, logprobs: list[Json] | None = None) -> JsonObject:
    cited: list[Json] = [*citations(part)]
    likely: list[Json] = logprobs or []
    return {"type": "output_text", "text": part.text, "annotations": cited, "logprobs": likely}


def add_logprobs(output: list[Json], tokens: tuple[TokenLogprob, ...]) -> None:
    """Give the texts of a whole answer the log probabilities of their tokens."""
    items = [item for item in output if isinstance(item, dict) and item.get("type") == "message"]
    contents = [item["content"] for item in items]
    parts = [p for c in contents if isinstance(c, list) for p in c if isinstance(p, dict)]
    texts = [str(part.get("text") or "") for part in parts]
    for part, own in zip(parts, split_logprobs(tokens, texts), strict=False):
        part["logprobs"] = write_logprobs(own)


def citations(part: Text) -> list[JsonObject]:
    """Return the citations of this API's own types, and every link as one of those."""
    found: list[JsonObject] = []
    for citation in part.citations:
        cited = maybe_link(citation, part.text)
        if cited is not None:
            found.append(link(cited.url, cited.title, (cited.start, cited.end)))
        elif citation.get("type") in ANNOTATIONS:
            found.append(citation)
    return found


def message_item(id: str, status: str, content: list[Json]) -> JsonObject:
    return {
        "id": id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def spoken_item(id: str, part: Text, logprobs: list[Json] | None = None) -> JsonObject:
    item = message_item(id, "completed", [text_part(part, logprobs)])
    phase = item_fields(part.opaque).get("phase")
    return item if phase is None else item | {"phase": phase}


def refusal_item(id: str, details: StopDetails) -> JsonObject:
    """Return why a provider refused, as a message that the model did not write."""
    part: JsonObject = {"type": "refusal", "refusal": details.explanation}
    return message_item(id, "completed", [part])


def thought_item(id: str, text: str, sealed: str | None) -> JsonObject:
    summary: list[Json] = [{"type": "summary_text", "text": text}] if text else []
    item: JsonObject = {"id": id, "type": "reasoning", "summary": summary}
    # Left out where there is none: Mistral Vibe refuses a null, and no client misses the field.
    return item | {"encrypted_content": sealed} if sealed else item


def seal_of(thought: Thinking) -> str | None:
    return next(iter(tokens(thought.opaque, "encrypted")), None)


def hidden_id(thought: Thinking, id: str) -> str:
    """Return the id under which a thought without words was sealed, or ours."""
    kept = item_fields(thought.opaque).get("id")
    return kept if isinstance(kept, str) else id


def call_item(id: str, call: Call, names: ToolNames, arguments: str) -> JsonObject:
    """Return a call; one that could not be read keeps the model's own words and is not complete."""
    return {
        "id": id,
        "type": "function_call",
        "status": "incomplete" if call.raw else "completed",
        "call_id": call.id,
        **names.fields(call.name),
        "arguments": arguments,
    }


def free_call_item(id: str, call: Call, names: ToolNames, text: str) -> JsonObject:
    return {
        "id": id,
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": call.id,
        **names.fields(call.name),
        "input": text,
    }


def maybe_builtin_item(id: str, call: Call, builtin: Builtin) -> JsonObject | None:
    """Return the call of a built-in tool; None where the model asked for nothing it could do."""
    asks = None if call.raw else write_call(builtin, call.arguments)
    if asks is None:
        return None
    head: JsonObject = {"id": id, "type": builtin.call, "status": "completed"}
    return head | {"call_id": call.id} | asks


def picture_item(id: str, image: Image) -> JsonObject | None:
    """Return a picture; one that is only a link has no place in this API."""
    if not image.data:
        return None
    format = image.media_type.removeprefix("image/") or "png"
    item: JsonObject = {
        "id": id,
        "type": "image_generation_call",
        "status": "completed",
        "result": image.data,
        "output_format": format,
    }
    return item | item_fields(image.opaque)


def is_own(part: Part) -> TypeGuard[Foreign]:
    """Whether a foreign part is an item of this API."""
    if not isinstance(part, Foreign):
        return False
    return part.origin == ORIGIN and not part.kind.startswith(CONTENT)


def encode_parts(parts: tuple[Part, ...], names: ToolNames, stem: str) -> list[Json]:
    """Return the items of a whole answer."""
    items: list[Json] = []
    for part in parts:
        item = _encode_part(part, names, stem, len(items))
        if item is not None:
            items.append(item)
    return items


def _encode_part(part: Part, names: ToolNames, stem: str, number: int) -> JsonObject | None:
    match part:
        case Text():
            return spoken_item(own_id("msg", stem, number), part)
        case Thinking(text):
            sealed = seal_of(part)
            id = own_id("rs", stem, number)
            if text:
                return thought_item(id, text, sealed)
            return thought_item(hidden_id(part, id), "", sealed) if sealed else None
        case Call(_, name) if names.is_free(name):
            return _encode_free_call(own_id("ctc", stem, number), part, names)
        case Call():
            return _encode_call(part, names, stem, number)
        case Image():
            return picture_item(own_id("ig", stem, number), part)
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


def _encode_free_call(id: str, call: Call, names: ToolNames) -> JsonObject:
    read = FreeInput()
    read.feed(call.raw)
    if call.raw and read.cut:
        return free_call_item(id, call, names, read.given) | {"status": "incomplete"}
    return free_call_item(id, call, names, free_text(call))
