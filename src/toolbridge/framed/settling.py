"""Decisions about one frame: whether it counts as it is, and what stands in for it if not."""

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Call, Problem
from toolbridge.framed.bounds import depth_of
from toolbridge.framed.flaws import Flaw
from toolbridge.framed.limits import Limits
from toolbridge.framed.mending import Mended
from toolbridge.framed.minimal import NoMinimal, minimal
from toolbridge.framed.pieces import Closed
from toolbridge.framed.telling import Frame

BREAKS_OFF = Flaw(".", "the JSON breaks off; complete it")
_MAX_MESSAGE = 600
_CODES = {
    "overloaded": "overloaded",
    "rate_limited": "overloaded",
    "context_overflow": "context_overflow",
    "aborted": "aborted",
}


def counts(closed: Closed, mended: Mended) -> bool:
    """Whether what came of a frame may be used.

    Brackets that are missing at the end of an object may be added where the model itself wrote the
    frame's end. What runs must have been whole as it was written: half a call is no call.
    """
    if closed.kind != "tool":
        return not mended.flaws and not mended.cut and (closed.ended or not mended.open)
    left_out = closed.ended and not closed.body.strip()
    return mended.closed and (closed.whole or left_out)


def reasons(mended: Mended) -> tuple[Flaw, ...]:
    """Return what a model should be told about a value that does not count."""
    if not mended.cut and not mended.open:
        return mended.flaws or (BREAKS_OFF,)
    return (BREAKS_OFF, *(flaw for flaw in mended.flaws if flaw.path != "."))


def stand_in(frame: Frame, code: str, flaws: tuple[Flaw, ...], said: str = "") -> tuple[Json, bool]:
    """Return the value of a degraded frame, and whether one was found.

    Where it has an answer to give, what was `said` is that answer.
    """
    diagnostics: JsonObject = {
        "error": code,
        "last_validator_errors": [{"path": f.path, "message": f.message} for f in flaws],
    }
    fits = frame.compiled.fits
    try:
        value = minimal(frame.compiled.schema, fits, diagnostics)
    except NoMinimal:
        return None, False
    if said and isinstance(value, dict) and value.get("answer") == "":
        answered = {**value, "answer": said}
        if fits(answered):
            return answered, True
    return value, True


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
