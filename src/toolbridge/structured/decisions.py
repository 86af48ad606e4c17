"""Decisions about one frame: whether it counts as it is, and what stands in for it if not."""

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


def counts(closed: FrameClosed, mended: ReadValue) -> bool:
    """Whether what came of a frame may be used.

    Brackets that are missing at the end of an object may be added where the model itself wrote the
    frame's end. What runs must have been whole as it was written: half a call is no call.
    """
    if closed.kind != "tool":
        return not mended.flaws and not mended.cut and (closed.ended or not mended.open)
    left_out = closed.ended and not closed.body.strip()
    return mended.closed and (closed.whole or left_out)


def reasons(mended: ReadValue) -> tuple[Flaw, ...]:
    """Return what a model should be told about a value that does not count."""
    if not mended.cut and not mended.open:
        return mended.flaws or (BREAKS_OFF,)
    return (BREAKS_OFF, *(flaw for flaw in mended.flaws if flaw.path != "."))


def stand_in(
    frame: Frame, limits: Limits, code: str, flaws: tuple[Flaw, ...], said: str = ""
) -> Salvaged | None:
    """Return the value of a degraded frame: what the model wrote of it that fits, and the least else.

    Where it has an answer to give, what was `said` is that answer. None when nothing fits.
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
    if said and isinstance(found.value, dict) and found.value.get("answer") == "":
        answered: JsonObject = {**found.value, "answer": said}
        if shown.fits(answered):
            found = Salvaged(answered, tuple(path for path in found.invented if path != "answer"))
    full = frame.full or shown
    value = with_diagnostics(found.value, full.schema, full.fits, diagnostics)
    return Salvaged(value, found.invented)


def explain(flaws: tuple[Flaw, ...]) -> str:
    """Return flaws as one line."""
    text = "; ".join(
        flaw.message if flaw.path == "." else f"{flaw.path} {flaw.message}" for flaw in flaws
    )
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"


def too_large(text: str, call: Call, limits: Limits) -> tuple[str, str] | None:
    """Return the code and the message for native arguments beyond a limit, if they are."""
    if len(text.encode("utf-8", "surrogatepass")) > limits.arguments:
        return "arguments_too_large", f"the arguments are longer than {limits.arguments} bytes"
    if depth_of(call.arguments) > limits.depth:
        return "frame_too_deep", f"the arguments are nested more than {limits.depth} deep"
    return None


def code_of(problem: Problem) -> str:
    """Return what a failure of the upstream is called in a stream."""
    return _CODES.get(problem.kind, "upstream_error")
