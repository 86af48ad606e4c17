"""Reads native calls: objects stream as they arrive, tools wait until the answer ends."""

from typing import TypeAlias

from toolbridge.core import events as cv
from toolbridge.structured.answer import AnswerReader
from toolbridge.structured.contract import Contract
from toolbridge.structured.open_frames import OpenFrames
from toolbridge.structured.pieces import Piece

CallEvent: TypeAlias = cv.CallStart | cv.CallDelta | cv.CallEnd | cv.Healed


def read_call(
    event: CallEvent, contract: Contract, answer: AnswerReader, open_frames: OpenFrames
) -> list[Piece]:
    """Process a part of a native call; return the pieces of an object."""
    match event:
        case cv.CallStart(index, call_id, name):
            schema = contract.object_of(name)
            if not schema:
                return []
            id, opened = answer.open_object(index, schema)
            open_frames.open_native(index, id, schema, call_id)
            return opened
        case cv.CallDelta(index, json):
            return answer.objects[index].feed(json) if index in answer.objects else []
        case cv.Healed(index, report):
            open_frames.note_healing(index, report.steps)
            return []
        case cv.CallEnd(index, call):
            if open_frames.end_native(index) is not None:
                return answer.end_object(index, call)
            answer.calls.append(call)
            return []
