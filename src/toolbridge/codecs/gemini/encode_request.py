"""What we ask, in Gemini's words.

Cache marks are not sent and not lost: Gemini keeps the prefix of a prompt by itself.
"""

from toolbridge.codecs.gemini.encode_thinking import Lose, encode_thinking
from toolbridge.codecs.gemini.encode_turns import TurnEncoder
from toolbridge.codecs.gemini.quirks import read_quirks
from toolbridge.codecs.gemini.schemas import project
from toolbridge.codecs.gemini.shapes import ALT, ORIGIN
from toolbridge.core.codec import Outgoing, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Loss,
    OutputFormat,
    Reference,
    Request,
    Result,
    Sampling,
    Tool,
    ToolChoice,
)

VERSION = "/v1beta"
MAX_STOP = 5
MAX_TEMPERATURE = 2.0

_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "n": "candidateCount",
}
_IGNORED = frozenset({"temperature", "top_p", "top_k"})
"""What the newest models no longer listen to."""
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def encode_request(request: Request, target: Target) -> Outgoing:
    losses: list[Loss] = []

    def lose(what: str, why: str) -> None:
        losses.append(Loss(what, why))

    model = target.model or request.model
    encoder = _RequestEncoder(request, target, lose)
    body = encoder.body()
    if request.user:
        losses.append(Loss("user", "Gemini is not told who the user is", minor=True))
    path = _path(model, stream=request.stream)
    return Outgoing(path, body, tuple(losses), stops=request.stop[MAX_STOP:])


def _path(model: str, *, stream: bool) -> str:
    name = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"{VERSION}/{name}:{method}"


class _RequestEncoder:
    def __init__(self, request: Request, target: Target, lose: Lose) -> None:
        self._request = request
        self._target = target
        self._lose = lose
        self._quirks = read_quirks(target.model or request.model, target.quirks)

    def body(self) -> JsonObject:
        request = self._request
        body: JsonObject = {"contents": self._contents()}
        if request.system:
            body["systemInstruction"] = {"parts": [{"text": part.text} for part in request.system]}
        functions, hosted = self._tools()
        if functions or hosted:
            declared: list[Json] = [{"functionDeclarations": functions}] if functions else []
            body["tools"] = declared + hosted
        body |= self._choice(request.tool_choice, any_function=bool(functions))
        config = self._config(any_function=bool(functions))
        if config:
            body["generationConfig"] = config
        self._restore(body)
        return _joined(self._target.options, body)

    def _contents(self) -> list[Json]:
        encoder = TurnEncoder(self._request, self._quirks, self._lose)
        found = (encoder.encode(number, turn) for number, turn in enumerate(self._request.turns))
        return [content for content in found if content is not None]

    # ── tools ──

    def _tools(self) -> tuple[list[Json], list[Json]]:
        """Return the functions on offer, and the tools that Gemini itself runs."""
        choice = self._request.tool_choice
        found = _found(self._request)
        now: list[Json] = []
        later: dict[str, Json] = {}
        hosted: list[Json] = []
        for number, tool in enumerate(self._request.tools):
            where = f"tools.{number}"
            if tool.hosted is not None:
                hosted += self._hosted(tool, tool.hosted, where)
            elif not tool.deferred or (choice.mode == "named" and tool.name in choice.names):
                now.append(self._function(tool, where))
            elif tool.name in found:
                later[tool.name] = self._function(tool, where)
        # What a search found goes to the end: the prompt's beginning stays as it was.
        return now + [later[name] for name in found if name in later], hosted

    def _hosted(self, tool: Tool, hosted: JsonObject, where: str) -> list[Json]:
        if tool.origin == ORIGIN:
            return [hosted]
        self._lose(where, f"only {tool.origin or 'its own API'} runs the tool {tool.name!r}")
        return []

    def _function(self, tool: Tool, where: str) -> JsonObject:
        if tool.strict:
            self._lose(f"{where}.strict", "Gemini does not hold a single tool to its schema")
        if tool.namespace:
            self._lose(f"{where}.namespace", "Gemini's tools have no namespaces")
        declaration: JsonObject = {"name": tool.name}
        if tool.description:
            declaration["description"] = tool.description
        return declaration | self._parameters(tool)

    def _parameters(self, tool: Tool) -> JsonObject:
        schema = tool.schema
        if tool.freeform:
            text: JsonObject = {"type": "string"}
            schema = {"type": "object", "properties": {"input": text}, "required": ["input"]}
        if not schema:
            return {}
        typed: JsonObject = {"type": "object"}
        schema = schema if "type" in schema else typed | schema
        if self._quirks.json_schema:
            return {"parametersJsonSchema": schema}
        # An object without properties is refused, and none at all means the same.
        projected = project(schema)
        return {"parameters": projected} if projected.get("properties") else {}

    def _choice(self, choice: ToolChoice, *, any_function: bool) -> JsonObject:
        if choice.parallel is False:
            self._lose("tool_choice.parallel", "Gemini cannot be held to one call at a time")
        if not any_function:
            if choice.mode in {"required", "named"}:
                self._lose("tool_choice", "there is no tool to choose")
            return {}
        if choice.mode == "auto" and not choice.names:
            return {}
        calling: JsonObject = {"mode": _MODES[choice.mode]}
        if choice.names and choice.mode == "none":
            self._lose("tool_choice.names", "no tool may be called, whatever its name")
        elif choice.names:
            # Names are taken only where calls are forced or checked.
            calling["mode"] = "VALIDATED" if choice.mode == "auto" else "ANY"
            calling["allowedFunctionNames"] = list(choice.names)
        return {"toolConfig": {"functionCallingConfig": calling}}

    # ── settings ──

    def _config(self, *, any_function: bool) -> JsonObject:
        request = self._request
        config = self._sampling(request.sampling)
        if request.max_tokens is not None:
            config["maxOutputTokens"] = request.max_tokens
        if request.stop:
            config["stopSequences"] = list(request.stop[:MAX_STOP])
        config |= self._output(request.output, any_function=any_function)
        if thinking := self._thinking():
            config["thinkingConfig"] = thinking
        return config

    def _thinking(self) -> JsonObject:
        think = self._request.think
        wanted = think.mode not in {"off", "unset"} or think.effort not in {"", "none"}
        if wanted and not self._target.can("thinking"):
            self._lose("think", f"{self._target.model} cannot think")
            return {}
        return encode_thinking(think, self._quirks, self._lose)

    def _sampling(self, sampling: Sampling) -> JsonObject:
        wanted: JsonObject = {}
        for name in Sampling.__struct_fields__:
            value: float | None = getattr(sampling, name)
            if value is None or name == "logprobs":
                continue
            if name not in _SAMPLING or (name in _IGNORED and not self._quirks.sampling):
                self._lose(f"sampling.{name}", "this model does not take it")
                continue
            if name == "temperature" and value > MAX_TEMPERATURE:
                self._lose("sampling.temperature", f"lowered from {value} to {MAX_TEMPERATURE}")
                value = MAX_TEMPERATURE
            wanted[_SAMPLING[name]] = value
        if sampling.logprobs is not None:
            wanted["responseLogprobs"] = True
            wanted |= {"logprobs": sampling.logprobs} if sampling.logprobs else {}
        return wanted

    def _output(self, output: OutputFormat | None, *, any_function: bool) -> JsonObject:
        if output is None:
            return {}
        if any_function and not self._quirks.json_with_tools:
            self._lose("output", "this model cannot be held to JSON beside tools")
            return {}
        for name in ("name", "strict"):
            if getattr(output, name):
                self._lose(f"output.{name}", "Gemini's schema has no name and is always strict")
        wanted: JsonObject = {"responseMimeType": "application/json"}
        if output.schema is not None and self._quirks.json_schema:
            wanted["responseJsonSchema"] = output.schema
        elif output.schema is not None:
            wanted["responseSchema"] = project(output.schema)
        return wanted

    def _restore(self, body: JsonObject) -> None:
        """Put back what only Gemini understands; a request from elsewhere loses its own."""
        request = self._request
        for name, kept in request.extra.items():
            if request.origin != ORIGIN:
                self._lose(f"extra.{name}", f"only {request.origin or 'its own API'} knows it")
            elif name == "tools":
                _restore_fields(body, kept)
            elif name != ALT:
                body |= _joined(body, {name: kept})


def _restore_fields(body: JsonObject, kept: Json) -> None:
    """Give declarations the fields back that were kept by their names."""
    tools = body.get("tools")
    first = tools[0] if isinstance(tools, list) and tools else None
    declared = first.get("functionDeclarations") if isinstance(first, dict) else None
    for declaration in declared if isinstance(declared, list) else ():
        if isinstance(declaration, dict) and isinstance(kept, dict):
            rest = kept.get(str(declaration["name"]))
            declaration.update(rest if isinstance(rest, dict) else {})


def _joined(first: JsonObject, second: JsonObject) -> JsonObject:
    """Return both objects as one; where they differ, the first is right."""
    joined = dict(second)
    for key, value in first.items():
        below = joined.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            joined[key] = _joined(value, below)
        else:
            joined[key] = value
    return joined


def _found(request: Request) -> dict[str, None]:
    """Return the names of tools that a search has found, in the order of their finding."""
    found: dict[str, None] = {}
    for turn in request.turns:
        for part in turn.content:
            inside = part.content if isinstance(part, Result) else (part,)
            found |= {p.name: None for p in inside if isinstance(p, Reference)}
    return found
