"""Check of a recorded session of the vendor's client, decoded as host and as client."""

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.json import Json, dump_bytes, dumps, loads
from toolbridge.core.messages import StopReason
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.decode_answer import AnswerDecoder, SentPrompt
from toolbridge.node.protocol.encryption import Decryptor, Secret
from toolbridge.node.protocol.messages import (
    AnswerChunk,
    InitPayload,
    Response,
    StreamEnd,
    decode_message,
)
from toolbridge.node.vectors.case import Checks, VectorCase, guarded, numbered

_STOPS: dict[str, StopReason] = {"length": "length", "cancelled": "aborted", "error": "error"}


def transcript(found: VectorCase) -> Checks:
    yield from _Listener(found.secret("host_private")).listen(found.fields["frames"])


class _Listener:
    """Decodes a recorded session with the host's key and with the client's session key."""

    def __init__(self, host: Secret) -> None:
        self._host = host
        self._key = host
        self._plaintext: bytes = b""
        self._index = 0
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

    def _from_client(self, message: VectorCase) -> Checks:
        if message.text("type") == "encrypted_session_init":
            payload = msgspec.convert(message.fields["payload"], InitPayload)
            self._plaintext = payload.open(self._host)
            self._key = VectorCase(loads(self._plaintext)).secret("sessionKey")
            payload.signer(encryption.public_key(self._host))
            self._index = 0
        else:
            aad = encryption.message_aad(self._index)
            self._plaintext = message.payload().open(Decryptor(self._key), aad)
            self._index += 1
            self._answer = AnswerDecoder(Decryptor(self._key), SentPrompt(message.text("id")))
            self._events = []
        return iter(())

    def _decrypted(self, message: VectorCase) -> Checks:
        yield "decrypted", loads(self._plaintext), message.fields

    def _from_node(self, message: VectorCase) -> Checks:
        found = decode_message(dump_bytes(message.fields))
        if self._answer is None or not isinstance(found, AnswerChunk | Response | StreamEnd):
            return
        events = self._answer.feed(found)
        self._events += events
        failed = [event.problem for event in events if isinstance(event, ev.Failed)]
        broken = [problem.text for problem in failed if problem.kind == "broken_wire"]
        yield "read", dumps(broken), "[]"
        if isinstance(found, StreamEnd):
            yield from self._end(found)

    def _end(self, end: StreamEnd) -> Checks:
        message = collect(self._events)
        claimed = end.finish_reason if end.reason == "complete" else end.reason
        yield "finished", message.stop, _STOPS.get(claimed or "", "end")
        if end.usage is not None and message.problem is None:
            yield "usage", message.usage.output, end.usage.completion_tokens
