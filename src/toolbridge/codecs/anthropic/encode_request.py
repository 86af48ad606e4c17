"""What we ask, in Anthropic's words."""

from collections.abc import Callable
from typing import TypeAlias

from toolbridge.codecs.anthropic.shapes import (
    BETAS,
    MODES,
    ORIGIN,
    THINKING_MODES,
    VERSION,
    caller_fields,
    tokens,
    write_cache,
)
from toolbridge.core.codec import Outgoing, Target, check_quirks
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Loss,
    OutputFormat,
    Part,
    Reference,
    Request,
    Result,
    ResultPart,
    Sampling,
    Text,
    Think,
    Thinking,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.core.shared_fields import carry, foreign_why, hosted_why
from toolbridge.core.source import own_words, unknown_fields

PATH = "/v1/messages"
MAX_TOKENS = 32_000
LEAST_BUDGET = 1024
"""Anthropic refuses a smaller budget for thinking, and one that the answer cannot hold."""

QUIRKS = {
    "sampling": "False where temperature, top_p and top_k are refused: Claude 4.7 and later",
    "forced_tools": "False where a forced tool choice is refused: Opus 5.5, Sonnet 5.5",
}
"""The facts about a place that this codec obeys."""

Lose: TypeAlias = Callable[[str, str], None]
"""Takes what could not be said, as a path in our request, and why."""


def encode_request(request: Request, target: Target) -> Outgoing:
    check_quirks(target.quirks, QUIRKS)
    losses: list[Loss] = []

    def lose(what: str, why: str) -> None:
        losses.append(Loss(what, why))

    max_tokens = _max_tokens(request.max_tokens, target.max_output, lose)
    body: JsonObject = {
        "model": target.model or request.model,
        "max_tokens": max_tokens,
        "messages": _encode_turns(request.turns, lose),
    }
    if request.system:
        body["system"] = [own_words(p, ORIGIN) or _encode_text(p) for p in request.system]
    if request.tools:
        body["tools"] = _encode_tools(request.tools, lose)
        body |= _encode_choice(request.tool_choice, target, lose)
    elif request.tool_choice.mode in {"required", "named"}:
        lose("tool_choice", "there is no tool to choose")
    kept: list[Json] = [stop for stop in request.stop if stop.strip()]
    if kept:
        body["stop_sequences"] = kept
    thinking = _encode_thinking(request.think, max_tokens, lose)
    thinks = request.think.mode in {"on", "auto", "between_tools"} and "thinking" in thinking
    body |= _encode_sampling(request.sampling, target, lose, thinks=thinks)
    body |= thinking
    body |= _encode_output(request.think, request.output, lose)
    if request.user:
        body["metadata"] = {"user_id": request.user}
    if request.stream:
        body["stream"] = True
    _restore(request, body, losses)
    body |= target.options
    # Anthropic refuses a sequence of nothing but white space.
    left = tuple(stop for stop in request.stop if not stop.strip())
    return Outgoing(PATH, body, tuple(losses), _headers(body), left)


def _max_tokens(asked: int | None, most: int, lose: Lose) -> int:
    if asked is None:
        return min(most // 3, MAX_TOKENS) if most else MAX_TOKENS
    if most and asked > most:
        lose("max_tokens", f"lowered from {asked} to {most}, the most that this model writes")
        return most
    return asked


def _headers(body: JsonObject) -> dict[str, str]:
    fields = set(body).union(*(tool for tool in _offers(body)))
    betas = [beta for field, beta in BETAS.items() if field in fields]
    headers = {"anthropic-version": VERSION}
    return headers | {"anthropic-beta": ",".join(betas)} if betas else headers


def _restore(request: Request, body: JsonObject, losses: list[Loss]) -> None:
    """Put back what only Anthropic understands; a request from elsewhere loses its own."""
    if request.origin != ORIGIN:
        fields, lost = carry(request, ORIGIN)
        body |= fields
        losses += lost
        return
    for name, kept in request.extra.items():
        if name != "tool_choice":
            body[name] = _joined(kept, body.get(name))
        elif request.tools:
            chosen: JsonObject = {"type": MODES[request.tool_choice.mode]}
            body[name] = _joined(kept, body.get(name, chosen))


def _offers(body: JsonObject) -> list[JsonObject]:
    tools = body.get("tools")
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _joined(kept: Json, ours: Json) -> Json:
    """Return an object of ours with the fields that were kept beside it, at every level."""
    if isinstance(kept, dict) and isinstance(ours, dict):
        return ours | {name: _joined(value, ours.get(name)) for name, value in kept.items()}
    return kept if ours is None else ours


# ── turns ────────────────────────────────────────────────────────────────────


def _encode_turns(turns: tuple[Turn, ...], lose: Lose) -> list[Json]:
    found = (_encode_turn(turn, f"turns.{i}.content", lose) for i, turn in enumerate(turns))
    return [message for message in found if message is not None]


def _encode_turn(turn: Turn, where: str, lose: Lose) -> JsonObject | None:
    message: JsonObject = {"role": turn.role}
    results: list[Json] = []
    others: list[Json] = []
    for i, part in enumerate(turn.content):
        if isinstance(part, Foreign) and (part.origin, part.kind) == (ORIGIN, "message"):
            message |= part.raw
        elif (block := _encode_part(part, f"{where}.{i}", lose)) is not None:
            (results if isinstance(part, Result) else others).append(block)
    content = results + others  # Anthropic finds results only in front
    if turn.content and not content:
        return None  # An empty message is refused; that its parts are lost is said already.
    return message | {"content": content}


def _encode_part(part: Part, where: str, lose: Lose) -> JsonObject | None:
    said = _as_written(part)
    if said is not None:
        return said
    block = _encode_known(part, where, lose)
    return block if block is None else unknown_fields(part, ORIGIN) | block


def _as_written(part: Part) -> JsonObject | None:
    """Return the client's own block, unless it is a thought of ours, which Anthropic never signed."""
    if isinstance(part, Thinking) and not part.opaque:
        return None
    said = own_words(part, ORIGIN)
    if said is not None and said.get("content", "") is None:
        del said["content"]  # Anthropic refuses null; clients that have no result send it
    return said


def _encode_known(part: Part, where: str, lose: Lose) -> JsonObject | None:
    match part:
        case Thinking():
            return _encode_thought(part, where, lose)
        case Call():
            return _encode_call(part)
        case Result():
            return _encode_result(part, where, lose)
        case _:
            return _encode_content(part, where, lose)


def _encode_thought(thought: Thinking, where: str, lose: Lose) -> JsonObject | None:
    if signatures := tokens(thought, "signature"):
        return {"type": "thinking", "thinking": thought.text, "signature": signatures[0]}
    if redacted := tokens(thought, "redacted"):
        return {"type": "redacted_thinking", "data": redacted[0]}
    lose(where, "Anthropic takes back only the thoughts that it signed")
    return None


def _encode_call(call: Call) -> JsonObject:
    input: JsonObject = {"raw": call.raw} if call.raw else call.arguments
    block: JsonObject = {"type": "tool_use", "id": call.id, "name": call.name, "input": input}
    return block | caller_fields(call) | write_cache(call.cache)


def _encode_result(result: Result, where: str, lose: Lose) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": result.call_id}
    parts = enumerate(result.content)
    found = (_encode_part(part, f"{where}.content.{i}", lose) for i, part in parts)
    content: list[Json] = [inner for inner in found if inner is not None]
    if content:
        block["content"] = content
    if result.is_error:
        block["is_error"] = True
    return block | write_cache(result.cache)


def _encode_content(part: ResultPart, where: str, lose: Lose) -> JsonObject | None:
    """Return a block that may stand anywhere, also inside a result."""
    match part:
        case Text():
            return _encode_text(part)
        case Image():
            if part.detail:
                lose(f"{where}.detail", "Anthropic chooses the detail of an image itself")
            return _encode_image(part)
        case Document():
            return _encode_document(part)
        case Reference(name):
            return {"type": "tool_reference", "tool_name": name}
        case Foreign(origin, _, raw) if origin == ORIGIN:
            return raw
        case Foreign(origin, kind):
            lose(where, foreign_why(origin, kind))
            return None
        case Audio():
            lose(where, "Anthropic hears no audio")
            return None


def _encode_text(part: Text) -> JsonObject:
    block: JsonObject = {"type": "text", "text": part.text}
    if part.citations:
        block["citations"] = list(part.citations)
    return block | write_cache(part.cache)


def _encode_image(image: Image) -> JsonObject:
    block: JsonObject = {"type": "image", "source": _encode_source(image)}
    return block | write_cache(image.cache)


def _encode_document(document: Document) -> JsonObject:
    source = _encode_source(document)
    if document.text:
        source = {"type": "text", "media_type": "text/plain", "data": document.text}
    block: JsonObject = {"type": "document", "source": source}
    if document.title:
        block["title"] = document.title
    if document.context:
        block["context"] = document.context
    if document.cite:
        block["citations"] = {"enabled": True}
    return block | write_cache(document.cache)


def _encode_source(media: Image | Document) -> JsonObject:
    if media.url:
        return {"type": "url", "url": media.url}
    if media.file_id:
        return {"type": "file", "file_id": media.file_id}
    return {"type": "base64", "media_type": media.media_type, "data": media.data}


# ── tools ────────────────────────────────────────────────────────────────────


def _encode_tools(tools: tuple[Tool, ...], lose: Lose) -> list[Json]:
    found = (_encode_tool(tool, f"tools.{i}", lose) for i, tool in enumerate(tools))
    return [offer for offer in found if offer is not None]


def _encode_tool(tool: Tool, where: str, lose: Lose) -> JsonObject | None:
    written = own_words(tool, ORIGIN)
    if written is not None:
        return written
    if tool.native and tool.origin == ORIGIN:
        return tool.native | {"name": tool.name}
    if tool.hosted is not None:
        if tool.origin == ORIGIN:
            return tool.hosted
        lose(where, hosted_why(tool))
        return None
    offer: JsonObject = {"name": tool.name}
    if tool.description:
        offer["description"] = tool.description
    offer["input_schema"] = tool.input_schema
    if tool.strict is not None:
        offer["strict"] = tool.strict
    if tool.deferred:
        offer["defer_loading"] = True
    return unknown_fields(tool, ORIGIN) | offer | write_cache(tool.cache)


def _encode_choice(choice: ToolChoice, target: Target, lose: Lose) -> JsonObject:
    mode, names = choice.mode, choice.names
    if mode == "required" and len(names) == 1:
        mode = "named"
    if names and mode != "named":
        lose("tool_choice.names", "Anthropic chooses from all tools or is told one")
    if mode in {"required", "named"} and target.quirks.get("forced_tools") is False:
        lose("tool_choice.mode", "this model cannot be made to call a tool")
        mode = "auto"
    wanted: JsonObject = {"type": MODES[mode]}
    if mode == "named":
        wanted["name"] = names[0]
    if choice.parallel is not None and mode != "none":
        wanted["disable_parallel_tool_use"] = not choice.parallel
    return {} if wanted == {"type": "auto"} else {"tool_choice": wanted}


# ── settings ─────────────────────────────────────────────────────────────────


def _refused_with_thinking(name: str, value: float) -> bool:
    """Whether Anthropic refuses a value beside thinking.

    Extended thinking: no top_k, no temperature but 1, top_p from 0.95 to 1.
    """
    least = {"temperature": 1.0, "top_p": 0.95}
    return name == "top_k" or value < least.get(name, value)


def _encode_sampling(sampling: Sampling, target: Target, lose: Lose, *, thinks: bool) -> JsonObject:
    taken = set() if target.quirks.get("sampling") is False else {"temperature", "top_p", "top_k"}
    wanted: JsonObject = {}
    for name in Sampling.__struct_fields__:
        value: float | None = getattr(sampling, name)
        if value is None:
            continue
        if name not in taken:
            lose(f"sampling.{name}", "this model does not take it")
        elif thinks and _refused_with_thinking(name, value):
            lose(f"sampling.{name}", "Anthropic does not take it together with thinking")
        elif name == "temperature" and value > 1:
            lose("sampling.temperature", f"lowered from {value} to 1, the highest there is")
            wanted[name] = 1
        else:
            wanted[name] = value
    return wanted


def _encode_thinking(think: Think, max_tokens: int, lose: Lose) -> JsonObject:
    mode = "off" if (think.mode, think.effort) == ("unset", "none") else think.mode
    if mode == "on" and think.budget is not None:
        return _encode_budget(think, think.budget, max_tokens, lose)
    if think.budget is not None:
        lose("think.budget", "Anthropic takes a budget only where thinking is always on")
    if mode == "on":
        lose("think.mode", "without a budget, Anthropic leaves it to the model when to think")
        mode = "auto"
    if mode == "auto":
        return {"thinking": {"type": "adaptive", **_encode_show(think, lose)}}
    if think.show:
        lose("think.show", "there is nothing to show")
    return {} if mode == "unset" else {"thinking": {"type": THINKING_MODES[mode]}}


def _encode_budget(think: Think, budget: int, max_tokens: int, lose: Lose) -> JsonObject:
    most = max_tokens - 1
    if most < LEAST_BUDGET:
        lose("think", f"thinking needs more than {LEAST_BUDGET} tokens of output")
        return {}
    fitting = min(max(budget, LEAST_BUDGET), most)
    if fitting != budget:
        lose("think.budget", f"{budget} became {fitting}: from {LEAST_BUDGET} to below max_tokens")
    config: JsonObject = {"type": "enabled", "budget_tokens": fitting}
    return {"thinking": config | _encode_show(think, lose)}


def _encode_show(think: Think, lose: Lose) -> JsonObject:
    if think.show == "full":
        lose("think.show", "Anthropic shows a summary at most")
        return {"display": "summarized"}
    return {"display": think.show} if think.show else {}


def _encode_output(think: Think, output: OutputFormat | None, lose: Lose) -> JsonObject:
    config: JsonObject = {}
    if think.effort == "minimal":
        lose("think.effort", "became low, the least effort that Anthropic knows")
        config["effort"] = "low"
    elif think.effort not in {"", "none"}:
        config["effort"] = think.effort
    if output is not None and output.schema is None:
        lose("output", "Anthropic writes JSON only by a schema")
    elif output is not None:
        config["format"] = {"type": "json_schema", "schema": output.schema}
        for name in ("name", "strict"):
            if getattr(output, name):
                lose(f"output.{name}", "Anthropic's schema has no name and is always strict")
    return {"output_config": config} if config else {}
