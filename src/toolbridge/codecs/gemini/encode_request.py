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
    Request,
    Sampling,
    Tool,
    ToolChoice,
)
from toolbridge.core.shared_fields import carry, hosted_why
from toolbridge.core.source import own_words, unknown_fields
from toolbridge.core.tool_search import found_tools
from toolbridge.wire.url_path import quote_path

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
    losses += encoder.losses
    if request.user:
        losses.append(Loss("user", "Gemini is not told who the user is", minor=True))
    path = _path(model, stream=request.stream)
    return Outgoing(path, body, tuple(losses), stops=request.stop[MAX_STOP:])


def _path(model: str, *, stream: bool) -> str:
    name = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"{VERSION}/{quote_path(name)}:{method}"


class _RequestEncoder:
    def __init__(self, request: Request, target: Target, lose: Lose) -> None:
        self._request = request
        self._target = target
        self._lose = lose
        self.losses: list[Loss] = []
        """Of the fields of the top level."""
        self._quirks = read_quirks(target.model or request.model, target.quirks)

    def body(self) -> JsonObject:
        request = self._request
        body: JsonObject = {"contents": self._contents()}
        if request.system:
            said: list[Json] = [
                own_words(part, ORIGIN) or {"text": part.text} for part in request.system
            ]
            body["systemInstruction"] = {"parts": said}
        offered = self._tools()
        functions = any("functionDeclarations" in entry for entry in offered)
        if offered:
            body["tools"] = [*offered]
        body |= self._choice(request.tool_choice, any_function=functions)
        config = self._config(any_function=functions)
        if config:
            body["generationConfig"] = config
        self._restore(body)
        return _joined(self._target.options, body)

    def _contents(self) -> list[Json]:
        encoder = TurnEncoder(self._request, self._quirks, self._lose)
        found = (encoder.encode(number, turn) for number, turn in enumerate(self._request.turns))
        return [content for content in found if content is not None]

    # ── tools ──

    def _tools(self) -> list[JsonObject]:
        """Return the tools on offer: one entry for all functions, or the client's own entries."""
        choice = self._request.tool_choice
        found = found_tools(self._request)
        offers = _Offers()
        later: dict[str, tuple[Tool, JsonObject]] = {}
        for number, tool in enumerate(self._request.tools):
            where = f"tools.{number}"
            if tool.hosted is not None and tool.origin != ORIGIN:
                self._lose(where, hosted_why(tool))
            elif tool.hosted is not None:
                offers.add(tool, tool.hosted)
            elif not tool.deferred or (choice.mode == "named" and tool.name in choice.names):
                offers.declare(tool, self._function(tool, where))
            elif tool.name in found:
                later[tool.name] = (tool, self._function(tool, where))
        # What a search found goes to the end: the prompt's beginning stays as it was.
        for name in found:
            if name in later:
                offers.declare(*later[name])
        return offers.entries

    def _function(self, tool: Tool, where: str) -> JsonObject:
        said = own_words(tool, ORIGIN)
        if said is not None:
            return said
        if tool.strict:
            self._lose(f"{where}.strict", "Gemini does not hold a single tool to its schema")
        declaration: JsonObject = {"name": tool.name}
        if tool.description:
            declaration["description"] = tool.description
        return declaration | self._parameters(tool) | unknown_fields(tool, ORIGIN)

    def _parameters(self, tool: Tool) -> JsonObject:
        if not tool.schema and not tool.freeform:
            return {}
        schema = tool.input_schema
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
        kept = self._request.extra.get("generationConfig")
        if isinstance(kept, dict) and "responseSchema" in kept:
            return wanted  # the client's own spelling of the schema is put back
        if output.schema is not None and self._quirks.json_schema:
            wanted["responseJsonSchema"] = output.schema
        elif output.schema is not None:
            wanted["responseSchema"] = project(output.schema)
        return wanted

    def _restore(self, body: JsonObject) -> None:
        """Put back what only Gemini understands; a request from elsewhere loses its own."""
        request = self._request
        if request.origin != ORIGIN:
            fields, losses = carry(request, ORIGIN)
            body |= fields
            self.losses += losses
            return
        for name, kept in request.extra.items():
            if name != ALT:
                body |= _joined(body, {name: kept})


class _Offers:
    """The entries of `tools`: functions share one, and so does what shared one in the client's."""

    def __init__(self) -> None:
        self._groups: dict[str, JsonObject] = {}

    @property
    def entries(self) -> list[JsonObject]:
        return sorted(self._groups.values(), key=lambda entry: "functionDeclarations" not in entry)

    def add(self, tool: Tool, hosted: JsonObject) -> None:
        group = _group(tool) or f"hosted.{len(self._groups)}"
        self._groups[group] = self._groups.get(group, {}) | hosted

    def declare(self, tool: Tool, function: JsonObject) -> None:
        entry = self._groups.setdefault(_group(tool), {})
        declared = entry.setdefault("functionDeclarations", [])
        if isinstance(declared, list):
            declared.append(function)


def _group(tool: Tool) -> str:
    """Return which of the client's own entries a tool stood in."""
    source = tool.source
    return ".".join(source.path.split(".")[:2]) if source and source.api == ORIGIN else ""


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
