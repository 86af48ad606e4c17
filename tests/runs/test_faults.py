"""A fault of our own while a stream runs."""

import pytest
from tests.streams import ask, reply, scripted, streaming

from toolbridge.runs.recording import Recorder


@pytest.mark.parametrize("event", ["RunTextDelta", "ResultEnd"])
async def test_a_fault_of_ours_ends_the_stream_and_the_server_goes_on(monkeypatch, capsys, event):
    told = Recorder.sent
    failed = []

    def failing(self, record, said):
        told(self, record, said)
        if type(said).__name__ == event and not failed:
            failed.append(said)
            raise ZeroDivisionError

    monkeypatch.setattr(Recorder, "sent", failing)
    answers = (f"Well. {reply()}", reply())
    async with streaming(scripted(*answers)) as (url, _, _):
        events = await ask(url, {"prompt": "x"})
        again = await ask(url, {"prompt": "x"})
    assert events[-1].name == "done"
    codes = [said.data["code"] for said in events if said.name == "error"]
    assert codes == (["internal"] if event == "RunTextDelta" else [])
    assert [said.name for said in again][-2:] == ["result.end", "done"]
    assert "ZeroDivisionError" in capsys.readouterr().err
