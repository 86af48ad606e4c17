"""Checks of keys, handshakes and encrypted messages."""

import msgspec

from toolbridge.core.json import Json, loads
from toolbridge.node.chain.address import address_of, checksum, keccak256
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import DecryptionFailed, Decryptor, Secret
from toolbridge.node.protocol.messages import (
    InitKeys,
    InitPayload,
    Payload,
    read_hex,
    seal_init,
    seal_payload,
)
from toolbridge.node.vectors.case import Checks, VectorCase, guarded

# ── keys ──


def identity(case: VectorCase) -> Checks:
    public = encryption.public_key(case.secret("private"))
    yield from case.agree(
        public_compressed=public.hex(),
        public_uncompressed=encryption.uncompressed(public).hex(),
        address_eip55=address_of(public),
        address_ethers=address_of(public),
    )


def exchange(case: VectorCase) -> Checks:
    private, host = case.secret("eph_private"), case.hex("host_public_compressed")
    yield from case.agree(
        eph_public_compressed=encryption.public_key(private).hex(),
        shared_point_compressed=encryption.shared_point(private, host).hex(),
        shared_x=encryption.shared_point(private, host)[1:].hex(),
        derived_key=encryption.derive_key(private, host).reveal().hex(),
    )


def seed(case: VectorCase) -> Checks:
    name = "s5_seed_phrase" if "s5_seed_phrase" in case.fields else "seed_phrase"
    private = encryption.key_from_seed(case.text(name))
    yield from case.agree(
        encryption_private=private.reveal().hex(),
        ws_client_address=address_of(encryption.public_key(private)),
    )
    if "wallet_private" in case.fields:
        wallet = encryption.public_key(case.secret("wallet_private"))
        yield from case.agree(wallet_address=address_of(wallet))


def challenge(case: VectorCase) -> Checks:
    digest = encryption.init_digest(case.hex("challenge"))
    signature = case.hex("signature64") + bytes([case.number("recid")])
    host = encryption.recover(digest, signature)
    yield from case.agree(
        digest=digest.hex(),
        recovered_public_compressed=host.hex(),
        host_address=address_of(host),
        request_body={"challenge": case.text("challenge")},
    )


# ── the handshake ──


def handshake(case: VectorCase) -> Checks:
    host_private, client = case.secret("host_private"), case.secret("client_private")
    ephemeral, plaintext = case.secret("eph_private"), case.text("plaintext_utf8").encode()
    host = encryption.public_key(host_private)
    theirs = msgspec.convert(case.inner("sdk_message").fields.get("payload"), InitPayload)
    aad = read_hex(theirs.aad)
    keys = InitKeys(client, host, _ANY_KEY, ephemeral, case.hex("nonce"))
    ours = seal_init(keys, plaintext, aad)
    ciphertext = read_hex(theirs.ciphertext)
    old = encryption.init_digest(ciphertext)
    old_signature = encryption.sign(client, old)
    yield (
        "sdk_message",
        {"type": "encrypted_session_init", "payload": ours},
        case.fields["sdk_message"],
    )
    yield "opened", theirs.open(host_private).decode(), case.text("plaintext_utf8")
    yield from case.agree(
        plaintext_hex=plaintext.hex(),
        derived_key=encryption.derive_key(ephemeral, host).reveal().hex(),
        sdk_signed_preimage_hex=theirs.preimage(host).hex(),
        sdk_digest=encryption.init_digest(theirs.preimage(host)).hex(),
        sdk_recovered_address=address_of(theirs.signer(host)),
        sdk_host_decrypt_job_id=_job(theirs.open(host_private)),
        node_digest_sha256_ciphertext=old.hex(),
        node_style_signature65=old_signature.hex(),
        node_style_signature65_v27=_v27(old_signature).hex(),
        node_style_recovered_address=_old_address(old, _v27(old_signature)),
        address_node_recovers_from_sdk_signature=_old_address(old, read_hex(theirs.signature)),
    )


_ANY_KEY = Secret(bytes(32))
"""A session key that is not used: the vector contains the plaintext with its own."""


def _job(plaintext: bytes) -> Json:
    return VectorCase(loads(plaintext)).text("jobId")


def _v27(signature: bytes) -> bytes:
    return signature[:64] + bytes([signature[64] + 27])


def _old_address(digest: bytes, signature: bytes) -> str:
    return address_of(encryption.recover(digest, signature)).lower()


# ── encrypted messages ──


def message(case: VectorCase) -> Checks:
    aad = encryption.message_aad(case.number("message_index"))
    text, key = case.text("plaintext_utf8"), case.secret("session_key")
    yield from case.agree(
        aad_utf8=aad,
        payload=seal_payload(key, case.hex("nonce"), text, aad),
    )
    yield "opened", case.payload().open(Decryptor(key), aad).decode(), text


def chunk(case: VectorCase) -> Checks:
    payload = case.payload()
    yield from _sealed(case, payload, encryption.chunk_aad(payload.index or 0))


def response(case: VectorCase) -> Checks:
    payload = case.payload()
    picture = payload.label in {encryption.IMAGE_AAD, encryption.VIDEO_AAD}
    yield from _sealed(case, payload, payload.label if picture else encryption.RESPONSE_AAD)


def _sealed(case: VectorCase, payload: Payload, aad: str) -> Checks:
    key, text = case.secret("session_key"), case.text("plaintext_utf8")
    yield "opened", payload.open(Decryptor(key), aad).decode(), text
    again = seal_payload(key, read_hex(payload.nonce), text, aad)
    yield "sealed", again["ciphertextHex"], payload.ciphertext
    yield "aad", again["aadHex"], payload.aad


def must_fail(case: VectorCase) -> Checks:
    yield "is refused", _refused(case), True


def _refused(case: VectorCase) -> bool:
    """Whether decryption fails, because of the key or because of an unexpected AAD."""
    try:
        if "host_private" in case.fields:
            found = case.inner("sdk_message") if "sdk_message" in case.fields else case
            theirs = msgspec.convert(found.fields.get("payload"), InitPayload)
            theirs.open(case.secret("host_private"))
        else:
            payload = case.payload()
            payload.open(Decryptor(case.secret("session_key")), _expected_aad(case, payload))
    except (DecryptionFailed, msgspec.ValidationError):
        return True
    return False


def _expected_aad(case: VectorCase, payload: Payload) -> str:
    if payload.index is not None:
        return encryption.chunk_aad(payload.index)
    if "message_index" in case.fields:
        return encryption.message_aad(case.number("message_index"))
    return case.text("aad_utf8") if "aad_utf8" in case.fields else payload.label


# ── published vectors ──


def published(found: VectorCase) -> Checks:
    parts = {
        "fc1_session_auth_digest": _session_auth,
        "node_e2ee_v1_cross_runtime": _cross_runtime,
    }
    for name, check in parts.items():
        if name in found.fields:
            yield from guarded(name, check, found.inner(name))
    addresses = found.fields.get("eip55")
    for address in addresses if isinstance(addresses, list) else []:
        yield "eip55", checksum(str(address).lower()), address


def _session_auth(case: VectorCase) -> Checks:
    yield from case.agree(
        keccak256=keccak256(case.text("preimage_utf8").encode()).hex(),
        auth_address=address_of(encryption.public_key(case.secret("auth_private"))).lower(),
    )


def _cross_runtime(case: VectorCase) -> Checks:
    def preimage(aad: bytes = b"") -> bytes:
        return encryption.init_preimage(
            case.hex("eph_pub"),
            case.hex("recipient_pub"),
            case.hex("nonce"),
            salt=case.hex("salt"),
            info=case.text("info").encode(),
            aad=aad,
        )

    bare = encryption.init_digest(preimage())
    signature = case.hex("signature65_over_digest_without_aad")
    yield from case.agree(
        recipient_pub=encryption.public_key(case.secret("node_private")).hex(),
        digest_without_aad=bare.hex(),
        digest_with_aad=encryption.init_digest(preimage(case.text("aad_utf8").encode())).hex(),
        expected_client_address=_old_address(bare, signature),
    )
