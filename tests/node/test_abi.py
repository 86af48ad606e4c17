from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge.node.chain import abi
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
def test_a_cut_answer_is_refused_or_whole(case, data):
    types, values = case
    encoded = abi.encode(types, values)
    cut = encoded[: data.draw(st.integers(0, len(encoded)))]
    try:
        found = abi.decode(types, cut)
    except abi.MalformedAnswer:
        return
    assert found == list(values)  # only padding was lost


@given(shapes, st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(types, data):
    with suppress(abi.MalformedAnswer):
        assert len(abi.decode(types, data)) == len(types)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("uint8", 256), ("uint256", -1), ("uint256", "1"), ("uint256", 2**256), ("bool", 1),
        ("address", 5), ("bytes32", b"short"), ("string", b"bytes"), ("bytes", "text"),
        ("address[]", "0x"),
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
