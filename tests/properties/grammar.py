"""What a row of events must look like, and when two of them say the same."""

from collections.abc import Iterable

from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.messages import Loss, Message
from toolbridge.core.stage import Stage

STARTS = {ev.TextStart: "text", ev.ThinkingStart: "thinking", ev.CallStart: "call"}
DELTAS = {ev.TextDelta: "text", ev.ThinkingDelta: "thinking", ev.CallDelta: "call"}
ENDS = {ev.TextEnd: "text", ev.ThinkingEnd: "thinking", ev.CallEnd: "call"}
TERMINAL = (ev.Finished, ev.Failed)


def piece_of(event: ev.Event) -> str:
    return event.json if isinstance(event, ev.CallDelta) else event.text


def check(events: list[ev.Event]) -> None:
    """Fail unless `events` are a whole, legal answer."""
    assert events, "an answer has at least a start and an end"
    assert isinstance(events[0], ev.Started)
    assert isinstance(events[-1], TERMINAL)
    check_so_far(events)


def check_so_far(events: list[ev.Event]) -> None:
    """Fail unless `events` may be the beginning of a legal answer."""
    kinds: dict[int, str] = {}
    written: dict[int, list[str]] = {}
    lost: list[Loss] = []
    others: dict[int, list[ev.Event]] = {}
    for at, event in enumerate(events):
        assert isinstance(event, ev.Started) == (at == 0), f"{event} at {at}"
        if isinstance(event, TERMINAL):
            assert at == len(events) - 1, f"{event} is not the last"
            message = collect(events)
            _check_terminal(event, message, written)
            assert message.losses == tuple(lost)
            for _, inner in sorted(others.items()):
                (check_so_far if isinstance(event, ev.Failed) else check)(inner)
            assert len(message.alternatives) == len(others)
        elif type(event) in STARTS:
            assert event.index not in kinds, f"block {event.index} starts twice"
            kinds[event.index] = STARTS[type(event)]
            written[event.index] = []
        elif type(event) in DELTAS:
            assert event.index in written, f"{event} into a block that is not open"
            assert kinds[event.index] == DELTAS[type(event)]
            assert piece_of(event), "an empty delta says nothing"
            written[event.index].append(piece_of(event))
        elif type(event) in ENDS:
            assert event.index in written, f"{event} ends what is not open"
            assert kinds[event.index] == ENDS[type(event)]
            _check_end(event, "".join(written.pop(event.index)))
        elif isinstance(event, ev.Alternative):
            assert event.choice > 0
            others.setdefault(event.choice, []).append(event.event)
        elif isinstance(event, ev.Lost):
            assert event.loss.what
            assert event.loss.why
            assert event.loss.what not in {loss.what for loss in lost}, f"{event} is said twice"
            lost.append(event.loss)
        elif isinstance(event, ev.PartAdded):
            assert event.index not in kinds
            kinds[event.index] = "part"
    assert sorted(kinds) == list(range(len(kinds))), "blocks are numbered without a gap"


def _check_end(event: ev.Event, written: str) -> None:
    if isinstance(event, ev.TextEnd):
        assert event.text.text == written
    elif isinstance(event, ev.ThinkingEnd):
        assert event.thinking.text == written
        assert written or event.thinking.opaque, "an empty thought"
    else:
        call = event.call
        assert call.id
        assert not (call.raw and call.arguments)


def _check_terminal(
    event: ev.Finished | ev.Failed, message: Message, still_open: dict[int, list[str]]
) -> None:
    assert event.message is None, "stages build no message"
    if isinstance(event, ev.Failed):
        assert message.stop in {"error", "aborted"}
        assert message.problem == event.problem
        return
    assert not still_open, "a good end leaves nothing open"
    assert message.stop == event.reason
    assert message.problem is None
    assert event.reason != "tool_use" or message.calls
    ids = [call.id for call in message.calls]
    assert len(ids) == len(set(ids)), "two calls share an id"


def joined(events: Iterable[ev.Event]) -> list[ev.Event]:
    """Return `events` with adjacent deltas of one block made one."""
    done: list[ev.Event] = []
    pieces: list[str] = []

    def flush() -> None:
        if len(pieces) > 1:
            done[-1] = type(done[-1])(done[-1].index, "".join(pieces))
        pieces.clear()

    for event in events:
        if type(event) not in DELTAS:
            flush()
            done.append(event)
        elif pieces and type(event) is type(done[-1]) and event.index == done[-1].index:
            pieces.append(piece_of(event))
        else:
            flush()
            done.append(event)
            pieces.append(piece_of(event))
    flush()
    return done


def is_beginning(part: list[ev.Event], whole: list[ev.Event]) -> bool:
    """Whether `part`, once joined, is how `whole` begins; its last delta may go on."""
    part, whole = joined(part), joined(whole)
    if not part:
        return True
    *sure, last = part
    if len(part) > len(whole) or sure != whole[: len(sure)]:
        return False
    other = whole[len(sure)]
    if type(last) in DELTAS and type(other) is type(last) and last.index == other.index:
        return piece_of(other).startswith(piece_of(last))
    return last == other


def run(stage: Stage, pieces: Iterable[object]) -> list:
    """Feed every piece, then close."""
    out = [found for piece in pieces for found in stage.feed(piece)]
    return out + stage.close()
