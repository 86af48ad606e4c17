import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.errors import ConfigError
from toolbridge.node.chain.address import address_of, checksum, keccak256, model_id, same_account
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret


def test_keccak_is_not_sha3():
    known = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak256(b"").hex() == known


def test_the_account_of_the_key_one_is_the_one_that_all_know():
    public = encryption.public_key(Secret((1).to_bytes(32, "big")))
    assert address_of(public) == "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"
    assert address_of(encryption.uncompressed(public)) == address_of(public)


@given(st.binary(min_size=20, max_size=20))
def test_a_checksum_changes_nothing_but_case(address):
    shown = checksum("0x" + address.hex())
    assert shown.lower() == "0x" + address.hex()
    assert checksum(shown) == shown
    assert same_account(shown, shown.lower())


def test_a_model_is_split_at_its_first_colon():
    assert model_id("a/b:c:d") == "0x" + keccak256(b"a/b/c:d").hex()


def test_a_hash_passes_through():
    assert model_id("0x" + "aB" * 32) == "0x" + "aB" * 32


@every_row("wrong", ["", "model", ":file", "repo:", "0x12"])
def test_a_name_without_a_file_is_refused(wrong):
    with pytest.raises(ConfigError, match="repo:file"):
        model_id(wrong)
