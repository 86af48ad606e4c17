"""A fault of our own while a stream runs."""

import pytest
from tests.streams import ask, reply, scripted, streaming

from toolbridge.runs.log import EventLog
from toolbridge.structured.conversation import StructuredConversation


async def asked_twice():
    """Return the events of two streams of one server."""
    async with streaming(scripted(f"Well. {reply()}", reply())) as (url, _, _):
        return [await ask(url, {"prompt": "x"}) for _ in range(2)]


@pytest.mark.parametrize("event", ["RunTextDelta", "ResultEnd"])
async def test_a_fault_after_an_event_was_sent_changes_nothing_for_the_client(
    monkeypatch, capsys, event
):
    add = EventLog.add
    failed = []

    def failing(self, sent):
        record = add(self, sent)
        if type(sent).__name__ == event and not failed:
            failed.append(sent)
            raise ZeroDivisionError
        return record

    monkeypatch.setattr(EventLog, "add", failing)
    events, again = await asked_twice()
    assert failed
    assert [sent.name for sent in events][-2:] == ["result.end", "done"]
    assert "error" not in {sent.name for sent in events}
    assert [sent.name for sent in again][-2:] == ["result.end", "done"]
    assert "ZeroDivisionError" in capsys.readouterr().err


async def test_a_fault_while_an_answer_is_read_ends_the_stream_and_the_server_goes_on(
    monkeypatch, capsys
):
    feed = StructuredConversation.feed
    failed = []

    def failing(self, event):
        fed = feed(self, event)
        if fed and not failed:
            failed.append(fed)
            raise ZeroDivisionError
        return fed

    monkeypatch.setattr(StructuredConversation, "feed", failing)
    events, again = await asked_twice()
    assert events[-1].name == "done"
    assert [sent.data["code"] for sent in events if sent.name == "error"] == ["internal"]
    assert [sent.name for sent in again][-2:] == ["result.end", "done"]
    assert "ZeroDivisionError" in capsys.readouterr().err
