"""Signed transactions, byte for byte as another library signs them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.local_chain import _unrlp, decode_transaction
from tests.tables import every_row

from toolbridge.node.chain.address import address_of
from toolbridge.node.chain.transaction import Transaction, rlp, sign, signer
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret

KEY = Secret.from_hex("46" * 32)
TO = "0x" + "35" * 20
TRANSFER = Transaction(84532, 0, TO, b"", 0, 21_000, 2_000_000, 100_000)
CALL = Transaction(
    84532, 300, "0x" + "00" * 19 + "01", bytes.fromhex("f4a8699e" + "ab" * 192),
    200_000_000_000_000, 500_000, 10**10, 0,
)  # fmt: skip
HASHES = [
    (TRANSFER, "0xab9236ee2a85e3a9f6287baf63c5f010af07c0f15fc597c438d805fd77e3a9d8"),
    (CALL, "0xc84d562097af910e4ed5cf417c648fed5e649495f3a12b8d8b1c89c93ece05ba"),
]

OLD = {
    "hash": "0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788",
    "nonce": "0x9", "gasPrice": "0x4a817c800", "gas": "0x5208", "to": TO, "input": "0x",
    "value": "0xde0b6b3a7640000", "v": "0x25",
    "r": "0x28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276",
    "s": "0x67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83",
}  # fmt: skip
LISTED = {
    "hash": "0x832deeb5224d8228e021e178ed87b36eaf87fae730c1d0b07ca52b0db1b9fdb4", "type": "0x1",
    "chainId": "0x14a34", "nonce": "0x7", "gasPrice": "0x3b9aca00", "gas": "0xea60", "to": TO,
    "value": "0xde0b6b3a7640000", "input": "0x00", "yParity": "0x0", "v": "0x0",
    "accessList": [{"address": "0x" + "11" * 20, "storageKeys": ["0x" + "00" * 31 + "05"]}],
    "r": "0xbf4d7e4e9c971318d0583541722af7213f36b9c047b79c9bb7a8617258e3226d",
    "s": "0x169a112996b2434e25d2d83c65da3dedbdb8cae51464afec5347327299aa0512",
}  # fmt: skip
MODERN = {
    "hash": HASHES[0][1], "type": "0x2", "chainId": "0x14a34", "nonce": "0x0", "to": TO,
    "maxPriorityFeePerGas": "0x186a0", "maxFeePerGas": "0x1e8480", "gas": "0x5208",
    "value": "0x0", "input": "0x", "accessList": [], "v": "0x1",
    "r": "0x8d20a4ac037ed74834db5d3feffa432d12347b8aa242f90bf2518e47c50b5cf9",
    "s": "0x62ad43bd62cb411045570e568890adc176824f8810b956a5c8663f1cf99d7a47",
}  # fmt: skip


@pytest.mark.parametrize(("transaction", "hash"), HASHES)
def test_a_transaction_is_signed_as_other_libraries_sign_it(transaction, hash):
    assert sign(transaction, KEY).hash == hash


@given(
    st.builds(
        Transaction,
        st.just(84532),
        st.integers(0, 2**40),
        st.binary(min_size=20, max_size=20).map(lambda b: "0x" + b.hex()),
        st.binary(max_size=300),
        st.integers(0, 2**128),
        st.integers(0, 10**7),
        st.integers(0, 10**12),
        st.integers(0, 10**12),
    )
)
def test_what_is_signed_can_be_read_and_names_its_signer(transaction):
    signed = sign(transaction, KEY)
    read = decode_transaction(signed.raw)
    assert read.hash == signed.hash
    assert read.sender == int(address_of(encryption.public_key(KEY)), 16)
    assert read.fields == transaction.fields()


@given(st.recursive(st.binary(max_size=70), st.lists, max_leaves=20))
def test_lists_of_bytes_are_read_as_they_were_written(item):
    assert _unrlp(rlp(item)) == (item, b"")


@pytest.mark.parametrize("found", [OLD, LISTED, MODERN], ids=["old", "listed", "modern"])
def test_the_signer_of_every_kind_is_found(found):
    assert signer(found) == encryption.public_key(KEY)


def test_an_old_signature_that_is_bound_to_no_chain_is_read():
    fields = [b"\x09", b"\x01", b"\x52\x08", bytes.fromhex(TO[2:]), b"", b""]
    from toolbridge.node.chain.address import keccak256

    signature = encryption.sign(KEY, keccak256(rlp(fields)))
    r, s = signature[:32], signature[32:64]
    raw = rlp([*fields, bytes([27 + signature[64]]), r.lstrip(b"\0"), s.lstrip(b"\0")])
    found = {
        "hash": "0x" + keccak256(raw).hex(), "nonce": "0x9", "gasPrice": "0x1", "gas": "0x5208",
        "to": TO, "value": "0x0", "input": "0x", "v": hex(27 + signature[64]),
        "r": "0x" + r.hex(), "s": "0x" + s.hex(),
    }  # fmt: skip
    assert signer(found) == encryption.public_key(KEY)


@every_row(
    "change",
    [
        {"value": "0x1"}, {"hash": "0x" + "00" * 32}, {"type": "0x7e"}, {"type": "0x3"}, {"r": None},
        {"s": "0x0"}, {"yParity": "five"}, {"accessList": [5]}, {"nonce": 5}, {"to": 5},
    ],
)  # fmt: skip
def test_what_was_not_signed_so_has_no_signer(change):
    assert signer(LISTED | change) is None
    assert signer({}) is None
