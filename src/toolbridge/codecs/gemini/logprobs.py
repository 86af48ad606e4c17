"""Log probabilities: the chosen tokens in one list, the others of each place in another."""

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
        # Protocol buffers leave out a probability of 1, whose logarithm is 0.
        likely = one.get("logProbability", 0.0) if isinstance(one, dict) else None
        if isinstance(token, str) and isinstance(likely, int | float):
            found.append(TokenLogprob(token, float(likely)))
    return found


def encode_logprobs(tokens: tuple[TokenLogprob, ...]) -> JsonObject:
    """Return the field of a candidate; nothing where nobody has asked for it."""
    if not tokens:
        return {}
    chosen: list[Json] = [*map(_encode, tokens)]
    tops: list[Json] = [{"candidates": [*map(_encode, token.top)]} for token in tokens]
    result: JsonObject = {"chosenCandidates": chosen}
    has_tops = any(token.top for token in tokens)
    return {"logprobsResult": result | {"topCandidates": tops} if has_tops else result}


def _encode(token: TokenLogprob) -> JsonObject:
    return {"token": token.token, "logProbability": token.logprob}
