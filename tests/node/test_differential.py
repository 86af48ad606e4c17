"""Contract encoding, signatures and addresses, compared with libraries of other authors.

eth-abi, eth-utils, rlp and the pure Python of eth-keys share no code with ours. eth-account itself
needs another version of pycryptodome; `tests/real/test_eth_account.py` runs it apart.
"""

from contextlib import suppress

import eth_abi
import pytest
import rlp
from eth_abi.exceptions import DecodingError
from eth_keys import KeyAPI
from eth_keys.backends import NativeECCBackend
from eth_utils import function_signature_to_4byte_selector, keccak, to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.node.test_abi import typed
from tests.tables import every_row

from toolbridge.node.chain import abi, multicall
from toolbridge.node.chain.address import address_of, checksum, keccak256
from toolbridge.node.chain.contracts import FUNCTIONS
from toolbridge.node.chain.transaction import Transaction, sign, signer
from toolbridge.node.chain.transaction import rlp as our_rlp
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret

KEYS = KeyAPI(NativeECCBackend())
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
private = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32, "big"))
addresses = st.binary(min_size=20, max_size=20).map(lambda found: "0x" + found.hex())


def theirs(types, values):
    """Return values as eth-abi gives them: lists as tuples, addresses in lower case."""
    found = []
    for type, value in zip(types, values, strict=True):
        if type.endswith("[]"):
            found.append(theirs([type[:-2]] * len(value), value))
        else:
            found.append(value.lower() if type == "address" else value)
    return tuple(found)


# ── the contract ABI ──


@given(typed)
def test_values_are_encoded_and_decoded_as_eth_abi_does(case):
    types, values = case
    data = eth_abi.encode(types, values)
    assert abi.encode(types, values) == data
    assert theirs(types, abi.decode(types, data)) == eth_abi.decode(types, data)


@given(typed, st.data())
def test_what_we_decode_eth_abi_decodes_to_the_same_values(case, data):
    types, values = case
    changed = bytearray(abi.encode(types, values))
    for _ in range(data.draw(st.integers(1, 3)) if changed else 0):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.integers(0, 255))
    with suppress(abi.MalformedAnswer):
        ours = abi.decode(types, bytes(changed))
        assert "\ufffd" in str(ours) or theirs(types, ours) == eth_abi.decode(types, bytes(changed))


@every_row(
    ("type", "data"),
    [("bool", 2), ("address", 1 << 160), ("uint8", 256), ("bytes4", 1)],
)
def test_dirty_words_are_refused_by_both(type, data):
    word = data.to_bytes(32, "big")
    with pytest.raises(abi.MalformedAnswer):
        abi.decode([type], word)
    with pytest.raises(DecodingError):
        eth_abi.decode([type], word)


@every_row("name", sorted(FUNCTIONS))
def test_selectors_are_those_of_eth_utils(name):
    signature, _ = FUNCTIONS[name]
    assert abi.selector(signature) == function_signature_to_4byte_selector(signature)


@given(st.lists(st.tuples(addresses, st.binary(max_size=80)), max_size=5))
def test_a_multicall_is_encoded_as_eth_abi_does(calls):
    data = eth_abi.encode(["(address,bool,bytes)[]"], [[(to, True, data) for to, data in calls]])
    assert multicall.encode_calls(calls)[4:] == data


@given(
    st.lists(st.tuples(st.booleans(), st.binary(max_size=80)), min_size=1, max_size=5), st.data()
)
def test_a_multicall_is_decoded_as_eth_abi_does(results, data):
    encoded = eth_abi.encode(["(bool,bytes)[]"], [results])
    assert multicall.decode_results(encoded, len(results)) == results
    changed = bytearray(encoded)
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(abi.MalformedAnswer):
        found = multicall.decode_results(bytes(changed), len(results))
        assert (tuple(found),) == eth_abi.decode(["(bool,bytes)[]"], bytes(changed))


# ── addresses and keys ──


@given(st.binary(min_size=20, max_size=20), st.binary(max_size=300))
def test_hashes_and_checksums_are_those_of_eth_utils(address, data):
    assert checksum(address.hex()) == to_checksum_address(address)
    assert keccak256(data) == keccak(data)


@given(private, st.binary(min_size=32, max_size=32))
@settings(max_examples=25)
def test_keys_and_signatures_are_those_of_eth_keys(key, digest):
    known = KEYS.PrivateKey(key)
    assert encryption.public_key(Secret(key)) == known.public_key.to_compressed_bytes()
    assert address_of(encryption.public_key(Secret(key))) == known.public_key.to_checksum_address()
    signature = encryption.sign(Secret(key), digest)
    assert signature == known.sign_msg_hash(digest).to_bytes()
    assert encryption.recover(digest, signature) == known.public_key.to_compressed_bytes()


# ── transactions ──


@given(st.recursive(st.binary(max_size=70), st.lists, max_leaves=20))
def test_rlp_is_that_of_the_library(item):
    assert our_rlp(item) == rlp.encode(item)


numbers = st.integers(0, 2**64)
transactions = st.builds(
    Transaction, st.integers(1, 2**40), numbers, addresses, st.binary(max_size=300),
    st.integers(0, 2**128), numbers, numbers, numbers,
)  # fmt: skip


@given(transactions, private)
@settings(max_examples=25)
def test_an_eip_1559_transaction_is_signed_to_the_same_bytes(made, key):
    fields = [
        made.chain_id, made.nonce, made.tip, made.fee, made.gas, bytes.fromhex(made.to[2:]),
        made.value, made.data, [],
    ]  # fmt: skip
    known = KEYS.PrivateKey(key).sign_msg_hash(keccak(b"\2" + rlp.encode(fields)))
    raw = b"\2" + rlp.encode([*fields, known.v, known.r, known.s])
    signed = sign(made, Secret(key))
    assert signed.raw == raw
    assert signed.hash == "0x" + keccak(raw).hex()


@given(transactions, private, st.booleans())
@settings(max_examples=25)
def test_the_signer_of_a_legacy_transaction_is_found(made, key, bound):
    to = bytes.fromhex(made.to[2:])
    fields = [made.nonce, made.fee, made.gas, to, made.value, made.data]
    own = [made.chain_id, 0, 0] if bound else []  # EIP-155
    known = KEYS.PrivateKey(key).sign_msg_hash(keccak(rlp.encode([*fields, *own])))
    mark = known.v + (35 + 2 * made.chain_id if bound else 27)
    raw = rlp.encode([*fields, mark, known.r, known.s])
    found = {
        "hash": "0x" + keccak(raw).hex(), "nonce": hex(made.nonce), "gasPrice": hex(made.fee),
        "gas": hex(made.gas), "to": made.to, "value": hex(made.value), "v": hex(mark),
        "input": "0x" + made.data.hex(), "r": hex(known.r), "s": hex(known.s),
    }  # fmt: skip
    assert signer(found) == KEYS.PrivateKey(key).public_key.to_compressed_bytes()
