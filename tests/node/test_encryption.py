import copy
import pickle
import pprint

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire
from toolbridge.node.chain.address import address_of
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import DecryptionFailed, Decryptor, Secret

ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
KEY = Secret(bytes(range(32)))
NONCE = bytes(24)
privates = st.integers(1, ORDER - 1).map(lambda n: Secret(n.to_bytes(32, "big")))
nonces = st.binary(min_size=24, max_size=24)


@pytest.mark.req("CB-20")
@given(privates, privates)
def test_both_sides_derive_the_same_key(ours, theirs):
    one = encryption.derive_key(ours, encryption.public_key(theirs))
    assert one == encryption.derive_key(theirs, encryption.public_key(ours))


@given(privates, privates)
def test_either_form_of_a_public_key_gives_the_same_key(ours, theirs):
    public = encryption.public_key(theirs)
    assert encryption.compressed(encryption.uncompressed(public)) == public
    assert encryption.derive_key(ours, encryption.uncompressed(public)) == encryption.derive_key(
        ours, public
    )


@pytest.mark.req("CB-20")
@given(st.binary(max_size=200), st.binary(max_size=40), nonces)
def test_what_was_sealed_opens_again(plaintext, aad, nonce):
    sealed = encryption.seal(KEY, nonce, plaintext, aad)
    assert len(sealed) == len(plaintext) + 16
    assert encryption.unseal(KEY, nonce, sealed, aad) == plaintext


@given(st.binary(max_size=60), st.data())
def test_one_flipped_bit_breaks_the_seal(plaintext, data):
    sealed = encryption.seal(KEY, NONCE, plaintext, b"chunk_0")
    at = data.draw(st.integers(0, len(sealed) * 8 - 1))
    flipped = bytearray(sealed)
    flipped[at // 8] ^= 1 << at % 8
    with pytest.raises(DecryptionFailed):
        encryption.unseal(KEY, NONCE, bytes(flipped), b"chunk_0")


@every_row("size", [0, 8, 12, 23, 25])
def test_a_nonce_of_another_length_is_refused_and_not_another_cipher(size):
    with pytest.raises(DecryptionFailed, match="nonce"):
        encryption.unseal(KEY, bytes(size), bytes(32))
    with pytest.raises(ValueError, match="nonce"):
        encryption.seal(KEY, bytes(size), b"")


def test_a_broken_seal_is_a_fault_of_the_wire():
    with pytest.raises(BrokenWire) as caught:
        encryption.unseal(KEY, NONCE, bytes(15))
    assert caught.value.problem.kind == "broken_wire"


class TestOpener:
    def test_a_piece_opens_in_its_place(self):
        sealed = encryption.seal(KEY, NONCE, b"hi", b"chunk_3")
        assert Decryptor(KEY).open(NONCE, sealed, "chunk_3", "chunk_3") == b"hi"

    def test_a_good_piece_in_the_wrong_place_is_refused(self):
        sealed = encryption.seal(KEY, NONCE, b"hi", b"chunk_3")
        with pytest.raises(DecryptionFailed, match="'chunk_3' instead of 'chunk_2'"):
            Decryptor(KEY).open(NONCE, sealed, "chunk_3", "chunk_2")

    def test_a_piece_that_claims_another_place_is_refused(self):
        sealed = encryption.seal(KEY, NONCE, b"hi", b"chunk_3")
        with pytest.raises(DecryptionFailed, match="decryption failed"):
            Decryptor(KEY).open(NONCE, sealed, "chunk_2", "chunk_2")

    def test_the_same_piece_is_opened_once(self):
        sealed = encryption.seal(KEY, NONCE, b"hi", b"chunk_0")
        opener = Decryptor(KEY)
        opener.open(NONCE, sealed, "chunk_0", "chunk_0")
        with pytest.raises(DecryptionFailed, match="twice"):
            opener.open(NONCE, sealed, "chunk_0", "chunk_0")

    def test_a_forged_piece_does_not_use_up_the_nonce_of_a_good_one(self):
        opener = Decryptor(KEY)
        with pytest.raises(DecryptionFailed):
            opener.open(NONCE, bytes(20), "chunk_0", "chunk_0")
        good = encryption.seal(KEY, NONCE, b"hi", b"chunk_0")
        assert opener.open(NONCE, good, "chunk_0", "chunk_0") == b"hi"


class TestSignatures:
    @pytest.mark.req("CB-20")
    @given(privates, st.binary(min_size=32, max_size=32))
    def test_the_signer_is_recovered(self, private, digest):
        signature = encryption.sign(private, digest)
        assert len(signature) == 65
        assert signature[64] in {0, 1}
        assert int.from_bytes(signature[32:64], "big") <= ORDER // 2
        assert encryption.recover(digest, signature) == encryption.public_key(private)

    def test_a_recovery_id_of_ethereum_is_understood(self):
        signature = encryption.sign(KEY, bytes(32))
        other = signature[:64] + bytes([signature[64] + 27])
        assert encryption.recover(bytes(32), other) == encryption.public_key(KEY)

    @every_row("signature", [b"", bytes(64), bytes(65), b"\xff" * 65])
    def test_what_is_no_signature_is_refused(self, signature):
        with pytest.raises(DecryptionFailed):
            encryption.recover(bytes(32), signature)

    def test_the_label_is_signed_only_when_there_is_one(self):
        bare = encryption.init_preimage(b"e", b"h", b"n", salt=b"s", info=b"i")
        assert bare == b"E2EEv1|e|h|s|n|i"
        assert (
            encryption.init_preimage(b"e", b"h", b"n", salt=b"s", info=b"i", aad=b"a")
            == bare + b"|a"
        )


class TestSecrets:
    text = "46" * 32

    @pytest.mark.parametrize("prefix", ["", "0x", "0X"])
    def test_hex_is_read_with_or_without_prefix(self, prefix):
        assert Secret.from_hex(prefix + self.text).reveal() == b"F" * 32

    @every_row("wrong", ["", "46", text + "46", "zz" * 32, "46 " * 32, "0x" + text[1:]])
    def test_what_is_no_key_is_refused_without_being_repeated(self, wrong):
        with pytest.raises(ValueError, match="64 hex digits") as caught:
            Secret.from_hex(wrong)
        assert caught.value.__cause__ is None
        assert not wrong or wrong not in str(caught.value)

    @pytest.mark.parametrize("number", [0, ORDER, ORDER + 1])
    def test_a_number_that_is_no_key_is_refused_without_being_repeated(self, number):
        with pytest.raises(ValueError, match="secp256k1") as caught:
            encryption.check_private(Secret(number.to_bytes(32, "big")))
        assert f"{number:x}" not in str(caught.value).lower() or number == 0

    @every_row("show", [repr, str, "{}".format, "{!r}".format, pprint.pformat, ascii])
    def test_no_way_of_showing_shows_it(self, show):
        secret = Secret.from_hex(self.text)
        shown = show({"key": secret}) + show(secret)
        assert "46" not in shown
        assert "FF" not in shown

    def test_it_is_not_written_down(self):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(KEY)
        with pytest.raises(TypeError):
            copy.deepcopy(KEY)
        with pytest.raises(TypeError):
            msgspec.json.encode({"key": KEY})

    def test_secrets_compare_by_what_they_hold(self):
        assert Secret(bytes(32)) == Secret(bytes(32))
        assert Secret(bytes(32)) != KEY
        assert bytes(range(32)) != KEY
        assert len({KEY, Secret(bytes(range(32)))}) == 1


def test_the_key_of_a_storage_phrase_is_a_wallet_of_its_own():
    first, second = encryption.key_from_seed("one two"), encryption.key_from_seed("one three")
    assert address_of(encryption.public_key(first)) != address_of(encryption.public_key(second))
