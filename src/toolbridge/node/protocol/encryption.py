"""How a client and a node seal what they say to each other.

Keys lie on secp256k1. The key of a handshake is HKDF-SHA256 over the bare X coordinate of the shared
point; messages are XChaCha20-Poly1305 under a session key that the client chose. Nonces and
ephemeral keys are arguments: there are no dice in here.
"""

import hmac
from hashlib import sha256
from typing import NoReturn

from coincurve import PrivateKey, PublicKey
from Crypto.Cipher import ChaCha20_Poly1305
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF

from toolbridge.core.errors import BrokenWire

KEY_SIZE = 32
NONCE_SIZE = 24
TAG_SIZE = 16
PUBLIC_SIZE = 33
SIGNATURE_SIZE = 65
NO_SALT = bytes(32)

RESPONSE_AAD = "encrypted_response_final"
IMAGE_AAD = "encrypted_image_response"
FILM_AAD = "encrypted_ltx_response"


class DecryptionFailed(BrokenWire):
    """What came was not sealed by who holds the key, or not for this place in the conversation."""


class Secret:
    """Key material. Whoever prints, logs, compares or pickles one learns nothing."""

    __slots__ = ("_bytes",)

    def __init__(self, value: bytes) -> None:
        if len(value) != KEY_SIZE:
            raise ValueError(f"a key has {KEY_SIZE} bytes, not {len(value)}")
        self._bytes = bytes(value)

    @classmethod
    def from_hex(cls, text: str) -> "Secret":
        """Read 64 hex digits, with or without `0x`; an error does not repeat them."""
        digits = text.strip().removeprefix("0x").removeprefix("0X")
        try:
            value = bytes.fromhex(digits)
        except ValueError:
            value = b""
        if len(value) != KEY_SIZE or len(digits) != 2 * KEY_SIZE:
            raise ValueError("a key is 64 hex digits, with or without 0x in front") from None
        return cls(value)

    def reveal(self) -> bytes:
        return self._bytes

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._bytes, other._bytes)

    def __hash__(self) -> int:
        return hash(sha256(self._bytes).digest())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written down")


# ── keys ──


def check_private(key: Secret) -> Secret:
    """Return `key` if it is a number that the curve takes; raise `ValueError` without showing it."""
    try:
        PrivateKey(key.reveal())
    except ValueError:
        raise ValueError("the key is zero or beyond the order of secp256k1") from None
    return key


def public_key(private: Secret) -> bytes:
    """Return the compressed public key: 33 bytes."""
    return PrivateKey(private.reveal()).public_key.format()


def compressed(public: bytes) -> bytes:
    """Return a public key of either form as 33 bytes; raise `ValueError` for what is none."""
    return PublicKey(public).format()


def uncompressed(public: bytes) -> bytes:
    return PublicKey(public).format(compressed=False)


def shared_point(private: Secret, public: bytes) -> bytes:
    """Return the compressed point that both sides of a key exchange know."""
    return PublicKey(public).multiply(private.reveal()).format()


def derive_key(private: Secret, public: bytes) -> Secret:
    """Return the key of a handshake.

    coincurve's own `ecdh` hashes the point; nodes want its X coordinate as it is.
    """
    shared_x = shared_point(private, public)[1:]
    return Secret(HKDF(shared_x, KEY_SIZE, NO_SALT, SHA256))


# ── sealing ──


def seal(key: Secret, nonce: bytes, plaintext: bytes, aad: bytes = b"") -> bytes:
    """Return the ciphertext with its tag behind it."""
    cipher = _cipher(key, nonce)
    cipher.update(aad)
    ciphertext, tag = cipher.encrypt_and_digest(plaintext)
    return ciphertext + tag


def unseal(key: Secret, nonce: bytes, ciphertext: bytes, aad: bytes = b"") -> bytes:
    """Return what was sealed; raise `DecryptionFailed` when one bit of it is not as it was."""
    if len(nonce) != NONCE_SIZE:
        raise DecryptionFailed(f"the nonce has {len(nonce)} bytes instead of {NONCE_SIZE}")
    if len(ciphertext) < TAG_SIZE:
        raise DecryptionFailed("the ciphertext is shorter than its tag")
    cipher = _cipher(key, nonce)
    cipher.update(aad)
    try:
        return cipher.decrypt_and_verify(ciphertext[:-TAG_SIZE], ciphertext[-TAG_SIZE:])
    except ValueError:
        raise DecryptionFailed(
            "the seal is broken: a wrong key, or what came was changed on its way"
        ) from None


def _cipher(key: Secret, nonce: bytes) -> ChaCha20_Poly1305.ChaCha20Poly1305Cipher:
    # With 8 or 12 bytes the library would quietly take another cipher.
    if len(nonce) != NONCE_SIZE:
        raise ValueError(f"a nonce has {NONCE_SIZE} bytes, not {len(nonce)}")
    return ChaCha20_Poly1305.new(key=key.reveal(), nonce=nonce)


def message_aad(index: int) -> str:
    """Return what a client's message number `index` is bound to."""
    return f"message_{index}"


def chunk_aad(index: int) -> str:
    return f"chunk_{index}"


class Decryptor:
    """Opens what one session key sealed, each piece once and only in its own place.

    The node's own client takes any label. We know which one must come, so a piece that was left out,
    moved or sent again is noticed.
    """

    def __init__(self, key: Secret) -> None:
        self._key = key
        self._seen: set[bytes] = set()

    def open(self, nonce: bytes, ciphertext: bytes, aad: str, expected: str) -> bytes:
        if aad != expected:
            raise DecryptionFailed(f"the node sent {aad[:40]!r} where {expected!r} was due")
        if nonce in self._seen:
            raise DecryptionFailed("the node sent the same sealed piece twice")
        plaintext = unseal(self._key, nonce, ciphertext, aad.encode())
        self._seen.add(nonce)
        return plaintext


# ── who is speaking ──


def init_preimage(
    ephemeral: bytes,
    host: bytes,
    nonce: bytes,
    *,
    salt: bytes = NO_SALT,
    info: bytes = b"",
    aad: bytes = b"",
) -> bytes:
    """Return what the signature of a handshake covers, before it is hashed.

    The ciphertext is not in it; the nonce and the ephemeral key bind the two together.
    """
    parts = [b"E2EEv1", ephemeral, host, salt, nonce, info]
    return b"|".join([*parts, aad] if aad else parts)


def init_digest(preimage: bytes) -> bytes:
    return sha256(preimage).digest()


def sign(private: Secret, digest: bytes) -> bytes:
    """Return r, s and the recovery id: 65 bytes, deterministic, low s, no Ethereum prefix."""
    return PrivateKey(private.reveal()).sign_recoverable(digest, hasher=None)


def recover(digest: bytes, signature: bytes) -> bytes:
    """Return the compressed key that signed; the recovery id may be 0 to 3, or 27 to 30."""
    if len(signature) != SIGNATURE_SIZE:
        raise DecryptionFailed(f"a signature has {SIGNATURE_SIZE} bytes, not {len(signature)}")
    recovery = signature[64] - 27 if signature[64] >= 27 else signature[64]
    try:
        plain = signature[:64] + bytes([recovery])
        return PublicKey.from_signature_and_message(plain, digest, hasher=None).format()
    except ValueError:
        raise DecryptionFailed("the signature belongs to no key") from None


def key_from_seed(phrase: str) -> Secret:
    """Return the key under which the node's own client speaks, from its storage phrase."""
    return Secret(sha256(f"{phrase}fabstir-encryption-key-from-s5-seed-v1".encode()).digest())
