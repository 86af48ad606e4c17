"""Detects requests of structured streams, without loading the modules that answer them."""

from toolbridge.core.messages import Request, Text

SIGN = "\u27e6BEGIN_RESULT id="
REPAIR = "The JSON below does not fit its schema."
MISSING = "The final result is still missing."


def wants_frames(request: Request) -> bool:
    """Whether a request may belong to a structured stream."""
    if any(SIGN in text.text for text in request.system):
        return True
    last = request.turns[-1] if request.turns else None
    if last is None or last.role != "user":
        return False
    texts = [part.text for part in last.content if isinstance(part, Text)]
    return bool(texts) and texts[-1].lstrip().startswith((REPAIR, MISSING))
