"""Log probabilities of tokens, in both directions.

Gemini API, LogprobsResult: the chosen tokens are one list, the candidates at each position another.
"""

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import TokenLogprob


def decode_logprobs(result: JsonObject) -> tuple[TokenLogprob, ...]:
    chosen, tops = result.get("chosenCandidates"), result.get("topCandidates")
    others = [_tokens(_listed(top)) for top in tops] if isinstance(tops, list) else []
    found: list[TokenLogprob] = []
    for number, token in enumerate(_tokens(chosen)):
        top = others[number] if number < len(others) else ()
        found.append(TokenLogprob(token.token, token.logprob, top=tuple(top)))
    return tuple(found)


def _listed(top: Json) -> Json:
    return top.get("candidates") if isinstance(top, dict) else None


def _tokens(given: Json) -> list[TokenLogprob]:
    found: list[TokenLogprob] = []
    for one in given if isinstance(given, list) else ():
        token = one.get("token") if isinstance(one, dict) else None
        # Protocol buffers, JSON mapping: a field with the value 0 is left out.
        logprob = one.get("logProbability", 0.0) if isinstance(one, dict) else None
        if isinstance(token, str) and isinstance(logprob, int | float):
            found.append(TokenLogprob(token, float(logprob)))
    return found


def encode_logprobs(tokens: tuple[TokenLogprob, ...]) -> JsonObject:
    """Return the field `logprobsResult`, to be merged into a candidate; nothing without tokens."""
    if not tokens:
        return {}
    chosen: list[Json] = [*map(_encode, tokens)]
    tops: list[Json] = [{"candidates": [*map(_encode, token.top)]} for token in tokens]
    result: JsonObject = {"chosenCandidates": chosen}
    has_tops = any(token.top for token in tokens)
    return {"logprobsResult": result | {"topCandidates": tops} if has_tops else result}


def _encode(token: TokenLogprob) -> JsonObject:
    return {"token": token.token, "logProbability": token.logprob}
