"""Turns to input items of the Responses API.

A thought, a call and a result are items of their own; the parts between them are the content of
messages. Consecutive texts become one message, unless the second began a message at the client.
"""

from toolbridge.codecs.openai_responses.builtins import (
    BY_CALL,
    BY_OUTPUT,
    Builtin,
    builtins_of,
    decode_call_arguments,
    encode_call_content,
)
from toolbridge.codecs.openai_responses.content import ContentEncoder
from toolbridge.codecs.openai_responses.hosted_items import (
    HOSTED_IDS,
    HostedItems,
    has_own_item,
)
from toolbridge.codecs.openai_responses.item_fields import (
    is_own_id,
    item_fields,
    name_fields,
    namespaces,
    tokens,
)
from toolbridge.codecs.openai_responses.quirks import Quirks
from toolbridge.codecs.openai_responses.shapes import CONTENT, ERROR_MARK, ORIGIN
from toolbridge.core.codec import Target
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import (
    Call,
    Foreign,
    Part,
    Request,
    Result,
    Role,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.server_tools import ServerCall, ServerPart, ServerResult
from toolbridge.core.source import own_words
from toolbridge.core.steps import Steps

_ROLES: dict[Role, str] = {"system": "developer", "user": "user", "assistant": "assistant"}


class TurnEncoder(ContentEncoder):
    """Writes the items of one request and collects the losses."""

    def __init__(self, request: Request, target: Target, quirks: Quirks) -> None:
        super().__init__(request, target, quirks)
        self._request = request
        self._quirks = quirks
        self._freeform = {tool.name for tool in request.tools if tool.freeform}
        self._namespaces = namespaces(request.tools)
        self._builtins = builtins_of(request.tools)
        self._custom: set[str] = set()
        """The ids of custom tool calls: their outputs have the type `custom_tool_call_output`."""
        self._hosted = HostedItems(request)
        parts = (part for turn in request.turns for part in turn.content)
        self._results = {part.call_id: part for part in parts if isinstance(part, ServerResult)}
        self._last: Json = None
        """The item of the server tool that was written last."""
        self._items: list[Json] = []
        self._message: JsonObject | None = None
        self._content: list[Json] = []
        self._item = ""
        """The path of the client's message whose parts are being written."""

    def encode(self) -> Steps[tuple[str, list[Json]]]:
        """Return `instructions` and the items of `input`."""
        instructions = self._system()
        for number, turn in enumerate(self._request.turns):
            self._turn(turn, f"turns.{number}.content")
            yield
        return instructions, self._items

    def _system(self) -> str:
        """Return the instructions: the first system text, unless the client sent it as a message."""
        first, *rest = self._request.system or (Text(""),)
        instructions = ""
        if item_fields(first.opaque) or (self.marks and first.cache) or self._item_of(first):
            rest = [first, *rest]
        else:
            instructions = first.text
        for text in rest:
            written = own_words(text, ORIGIN)
            self._add_content("system", text, written or self.input_text(text.text, text.cache))
        self._flush()
        return instructions

    def _turn(self, turn: Turn, where: str) -> None:
        for i, part in enumerate(turn.content):
            at = f"{where}.{i}"
            if isinstance(part, ServerCall | ServerResult) and self._is_vendors(part):
                self._add_hosted(part)
                continue
            item = self._own_item(part, at)
            if item is not None:
                self._flush()
                self._items.append(item)
            elif not isinstance(part, Thinking | Call | Result):
                content = self.part(part, at, turn.role)
                if content is not None:
                    self._add_content(turn.role, part, content)
        self._flush()

    def _is_vendors(self, part: ServerPart) -> bool:
        """Return True for an item of OpenAI's; what ran elsewhere is sent as text.

        OpenAI Responses: "Item with id … not found" for an id that the gateway made.
        """
        id = part.id if isinstance(part, ServerCall) else part.call_id
        known = part.source is None or part.source.api == ORIGIN
        return known and id.startswith(HOSTED_IDS)

    def _add_hosted(self, part: ServerPart) -> None:
        """Add the item of a call, once: most items contain the result, too."""
        written = own_words(part, ORIGIN)
        results = self._results if isinstance(part, ServerCall) else {}
        if written is None and isinstance(part, ServerCall):
            written = self._hosted.call(part, results.get(part.id))
        elif written is None and isinstance(part, ServerResult) and has_own_item(part):
            written = self._hosted.alone(part)
        if written is None or written == self._last:
            return
        self._flush()
        self._last = written
        self._items.append(written)

    def _add_content(self, role: Role, part: Part, content: JsonObject) -> None:
        """Add content to the current message, or to a new one if the part began a message."""
        fields = item_fields(part.opaque) if isinstance(part, Text) else {}
        if fields or self._item_of(part) != self._item:
            self._flush()
        self._item = self._item_of(part)
        if self._message is None:
            named: JsonObject = {"type": "message", "role": _ROLES[role]}
            self._message = named | fields
        self._content.append(content)

    def _item_of(self, part: Part) -> str:
        """Return the path of the client's message that contained `part`; "" without one."""
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
        """Return a part that is an item, as the client sent it if the provider accepts that."""
        item = self._encode_item(part, where)
        written = own_words(part, ORIGIN)
        if item is None or written is None:
            return item
        if isinstance(part, Call | Result) and written["type"] != item["type"]:
            return item
        if isinstance(part, Call) and written.get("namespace") and not self._quirks.namespaces:
            return item
        id = written.get("id")
        if isinstance(id, str) and is_own_id(id):
            del written["id"]  # OpenAI Responses: "Item with id … not found"
        return written

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
            # OpenAI Responses, reasoning items: `encrypted_content`, or the id of a stored item.
            self.lose(where, "OpenAI takes back only the thoughts that it sealed")
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
        """Return the call as the item that it was; None if its arguments do not fit the tool."""
        head: JsonObject = {"type": builtin.call, "call_id": call.id}
        if decode_call_arguments(fields) == call.arguments:
            return head | fields
        asks = None if call.raw else encode_call_content(builtin, call.arguments)
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
        if len(content) <= 1 and isinstance(only, Text) and not (self.marks and only.cache):
            return only.text if only.text.startswith(mark) else mark + only.text
        parts: list[Json] = []
        for i, part in enumerate(content):
            if mark and not parts:
                if isinstance(part, Text):
                    part = Text(mark + part.text, cache=part.cache)  # noqa: PLW2901
                else:
                    parts.append({"type": "input_text", "text": mark})
            inner = self.part(part, f"{where}.content.{i}", "user")
            if inner is not None:
                parts.append(inner)
        return parts


def free_text(call: Call) -> str:
    """Return the text input of a custom tool call.

    A model that sees the tool as a function wraps the text in `input`, or in a field that it invents.
    """
    if call.raw:
        return call.raw
    given = call.arguments.get("input")
    if isinstance(given, str):
        return given
    values = list(call.arguments.values())
    only = values[0] if len(values) == 1 else None
    return only if isinstance(only, str) else dumps(call.arguments)
