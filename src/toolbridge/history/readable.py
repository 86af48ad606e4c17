"""Parts that only another API has, as the text that their decoder gave them."""

from msgspec.structs import replace

from toolbridge.core.messages import Foreign, Part, Request, Text


def with_readable_parts(request: Request) -> Request:
    """Return `request` with a text in place of each foreign part that has one."""
    if not any(_has_text(part) for turn in request.turns for part in turn.content):
        return request
    turns = (replace(turn, content=tuple(map(_readable, turn.content))) for turn in request.turns)
    return replace(request, turns=tuple(turns))


def _has_text(part: Part) -> bool:
    return isinstance(part, Foreign) and bool(part.text)


def _readable(part: Part) -> Part:
    return Text(part.text) if isinstance(part, Foreign) and part.text else part
