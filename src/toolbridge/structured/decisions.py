"""Decisions about one frame: whether its value can be used, and what replaces it if not."""

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Call, Problem
from toolbridge.structured.bounds import depth_of
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.frame import Frame
from toolbridge.structured.limits import Limits
from toolbridge.structured.minimal import NoMinimal, with_diagnostics
from toolbridge.structured.pieces import FrameClosed
from toolbridge.structured.read_value import ReadValue
from toolbridge.structured.salvage import Salvaged, drafts_of, salvage

BREAKS_OFF = Flaw(".", "the JSON breaks off; complete it")
_MAX_MESSAGE = 600
_CODES = {
    "overloaded": "overloaded",
    "rate_limited": "overloaded",
    "context_overflow": "context_overflow",
    "aborted": "aborted",
}


def counts(closed: FrameClosed, read: ReadValue) -> bool:
    """Whether the value of a frame may be used.

    Missing closing brackets of an object may be added if the model wrote the frame's end. Arguments
    of a tool must be complete as written: a cut-off call is never run.
    """
    if closed.kind != "tool":
        return not read.flaws and not read.cut and (closed.ended or not read.open)
    left_out = closed.ended and not closed.body.strip()
    return read.closed and (closed.whole or left_out)


def reasons(read: ReadValue) -> tuple[Flaw, ...]:
    """Return the flaws to list in a repair request."""
    if not read.cut and not read.open:
        return read.flaws or (BREAKS_OFF,)
    return (BREAKS_OFF, *(flaw for flaw in read.flaws if flaw.path != "."))


def stand_in(
    frame: Frame, limits: Limits, code: str, flaws: tuple[Flaw, ...], text: str = ""
) -> Salvaged | None:
    """Return the value of a degraded frame: the model's valid members, and minimal values elsewhere.

    If the schema has an `answer`, the text `text` fills it. None if no value fits.
    """
    diagnostics: JsonObject = {
        "error": code,
        "last_validator_errors": [{"path": f.path, "message": f.message} for f in flaws],
    }
    shown = frame.compiled
    texts = (text for text in frame.drafts if len(text) <= limits.frame)
    drafts = (draft for draft in drafts_of(texts, shown.schema) if depth_of(draft) <= limits.depth)
    try:
        found = salvage(shown.schema, shown.fits, drafts)
    except NoMinimal:
        return None
    if text and isinstance(found.value, dict) and found.value.get("answer") == "":
        answered: JsonObject = {**found.value, "answer": text}
        if shown.fits(answered):
            found = Salvaged(answered, tuple(path for path in found.invented if path != "answer"))
    full = frame.full or shown
    value = with_diagnostics(found.value, full.schema, full.fits, diagnostics)
    return Salvaged(value, found.invented)


def explain(flaws: tuple[Flaw, ...]) -> str:
    """Return flaws as one line of text."""
    text = "; ".join(
        flaw.message if flaw.path == "." else f"{flaw.path} {flaw.message}" for flaw in flaws
    )
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"


def too_large(text: str, call: Call, limits: Limits) -> tuple[str, str] | None:
    """Return the error code and message if native arguments exceed a limit; else None."""
    if len(text.encode("utf-8", "surrogatepass")) > limits.arguments:
        return "arguments_too_large", f"the arguments are longer than {limits.arguments} bytes"
    if depth_of(call.arguments) > limits.depth:
        return "frame_too_deep", f"the arguments are nested more than {limits.depth} deep"
    return None


def code_of(problem: Problem) -> str:
    """Return the error code of a stream for an upstream failure."""
    return _CODES.get(problem.kind, "upstream_error")
