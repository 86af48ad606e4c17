"""The options of `start_stream`, and the request body made from them."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

import msgspec

from toolbridge.config import Config
from toolbridge.core.errors import SchemaMismatch
from toolbridge.core.json import Json, JsonObject
from toolbridge.runs.request import nearest_name
from toolbridge.sdk.structured.fold import Read, StreamPiece
from toolbridge.structured import events as fe
from toolbridge.structured.schemas import schema_of
from toolbridge.tools.functions import Function

OnToolCall: TypeAlias = Callable[[fe.RunToolCall], object | Awaitable[object]]
OnPiece: TypeAlias = Callable[[StreamPiece], object | Awaitable[object]]
OnWords: TypeAlias = Callable[[str], object | Awaitable[object]]
OnEvent: TypeAlias = Callable[[fe.Event], object | Awaitable[object]]
Prompt: TypeAlias = str | Sequence[Mapping[str, str]]
GivenTool: TypeAlias = str | JsonObject | Function | Callable[..., object]

TOOL_TIMEOUT = 8.0
ON_DEGRADED = ("raise", "accept")


class StreamOptions(TypedDict, total=False):
    """All options but the prompt and the result; docs/reference/stream.md explains each field.

    Times are in seconds. `tools` are names of server tools, Python functions (which run in this
    process), or descriptions of tools that `on_tool_call` answers. `schemas` are JSON Schemas or
    types.
    """

    url: str
    api_key: str
    headers: Mapping[str, str]
    idempotency_key: str
    config: Config | Path | str
    keep: bool
    """Whether a local stream writes artifacts, as a server does; `toolbridge runs` lists them."""

    on_tool_call: OnToolCall
    on_json: OnPiece
    on_result: OnPiece
    on_text: OnWords
    on_event: OnEvent

    system: str
    model: str
    schemas: Mapping[str, object]
    objects: list[str] | tuple[str, ...]
    tools: Sequence[GivenTool]
    profile: str
    mode: Literal["auto", "sentinel", "native"]
    frame_tag: bool
    hold_results: bool
    on_degraded: Literal["raise", "accept"]
    """What `result()` does with a degraded value; `raise` by default."""
    temperature: float
    seed: int
    max_tokens: int
    limits: dict[str, int]
    frame_timeout: float
    tool_timeout: float
    request_timeout: float
    tool_retries: int
    repair_retries: int
    max_tool_calls: int

    attempts: int
    """Reconnects in a row without a new event before the stream fails; 6 by default."""
    idle_timeout: float
    """Seconds of silence after which a connection counts as lost; 45 by default."""


class PreparedStream(msgspec.Struct, frozen=True):
    """The request body, the local tools, and the readers of values."""

    body: JsonObject
    functions: dict[str, Function]
    readers: dict[str, Read]


_AS_THEY_ARE = (
    "limits", "objects", "system", "model", "profile", "mode", "frame_tag", "hold_results",
    "temperature", "seed", "max_tokens", "tool_retries", "repair_retries", "max_tool_calls",
)  # fmt: skip
_TIMES = ("frame_timeout", "tool_timeout", "request_timeout")


def read_options(prompt: Prompt, result: object, options: StreamOptions) -> PreparedStream:
    """Return the prepared stream; raise `InvalidSchema` or `TypeError` for invalid options."""
    _check_names(options)
    _check_values(options)
    body = _question(prompt) | _plain_fields({**options})
    schemas = dict(options.get("schemas", {}))
    if isinstance(result, str):
        body |= {"result": result} if result else {}
    else:
        name = str(getattr(result, "__name__", "Result"))
        schemas.setdefault(name, result)
        body["result"] = name
    if schemas:
        body["schemas"] = {name: schema_of(shape) for name, shape in schemas.items()}
    functions = _tools(body, options.get("tools", ()))
    readers = {name: _reader(shape) for name, shape in schemas.items() if not _is_plain(shape)}
    return PreparedStream(body, functions, readers)


def _check_names(options: StreamOptions) -> None:
    """Raise `TypeError` for an option that does not exist, with the nearest name that does."""
    known = {*StreamOptions.__annotations__, "prompt", "result"}
    for name in options:
        if name not in known:
            near = nearest_name(name, known)
            hint = (
                f"did you mean {near!r}?" if near else f"known options: {', '.join(sorted(known))}"
            )
            raise TypeError(f"start_stream has no option {name!r}; {hint}")
    chosen = options.get("on_degraded", "raise")
    if chosen not in ON_DEGRADED:
        raise TypeError(f"on_degraded is {' or '.join(map(repr, ON_DEGRADED))}, not {chosen!r}")


def _check_values(options: StreamOptions) -> None:
    """Raise `TypeError` or `ValueError` for client-side options; the server checks the others."""
    for name in (*_TIMES, "idle_timeout"):
        seconds = options.get(name)
        if seconds is None:
            continue
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(f"{name} is a number of seconds, not {seconds!r}")
        if not 0 < seconds < math.inf:
            raise ValueError(f"{name} is a number of seconds above 0, not {seconds!r}")
    attempts = options.get("attempts", 0)
    if type(attempts) is not int or attempts < 0:
        raise ValueError(f"attempts is a whole number of at least 0, not {attempts!r}")
    for name in ("on_text", "on_json", "on_result", "on_event", "on_tool_call"):
        called = options.get(name)
        if called is not None and not callable(called):
            raise TypeError(f"{name} is a function, not {called!r}")
    tools = options.get("tools", ())
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise TypeError(f"tools is a list, not {tools!r}")
    if not isinstance(options.get("schemas", {}), Mapping):
        raise TypeError("schemas is a mapping of names to JSON Schemas or types")


def _question(prompt: Prompt) -> JsonObject:
    if isinstance(prompt, str):
        return {"prompt": prompt}
    try:
        return {"messages": [dict(message) for message in prompt]}
    except (TypeError, ValueError):
        raise TypeError('a prompt must be a string or a list of {"role", "content"}') from None


def _plain_fields(given: Mapping[str, object]) -> JsonObject:
    wanted = {name: given[name] for name in _AS_THEY_ARE if name in given}
    for name in _TIMES:
        seconds = given.get(name)
        if isinstance(seconds, int | float):
            wanted[f"{name}_ms"] = max(1, round(seconds * 1000))
    fields: JsonObject = msgspec.to_builtins(wanted)
    return fields


def _tools(body: JsonObject, tools: Sequence[GivenTool]) -> dict[str, Function]:
    """Add `tools` to the body; return the functions among them by name."""
    functions: dict[str, Function] = {}
    sent: list[Json] = []
    for tool in tools:
        if isinstance(tool, str | dict):
            sent.append(tool)
            continue
        function = tool if isinstance(tool, Function) else Function(tool)
        about = function.tool
        functions[about.name] = function
        sent.append(
            {
                "name": about.name,
                "description": about.description,
                "parameters": about.schema,
                "client": True,
            }
        )
    if sent:
        body["tools"] = sent
    return functions


def _is_plain(shape: object) -> bool:
    return isinstance(shape, dict)


def _reader(shape: object) -> Read:
    """Return a function that converts JSON to the type `shape`."""
    own = getattr(shape, "model_validate", None)  # a pydantic model; pydantic is not imported

    def read(value: Json) -> object:
        try:
            if callable(own):
                made: object = own(value)
            else:
                made = msgspec.convert(value, shape)
        except ValueError as error:
            raise SchemaMismatch(f"the value does not fit its type: {error}") from None
        return made

    return read
