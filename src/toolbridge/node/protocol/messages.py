"""Messages of the node protocol: one JSON object per WebSocket text message.

Encoded here: the handshake, a prompt, a cancellation. `decode_message` decodes what a node sends.
`decode_answer` decrypts the payloads, because it knows which chunk is expected next.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from toolbridge.core.json import Json, JsonObject, dump_bytes, dumps
from toolbridge.core.messages import Problem
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import DecryptionFailed, Secret
from toolbridge.wire.shapes import OpenUnion

ALGORITHM = "secp256k1-ecdh(ephemeral→static)+hkdf(sha256)+xchacha20-poly1305"
BASE_SEPOLIA = 84532
_LONGEST_TEXT = 2000


# ── ours to theirs ──


@dataclass(frozen=True)
class SessionTopic:
    """The ids of a session: its own, the paid job, the model and the chain."""

    session_id: str
    job_id: str
    model: str
    chain_id: int = BASE_SEPOLIA
    price: int = 0


@dataclass(frozen=True)
class InitKeys:
    """The keys and the nonce of one handshake."""

    signer: Secret
    """The wallet that paid. It signs, and the host encrypts checkpoints to its public key."""
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
            # The node reads these with strict types: `jobId` is a string, the price a number.
            "jobId": opening.job_id,
            "modelName": opening.model,
            "pricePerToken": opening.price,
            # Without this key the host uploads checkpoints of the conversation unencrypted.
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
    """Return the payload of a handshake: `plaintext` encrypted to the host, and a signature."""
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
    """Return the plaintext `session_init`, which deletes the node's history of this session id."""
    return {
        "type": "session_init",
        "chain_id": opening.chain_id,
        "session_id": opening.session_id,
        "job_id": opening.job_id,
        "id": id,
    }


@dataclass(frozen=True)
class PromptEnvelope:
    """The ids, key and nonce of one prompt."""

    session_id: str
    id: str
    key: Secret
    nonce: bytes
    index: int = 0


def encode_prompt(prompt: JsonObject, envelope: PromptEnvelope) -> JsonObject:
    """Return an encrypted prompt.

    A node searches the web for any prompt that contains words such as "current" or "update", even
    with `web_search: false`. Only `max_searches: 0` prevents it.
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
    """Return `text` encrypted, in the hex fields of a payload."""
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
    """An encrypted payload; its fields are hex."""

    ciphertext: str
    nonce: str
    aad: str
    index: int | None = None

    @property
    def label(self) -> str:
        """The associated data as text, such as `chunk_0`."""
        return read_hex(self.aad).decode("utf-8", "replace")

    def open(self, opener: encryption.Decryptor, expected: str) -> bytes:
        """Return the plaintext; raise `DecryptionFailed` if its AAD is not `expected`."""
        return opener.open(read_hex(self.nonce), read_hex(self.ciphertext), self.label, expected)


class InitPayload(msgspec.Struct, frozen=True, rename=_HEX):
    """The encrypted payload of a handshake; its fields are hex."""

    ephemeral: str
    ciphertext: str
    nonce: str
    aad: str
    signature: str
    salt: str = encryption.NO_SALT.hex()
    info: str = ""

    def open(self, host: Secret) -> bytes:
        """Return the plaintext, decrypted with the host's private key."""
        key = encryption.derive_key(host, self._ephemeral())
        nonce, ciphertext = read_hex(self.nonce), read_hex(self.ciphertext)
        return encryption.unseal(key, nonce, ciphertext, read_hex(self.aad))

    def preimage(self, host: bytes) -> bytes:
        """Return the bytes that the client signed."""
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


def printable(text: str) -> str:
    """Return a text that a host chose, without characters that a terminal would interpret."""
    kept = text[:_LONGEST_TEXT]
    return kept if kept.isprintable() else "".join(c if c.isprintable() else " " for c in kept)


def read_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise DecryptionFailed("a field of an encrypted message is not hex") from None


class InitAck(msgspec.Struct, frozen=True):
    """`session_init_ack`: the node's answer to a handshake."""

    status: str = ""
    session_id: str = ""
    job_id: int | str | None = None
    client_address: str | None = None
    id: str | None = None


class AnswerChunk(msgspec.Struct, frozen=True):
    """`encrypted_chunk`: the text of one token; the last one is empty and has `final`.

    `final` is not encrypted, so it alone does not prove the end of the answer.
    """

    payload: Payload
    tokens: Json = None
    """A claim of the host, as every count: any JSON value, judged by `delivered`."""
    id: str | None = None
    final: bool = False


class Response(msgspec.Struct, frozen=True):
    """`encrypted_response`: `stop` or `error` behind the chunks, or an image instead of them."""

    payload: Payload
    id: str | None = None


class NodeUsage(msgspec.Struct, frozen=True):
    """Token counts; nodes since 8.21.0 send them, but not always."""

    prompt_tokens: Json = None
    completion_tokens: Json = None


class StreamEnd(msgspec.Struct, frozen=True):
    """`stream_end`: the unencrypted last message about a prompt."""

    reason: str = "complete"
    tokens_used: Json = None
    id: str | None = None
    vlm_tokens: Json = None
    finish_reason: str | None = None
    usage: NodeUsage | None = None


class NodeFault(msgspec.Struct, frozen=True):
    """`error`, in either of its two shapes: `code` and `message`, or `error` alone."""

    code: str | None = None
    message: str | None = None
    error: str | None = None
    id: str | None = None
    prompt_tokens: int | None = None
    context_window_size: int | None = None

    @property
    def text(self) -> str:
        return printable(self.message or self.error or self.code or "an error without a message")


class OtherMessage(msgspec.Struct, frozen=True):
    """A message that is ignored: `connected`, or a type of a later version."""

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
    """Return a message of a node; raise `BrokenWire` if it is not JSON of the expected shape."""
    found = _union.decode_chunk(data.encode() if isinstance(data, str) else data)
    if isinstance(found, InitAck | AnswerChunk | Response | StreamEnd | NodeFault):
        return found
    return OtherMessage(found.type)


KEY_LOST = frozenset({"SESSION_KEY_NOT_FOUND", "DECRYPTION_FAILED"})
"""The node has lost the session key, as after a restart; a new handshake on the same job suffices."""
SESSION_LOST = frozenset({"SESSION_NOT_FOUND", "SESSION_NOT_ACTIVE"})
"""The job has ended; a new session must be paid."""
BEFORE_STREAM = KEY_LOST | SESSION_LOST | {
    "INVALID_PAYLOAD", "MISSING_PAYLOAD", "MISSING_PAYLOAD_FIELDS", "INVALID_HEX_ENCODING",
    "INVALID_NONCE_SIZE", "ENCRYPTION_NOT_SUPPORTED", "INVALID_UTF8", "MISSING_SESSION_ID",
    "SESSION_AUTH_DENIED",
}  # fmt: skip
"""Errors before the stream begins: no `stream_end` follows them."""

_WAIT = re.compile(r"retry after (\d{1,6}) sec", re.IGNORECASE)


def problem_of(fault: NodeFault) -> Problem:
    """Return a node's error as a `Problem`."""
    if fault.code == "TOKEN_LIMIT_EXCEEDED":
        return Problem(kind="context_overflow", text=_overflow(fault))
    if "rate limit" in fault.text.lower():
        wait = _WAIT.search(fault.text)
        text = f"the node's rate limit for all its clients is reached: {fault.text}"
        return Problem(kind="rate_limited", text=text, retry_after=float(wait[1]) if wait else None)
    if fault.code == "SESSION_AUTH_DENIED":
        return Problem(
            kind="rejected", text=f"the node denied access to the session: {fault.text}", status=403
        )
    code = f" ({printable(fault.code)})" if fault.code else ""
    return Problem(kind="rejected", text=f"the node returned an error: {fault.text}{code}")


def _overflow(fault: NodeFault) -> str:
    """Return the text at which clients compact the conversation ("prompt is too long: …")."""
    if fault.prompt_tokens and fault.context_window_size:
        return (
            f"prompt is too long: {fault.prompt_tokens} tokens > "
            f"{fault.context_window_size} maximum"
        )
    return f"prompt is too long: {fault.text}"
