"""Keys, signatures and authenticated encryption of the node protocol.

All keys are on secp256k1. The handshake key is HKDF-SHA256 over the X coordinate of the ECDH point;
messages are XChaCha20-Poly1305 under a session key that the client chose. Nonces and ephemeral keys
are arguments, so this module needs no randomness. `messages` and `decode_answer` use it, and
`chain.transaction` signs with it.
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
SIGNATURE_SIZE = 65
NO_SALT = bytes(32)

# The associated data (AAD) names what a message is: one per kind of answer, or a numbered chunk.
RESPONSE_AAD = "encrypted_response_final"
IMAGE_AAD = "encrypted_image_response"
VIDEO_AAD = "encrypted_ltx_response"


class DecryptionFailed(BrokenWire):
    """A message was not encrypted with the session key, or not at this position of the stream."""


class Secret:
    """32 bytes of key material that `repr` hides and pickle refuses; compared in constant time."""

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
        raise TypeError("a Secret cannot be pickled")


# ── keys ──


def check_private(key: Secret) -> Secret:
    """Return `key` if it is a valid private key; raise `ValueError` that does not contain it."""
    try:
        PrivateKey(key.reveal())
    except ValueError:
        raise ValueError("the key is zero or not below the order of secp256k1") from None
    return key


def public_key(private: Secret) -> bytes:
    """Return the compressed public key: 33 bytes."""
    return PrivateKey(private.reveal()).public_key.format()


def compressed(public: bytes) -> bytes:
    """Return a 33- or 65-byte public key in 33 bytes; raise `ValueError` if it is not on the curve."""
    return PublicKey(public).format()


def uncompressed(public: bytes) -> bytes:
    return PublicKey(public).format(compressed=False)


def shared_point(private: Secret, public: bytes) -> bytes:
    """Return the ECDH point in its compressed form."""
    return PublicKey(public).multiply(private.reveal()).format()


def derive_key(private: Secret, public: bytes) -> Secret:
    """Return the handshake key of a private and a public key.

    Node protocol: HKDF-SHA256 without salt and info over the X coordinate of the point.
    coincurve's own `ecdh` returns a hash of the point instead, so it cannot be used.
    """
    shared_x = shared_point(private, public)[1:]
    return Secret(HKDF(shared_x, KEY_SIZE, NO_SALT, SHA256))


# ── authenticated encryption ──


def seal(key: Secret, nonce: bytes, plaintext: bytes, aad: bytes = b"") -> bytes:
    """Return the ciphertext of `plaintext`, followed by the 16-byte tag."""
    cipher = _cipher(key, nonce)
    cipher.update(aad)
    ciphertext, tag = cipher.encrypt_and_digest(plaintext)
    return ciphertext + tag


def unseal(key: Secret, nonce: bytes, ciphertext: bytes, aad: bytes = b"") -> bytes:
    """Return the plaintext; raise `DecryptionFailed` if key, nonce, data or AAD do not match."""
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
            "decryption failed: the key is wrong, or the message was changed in transit"
        ) from None


def _cipher(key: Secret, nonce: bytes) -> ChaCha20_Poly1305.ChaCha20Poly1305Cipher:
    # With 8 or 12 bytes PyCryptodome would silently use ChaCha20-Poly1305 instead of XChaCha20.
    if len(nonce) != NONCE_SIZE:
        raise ValueError(f"a nonce has {NONCE_SIZE} bytes, not {len(nonce)}")
    return ChaCha20_Poly1305.new(key=key.reveal(), nonce=nonce)


def message_aad(index: int) -> str:
    """Return the AAD of the client's message number `index`."""
    return f"message_{index}"


def chunk_aad(index: int) -> str:
    """Return the AAD of the node's answer chunk number `index`."""
    return f"chunk_{index}"


class Decryptor:
    """Decrypts messages of one session key, each once and only with the expected AAD.

    The vendor's client accepts any AAD. Checking it detects chunks that were dropped, reordered or
    replayed.
    """

    def __init__(self, key: Secret) -> None:
        self._key = key
        self._seen: set[bytes] = set()

    def open(self, nonce: bytes, ciphertext: bytes, aad: str, expected: str) -> bytes:
        if aad != expected:
            raise DecryptionFailed(f"the node sent {aad[:40]!r} instead of {expected!r}")
        if nonce in self._seen:
            raise DecryptionFailed("the node sent the same encrypted message twice")
        plaintext = unseal(self._key, nonce, ciphertext, aad.encode())
        self._seen.add(nonce)
        return plaintext


# ── signatures ──


def init_preimage(
    ephemeral: bytes,
    host: bytes,
    nonce: bytes,
    *,
    salt: bytes = NO_SALT,
    info: bytes = b"",
    aad: bytes = b"",
) -> bytes:
    """Return the bytes that the handshake's signature covers, before they are hashed.

    Node protocol, E2EEv1: the ciphertext is not signed; nonce and ephemeral key bind it to the
    signature.
    """
    parts = [b"E2EEv1", ephemeral, host, salt, nonce, info]
    return b"|".join([*parts, aad] if aad else parts)


def init_digest(preimage: bytes) -> bytes:
    """Return the SHA-256 digest that is signed."""
    return sha256(preimage).digest()


def sign(private: Secret, digest: bytes) -> bytes:
    """Return r, s and the recovery id in 65 bytes, without Ethereum's message prefix.

    The signature is deterministic (RFC 6979), and s is in the lower half as EIP-2 requires.
    """
    return PrivateKey(private.reveal()).sign_recoverable(digest, hasher=None)


def recover(digest: bytes, signature: bytes) -> bytes:
    """Return the compressed public key of the signer; recovery ids are 0 to 3, or 27 to 30."""
    if len(signature) != SIGNATURE_SIZE:
        raise DecryptionFailed(f"a signature has {SIGNATURE_SIZE} bytes, not {len(signature)}")
    recovery = signature[64] - 27 if signature[64] >= 27 else signature[64]
    try:
        plain = signature[:64] + bytes([recovery])
        return PublicKey.from_signature_and_message(plain, digest, hasher=None).format()
    except ValueError:
        raise DecryptionFailed("no public key matches the signature") from None


def key_from_seed(phrase: str) -> Secret:
    """Return the signing key that the vendor's client derives from its S5 seed phrase."""
    return Secret(sha256(f"{phrase}fabstir-encryption-key-from-s5-seed-v1".encode()).digest())
