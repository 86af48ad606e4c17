"""Our `Request`, as a body for `/v1/messages`."""

from toolbridge.codecs.anthropic.encode_turns import TurnEncoder, encode_system
from toolbridge.codecs.anthropic.output import encode_output
from toolbridge.codecs.anthropic.quirks import Quirks, read_quirks
from toolbridge.codecs.anthropic.shapes import ORIGIN
from toolbridge.codecs.anthropic.thinking import encode_thinking, type_of
from toolbridge.codecs.anthropic.tools import CHOICE_TYPES, encode_choice, encode_tools
from toolbridge.codecs.anthropic.typed_tools import encode_mcp_servers
from toolbridge.core.codec import Lose, Outgoing, Target
from toolbridge.core.encoded_turns import EncodedTurns
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Loss, Request, Sampling, ToolChoice
from toolbridge.core.shared_fields import carry
from toolbridge.core.steps import Steps, stepwise

PATH = "/v1/messages"
VERSION = "2023-06-01"
"""The value of `anthropic-version`. 2026-10-21 only rejects more, and not every provider has it."""
MAX_TOKENS = 32_000
"""Anthropic, Messages API: `max_tokens` is required; this is the value for a client without one."""
BETAS = {
    "context_management": "context-management-2025-06-27",
    "mcp_servers": "mcp-client-2025-11-20",
    "compaction": "compact-2026-09-04",
    "fallbacks": "server-side-fallback-2026-06-01",
    "thread": "message-threads-2026-08-12",
    "defer_loading": "advanced-tool-use-2025-11-20",
}
"""The value of `anthropic-beta` without which a field of the body, or of a tool, is a 400."""
_encoded: EncodedTurns[str] = EncodedTurns()


@stepwise
def encode_request(request: Request, target: Target) -> Steps[Outgoing]:
    """Return the body for `target` and what the Messages API cannot express."""
    quirks = read_quirks(target.quirks)
    losses: list[Loss] = []

    def lose(what: str, why: str) -> None:
        losses.append(Loss(what, why))

    max_tokens = _max_tokens(request.max_tokens, target.max_output, lose)
    body: JsonObject = {
        "model": target.model or request.model,
        "max_tokens": max_tokens,
        "messages": (yield from _encoded.encode(request.turns, None, TurnEncoder(losses))),
    }
    if request.system:
        body["system"] = encode_system(request.system)
    if request.tools:
        body["tools"] = encode_tools(request.tools, lose)
        body |= encode_choice(request.tool_choice, quirks, lose)
        if asked := _asked_for_call(request.tool_choice, quirks):
            body["system"] = [*encode_system(request.system), {"type": "text", "text": asked}]
    elif request.tool_choice.mode in {"required", "named"}:
        lose("tool_choice", "there is no tool to choose")
    kept: list[Json] = [stop for stop in request.stop if stop.strip()]
    if kept:
        body["stop_sequences"] = kept
    thinking, effort = encode_thinking(request.think, quirks, max_tokens, lose)
    thinking = _without_conflict(thinking, body, lose, own=request.origin == ORIGIN)
    thinks = type_of(thinking) not in {"", "disabled"}
    body |= _encode_sampling(request.sampling, quirks, lose, thinks=thinks)
    body |= thinking
    config = effort | encode_output(request, losses)
    if config:
        body["output_config"] = config
    # Anthropic, Messages API: an opaque id of the end user.
    if request.user:
        body["metadata"] = {"user_id": request.user}
    body |= encode_mcp_servers(request)
    if request.stream:
        body["stream"] = True
    _restore(request, body, losses)
    body |= target.options
    # Anthropic, Messages API: a stop sequence of white space alone is a 400.
    left = tuple(stop for stop in request.stop if not stop.strip())
    return Outgoing(PATH, body, tuple(losses), _headers(body), left)


def _max_tokens(asked: int | None, most: int, lose: Lose) -> int:
    if asked is None:
        return min(most // 3, MAX_TOKENS) if most else MAX_TOKENS
    # Anthropic, Messages API: more than the maximum of a model is a 400.
    if most and asked > most:
        lose("max_tokens", f"lowered from {asked} to {most}, the maximum of this model")
        return most
    return asked


def _headers(body: JsonObject) -> dict[str, str]:
    tools = body.get("tools")
    offers = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    fields = set(body).union(*offers)
    betas = [beta for field, beta in BETAS.items() if field in fields]
    headers = {"anthropic-version": VERSION}
    return headers | {"anthropic-beta": ",".join(betas)} if betas else headers


def _restore(request: Request, body: JsonObject, losses: list[Loss]) -> None:
    """Put back the fields that only Anthropic understands; report those of other APIs as lost."""
    if request.origin != ORIGIN:
        fields, lost = carry(request, ORIGIN)
        body |= fields
        losses += lost
        return
    for name, kept in request.extra.items():
        if name != "tool_choice":
            body[name] = _joined(kept, body.get(name))
        elif request.tools:
            chosen: JsonObject = {"type": CHOICE_TYPES[request.tool_choice.mode]}
            body[name] = _joined(kept, body.get(name, chosen))


def _joined(kept: Json, ours: Json) -> Json:
    """Return `ours` with the fields of `kept` added at every level; `ours` wins where both are set."""
    if isinstance(kept, dict) and isinstance(ours, dict):
        return ours | {name: _joined(value, ours.get(name)) for name, value in kept.items()}
    return kept if ours is None else ours


def _encode_sampling(sampling: Sampling, quirks: Quirks, lose: Lose, *, thinks: bool) -> JsonObject:
    taken = {"temperature", "top_p", "top_k"} if quirks.sampling else set()
    encoded: JsonObject = {}
    for name in Sampling.__struct_fields__:
        value: float | None = getattr(sampling, name)
        if value is None:
            continue
        if name not in taken:
            lose(f"sampling.{name}", "this model does not take it")
        elif thinks and _is_rejected_with_thinking(name, value):
            lose(f"sampling.{name}", "Anthropic does not take it together with thinking")
        # Anthropic, Messages API: `temperature` is 0 to 1; other APIs go up to 2.
        elif name == "temperature" and value > 1:
            lose("sampling.temperature", f"lowered from {value} to 1, Anthropic's maximum")
            encoded[name] = 1
        else:
            encoded[name] = value
    return encoded


def _is_rejected_with_thinking(name: str, value: float) -> bool:
    # Anthropic, extended thinking: no top_k, temperature 1 only, top_p from 0.95 to 1.
    least = {"temperature": 1.0, "top_p": 0.95}
    return name == "top_k" or value < least.get(name, value)


def _without_conflict(
    thinking: JsonObject, body: JsonObject, lose: Lose, *, own: bool
) -> JsonObject:
    """Return the thinking settings that are accepted beside the tool choice and the history.

    The history of a client of the same API (`own`) is sent as it is.
    """
    if type_of(thinking) != "enabled":
        return thinking
    choice, messages = body.get("tool_choice"), body["messages"]
    # Anthropic: "Thinking may not be enabled when tool_choice forces tool use."
    if isinstance(choice, dict) and choice.get("type") in {"any", "tool"}:
        lose("think", "Anthropic cannot force a tool call while the model thinks")
        return {}
    if not own and isinstance(messages, list) and _lacks_thought(messages):
        lose("think", "Anthropic needs the thought before the last call, which the history lacks")
        return {}
    return thinking


def _lacks_thought(messages: list[Json]) -> bool:
    """Return whether the results at the end belong to calls without a thought before them.

    Anthropic, extended thinking: "a final `assistant` message must start with a thinking block
    (preceding the lastmost set of `tool_use` and `tool_result` blocks)". A client of another API may
    not have sent the thought, or the gateway may not know its signature any more.
    """
    if len(messages) < 2 or not any(kind == "tool_result" for kind in _kinds(messages[-1])):
        return False
    kinds = _kinds(messages[-2])
    return "tool_use" in kinds and kinds[0] not in {"thinking", "redacted_thinking"}


def _kinds(message: Json) -> list[Json]:
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    return [block.get("type") for block in blocks if isinstance(block, dict)]


def _asked_for_call(choice: ToolChoice, quirks: Quirks) -> str:
    """Return the sentence that asks for a call where the model rejects a forced one."""
    if quirks.forced_tools or choice.mode not in {"required", "named"}:
        return ""
    tool = f"the tool {choice.names[0]}" if len(choice.names) == 1 else "one of the tools"
    return f"Answer with a call of {tool}."
