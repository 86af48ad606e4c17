"""Compares a played case with its expectation: the client's answer and the upstream's request."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from toolbridge.conformance import upstreams
from toolbridge.conformance.cases import Case, Expectation, expand
from toolbridge.conformance.client_requests import CaseRequest
from toolbridge.conformance.clients import CaseClient
from toolbridge.conformance.http_client import GatewayReply
from toolbridge.conformance.json_path import items, pick, text
from toolbridge.conformance.observed import Observed, ObservedCall
from toolbridge.conformance.scripted_upstream import ReceivedRequest
from toolbridge.core.json import Json, JsonObject, dumps, maybe_object

_SHOWN = 160


@dataclass
class Evidence:
    """Everything observed in one play of a case."""

    case: Case
    ask: CaseRequest
    api: str
    """The client's API."""
    client: CaseClient
    reply: GatewayReply
    heard: list[ReceivedRequest]
    hung_up_after: float | None = None


def judge(found: Evidence) -> list[str]:
    """Return the faults, each with the expected and the actual value; empty if the case passed."""
    faults = [*_received(found)]
    if found.case.abort:
        return [*faults, *_departure(found)]
    if found.reply.status >= 400 or not found.reply.status:
        return [*faults, *_rejection(found)]
    seen = read(found)
    return faults + seen.faults + [fault for check in _CHECKS for fault in check(found, seen)]


def read(found: Evidence) -> Observed:
    """Return the answer as the client read it."""
    body = found.reply.body
    if not found.case.whole:
        return found.client.read_stream(body)
    whole = maybe_object(body)
    if whole is None:
        return Observed(faults=[f"the answer is no JSON object: {body[:_SHOWN]!r}"])
    return found.client.read_whole(whole)


# ── before the first byte ────────────────────────────────────────────────────


def _rejection(found: Evidence) -> Iterable[str]:
    expect, reply = found.case.expect, found.reply
    if not reply.status:
        yield f"there is no status at all; the connection ended: {reply.ended}"
        return
    body = maybe_object(reply.body)
    said = found.client.read_error(body) if body else ""
    if expect.terminal == "any":
        return
    if expect.terminal == "finished":
        yield f"expected an answer, came status {reply.status}: {said or reply.body[:_SHOWN]!r}"
        return
    if not said:
        yield f"the error is not in the envelope of {found.api}: {reply.body[:_SHOWN]!r}"
    if expect.status and reply.status not in expect.status:
        yield f"expected status {_any(expect.status)}, came {reply.status} ({said[:_SHOWN]})"
    if not expect.status and reply.status < 500:
        yield f"the upstream is at fault, but status {reply.status} blames the client"
    if (
        expect.retry_after
        and "retry-after" not in reply.headers
        and b"retryDelay" not in reply.body
    ):
        yield "nothing says how long to wait: no retry-after, nor Google's retryDelay"
    yield from _words(found, said)


def _words(found: Evidence, said: str) -> Iterable[str]:
    expect = found.case.expect
    for words in (expect.error_has, expect.error_for.get(found.api, ())):
        if words and not any(word.lower() in said.lower() for word in words):
            yield f"expected the error to say {_any(words)}, it says {said[:_SHOWN]!r}"


# ── in the stream ────────────────────────────────────────────────────────────


def _terminal(found: Evidence, seen: Observed) -> Iterable[str]:
    expect, ended = found.case.expect, found.reply.ended
    if ended == "timeout":
        yield f"no end within {found.reply.after:.0f} s"
    elif expect.terminal == "error":
        yield from _bad_end(found, seen)
    elif expect.terminal == "any" and (seen.terminal == "error" or ended == "cut"):
        return
    elif seen.terminal != "finished":
        yield f"expected an end, came {seen.terminal} ({ended}): {seen.error[:_SHOWN]}"
    elif ended != "clean":
        yield "the answer is whole, but the connection broke off"


def _bad_end(found: Evidence, seen: Observed) -> Iterable[str]:
    if found.case.expect.status and not _is_failed_overflow(found, seen):
        yield f"expected status {_any(found.case.expect.status)}, came 200 with {_brief(seen)}"
    elif seen.terminal == "finished":
        yield f"expected an error, came an end that looks like success: {_brief(seen)}"
    elif seen.terminal == "none" and found.reply.ended == "clean":
        yield f"expected an error, came a clean end of the connection: {_brief(seen)}"
    elif seen.terminal == "error":
        yield from _words(found, seen.error)


def _is_failed_overflow(found: Evidence, seen: Observed) -> bool:
    """Whether a Responses client gets an overflow as `response.failed`.

    Codex compacts the conversation after that event; the body of a 400 it only displays.
    """
    return found.api == "openai_responses" and seen.error.startswith("context_length_exceeded")


def _content(found: Evidence, seen: Observed) -> Iterable[str]:
    expect = found.case.expect
    if expect.text is not None and seen.text != (wanted := expand(expect.text)):
        yield _differs("text", wanted, seen.text)
    if expect.thinking is not None and seen.thinking != expect.thinking:
        yield _differs("thinking", expect.thinking, seen.thinking)
    for word in expect.text_has:
        if word not in seen.text:
            yield f"expected {word!r} in the text, which is {seen.text[:_SHOWN]!r}"
    for word in expect.text_lacks:
        if word in seen.text:
            yield f"{word!r} must not stand in the text: {seen.text[:_SHOWN]!r}"
    if expect.order and seen.order is not None and tuple(seen.order) != expect.order:
        yield _differs("blocks", list(expect.order), list(seen.order))


def _calls(found: Evidence, seen: Observed) -> Iterable[str]:
    expect = found.case.expect
    closed = [call for call in seen.calls if call.closed]
    if expect.runnable is not None:
        could = [call.name for call in closed if _is_runnable(call, found.ask)]
        if could != [*expect.runnable]:
            yield _differs("calls that can be run", [*expect.runnable], [*could])
        return
    if expect.terminal != "finished":
        return
    wanted: Json = [{"name": call.name, "arguments": call.arguments} for call in expect.calls]
    came: Json = [{"name": call.name, "arguments": call.arguments} for call in closed]
    if wanted != came:
        yield _differs("calls", wanted, came)


def _server_calls(found: Evidence, seen: Observed) -> Iterable[str]:
    expect = found.case.expect
    if expect.server_calls is not None:
        shown = [call for call in expect.server_calls if call.kind in found.client.shows]
        wanted: Json = [[call.kind, call.subject, call.failed] for call in shown]
        came: Json = [[call.kind, call.subject, call.failed] for call in seen.server_calls]
        if wanted != came:
            yield _differs("server tools", wanted, came)
            return
        for call, observed in zip(shown, seen.server_calls, strict=True):
            missing = [url for url in call.urls if url not in observed.urls]
            if missing:
                yield _differs(f"pages of {call.subject}", [*call.urls], [*observed.urls])
            if call.output and call.output not in observed.output:
                yield _differs(f"output of {call.subject}", call.output, observed.output)
    for url in expect.cites:
        where = seen.text if found.api == "ollama" else seen.cited
        if url not in where:
            yield f"{url} is not cited; cited are {seen.cited}"
    if expect.searches and seen.searches not in {None, expect.searches}:
        yield f"expected {expect.searches} searches in the usage, came {seen.searches}"


def _is_runnable(call: ObservedCall, ask: CaseRequest) -> bool:
    """Whether a client would run `call`: its arguments are an object with all required members."""
    given = call.arguments
    tool = next((tool for tool in ask.tools if tool.name == call.name), None)
    if given is None or tool is None:
        return False
    return all(text(name) in given for name in items(tool.schema, "required"))


def _ending(found: Evidence, seen: Observed) -> Iterable[str]:
    expect = found.case.expect
    stops = (expect.stop,) if isinstance(expect.stop, str) else expect.stop
    words = {word for stop in stops for word in found.client.stops[stop]}
    if stops and seen.terminal == "finished" and seen.stop not in words:
        yield f"expected the end to say {_any(sorted(words))}, it says {seen.stop!r}"
    if expect.input and seen.input != expect.input:
        yield f"expected {expect.input} input tokens, came {seen.input}"
    if expect.output and seen.output != expect.output:
        yield f"expected {expect.output} output tokens, came {seen.output}"
    if expect.early_usage and seen.early_input == 0:
        yield "the first event says that the input is 0 tokens long; clients keep that"


def _timing(found: Evidence, seen: Observed) -> Iterable[str]:
    expect, reply = found.case.expect, found.reply
    if expect.status_within and reply.status_after > expect.status_within:
        yield f"the status took {reply.status_after:.1f} s, not {expect.status_within:g} s"
    if expect.within and reply.after > expect.within:
        yield f"it took {reply.after:.1f} s, not {expect.within:g} s"
    if expect.longest_silence and (silence := _silence(reply)) > expect.longest_silence:
        yield f"the client heard nothing for {silence:.1f} s, not {expect.longest_silence:g} s"
    if expect.keep_alive and not seen.keep_alives:
        yield "the client was sent no sign of life while the upstream was silent"


def _silence(reply: GatewayReply) -> float:
    times = [reply.status_after, *(at for at, _ in reply.pieces), reply.after]
    return max(later - earlier for earlier, later in pairwise(times))


_CHECKS: tuple[Callable[[Evidence, Observed], Iterable[str]], ...] = (
    _terminal,
    _content,
    _calls,
    _server_calls,
    _ending,
    _timing,
)


# ── at the upstream ──────────────────────────────────────────────────────────


def _departure(found: Evidence) -> Iterable[str]:
    limit = found.case.expect.hangs_up_within
    if found.hung_up_after is None or found.hung_up_after > limit:
        yield f"{limit:g} s after the client left, the upstream is still being listened to"


def _received(found: Evidence) -> Iterable[str]:
    expect = found.case.expect
    if not found.heard:
        yield "the request never reached the upstream"
        return
    last = found.heard[-1]
    api = upstreams.load(found.case.api)
    if not api.path.search(last.path.partition("?")[0]):
        yield f"the upstream was asked at {last.path}"
    body = api.normal(last.json)
    yield from (f"the upstream would refuse: {why}" for why in api.refuses(body))
    if expect.heard and len(found.heard) > expect.heard:
        yield f"the upstream was asked {len(found.heard)} times, not {expect.heard}"
    yield from _paths(expect, body)


def _paths(expect: Expectation, body: JsonObject) -> Iterable[str]:
    for path, value in expect.received.items():
        if (came := pick(body, path)) != value:
            yield _differs(f"{path} at the upstream", value, came)
    for path in expect.received_absent:
        if (came := pick(body, path)) is not None:
            yield f"{path} must not reach the upstream; it is {dumps(came)[:_SHOWN]}"
    sent = dumps(body)
    for word in expect.received_has:
        if dumps(word)[1:-1] not in sent:
            yield f"expected {word!r} in what the upstream is sent"
    for word in expect.received_lacks:
        if dumps(word)[1:-1] in sent:
            yield f"{word!r} must not reach the upstream"


def _differs(what: str, wanted: Json, came: Json) -> str:
    return f"{what}: expected {dumps(wanted)[:_SHOWN]}, came {dumps(came)[:_SHOWN]}"


def _any(values: Iterable[object]) -> str:
    return " or ".join(str(value) for value in values)


def _brief(seen: Observed) -> str:
    return dumps({"stop": seen.stop, "text": seen.text[:40], "calls": len(seen.calls)})
