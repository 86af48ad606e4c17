"""Our `Request`, as a body for `/model/ID/converse`."""

from toolbridge.codecs.bedrock.encode_turns import TurnEncoder
from toolbridge.codecs.bedrock.output import encode_output
from toolbridge.codecs.bedrock.quirks import Quirks, read_quirks
from toolbridge.codecs.bedrock.shapes import ORIGIN
from toolbridge.codecs.bedrock.thinking import encode_thinking
from toolbridge.codecs.bedrock.tools import cache_point, encode_tools
from toolbridge.core.codec import Lose, Outgoing, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Loss, Request, Sampling
from toolbridge.core.shared_fields import carry
from toolbridge.core.steps import Steps, stepwise
from toolbridge.wire.url_path import quote_segment

_EXTRA = "additionalModelRequestFields"
_SAMPLING = {"temperature": "temperature", "top_p": "topP"}


@stepwise
def encode_request(request: Request, target: Target) -> Steps[Outgoing]:
    """Return the body for `target` and what the Converse API cannot express."""
    quirks = read_quirks(target.quirks)
    losses: list[Loss] = []

    def lose(what: str, why: str) -> None:
        losses.append(Loss(what, why))

    turns = TurnEncoder(target, quirks, lose)
    messages: list[Json] = []
    for number, turn in enumerate(request.turns):
        messages += turns.encode(number, turn)
        yield
    body: JsonObject = {"messages": messages}
    if request.system:
        body["system"] = _encode_system(request, quirks)
    inference, extra = _encode_inference(request, quirks, lose)
    body |= inference
    body |= encode_tools(request, quirks, losses)
    thinking, effort = encode_thinking(request.think, request.max_tokens, quirks, lose)
    if thinking:
        extra["thinking"] = thinking
    output = encode_output(request, quirks, losses)
    if effort:
        output["effort"] = effort
    if output:
        body["outputConfig"] = output
    if extra:
        body[_EXTRA] = extra
    if request.user:
        losses.append(Loss("user", "Converse has no field for the user", minor=True))
    losses += carry(request, ORIGIN)[1]
    _add_options(body, target.options)
    stops = tuple(stop for stop in request.stop if not stop.strip())
    return Outgoing(_path(request, target), body, tuple(losses), stops=stops)


def _path(request: Request, target: Target) -> str:
    method = "converse-stream" if request.stream else "converse"
    return f"/model/{quote_segment(target.model or request.model)}/{method}"


def _encode_system(request: Request, quirks: Quirks) -> list[Json]:
    blocks: list[Json] = []
    for part in request.system:
        blocks += [{"text": part.text}, *cache_point(part.cache, quirks)]
    return blocks


def _encode_inference(
    request: Request, quirks: Quirks, lose: Lose
) -> tuple[JsonObject, JsonObject]:
    """Return the field `inferenceConfig`, and the fields that go to the model unchanged."""
    inference, extra = _encode_sampling(request.sampling, quirks, lose)
    if request.max_tokens is not None:
        inference["maxTokens"] = request.max_tokens
    kept: list[Json] = [stop for stop in request.stop if stop.strip()]
    if kept:
        inference["stopSequences"] = kept
    return ({"inferenceConfig": inference} if inference else {}), extra


def _encode_sampling(
    sampling: Sampling, quirks: Quirks, lose: Lose
) -> tuple[JsonObject, JsonObject]:
    """Return the fields of `inferenceConfig` and those of `additionalModelRequestFields`."""
    encoded: JsonObject = {}
    extra: JsonObject = {}
    for name in Sampling.__struct_fields__:
        value: float | None = getattr(sampling, name)
        if value is None:
            continue
        if name in quirks.extra_sampling:
            extra[name] = value
        elif name not in _SAMPLING:
            lose(f"sampling.{name}", "Converse does not take it")
        # Amazon Bedrock, InferenceConfiguration: `temperature` is 0 to 1.
        elif name == "temperature" and value > 1:
            lose("sampling.temperature", f"lowered from {value} to 1, the maximum of Converse")
            encoded[name] = 1
        else:
            encoded[_SAMPLING[name]] = value
    return encoded, extra


def _add_options(body: JsonObject, options: JsonObject) -> None:
    """Add the configured fields; those of the model join `additionalModelRequestFields`."""
    for name, value in options.items():
        before = body.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        body[name] = {**before, **value} if both else value  # type: ignore[dict-item]
