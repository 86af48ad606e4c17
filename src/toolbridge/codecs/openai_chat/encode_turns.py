"""Our turns as messages: what one of ours says may take several, one for each result.

Text is sent as one string: it is the form that every place takes. Parts are sent only where a
message holds something else than text.
"""

import re
from base64 import b64decode
from binascii import Error
from hashlib import blake2b

import msgspec
from typing_extensions import TypeIs

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.decode_turns import AUDIO_TYPES, FILE_NAME, MESSAGE
from toolbridge.codecs.openai_chat.quirks import Quirks
from toolbridge.codecs.openai_chat.shapes import ERROR_MARK, ORIGIN
from toolbridge.core.codec import Target
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import (
    Audio,
    Cache,
    Call,
    Document,
    Foreign,
    Image,
    Loss,
    Opaque,
    Part,
    Reference,
    Request,
    Result,
    Text,
    Thinking,
    Turn,
)

_AUDIO_FORMATS = {media_type: format for format, media_type in AUDIO_TYPES.items()}
_REMINDER = ("<system-reminder>\n", "\n</system-reminder>")


class TurnEncoder:
    """Writes the messages of one request and keeps what could not be said."""

    def __init__(self, request: Request, target: Target, quirks: Quirks) -> None:
        self._tools = {tool.name: tool for tool in request.tools}
        self._own = request.origin == ORIGIN
        self._target = target
        self._quirks = quirks
        self._calls: dict[str, Call] = {}
        """The calls so far, by their ids, in their order."""
        self.losses: list[Loss] = []

    def lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def system(self, texts: tuple[Text, ...]) -> list[Json]:
        content = _Content(self, joint="\n\n")
        for place, text in enumerate(texts):
            content.add(f"system.{place}", text)
        return [] if content.empty else [{"role": self._system_role, "content": content.value}]

    def encode(self, number: int, turn: Turn) -> list[Json]:
        where = f"turns.{number}.content"
        if turn.role == "assistant":
            return [self._assistant(where, turn)]
        results: list[tuple[str, JsonObject]] = []
        content = _Content(self, joint="\n")
        fields: JsonObject = {}
        for place, part in enumerate(turn.content):
            if isinstance(part, Result):
                message = self._result(f"{where}.{place}", part, content)
                results.append((part.call_id, message))
            elif _is_fields(part):
                fields |= part.raw
            else:
                content.add(f"{where}.{place}", part)
        messages: list[Json] = [*self._in_call_order(results)]
        if results and content.empty and not fields:
            return messages
        if turn.role == "system" and not self._quirks.system_in_place:
            self.lose(f"turns.{number}", "the user says it, marked as a reminder")
            return [_reminder(content.text)]
        role = self._system_role if turn.role == "system" else turn.role
        return [*messages, {"role": role, **fields, "content": content.value}]

    # ── messages ──

    @property
    def _system_role(self) -> str:
        return "developer" if self._quirks.developer_role else "system"

    def _in_call_order(self, results: list[tuple[str, JsonObject]]) -> list[JsonObject]:
        """Return results as their calls came: some servers match them by order alone."""
        order = {id: place for place, id in enumerate(self._calls)}
        ranked = sorted(results, key=lambda result: order.get(result[0], len(order)))
        return [message for _, message in ranked]

    def _result(self, where: str, result: Result, after: "_Content") -> JsonObject:
        call = self._calls.get(result.call_id)
        name = result.name or (call.name if call else "")
        content = _Content(self, joint="\n")
        for place, part in enumerate(result.content):
            inner = f"{where}.content.{place}"
            if isinstance(part, Image) and not self._quirks.images_in_results:
                # Only text may stand in a result, so its pictures follow in the user's words.
                after.add(inner, Text(f"[image from tool {name or result.call_id}]"))
                after.add(inner, part)
            else:
                content.add(inner, part)
        if result.is_error:
            content.mark_error()
        message: JsonObject = {"role": "tool", "tool_call_id": self._id(result.call_id)}
        if name and self._quirks.tool_result_name:
            message["name"] = name
        return message | {"content": content.value}

    def _assistant(self, where: str, turn: Turn) -> JsonObject:
        # Text that a model said in several blocks was one text when it said it.
        content = _Content(self, joint="")
        thoughts: list[Thinking] = []
        calls: list[Json] = []
        message: JsonObject = {"role": "assistant"}
        for place, part in enumerate(turn.content):
            if isinstance(part, Thinking):
                if self._thought(f"{where}.{place}", part):
                    thoughts.append(part)
            elif isinstance(part, Call):
                self._calls[part.id] = part
                calls.append(self._call(part))
            elif _is_fields(part):
                message |= part.raw
            else:
                content.add(f"{where}.{place}", part)
        message["content"] = None if calls and content.empty else content.value
        message |= self._thoughts(thoughts)
        if calls:
            message["tool_calls"] = calls
        return message

    # ── thoughts and calls ──

    def _thought(self, where: str, thought: Thinking) -> bool:
        """Whether the place takes the thought back."""
        field = self._quirks.thinking_field
        if (field and thought.text) or (self._quirks.reasoning_details and _seals(thought)):
            return True
        why = "this place takes no thoughts back" if thought.text else "only its maker can read it"
        self.lose(where, why)
        return False

    def _thoughts(self, thoughts: list[Thinking]) -> JsonObject:
        fields: JsonObject = {}
        text = "".join(thought.text for thought in thoughts)
        if text and self._quirks.thinking_field:
            fields[self._quirks.thinking_field] = text
        if self._quirks.reasoning_details:
            details = [detail for thought in thoughts for detail in _details(thought)]
            if details:
                fields["reasoning_details"] = details
        return fields

    def _call(self, call: Call) -> JsonObject:
        tool = self._tools.get(call.name)
        if tool and self.is_custom(tool.name):
            input = call.raw or call.arguments.get("input", "")
            text = input if isinstance(input, str) else dumps(input)
            custom: JsonObject = {"name": call.name, "input": text}
            return {"id": self._id(call.id), "type": "custom", "custom": custom}
        # Servers parse the arguments of the past, so what could not be read goes inside an object.
        arguments = dumps({"raw": call.raw} if call.raw else call.arguments)
        function: JsonObject = {"name": call.name, "arguments": arguments}
        return {
            "id": self._id(call.id),
            "type": "function",
            "function": function,
            **encode_signature(call.opaque),
        }

    def _id(self, id: str) -> str:
        if not self._quirks.nine_character_ids or re.fullmatch(r"[a-zA-Z0-9]{9}", id):
            return id
        return blake2b(id.encode(), digest_size=5).hexdigest()[:9]

    def is_custom(self, name: str) -> bool:
        """Whether a tool is offered as one that takes free text."""
        tool = self._tools.get(name)
        return bool(tool and tool.freeform and self._own and self._quirks.custom_tools)

    # ── parts ──

    def part(self, where: str, part: Part) -> JsonObject | str:
        """Return a part; as a string where only its words are left."""
        match part:
            case Text(text):
                if part.citations:
                    self.lose(f"{where}.citations", "a request has no place for citations")
                return text
            case Image():
                return self._image(where, part)
            case Audio(data, media_type):
                format = _AUDIO_FORMATS.get(media_type, media_type.removeprefix("audio/"))
                return {"type": "input_audio", "input_audio": {"data": data, "format": format}}
            case Document():
                return self._document(where, part)
            case Reference(name):
                return self._reference(name)
            case Foreign(origin, _, raw) if origin == ORIGIN:
                return raw
            case Foreign(origin, kind):
                self.lose(where, f"only {origin} understands a part of type {kind!r}")
                return "\n".join(_texts(part.raw))
            case _:
                self.lose(where, "this part has no place in such a message")
                return ""

    def marked(self, part: JsonObject, cache: Cache) -> JsonObject:
        """Return `part` as the end of a prefix to cache, where the place knows such marks."""
        if not cache or not self._quirks.cache_breakpoints:
            return part
        mark: JsonObject = {"mode": "explicit", "ttl": shapes.write_cache(cache)}
        return part | {"prompt_cache_breakpoint": mark}

    def marks(self, part: Part) -> bool:
        return self._quirks.cache_breakpoints and bool(getattr(part, "cache", ""))

    def _image(self, where: str, image: Image) -> JsonObject | str:
        model = self._target.model
        if not self._target.can("vision"):
            self.lose(where, f"{model} cannot see images")
            return f"[image omitted: {model} cannot see images]"
        url = image.url or f"data:{image.media_type};base64,{image.data}"
        if not image.url and not image.data:
            self.lose(where, "a file is known only to the API that keeps it")
            return f"[image {image.file_id} could not be shown to this model]"
        shown: JsonObject = {"url": url}
        if image.detail:
            shown["detail"] = image.detail
        return self.marked({"type": "image_url", "image_url": shown}, image.cache)

    def _document(self, where: str, document: Document) -> JsonObject | str:
        if document.cite:
            self.lose(f"{where}.cite", "this API cites no documents")
        if text := document.text or _text_data(document):
            title = f"[document: {document.title}]" if document.title else ""
            return "\n".join(line for line in (title, document.context, text) if line)
        file: JsonObject = {"filename": document.title or FILE_NAME}
        if document.data:
            file["file_data"] = f"data:{document.media_type};base64,{document.data}"
        elif document.file_id and self._own:
            file = {"file_id": document.file_id}
        else:
            self.lose(where, "a document is sent as data; this one is only referred to")
            shown = document.title or document.url or document.file_id
            return f"[document {shown} could not be shown to this model]"
        if document.context:
            self.lose(f"{where}.context", "a file has no context")
        return self.marked({"type": "file", "file": file}, document.cache)

    def _reference(self, name: str) -> str:
        said = f"Tool {name} is now available"
        tool = self._tools.get(name)
        return f"{said}: {dumps(tool.schema)}" if tool else f"{said}."


class _Content:
    """The content of one message, as it is gathered."""

    def __init__(self, encoder: TurnEncoder, *, joint: str) -> None:
        self._encoder = encoder
        self._joint = joint
        self._parts: list[Json] = []
        self._plain = True
        """Whether there is nothing but text, with no mark on it."""

    @property
    def empty(self) -> bool:
        return not self._parts

    def add(self, where: str, part: Part) -> None:
        found = self._encoder.part(where, part)
        if not found:
            return
        if isinstance(found, str):
            found = {"type": "text", "text": found}
            if isinstance(part, Text):
                found = self._encoder.marked(found, part.cache)
                self._plain = self._plain and not self._encoder.marks(part)
        else:
            self._plain = False
        self._parts.append(found)

    def mark_error(self) -> None:
        first = self._parts[0] if self._parts else None
        if isinstance(first, dict) and isinstance(text := first.get("text"), str):
            if not text.startswith(ERROR_MARK):
                self._parts[0] = first | {"text": ERROR_MARK + text}
        else:
            self._parts.insert(0, {"type": "text", "text": ERROR_MARK})

    @property
    def text(self) -> str:
        texts = (part.get("text") for part in self._parts if isinstance(part, dict))
        return self._joint.join(text for text in texts if isinstance(text, str))

    @property
    def value(self) -> Json:
        return self.text if self._plain else self._parts


def _reminder(text: str) -> JsonObject:
    before, after = _REMINDER
    return {"role": "user", "content": f"{before}{text}{after}"}


def _is_fields(part: Part) -> TypeIs[Foreign]:
    return isinstance(part, Foreign) and (part.origin, part.kind) == (ORIGIN, MESSAGE)


def encode_signature(opaque: tuple[Opaque, ...]) -> JsonObject:
    """Return the field in which Gemini's signature of a call goes through this API."""
    for token in opaque:
        if token.kind == "thought_signature" and token.origin.partition("/")[0] == ORIGIN:
            return {"extra_content": {"google": {"thought_signature": token.value}}}
    return {}


def _seals(thought: Thinking) -> list[shapes.Detail]:
    return [seal for opaque in thought.opaque if (seal := shapes.write_seal(opaque))]


def _details(thought: Thinking) -> list[Json]:
    """Return a sealed thought as the details that it came in; its text goes to its signature."""
    seals = _seals(thought)
    signed = next((seal for seal in seals if seal.signature), None)
    if signed is not None:
        signed.text = thought.text
    elif seals and thought.text:
        seals.insert(0, shapes.Detail("reasoning.summary", summary=thought.text))
    return [msgspec.to_builtins(seal) for seal in seals]


def _text_data(document: Document) -> str:
    if not document.data or not document.media_type.startswith("text/"):
        return ""
    try:
        return b64decode(document.data).decode("utf-8", "replace")
    except (Error, ValueError):
        return ""


def _texts(value: Json, depth: int = 6) -> list[str]:
    """Return the words inside a part of another API: a search's titles, links and passages."""
    if isinstance(value, list) and depth:
        return [text for item in value for text in _texts(item, depth - 1)]
    if not isinstance(value, dict) or not depth:
        return []
    found: list[str] = []
    for key, item in value.items():
        if isinstance(item, str) and key in {"title", "url", "text"}:
            found.append(item)
        else:
            found += _texts(item, depth - 1)
    return found
