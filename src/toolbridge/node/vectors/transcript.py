"""A recorded conversation, read from both ends."""

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.json import Json, dump_bytes, dumps, loads
from toolbridge.node import seal
from toolbridge.node.answers import AnswerDecoder, Sent
from toolbridge.node.messages import (
    Chunk,
    InitPayload,
    Response,
    StreamEnd,
    decode_message,
)
from toolbridge.node.seal import Opener, Secret
from toolbridge.node.vectors.case import Case, Checks, guarded, numbered


def transcript(found: Case) -> Checks:
    yield from _Listener(found.secret("host_private")).listen(found.fields["frames"])


class _Listener:
    """Reads a recorded conversation from the host's side and from the client's."""

    def __init__(self, host: Secret) -> None:
        self._host = host
        self._key = host
        self._heard: bytes = b""
        self._answer: AnswerDecoder | None = None
        self._events: list[ev.Event] = []

    def listen(self, frames: Json) -> Checks:
        for label, case in numbered(frames):
            check = {
                "client->node": self._from_client,
                "decrypted": self._decrypted,
                "node->client": self._from_node,
            }[case.text("dir")]
            yield from guarded(label, check, case.inner("msg"))

    def _from_client(self, message: Case) -> Checks:
        if message.text("type") == "encrypted_session_init":
            payload = msgspec.convert(message.fields["payload"], InitPayload)
            self._heard = payload.open(self._host)
            self._key = Case(loads(self._heard)).secret("sessionKey")
            payload.signer(seal.public_key(self._host))
        else:
            self._heard = message.payload().open(Opener(self._key), seal.message_aad(0))
            self._answer = AnswerDecoder(Opener(self._key), Sent(message.text("id")))
            self._events = []
        return iter(())

    def _decrypted(self, message: Case) -> Checks:
        yield "decrypted", loads(self._heard), message.fields

    def _from_node(self, message: Case) -> Checks:
        found = decode_message(dump_bytes(message.fields))
        if self._answer is None or not isinstance(found, Chunk | Response | StreamEnd):
            return
        said = self._answer.feed(found)
        self._events += said
        failed = [event.problem.text for event in said if isinstance(event, ev.Failed)]
        yield "read", dumps(failed), "[]"
        if isinstance(found, StreamEnd):
            told = collect(self._events)
            yield "finished", told.stop, "end"
            if found.usage is not None:
                yield "usage", told.usage.output, found.usage.completion_tokens
