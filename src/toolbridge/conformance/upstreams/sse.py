"""Encodes SSE events, valid or deliberately broken."""

from toolbridge.conformance.cases import WireFraming


def write(line: str, framing: WireFraming, *, event: str = "", eol: str = "\n") -> bytes:
    """Return `line` as one event, framed by `framing`."""
    end = framing.eol or eol
    space = " " if framing.space else ""
    lines = [": still here", ""] if framing.comments else []
    lines += [f"event:{space}{event}"] if event and framing.event else []
    lines += [f"data:{space}{line}", "", ""]
    return end.join(lines).encode()
