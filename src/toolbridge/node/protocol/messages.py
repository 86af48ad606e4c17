"""What a client and a node send each other: one JSON object per WebSocket message.

Ours to theirs: the handshake, a prompt, a cancellation. Theirs to ours: `decode_message`. What is
sealed inside an answer is opened in `answers`, where it is known which piece must come next.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from toolbridge.core.json import JsonObject, dump_bytes, dumps
from toolbridge.core.messages import Problem
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import DecryptionFailed, Secret
from toolbridge.wire.shapes import OpenUnion

ALGORITHM = "secp256k1-ecdh(ephemeral→static)+hkdf(sha256)+xchacha20-poly1305"
BASE_SEPOLIA = 84532


# ── ours to theirs ──


@dataclass(frozen=True)
class SessionTopic:
    """What a session is about: the paid job and the model."""

    session_id: str
    job_id: str
    model: str
    chain_id: int = BASE_SEPOLIA
    price: int = 0


@dataclass(frozen=True)
class InitKeys:
    """Every key and number of chance that one handshake needs."""

    signer: Secret
    """The wallet that paid: it signs, and checkpoints are sealed to it."""
    host: bytes
    """The public key of the host, 33 bytes."""
    session: Secret
    ephemeral: Secret
    nonce: bytes


def encode_init(opening: SessionTopic, keys: InitKeys, *, id: str) -> JsonObject:
    """Return the handshake that gives the node a session key."""
    plaintext = dump_bytes(
        {
            "sessionKey": keys.session.reveal().hex(),
            "jobId": opening.job_id,  # text, but the price a number: the node is strict
            "modelName": opening.model,
            "pricePerToken": opening.price,
            # Without it the host publishes checkpoints of the conversation that all can read.
            "recoveryPublicKey": f"0x{encryption.public_key(keys.signer).hex()}",
        }
    )
    return {
        "type": "encrypted_session_init",
        "chain_id": opening.chain_id,
        "session_id": opening.session_id,
        "job_id": opening.job_id,
        "id": id,
        "payload": seal_init(keys, plaintext),
    }


def seal_init(keys: InitKeys, plaintext: bytes, aad: bytes = b"") -> JsonObject:
    """Return `plaintext` sealed for the host and signed by the client."""
    key = encryption.derive_key(keys.ephemeral, keys.host)
    ephemeral = encryption.public_key(keys.ephemeral)
    preimage = encryption.init_preimage(ephemeral, keys.host, keys.nonce, aad=aad)
    signature = encryption.sign(keys.signer, encryption.init_digest(preimage))
    return {
        "ephPubHex": ephemeral.hex(),
        "saltHex": encryption.NO_SALT.hex(),
        "nonceHex": keys.nonce.hex(),
        "ciphertextHex": encryption.seal(key, keys.nonce, plaintext, aad).hex(),
        "signatureHex": signature.hex(),
        "recid": signature[64],
        "alg": ALGORITHM,
        "info": "",
        "aadHex": aad.hex(),
    }


def encode_reset(opening: SessionTopic, *, id: str) -> JsonObject:
    """Return the plain handshake that makes a node forget what was said under this session id."""
    return {
        "type": "session_init",
        "chain_id": opening.chain_id,
        "session_id": opening.session_id,
        "job_id": opening.job_id,
        "id": id,
    }


@dataclass(frozen=True)
class PromptEnvelope:
    """Where a prompt goes and how it is sealed."""

    session_id: str
    id: str
    key: Secret
    nonce: bytes
    index: int = 0


def encode_prompt(prompt: JsonObject, envelope: PromptEnvelope) -> JsonObject:
    """Return a sealed prompt.

    A node searches the web for any prompt with words like "current" or "update" in it, whatever
    `web_search` says; only a limit of no searches keeps it from doing so.
    """
    return {
        "type": "encrypted_message",
        "session_id": envelope.session_id,
        "id": envelope.id,
        "payload": seal_payload(
            envelope.key, envelope.nonce, dumps(prompt), encryption.message_aad(envelope.index)
        ),
        "web_search": False,
        "max_searches": 0,
        "search_queries": None,
    }


def seal_payload(key: Secret, nonce: bytes, text: str, aad: str) -> JsonObject:
    ciphertext = encryption.seal(key, nonce, text.encode(), aad.encode())
    return {
        "ciphertextHex": ciphertext.hex(),
        "nonceHex": nonce.hex(),
        "aadHex": aad.encode().hex(),
    }


def encode_cancel(session_id: str) -> JsonObject:
    return {"type": "stream_cancel", "session_id": session_id, "reason": "user_cancelled"}


# ── theirs to ours ──

_HEX = {
    "ephemeral": "ephPubHex",
    "salt": "saltHex",
    "nonce": "nonceHex",
    "ciphertext": "ciphertextHex",
    "signature": "signatureHex",
    "aad": "aadHex",
}


class Payload(msgspec.Struct, frozen=True, rename=_HEX):
    """A sealed piece, in hex."""

    ciphertext: str
    nonce: str
    aad: str
    index: int | None = None

    @property
    def label(self) -> str:
        """What the piece says that it is."""
        return read_hex(self.aad).decode("utf-8", "replace")

    def open(self, opener: encryption.Decryptor, expected: str) -> bytes:
        """Return what was sealed, if it is the piece that was due."""
        return opener.open(read_hex(self.nonce), read_hex(self.ciphertext), self.label, expected)


class InitPayload(msgspec.Struct, frozen=True, rename=_HEX):
    """A sealed handshake, in hex."""

    ephemeral: str
    ciphertext: str
    nonce: str
    aad: str
    signature: str
    salt: str = encryption.NO_SALT.hex()
    info: str = ""

    def open(self, host: Secret) -> bytes:
        """Return what only the host can read."""
        key = encryption.derive_key(host, self._ephemeral())
        nonce, ciphertext = read_hex(self.nonce), read_hex(self.ciphertext)
        return encryption.unseal(key, nonce, ciphertext, read_hex(self.aad))

    def preimage(self, host: bytes) -> bytes:
        return encryption.init_preimage(
            self._ephemeral(),
            host,
            read_hex(self.nonce),
            salt=read_hex(self.salt),
            info=self.info.encode(),
            aad=read_hex(self.aad),
        )

    def signer(self, host: bytes) -> bytes:
        """Return the public key of the client."""
        return encryption.recover(
            encryption.init_digest(self.preimage(host)), read_hex(self.signature)
        )

    def _ephemeral(self) -> bytes:
        public = read_hex(self.ephemeral)
        try:
            encryption.compressed(public)
        except ValueError:
            raise DecryptionFailed("the ephemeral key is not on the curve") from None
        return public


def read_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise DecryptionFailed("a sealed piece is not hex") from None


class InitAck(msgspec.Struct, frozen=True):
    status: str = ""
    session_id: str = ""
    job_id: int | str | None = None
    client_address: str | None = None
    id: str | None = None


class AnswerChunk(msgspec.Struct, frozen=True):
    payload: Payload
    tokens: int = 1
    id: str | None = None
    final: bool = False


class Response(msgspec.Struct, frozen=True):
    payload: Payload
    id: str | None = None


class NodeUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    context_window_size: int | None = None


class StreamEnd(msgspec.Struct, frozen=True):
    reason: str = "complete"
    tokens_used: int = 0
    id: str | None = None
    vlm_tokens: int = 0
    finish_reason: str | None = None
    usage: NodeUsage | None = None


class NodeFault(msgspec.Struct, frozen=True):
    """An error, in either of its two shapes: `code` and `message`, or `error` alone."""

    code: str | None = None
    message: str | None = None
    error: str | None = None
    id: str | None = None
    prompt_tokens: int | None = None
    context_window_size: int | None = None

    @property
    def text(self) -> str:
        return (self.message or self.error or self.code or "an error without a word")[:2000]


class OtherMessage(msgspec.Struct, frozen=True):
    """A greeting, or something that later nodes say: nothing that an answer depends on."""

    type: str


NodeMessage: TypeAlias = InitAck | AnswerChunk | Response | StreamEnd | NodeFault | OtherMessage
_Known: TypeAlias = InitAck | AnswerChunk | Response | StreamEnd | NodeFault

_union: OpenUnion[_Known] = OpenUnion(
    {
        "session_init_ack": InitAck,
        "encrypted_chunk": AnswerChunk,
        "encrypted_response": Response,
        "stream_end": StreamEnd,
        "error": NodeFault,
    }
)


def decode_message(data: str | bytes) -> NodeMessage:
    """Read one message of a node; raise `BrokenWire` for what is no JSON of its shape."""
    found = _union.decode_frame(data.encode() if isinstance(data, str) else data)
    if isinstance(found, InitAck | AnswerChunk | Response | StreamEnd | NodeFault):
        return found
    return OtherMessage(found.type)


KEY_LOST = frozenset({"SESSION_KEY_NOT_FOUND", "DECRYPTION_FAILED"})
"""The node has forgotten the key, as after a restart: a new handshake on the same job helps."""
SESSION_LOST = frozenset({"SESSION_NOT_FOUND", "SESSION_NOT_ACTIVE"})
"""The job is over: only a new session helps."""
BEFORE_STREAM = KEY_LOST | SESSION_LOST | {
    "INVALID_PAYLOAD", "MISSING_PAYLOAD", "MISSING_PAYLOAD_FIELDS", "INVALID_HEX_ENCODING",
    "INVALID_NONCE_SIZE", "ENCRYPTION_NOT_SUPPORTED", "INVALID_UTF8", "MISSING_SESSION_ID",
    "SESSION_AUTH_DENIED",
}  # fmt: skip
"""Errors that no `stream_end` follows, because no stream had begun."""

_WAIT = re.compile(r"retry after (\d{1,6}) sec", re.IGNORECASE)


def problem_of(fault: NodeFault) -> Problem:
    """Return a node's error in our words."""
    if fault.code == "TOKEN_LIMIT_EXCEEDED":
        return Problem(kind="context_overflow", text=_overflow(fault))
    if "rate limit" in fault.text.lower():
        wait = _WAIT.search(fault.text)
        text = f"the node is busy with other clients: {fault.text}"
        return Problem(kind="rate_limited", text=text, retry_after=float(wait[1]) if wait else None)
    if fault.code == "SESSION_AUTH_DENIED":
        return Problem(
            kind="rejected", text=f"the node denies the session: {fault.text}", status=403
        )
    code = f" ({fault.code})" if fault.code else ""
    return Problem(kind="rejected", text=f"the node says: {fault.text}{code}")


def _overflow(fault: NodeFault) -> str:
    """Return the words on which clients shorten a conversation."""
    if fault.prompt_tokens and fault.context_window_size:
        return (
            f"prompt is too long: {fault.prompt_tokens} tokens > "
            f"{fault.context_window_size} maximum"
        )
    return f"prompt is too long: {fault.text}"
