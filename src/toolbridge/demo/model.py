"""The demo model: answers a request with events, within the request's limits."""

import re

from toolbridge.core.draft import Draft
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps
from toolbridge.core.messages import Call, Request, Result, StopReason, Text, Thinking
from toolbridge.core.usage import Usage
from toolbridge.demo.conversation import read_conversation
from toolbridge.demo.identity import MODEL
from toolbridge.demo.plan import DemoReply, plan
from toolbridge.demo.structured_signs import wants_frames

_PIECE = re.compile(r"\s{0,16}\S{1,16}|\s{1,16}")
_JSON_PIECE = 12


def answer(request: Request, ids: Ids) -> list[Event]:
    """Return the whole answer to `request`, the same for the same request and ids."""
    framed = _in_frames(request) if wants_frames(request) else None
    if framed is not None:
        return _Speaker(request, ids).speak(DemoReply(framed), framed)
    conversation = read_conversation(request)
    reply = plan(request, conversation)
    rest = reply.text.removeprefix(conversation.begun)
    return _Speaker(request, ids).speak(reply, rest if rest or reply.calls else reply.text)


def _in_frames(request: Request) -> str | None:
    """Return the answer for a structured stream; its modules are imported on first use."""
    from toolbridge.demo.structured import structured_answer

    return structured_answer(request)


def pieces_of(text: str) -> list[str]:
    """Return `text` in chunks of about a word: the tokens of this model."""
    return _PIECE.findall(text)


def count_input(request: Request) -> int:
    """Return the estimated tokens of `request`: a quarter of its characters."""
    size = sum(len(text.text) for text in request.system)
    for turn in request.turns:
        for part in turn.content:
            match part:
                case Text(text) | Thinking(text):
                    size += len(text)
                case Call(arguments=arguments):
                    size += len(dumps(arguments))
                case Result(content=content):
                    size += sum(len(inner.text) for inner in content if isinstance(inner, Text))
                case _:
                    pass
    for tool in request.tools:
        size += len(tool.name) + len(tool.description) + len(dumps(tool.schema))
    return -(-size // 4)


class _Speaker:
    """Emits a reply as events, up to the token limit or the first stop sequence."""

    def __init__(self, request: Request, ids: Ids) -> None:
        self._draft = Draft(ids)
        self._request = request
        self._left = request.max_tokens
        self._spent = 0
        self._thought = 0
        self._stop: StopReason = "end"
        self._stop_sequence = ""

    def speak(self, reply: DemoReply, text: str) -> list[Event]:
        said = self._draft.start(model=MODEL)
        for piece in self._affordable(reply.thinking):
            said += self._draft.think(piece)
        self._thought = self._spent
        for piece in self._affordable(self._until_stop(text)):
            said += self._draft.text(piece)
        if reply.problem is not None and self._stop == "end":
            return said + self._draft.usage(self._usage()) + self._draft.fail(reply.problem)
        for at, call in enumerate(reply.calls):
            said += self._call(at, call)
        said += self._draft.end()
        said += self._draft.usage(self._usage())
        return said + self._draft.finish(self._stop, stop_sequence=self._stop_sequence)

    def _affordable(self, text: str) -> list[str]:
        """Return the chunks of `text` within the token limit, and count their tokens."""
        if self._stop != "end" and not self._stop_sequence:
            return []
        pieces = pieces_of(text)
        if self._left is not None and len(pieces) > self._left:
            pieces = pieces[: max(self._left, 0)]
            self._stop, self._stop_sequence = "length", ""
        self._pay(len(pieces))
        return pieces

    def _pay(self, tokens: int) -> None:
        self._spent += tokens
        if self._left is not None:
            self._left -= tokens

    def _until_stop(self, text: str) -> str:
        """Return `text` up to the first stop sequence in it."""
        if self._stop != "end":
            return text
        found = [(at, stop) for stop in self._request.stop if stop and (at := text.find(stop)) >= 0]
        if not found:
            return text
        at, self._stop_sequence = min(found)
        self._stop = "stop_sequence"
        return text[:at]

    def _call(self, at: int, call: Call) -> list[Event]:
        """Emit a complete call or, beyond the token limit, no call."""
        if self._stop != "end":
            return []
        written = dumps(call.arguments)
        pieces = [written[i : i + _JSON_PIECE] for i in range(0, len(written), _JSON_PIECE)]
        if self._left is not None and len(pieces) + 1 > self._left:
            self._stop = "length"
            return []
        self._pay(len(pieces) + 1)
        said = self._draft.call(at, name=call.name)
        for piece in pieces:
            said += self._draft.arguments(at, piece)
        return said + self._draft.end(at)

    def _usage(self) -> Usage:
        return Usage(input=count_input(self._request), output=self._spent, reasoning=self._thought)
