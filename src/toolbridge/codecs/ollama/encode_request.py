"""Our request as a body for `/api/chat`.

Cache marks are not sent and not lost: the server keeps the prefix of a prompt by itself. The tools
and messages of one conversation are therefore always written in the same way and order.
"""

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.encode_generate import PATH, encode_generate
from toolbridge.codecs.ollama.encode_turns import TurnEncoder
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.codec import Outgoing, Target, check_quirks
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Effort, Loss, Reference, Request, Result, Think, Tool
from toolbridge.core.shared_fields import carry, hosted_why
from toolbridge.core.source import own_words
from toolbridge.wire.json_schema import inline

QUIRKS = {
    "think_levels": "the model takes a level of thinking (gpt-oss), where others take true or false",
    "no_truncate": "ask the server to refuse a prompt that is too long instead of cutting it",
}

_LEVELS: dict[Effort, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "max",
}
_BUDGETS = ((1_024, "low"), (8_192, "medium"))
"""The level that a budget of thinking tokens stands for; above the last, "high"."""

_ENFORCE = "Ollama cannot be made to call a tool; the prompt asks it to"


def completes(request: Request, target: Target) -> bool:
    """Whether the server's own completion endpoint takes this request."""
    if request.completion is None or len(request.turns) > 1 or request.tools:
        return False
    return not request.completion.suffix or target.can("insert", unknown=False)


def encode_request(request: Request, target: Target) -> Outgoing:
    check_quirks(target.quirks, QUIRKS)
    return _RequestEncoder(request, target).encode()


class _RequestEncoder:
    def __init__(self, request: Request, target: Target) -> None:
        self._request = request
        self._target = target
        self._model = target.model or request.model
        self._losses: list[Loss] = []

    def encode(self) -> Outgoing:
        request = self._request
        body: JsonObject = {"model": self._model}
        messages, tools = self._messages(), self._tools()
        body["messages"] = messages
        if tools:
            body["tools"] = tools
        if (think := self._think(request.think)) is not None:
            body["think"] = think
        if request.output is not None:
            schema = request.output.schema
            body["format"] = "json" if schema is None else schema
        if request.sampling.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.sampling.logprobs}
        if request.sampling.n is not None:
            self._lose("sampling.n", "Ollama gives one answer to a request")
        if self._target.quirks.get("no_truncate"):
            body["truncate"] = False
        options = self._options()
        self._restore(body, options)
        self._configure(body, options)
        if options:
            body["options"] = options
        body["stream"] = request.stream
        if request.user:
            why = "Ollama is not told who the user is"
            self._losses.append(Loss("user", why, minor=True))
        if completes(request, self._target):
            return Outgoing(PATH, encode_generate(body, request), tuple(self._losses))
        return Outgoing("/api/chat", body, tuple(self._losses))

    def _lose(self, what: str, why: str) -> None:
        self._losses.append(Loss(what, why))

    # ── messages ──

    def _messages(self) -> list[Json]:
        encoder = TurnEncoder(self._request, self._target)
        messages: list[Json] = []
        for number, turn in enumerate(self._request.turns):
            messages += encoder.encode(number, turn)
        self._losses += encoder.losses
        order = self._order()
        said = [own_words(part, ORIGIN) for part in self._request.system]
        if not order and said and all(said):
            return [*said, *messages]
        texts = [part.text for part in self._request.system if part.text]
        texts += [order] if order else []
        if texts:
            messages.insert(0, {"role": "system", "content": "\n\n".join(texts)})
        return messages

    def _order(self) -> str:
        """Return the words that stand for a tool choice: the API has no field for one."""
        choice = self._request.tool_choice
        if choice.parallel is False:
            self._lose("tool_choice.parallel", "Ollama cannot be held to one call at a time")
        if choice.mode in {"auto", "none"}:
            return ""
        known = [tool.name for tool in self._request.tools if tool.hosted is None]
        if not any(name in known for name in choice.names or known):
            # Told to call a tool that is not there, a model invents a call.
            why = f"there is no tool {choice.names[0]!r}" if choice.names else "there is no tool"
            self._lose("tool_choice", why)
            return ""
        self._lose("tool_choice", _ENFORCE)
        if choice.mode == "named" and choice.names:
            return f"You must call the tool {choice.names[0]} now."
        return "You must call one of the tools now."

    # ── tools ──

    def _tools(self) -> list[Json]:
        choice = self._request.tool_choice
        if choice.mode == "none":
            return []
        named = choice.names
        if choice.mode == "named" and not any(tool.name in named for tool in self._request.tools):
            named = ()  # the choice is lost, not the tools
        found = _found(self._request)
        now: list[Json] = []
        later: dict[str, list[Json]] = {}
        for number, tool in enumerate(self._request.tools):
            if named and tool.name not in named:
                continue
            if not tool.deferred or choice.mode == "named":
                now += self._tool(number, tool)
            elif tool.name in found:
                later[tool.name] = self._tool(number, tool)
        # What a search found goes to the end: the prompt's beginning stays as it was.
        return now + [offered for name in found for offered in later.get(name, ())]

    def _tool(self, number: int, tool: Tool) -> list[Json]:
        where = f"tools.{number}"
        if tool.hosted is not None:
            self._lose(where, hosted_why(tool))
            return []
        said = own_words(tool, ORIGIN)
        if said is not None:
            return [said]
        if tool.strict:
            self._lose(f"{where}.strict", "Ollama does not hold a model to a tool's schema")
        schema, whole = inline(tool.schema)
        if not whole:
            self._lose(f"{where}.schema", "the schema refers to itself, or to what is not in it")
        function: JsonObject = {
            "name": tool.name,
            "description": tool.description,
            "parameters": _parameters(tool, schema),
        }
        return [{"type": "function", "function": function}]

    # ── thinking ──

    def _think(self, think: Think) -> bool | str | None:
        levels = bool(self._target.quirks.get("think_levels"))
        if think.mode == "off" or think.effort == "none":
            if not levels:
                return False
            self._lose("think.mode", f"{self._model} always thinks; it is asked for the level low")
            return "low"
        if think.mode == "unset" and not think.effort:
            return self._unasked(levels=levels)
        if not self._target.can("thinking"):
            self._lose("think", f"{self._model} cannot think")
            return None
        if levels:
            return _level(think)
        if think.effort:
            self._lose("think.effort", f"{self._model} takes no level of thinking")
        if think.budget is not None:
            self._lose("think.budget", "Ollama has no limit for thinking")
        # Claude Code sends an effort with every request, a title's too: no wish to think.
        return self._unasked(levels=levels) if think.mode == "unset" else True

    def _unasked(self, *, levels: bool) -> bool | None:
        """Return what is said where the client says nothing.

        Ollama: without `think`, a model that can think does. Clients of other APIs that want it
        ask for it; a title must not take a minute. Ollama's own clients mean what they leave out.
        """
        able = self._target.can("thinking", unknown=False)
        return False if able and not levels and self._request.origin != "ollama" else None

    # ── everything else ──

    def _options(self) -> JsonObject:
        request = self._request
        options: JsonObject = {}
        if self._target.window > 0:
            options["num_ctx"] = self._target.window
        if request.max_tokens is not None:
            options["num_predict"] = request.max_tokens
        for name in (*shapes.SAMPLING, *shapes.SAMPLING_COUNTS):
            if (value := getattr(request.sampling, name)) is not None:
                options[name] = value
        if request.stop:
            options["stop"] = list(request.stop)
        return options

    def _restore(self, body: JsonObject, options: JsonObject) -> None:
        """Put back the fields that only an Ollama client sends; name those of other clients."""
        if self._request.origin != ORIGIN:
            _, losses = carry(self._request, ORIGIN)
            self._losses += losses
            return
        for name, value in self._request.extra.items():
            if name in shapes.GENERATE_EXTRAS and completes(self._request, self._target):
                continue
            if name in shapes.GENERATE_EXTRAS:
                self._lose(name, "a chat has no such field")
            elif name == "options" and isinstance(value, dict):
                options |= value
            elif name not in {shapes.LOAD, shapes.GENERATE}:
                body[name] = value

    def _configure(self, body: JsonObject, options: JsonObject) -> None:
        """Put in what the configuration says; it knows the place and has the last word."""
        for name, value in self._target.options.items():
            if name == "options" and isinstance(value, dict):
                options |= value
            elif name in shapes.OPTIONS:
                options[name] = value
            else:
                body[name] = value


def _level(think: Think) -> str:
    if think.effort:
        return _LEVELS[think.effort]
    if think.budget is None:
        return "medium"
    return next((level for limit, level in _BUDGETS if think.budget <= limit), "high")


def _parameters(tool: Tool, schema: JsonObject) -> JsonObject:
    if tool.freeform:
        return {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
        }
    return schema if "type" in schema else {"type": "object", "properties": {}, **schema}


def _found(request: Request) -> dict[str, None]:
    """Return the names of tools that a search has found, in the order of their finding."""
    found: dict[str, None] = {}
    for turn in request.turns:
        for part in turn.content:
            inside = part.content if isinstance(part, Result) else (part,)
            found |= {p.name: None for p in inside if isinstance(p, Reference)}
    return found
