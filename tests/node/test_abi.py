import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.node.chain import abi, multicall
from toolbridge.node.chain.address import checksum
from toolbridge.node.chain.contracts import FUNCTIONS

VALUES = {
    "uint256": st.integers(0, 2**256 - 1),
    "uint8": st.integers(0, 255),
    "bool": st.booleans(),
    "address": st.binary(min_size=20, max_size=20).map(lambda b: checksum(b.hex())),
    "bytes32": st.binary(min_size=32, max_size=32),
    "string": st.text(max_size=70),
    "bytes": st.binary(max_size=70),
}
VALUES |= {f"{name}[]": st.lists(values, max_size=4) for name, values in VALUES.items()}
shapes = st.lists(st.sampled_from(sorted(VALUES)), max_size=6)
typed = shapes.flatmap(lambda types: st.tuples(st.just(types), st.tuples(*map(VALUES.get, types))))


@given(typed)
def test_what_was_encoded_is_decoded(case):
    types, values = case
    assert abi.decode(types, abi.encode(types, values)) == list(values)


@given(typed, st.data())
def test_a_cut_answer_is_refused(case, data):
    types, values = case
    encoded = abi.encode(types, values)
    size = data.draw(st.integers(0, max(0, len(encoded) - 1)))
    if encoded:
        with pytest.raises(abi.MalformedAnswer):
            abi.decode(types, encoded[:size])


@given(typed, st.binary(min_size=1, max_size=70))
def test_an_answer_with_more_behind_it_is_refused(case, more):
    types, values = case
    with pytest.raises(abi.MalformedAnswer):
        abi.decode(types, abi.encode(types, values) + more)


@given(shapes, st.binary(max_size=300))
def test_any_bytes_are_read_exactly_or_refused(types, data):
    with suppress(abi.MalformedAnswer):
        values = abi.decode(types, data)
        assert "\ufffd" in str(values) or abi.encode(types, values) == data


@given(typed, st.data())
def test_a_changed_word_is_another_value_or_refused(case, data):
    """Never wrong: what is decoded has exactly one encoding, and it is the one that was given."""
    types, values = case
    encoded = bytearray(abi.encode(types, values))
    if not encoded:
        return
    at = 32 * data.draw(st.integers(0, len(encoded) // 32 - 1))
    number = data.draw(st.one_of(st.integers(0, 400), st.integers(0, 2**256 - 1)))
    encoded[at : at + 32] = number.to_bytes(32, "big")
    with suppress(abi.MalformedAnswer):
        found = abi.decode(types, bytes(encoded))
        assert "\ufffd" in str(found) or abi.encode(types, found) == bytes(encoded)


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(32, "big") for number in numbers)


@every_row(
    ("types", "data"),
    [
        (["bool"], words(2)),
        (["bool"], words(1 << 255)),
        (["address"], words(1 << 160)),
        (["address"], b"\xff" * 32),
        (["uint8"], words(256)),
        (["bytes4"], b"abcd" + bytes(27) + b"\1"),
        (["string"], words(32, 1) + b"ab" + bytes(30)),
        (["string"], words(32, 33) + b"a" * 33 + bytes(30) + b"\1"),
        (["string"], words(0)),  # points at itself
        (["string"], words(64, 0, 0)),  # leaves a gap
        (["string"], words(2**256 - 32, 0)),
        (["string", "string"], words(64, 64, 0)),  # both point at the same value
        (["string", "string"], words(96, 64, 0, 0)),  # in another order
        (["uint256", "string"], words(7, 0, 0)),  # points backwards
        (["uint256[]"], words(32, 2, 1)),
        (["uint256[]"], words(32, 2**255)),
        (["string[]"], words(32, 2, 64, 64, 0)),
        (["bytes"], words(32, 2**64) + bytes(32)),
        ([], words(0)),
    ],
)
def test_what_no_compiler_produces_is_refused(types, data):
    with pytest.raises(abi.MalformedAnswer):
        abi.decode(types, data)


def test_one_value_cannot_be_read_many_times():
    """2,000 offsets to the same 64 KiB would be 128 MiB of strings."""
    shared = words(65_536) + b"x" * 65_536
    data = words(32, 2000) + words(*[32 * 2000] * 2000) + shared
    tracemalloc.start()
    with pytest.raises(abi.MalformedAnswer):
        abi.decode(["string[]"], data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000


def test_a_text_that_is_no_utf8_does_not_fail_the_answer():
    assert abi.decode(["string"], words(32, 1) + b"\xff" + bytes(31)) == ["\ufffd"]


class TestMulticall:
    def answer(self, *results) -> bytes:
        bodies = [abi.encode(["bool", "bytes"], [ok, data]) for ok, data in results]
        offsets, at = [], 32 * len(bodies)
        for body in bodies:
            offsets.append(at)
            at += len(body)
        return words(32, len(bodies), *offsets) + b"".join(bodies)

    @given(st.lists(st.tuples(st.booleans(), st.binary(max_size=100)), max_size=5))
    def test_results_are_decoded(self, results):
        data = self.answer(*results)
        if results:
            assert multicall.decode_results(data, len(results)) == results
        with pytest.raises(abi.MalformedAnswer):
            multicall.decode_results(data, len(results) + 1)

    @given(st.binary(max_size=400), st.integers(1, 4))
    def test_any_bytes_are_read_exactly_or_refused(self, data, count):
        with suppress(abi.MalformedAnswer):
            assert self.answer(*multicall.decode_results(data, count)) == data

    @every_row(
        "data",
        [
            b"",
            words(64, 0, 1, 32, 1, 64, 0),  # the list is behind a gap
            words(32, 2**255),
            words(32, 1, 64, 0, 1, 64, 0),  # the result is behind a gap
            words(32, 1, 32, 2, 64, 0),  # success is 2
            words(32, 1, 32, 1, 32, 0),  # the data is at success
            words(32, 1, 32, 1, 64, 2**200),
            words(32, 1, 32, 1, 64, 0) + b"\0",
            words(32, 2, 64, 64, 1, 64, 0),  # both results at the same place
            words(32, 1, 32, 1, 64, 2**17) + bytes(2**17),  # more than a call may return
        ],
    )
    def test_other_answers_are_refused(self, data):
        for count in (1, 2):
            with pytest.raises(abi.MalformedAnswer):
                multicall.decode_results(data, count)

    def test_what_is_too_long_is_not_decoded(self):
        with pytest.raises(abi.MalformedAnswer, match="returned 1000000 bytes for 3 calls"):
            multicall.decode_results(bytes(1_000_000), 3)


@every_row(
    ("type", "value"),
    [
        ("uint8", 256), ("uint256", -1), ("uint256", "1"), ("uint256", 2**256), ("bool", 1),
        ("address", 5), ("bytes32", b"short"), ("string", b"bytes"), ("bytes", "text"),
        ("address[]", "0x"), ("uint256", True), ("address", "0x12"), ("address", "0x" + "11" * 21),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(type, value):
    with pytest.raises(ValueError):
        abi.encode([type], [value])


def test_a_list_that_claims_to_be_endless_is_refused_at_once():
    data = (32).to_bytes(32, "big") + (2**255).to_bytes(32, "big")
    with pytest.raises(abi.MalformedAnswer):
        abi.decode(["address[]"], data)


def test_every_function_has_a_signature_that_can_be_read():
    for name, (signature, returned) in FUNCTIONS.items():
        assert signature.startswith(f"{name}(")
        assert {*abi.types_of(signature), *returned} <= set(VALUES)
    with pytest.raises(ValueError, match="not a function signature"):
        abi.types_of("name(address")
