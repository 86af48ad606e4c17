"""Log probabilities of tokens, in the shape that Chat Completions, Responses and Ollama share."""

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import TokenLogprob


def read_logprobs(given: Json) -> tuple[TokenLogprob, ...]:
    """Return the tokens of a list; other items are ignored."""
    found = (_read(one) for one in given) if isinstance(given, list) else ()
    return tuple(token for token in found if token is not None)


def _read(given: Json) -> TokenLogprob | None:
    if not isinstance(given, dict):
        return None
    token, logprob = given.get("token"), given.get("logprob")
    if not isinstance(token, str) or not isinstance(logprob, int | float):
        return None
    data = given.get("bytes")
    octets = data if isinstance(data, list) else []
    return TokenLogprob(
        token,
        float(logprob),
        tuple(octet for octet in octets if isinstance(octet, int)) or None,
        read_logprobs(given.get("top_logprobs")),
    )


def write_logprobs(tokens: tuple[TokenLogprob, ...]) -> list[Json]:
    return [_write(token) | {"top_logprobs": [*map(_write, token.top)]} for token in tokens]


def _write(token: TokenLogprob) -> JsonObject:
    octets: list[Json] | None = None if token.bytes is None else [*token.bytes]
    return {"token": token.token, "logprob": token.logprob, "bytes": octets}


def read_token_logprobs(given: JsonObject) -> tuple[TokenLogprob, ...]:
    """Return the tokens of a text completion: `tokens`, `token_logprobs`, `top_logprobs`."""
    tokens, likely, tops = (given.get(n) for n in ("tokens", "token_logprobs", "top_logprobs"))
    if not isinstance(tokens, list) or not isinstance(likely, list):
        return ()
    others = tops if isinstance(tops, list) else []
    found: list[TokenLogprob] = []
    for number, (token, logprob) in enumerate(zip(tokens, likely, strict=False)):
        if isinstance(token, str) and isinstance(logprob, int | float):  # null for the first token
            top = others[number] if number < len(others) else None
            found.append(TokenLogprob(token, float(logprob), top=_read_top(top)))
    return tuple(found)


def _read_top(given: Json) -> tuple[TokenLogprob, ...]:
    pairs = given.items() if isinstance(given, dict) else ()
    return tuple(TokenLogprob(t, float(p)) for t, p in pairs if isinstance(p, int | float))


def write_token_logprobs(tokens: tuple[TokenLogprob, ...], offset: int) -> JsonObject:
    """Return the tokens in the shape of a text completion that has `offset` characters before them."""
    offsets: list[Json] = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token.token)
    tops: list[Json] = [{top.token: top.logprob for top in token.top} for token in tokens]
    return {
        "tokens": [token.token for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": tops,
        "text_offset": offsets,
    }


def split_logprobs(
    tokens: tuple[TokenLogprob, ...], texts: list[str]
) -> list[tuple[TokenLogprob, ...]]:
    """Return the tokens of each text; the last text gets all that remain."""
    found: list[tuple[TokenLogprob, ...]] = []
    at = 0
    for text in texts[:-1]:
        begin, length = at, 0
        while at < len(tokens) and length < len(text):
            length += len(tokens[at].token)
            at += 1
        found.append(tokens[begin:at])
    return [*found, tokens[at:]]
