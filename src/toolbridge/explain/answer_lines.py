"""An answer as lines, so that two answers can be compared and their difference read.

`wire_lines` has one line per event of the wire, `event_lines` one per event of toolbridge, for
answers in two different APIs.
"""

import json

import msgspec

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.event_lines import tell_events
from toolbridge.core.ids import Ids


def wire_lines(status: int, text: str) -> list[str]:
    """Return a response as lines: its status, then its events or the members of its JSON."""
    return [f"HTTP {status}", *_body_lines(text)]


def _body_lines(text: str) -> list[str]:
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False).splitlines()
    except ValueError:
        pass
    events = text.replace("\r\n", "\n").split("\n\n") if "data:" in text else text.splitlines()
    return [" ".join(event.split("\n")) for event in events if event.strip()]


def event_lines(api: str, status: int, text: str) -> list[str]:
    """Return a response in `api` as events of toolbridge, with the pieces of each text joined.

    APIs divide a text in different ways, and so do answers whose secrets were masked. Ids differ
    between APIs, and so does the time of token counts: only those at the end are shown.
    """
    if status >= 400:
        problem = codecs.load(api).decode_rejection(status, {}, text.encode())
        return [f"HTTP {status}", f"{problem.kind} {problem.text}"]
    decoder = codecs.load(api).stream_decoder(Ids("replay"))
    events = decoder.feed(text.encode()) + decoder.close()
    joined = _joined([_without_id(event) for event in events])
    lines = tell_events(joined).splitlines()
    return [f"HTTP {status}", *(line for line in lines if not line.startswith("usage_reported"))]


def _joined(events: list[ev.Event]) -> list[ev.Event]:
    """Return events with consecutive deltas of the same block as one."""
    joined: list[ev.Event] = []
    for event in events:
        last = joined[-1] if joined else None
        match last, event:
            case ev.TextDelta(index, text), ev.TextDelta(other, more) if index == other:
                joined[-1] = ev.TextDelta(index, text + more)
            case ev.ThinkingDelta(index, text), ev.ThinkingDelta(other, more) if index == other:
                joined[-1] = ev.ThinkingDelta(index, text + more)
            case ev.CallDelta(index, text), ev.CallDelta(other, more) if index == other:
                joined[-1] = ev.CallDelta(index, text + more)
            case _:
                joined.append(event)
    return joined


def _without_id(event: ev.Event) -> ev.Event:
    return msgspec.structs.replace(event, id="") if isinstance(event, ev.Started) else event
