"""Removes opaque tokens that another model created.

Anthropic's thinking signatures, OpenAI's encrypted reasoning and Gemini's thought signatures are
valid only for the provider, API and model that created them; others reject the request or ignore the
token (router-for-me/CLIProxyAPI#1584, anthropics/anthropic-sdk-python#1598). Without a recorded
origin, which is the case when the client used the provider directly, only the API is compared.
"""

from msgspec.structs import replace

from toolbridge.core.messages import Call, Loss, Opaque, Part, Request, Text, Thinking, Turn

_SEALED = (Text, Thinking, Call)
_SEALS = frozenset({"signature", "redacted", "encrypted", "thought_signature"})


def maker_name(api: str, provider: str, model: str) -> str:
    """Return the `Opaque.origin` of tokens that this model creates."""
    return f"{api}/{provider}/{model}"


def own_seals(request: Request, maker: str, *, signed_only: bool) -> tuple[Request, list[Loss]]:
    """Return `request` without tokens that other models of the same API created.

    With `signed_only` (Anthropic), thinking without its signature is removed too.
    """
    if not _bears_foreign(request.turns, maker):
        return request, []
    api = maker.partition("/")[0]
    foreign: list[tuple[str, str]] = []
    turns = tuple(_turn(turn, maker, foreign, signed_only=signed_only) for turn in request.turns)
    where, origin = foreign[0]
    verb = "signed" if api != "openai_responses" else "encrypted"
    why = f"was {verb} by {origin.partition('/')[2]}, and only that model can read it"
    return replace(request, turns=turns), [Loss(where, why)]


def _bears_foreign(turns: tuple[Turn, ...], maker: str) -> bool:
    for turn in turns:
        if turn.role != "assistant":
            continue
        for part in turn.content:
            if not isinstance(part, _SEALED) or not part.opaque:
                continue
            foreign = any(_is_foreign(token, maker) for token in part.opaque)
            if foreign and _part(part, maker) is not part:
                return True
    return False


def _turn(turn: Turn, maker: str, foreign: list[tuple[str, str]], *, signed_only: bool) -> Turn:
    content: list[Part] = []
    for number, part in enumerate(turn.content):
        kept = _part(part, maker)
        if kept is part:
            content.append(part)
            continue
        lost = next(token.origin for token in _opaque(part) if _is_foreign(token, maker))
        path = part.source.path if part.source else f"content.{number}"
        foreign.append((path, lost))
        if not (signed_only and isinstance(part, Thinking)):
            content.append(kept)
    return replace(turn, content=tuple(content))


def _part(part: Part, maker: str) -> Part:
    if not isinstance(part, Text | Thinking | Call):
        return part
    # OpenAI Responses: a reasoning item is found by its id, so the id is removed as well.
    kinds = _SEALS | {"item"} if isinstance(part, Thinking) else _SEALS
    kept = tuple(t for t in part.opaque if t.kind not in kinds or not _is_foreign(t, maker))
    return part if len(kept) == len(part.opaque) else replace(part, opaque=kept)


def _opaque(part: Part) -> tuple[Opaque, ...]:
    return part.opaque if isinstance(part, Text | Thinking | Call) else ()


def _is_foreign(token: Opaque, maker: str) -> bool:
    api, named, _ = token.origin.partition("/")
    return bool(named) and token.origin != maker and api == maker.partition("/")[0]
