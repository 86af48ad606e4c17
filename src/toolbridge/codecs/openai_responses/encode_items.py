"""Our turns, as the items of an input.

A thought, a call and a result are items of their own; what lies between them is a message. Two
texts that follow one another are one message, unless the second began one of its own.
"""

from toolbridge.codecs.openai_responses import shapes
from toolbridge.codecs.openai_responses.builtins import (
    BY_CALL,
    BY_OUTPUT,
    Builtin,
    builtins_of,
    read_call,
    write_call,
)
from toolbridge.codecs.openai_responses.marks import (
    is_own_id,
    item_fields,
    name_fields,
    namespaces,
    tokens,
    write_cache,
)
from toolbridge.codecs.openai_responses.quirks import Quirks
from toolbridge.codecs.openai_responses.shapes import ANNOTATIONS, CONTENT, ERROR_MARK, ORIGIN
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
    Part,
    Reference,
    Request,
    Result,
    Role,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.source import own_words

_ROLES: dict[Role, str] = {"system": "developer", "user": "user", "assistant": "assistant"}


class ItemEncoder:
    """Writes the items of one request and keeps what could not be said."""

    def __init__(self, request: Request, target: Target, quirks: Quirks) -> None:
        self._request = request
        self._target = target
        self._quirks = quirks
        self._marks = quirks.cache_breakpoints or request.origin == ORIGIN
        self._freeform = {tool.name for tool in request.tools if tool.freeform}
        self._namespaces = namespaces(request.tools)
        self._builtins = builtins_of(request.tools)
        self._custom: set[str] = set()
        """The ids of calls of tools that take free text: their results have a type of their own."""
        self._items: list[Json] = []
        self._message: JsonObject | None = None
        self._content: list[Json] = []
        self._item = ""
        """The path of the client's own message that is being written."""
        self.losses: list[Loss] = []

    def encode(self) -> tuple[str, list[Json]]:
        """Return the instructions and the items."""
        instructions = self._system()
        for number, turn in enumerate(self._request.turns):
            self._turn(turn, f"turns.{number}.content")
        return instructions, self._items

    def _lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def _system(self) -> str:
        """Write what the system says first; a text that was no message is the instructions."""
        first, *rest = self._request.system or (Text(""),)
        instructions = ""
        if item_fields(first.opaque) or (self._marks and first.cache) or self._item_of(first):
            rest = [first, *rest]
        else:
            instructions = first.text
        for text in rest:
            said = own_words(text, ORIGIN)
            self._speak("system", text, said or self._input_text(text.text, text.cache))
        self._flush()
        return instructions

    def _turn(self, turn: Turn, where: str) -> None:
        for place, part in enumerate(turn.content):
            at = f"{where}.{place}"
            item = self._own_item(part, at)
            if item is not None:
                self._flush()
                self._items.append(item)
            elif not isinstance(part, Thinking | Call | Result):
                content = self._part(part, at, turn.role)
                if content is not None:
                    self._speak(turn.role, part, content)
        self._flush()

    def _speak(self, role: Role, part: Part, content: JsonObject) -> None:
        """Add content to the message, or to a new one when the part began one."""
        fields = item_fields(part.opaque) if isinstance(part, Text) else {}
        if fields or self._item_of(part) != self._item:
            self._flush()
        self._item = self._item_of(part)
        if self._message is None:
            named: JsonObject = {"type": "message", "role": _ROLES[role]}
            self._message = named | fields
        self._content.append(content)

    def _item_of(self, part: Part) -> str:
        """Return the path of the client's own message that `part` stood in, where it had one."""
        if part.source is None or part.source.api != ORIGIN:
            return ""
        items, _, rest = part.source.path.partition(".")
        return f"{items}.{rest.partition('.')[0]}" if rest else ""

    def _flush(self) -> None:
        if self._message is not None:
            self._items.append(self._message | {"content": self._content})
        self._message = None
        self._content = []

    # ── items ──

    def _own_item(self, part: Part, where: str) -> JsonObject | None:
        """Return a part that is an item of its own, in the client's words where it has them."""
        item = self._encode_item(part, where)
        said = own_words(part, ORIGIN)
        if item is None or said is None:
            return item
        if isinstance(part, Call | Result) and said["type"] != item["type"]:
            return item
        if isinstance(part, Call) and said.get("namespace") and not self._quirks.namespaces:
            return item
        id = said.get("id")
        if isinstance(id, str) and is_own_id(id):  # nobody upstream knows it
            del said["id"]
        return said

    def _encode_item(self, part: Part, where: str) -> JsonObject | None:
        match part:
            case Thinking():
                return self._thought(part, where)
            case Call():
                return self._call(part)
            case Result():
                return self._result(part, where)
            case Foreign(origin, kind, raw) if origin == ORIGIN and not kind.startswith(CONTENT):
                return raw
            case _:
                return None

    def _thought(self, thought: Thinking, where: str) -> JsonObject | None:
        fields = item_fields(thought.opaque)
        sealed = tokens(thought.opaque, "encrypted")
        if not fields and not sealed:
            self._lose(where, "OpenAI takes back only the thoughts that it sealed")
            return None
        summary: list[Json] = []
        if thought.text and "content" not in fields:
            summary = [{"type": "summary_text", "text": thought.text}]
        item: JsonObject = {"type": "reasoning", "summary": summary}
        item |= fields
        return item | {"encrypted_content": sealed[0]} if sealed else item

    def _call(self, call: Call) -> JsonObject:
        fields = item_fields(call.opaque)
        known = fields.pop("namespace", None)
        namespace = known if isinstance(known, str) else self._namespaces.get(call.name, "")
        named = name_fields(call.name, namespace if self._quirks.namespaces else "")
        kind = fields.get("type", "")
        builtin = BY_CALL.get(str(kind)) or self._builtins.get(call.name)
        item = self._builtin_call(call, builtin, fields) if builtin else None
        if item is not None:
            return item
        was_custom = fields.pop("type", "") == "custom_tool_call"
        head: JsonObject = {"call_id": call.id, **named}
        if (was_custom or call.name in self._freeform) and self._quirks.custom_tools:
            self._custom.add(call.id)
            return {"type": "custom_tool_call", **head, "input": free_text(call), **fields}
        arguments = call.raw or dumps(call.arguments)
        return {"type": "function_call", **head, "arguments": arguments, **fields}

    def _builtin_call(self, call: Call, builtin: Builtin, fields: JsonObject) -> JsonObject | None:
        """Return the call as the item that it was, unless its arguments have changed since."""
        head: JsonObject = {"type": builtin.call, "call_id": call.id}
        if read_call(fields) == call.arguments:
            return head | fields
        asks = None if call.raw else write_call(builtin, call.arguments)
        return None if asks is None else head | fields | asks

    def _result(self, result: Result, where: str) -> JsonObject:
        custom = result.call_id in self._custom
        type = "custom_tool_call_output" if custom else "function_call_output"
        texts = [part for part in result.content if isinstance(part, Text)]
        fields = item_fields(texts[0].opaque) if texts else {}
        if fields.get("type") in BY_OUTPUT:
            named: JsonObject = {"type": None, "call_id": result.call_id, **fields}
            return {name: value for name, value in named.items() if value is not None}
        output = self._output(result, where)
        return {"type": type, "call_id": result.call_id, "output": output, **fields}

    def _output(self, result: Result, where: str) -> Json:
        mark = ERROR_MARK if result.is_error else ""
        content = result.content
        only = content[0] if content else Text("")
        if len(content) <= 1 and isinstance(only, Text) and not (self._marks and only.cache):
            return only.text if only.text.startswith(mark) else mark + only.text
        parts: list[Json] = []
        for place, part in enumerate(content):
            if mark and not parts:
                if isinstance(part, Text):
                    part = Text(mark + part.text, cache=part.cache)  # noqa: PLW2901
                else:
                    parts.append({"type": "input_text", "text": mark})
            inner = self._part(part, f"{where}.content.{place}", "user")
            if inner is not None:
                parts.append(inner)
        return parts

    # ── content ──

    def _part(self, part: Part, where: str, role: Role) -> JsonObject | None:
        """Return a part of a message; None where it cannot be one."""
        said = own_words(part, ORIGIN)
        if said is not None and (not isinstance(part, Image) or self._target.can("vision")):
            return said
        if role == "assistant":
            return self._spoken(part, where)
        match part:
            case Text(text):
                return self._input_text(text, part.cache)
            case Image():
                return self._image(part, where)
            case Document():
                return self._document(part, where)
            case Audio():
                return self._audio(part, where)
            case Reference(name):
                return self._input_text(f"Tool {name} is now available.", "")
            case Foreign(origin, kind, raw) if origin == ORIGIN:
                return raw
            case Foreign(origin, kind):
                self._lose(where, foreign_why(origin, kind))
                return None
            case _:
                return None

    def _spoken(self, part: Part, where: str) -> JsonObject | None:
        """Return a part of what the model said."""
        if isinstance(part, Foreign) and part.origin == ORIGIN:
            return part.raw
        if not isinstance(part, Text):
            self._lose(where, "here the model says nothing but text")
            return None
        citations: list[Json] = [one for one in part.citations if one.get("type") in ANNOTATIONS]
        if len(citations) < len(part.citations):
            self._lose(f"{where}.citations", "citations of another API have no place here")
        return {"type": "output_text", "text": part.text, "annotations": citations}

    def _input_text(self, text: str, cache: Cache) -> JsonObject:
        return {"type": "input_text", "text": text, **self._mark(cache)}

    def _mark(self, cache: Cache) -> JsonObject:
        # Without a mark nothing is lost: the server keeps the prefix of a prompt by itself.
        return write_cache(cache) if self._marks else {}

    def _image(self, image: Image, where: str) -> JsonObject:
        if not self._target.can("vision"):
            self._lose(where, f"{self._target.model} cannot see images")
            return self._input_text(f"[image omitted: {self._target.model} cannot see images]", "")
        part: JsonObject = {"type": "input_image", "detail": image.detail or "auto"}
        if image.file_id:
            part["file_id"] = image.file_id
        else:
            part["image_url"] = image.url or f"data:{image.media_type};base64,{image.data}"
        return part | self._mark(image.cache)

    def _document(self, document: Document, where: str) -> JsonObject:
        if document.cite:
            self._lose(f"{where}.cite", "this API cites no documents of the input")
        if document.text:
            title = f"[document: {document.title}]" if document.title else ""
            lines = (line for line in (title, document.context, document.text) if line)
            return self._input_text("\n".join(lines), document.cache)
        if document.context:
            self._lose(f"{where}.context", "a file has no context beside it")
        part: JsonObject = {"type": "input_file"}
        if document.file_id:
            part["file_id"] = document.file_id
        elif document.url:
            part["file_url"] = document.url
        else:
            part["file_data"] = f"data:{document.media_type};base64,{document.data}"
            part["filename"] = shapes.FILENAME
        if document.title:
            part["filename"] = document.title
        return part | self._mark(document.cache)

    def _audio(self, audio: Audio, where: str) -> JsonObject | None:
        format = shapes.AUDIO_FORMATS.get(audio.media_type)
        if format is None:
            self._lose(where, f"audio is heard as mp3 or wav, not as {audio.media_type!r}")
            return None
        return {"type": "input_audio", "input_audio": {"data": audio.data, "format": format}}


def free_text(call: Call) -> str:
    """Return the input of a tool that takes free text, however the model wrapped it."""
    if call.raw:
        return call.raw
    given = call.arguments.get("input")
    if isinstance(given, str):
        return given
    values = list(call.arguments.values())
    only = values[0] if len(values) == 1 else None
    return only if isinstance(only, str) else dumps(call.arguments)
