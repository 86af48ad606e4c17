"""Ollama's requests, as ours.

Its clients seldom know call ids: the SDKs drop them. A call without one is named by its place, so
that the same history gives the same ids again, and a result is matched to its call by id, else by
the tool's name, else by order.
"""

from collections import defaultdict, deque
from typing import TypeVar

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.media import decode_media
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.core.messages import (
    Audio,
    Call,
    Completion,
    Effort,
    Foreign,
    Image,
    Origin,
    OutputFormat,
    Part,
    Request,
    Result,
    Role,
    Sampling,
    Text,
    Think,
    Thinking,
    Tool,
    Turn,
)
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

B = TypeVar("B", bound=shapes.Body)

_chats = msgspec.json.Decoder(shapes.ChatBody)
_messages = msgspec.json.Decoder(shapes.Message)
_tools = msgspec.json.Decoder(shapes.Tool)
_generates = msgspec.json.Decoder(shapes.GenerateBody)
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "assistant": "assistant"}
_EFFORTS: dict[str, Effort] = {"low": "low", "medium": "medium", "high": "high", "max": "max"}


def decode_request(
    body: bytes,
    *,
    model: str = "",
    stream: bool | None = None,
    counting: bool = False,  # noqa: ARG001 (no field is required only when the answer is wanted)
) -> Request:
    """Read what was sent to `/api/chat`."""
    asked = wire.decode_request(body, _chats)
    conversation = _Conversation()
    for number, message in enumerate(asked.messages or ()):
        conversation.add(number, message)
    extra = _extra(asked)
    for name, rest in wire.rest(body, shapes.ChatBody).items():
        before = extra.get(name)
        extra[name] = before | rest if isinstance(before, dict) and isinstance(rest, dict) else rest
    if not asked.messages:
        extra[shapes.LOAD] = True
    request = _request(asked, model=model, stream=stream, extra=extra)
    return msgspec.structs.replace(
        request,
        system=tuple(conversation.system),
        turns=tuple(
            sourced(Turn(role, tuple(p)), source) for role, p, source in conversation.turns
        ),
        tools=tuple(_tool(raw, f"tools.{i}") for i, raw in enumerate(asked.tools or ())),
    )


def decode_generate(body: bytes, *, model: str = "", stream: bool | None = None) -> Request:
    """Read what was sent to `/api/generate`: one prompt, answered in that endpoint's shape."""
    asked = wire.decode_request(body, _generates)
    extra = _extra(asked)
    extra[shapes.GENERATE] = True
    for name in shapes.GENERATE_EXTRAS:
        if (value := getattr(asked, name)) is not None:
            extra[name] = value
    parts: list[Part] = [Text(asked.prompt)] if asked.prompt else []
    parts += [decode_media(image) for image in asked.images or ()]
    if not parts:
        extra[shapes.LOAD] = True
    request = _request(asked, model=model, stream=stream, extra=extra)
    return msgspec.structs.replace(
        request,
        system=(Text(asked.system),) if asked.system else (),
        turns=(Turn("user", tuple(parts)),) if parts else (),
        completion=Completion(suffix=asked.suffix or ""),
    )


def _request(asked: B, *, model: str, stream: bool | None, extra: JsonObject) -> Request:
    name = model or asked.model or ""
    if not name:
        raise MalformedRequest("model is required", where="model")
    options = asked.options or shapes.Options()
    if stream is None:
        stream = asked.stream is not False  # a stream is what this API gives unless told otherwise
    return Request(
        model=name,
        max_tokens=_max_tokens(options),
        stop=_stop(options),
        sampling=_sampling(asked, options),
        think=_think(asked.think),
        output=_output(asked.format),
        stream=stream,
        origin=ORIGIN,
        extra=extra,
    )


def _max_tokens(options: shapes.Options) -> int | None:
    # -1 is "no limit" and -2 "until the window is full", which for us is the same.
    given = int(options.num_predict or 0)
    return given if given > 0 else None


def _stop(options: shapes.Options) -> tuple[str, ...]:
    stop = options.stop or ()
    return (stop,) if isinstance(stop, str) else tuple(stop)


def _sampling(asked: shapes.Body, options: shapes.Options) -> Sampling:
    logprobs = asked.top_logprobs or 0
    if not 0 <= logprobs <= 20:
        raise MalformedRequest("top_logprobs must be between 0 and 20", where="top_logprobs")
    return Sampling(
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=_count(options.top_k),
        min_p=options.min_p,
        seed=_count(options.seed),
        frequency_penalty=options.frequency_penalty,
        presence_penalty=options.presence_penalty,
        repeat_penalty=options.repeat_penalty,
        logprobs=logprobs if asked.logprobs else None,
    )


def _count(given: float | None) -> int | None:
    return None if given is None else int(given)


def _think(given: bool | str | None) -> Think:  # noqa: FBT001 (the field is a bool or a level)
    if given is None:
        return Think()
    if isinstance(given, bool):
        return Think("on" if given else "off")
    if given not in _EFFORTS:
        raise MalformedRequest(
            f"invalid think value: {dumps(given)} "
            '(must be "high", "medium", "low", "max", true, or false)',
            where="think",
        )
    return Think("on", effort=_EFFORTS[given])


def _output(given: str | JsonObject | None) -> OutputFormat | None:
    if isinstance(given, dict):
        return OutputFormat(schema=given)
    if given not in {None, "", "json"}:
        raise MalformedRequest(
            f'invalid format: {dumps(given)} (must be "json" or a JSON schema)', where="format"
        )
    return OutputFormat() if given else None


def _extra(asked: shapes.Body) -> JsonObject:
    """Return the fields that no other API has, by their own names."""
    extra: JsonObject = {}
    for name in shapes.CHAT_EXTRAS:
        if (value := getattr(asked, name.removeprefix("_"))) is not None:
            extra[name] = value
    options: JsonObject = {
        name: value
        for name in shapes.OTHER_OPTIONS
        if (value := getattr(asked.options, name, None)) is not None
    }
    if options:
        extra["options"] = options
    return extra


def _tool(raw: msgspec.Raw, where: str) -> Tool:
    function = wire.decode_request(raw, _tools, where).function
    tool = Tool(function.name, function.description or "", function.parameters or {})
    unknown = wire.unknown_names(raw, shapes.Tool, where)
    return sourced(tool, Origin(ORIGIN, where, raw, unknown))


class _Conversation:
    """The messages so far, as turns, with the calls that no result has answered yet."""

    def __init__(self) -> None:
        self.system: list[Text] = []
        self.turns: list[tuple[Role, list[Part], Origin]] = []
        self._waiting: dict[str, str] = {}
        """Names by call id."""
        self._order: deque[str] = deque()
        self._by_name: defaultdict[str, deque[str]] = defaultdict(deque)

    def add(self, number: int, raw: msgspec.Raw) -> None:
        where = f"messages.{number}"
        message = wire.decode_request(raw, _messages, where)
        unknown = wire.unknown_names(raw, shapes.Message, where)
        source = Origin(ORIGIN, where, raw, unknown)
        role = (message.role or "").lower()
        if role == "tool":
            self._add_result(number, message, source)
            return
        # The server hands any role to the template; what it is not told, it takes for the user.
        self._add_message(number, _ROLES.get(role, "user"), message, source)

    def _add_message(
        self, number: int, role: Role, message: shapes.Message, source: Origin
    ) -> None:
        if role == "system" and not self.turns:
            self.system.append(sourced(Text(message.content or ""), source))
            return
        parts: list[Part] = []
        if message.thinking and role == "assistant":
            parts.append(Thinking(message.thinking, source=_at(source, "thinking")))
        if message.content:
            parts.append(Text(message.content, source=_at(source, "content")))
        parts += _media(message)
        if role == "assistant":
            parts += self._calls(number, message)
        else:
            parts += _rest(source)
        if role == "user" and self._after_results():
            self.turns[-1][1].extend(parts)
            return
        whole = source if role == "assistant" else Origin(ORIGIN, source.path)
        self.turns.append((role, parts or [Text("")], whole))

    def _after_results(self) -> bool:
        """Whether the last turn is one of results, to which the user's next words belong."""
        return bool(self.turns) and isinstance(self.turns[-1][1][-1], Result)

    def _calls(self, number: int, message: shapes.Message) -> list[Call]:
        calls = []
        for place, asked in enumerate(message.tool_calls or ()):
            id = asked.id or Ids(f"ollama.{number}.{place}").call()
            source = Origin(ORIGIN, f"messages.{number}.tool_calls.{place}")
            call = msgspec.structs.replace(_call(id, asked.function), source=source)
            self._waiting[id] = call.name
            self._order.append(id)
            self._by_name[call.name].append(id)
            calls.append(call)
        return calls

    def _add_result(self, number: int, message: shapes.Message, source: Origin) -> None:
        id = self._answered(number, message)
        asked = self._waiting.pop(id, "")
        name = message.tool_name or asked
        written = message.content or ""
        text = written.removeprefix(shapes.ERROR_MARK)
        content: list[Text | Image | Audio] = [Text(text)] if text else []
        content += _media(message)
        result = Result(id, tuple(content), is_error=text != written, name=name)
        result = sourced(result, source)
        if self._after_results():
            self.turns[-1][1].append(result)
        else:
            self.turns.append(("user", [result], Origin(ORIGIN, source.path)))

    def _answered(self, number: int, message: shapes.Message) -> str:
        """Return the id of the call that `message` answers."""
        if message.tool_call_id:
            return message.tool_call_id
        named = self._by_name.get(message.tool_name or "", deque())
        first = self._first(named) or self._first(self._order)
        return first or Ids(f"ollama.{number}.result").call()

    def _first(self, queue: deque[str]) -> str:
        """Return the first id in `queue` that still waits, or nothing."""
        while queue and queue[0] not in self._waiting:
            queue.popleft()
        return queue[0] if queue else ""


def _at(source: Origin, name: str) -> Origin:
    return Origin(ORIGIN, f"{source.path}.{name}")


def _rest(source: Origin) -> list[Foreign]:
    """Return the fields of a message that only Ollama understands."""
    names = tuple(name for name in source.unknown if "." not in name)
    if not names or not isinstance(source.raw, msgspec.Raw):
        return []
    fields = wire.leftovers(source.raw, shapes.Message)
    return [Foreign(ORIGIN, shapes.MESSAGE, fields, Origin(ORIGIN, source.path, unknown=names))]


def _call(id: str, function: shapes.Function) -> Call:
    name, given = function.name or "", function.arguments
    if isinstance(given, dict):
        return Call(id, name, given)
    written = given if isinstance(given, str) else "" if given is None else dumps(given)
    if not written.strip():
        return Call(id, name)
    arguments = maybe_object(written)
    return Call(id, name, raw=written) if arguments is None else Call(id, name, arguments)


def _media(message: shapes.Message) -> list[Image | Audio]:
    return [decode_media(image) for image in message.images or ()]
