import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.node.chain import abi
from toolbridge.node.chain.multicall import encode_calls
from toolbridge.node.chain.reverts import advice_on, explain, table

REASON = abi.selector("Error(string)")
RECORDED = (
    "Low deposit", "Bad dur", "Low interval", "Bad timeout", "No host reg", "Host not active",
    "Bad model", "No model", "Low price", "Bad token", "Over max", "Over dep", "No model pricing",
    "Insufficient deposit", "Host not registered", "Price below host minimum for model",
    "Proof interval too small",
)  # fmt: skip


def said(reason):
    return REASON + abi.encode(["string"], [reason])


@every_row("reason", sorted({*RECORDED, *table().reasons}))
def test_every_reason_says_what_to_do(reason):
    error = explain("createX", said(reason))
    assert error.reason == reason
    assert str(error) == f"the call createX was rejected: {reason}; {table().reasons[reason]}"


@every_row("signature", table().errors)
def test_every_declared_error_says_what_to_do(signature):
    data = abi.selector(signature) + bytes(32 * len(abi.types_of(signature)))
    error = explain("createX", data)
    assert (error.reason, error.advice) == (
        signature.partition("(")[0],
        table().errors[signature],
    )


def test_a_server_that_gives_words_alone_is_understood():
    assert explain("x", b"", "execution reverted: Low price").advice == table().reasons["Low price"]
    assert "no reason" in str(explain("x", b"", "execution reverted"))


def test_an_unknown_reason_is_repeated():
    assert str(explain("x", said("Something new"))) == "the call x was rejected: Something new"
    assert "dead" in str(explain("x", bytes.fromhex("deadbeef")))


@pytest.mark.parametrize(("code", "words"), [(0x11, "overflow"), (0x12, "zero"), (0x99, "0x99")])
def test_a_failure_inside_the_contract_is_named(code, words):
    data = abi.selector("Panic(uint256)") + code.to_bytes(32, "big")
    assert words in str(explain("x", data))


@given(st.binary(max_size=100), st.text(max_size=50))
def test_any_bytes_are_explained(data, message):
    assert explain("x", data, message).problem.kind == "rejected"
    assert explain("x", REASON + data).problem.kind == "rejected"


def test_a_refusal_of_the_server_says_what_to_do():
    assert "send ETH" in advice_on("INSUFFICIENT FUNDS for gas * price + value")
    assert advice_on("who knows") == ""


def test_many_questions_are_written_as_other_libraries_write_them():
    data = encode_calls([("0x" + "11" * 20, b"\xab\xcd"), ("0x" + "22" * 20, b"")])
    assert data[:4].hex() == "82ad56cb"
    words = [data[4 + 32 * n : 36 + 32 * n].hex().lstrip("0") for n in range((len(data) - 4) // 32)]
    assert words == [
        "20", "2", "40", "e0",
        "11" * 20, "1", "60", "2", "abcd" + "0" * 60,
        "22" * 20, "1", "60", "",
    ]  # fmt: skip
