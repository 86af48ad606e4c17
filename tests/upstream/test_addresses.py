"""Which addresses are public, in every spelling, and that only checked addresses are contacted."""

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.upstream.address_guard import AddressGuard
from toolbridge.upstream.addresses import (
    PrivateAddress,
    is_private_host,
    is_public,
    literal_address,
    open_socket,
)


@every_row(
    ("address", "expected"),
    [
        ("8.8.8.8", True), ("127.0.0.1", False), ("10.1.2.3", False), ("169.254.169.254", False),
        ("172.16.0.1", False), ("172.32.0.1", True), ("192.168.0.1", False), ("100.64.0.1", False),
        ("100.127.255.255", False), ("100.128.0.1", True), ("0.0.0.0", False), ("0.1.2.3", False),
        ("224.0.0.1", False), ("239.255.255.250", False), ("240.0.0.1", False), ("198.18.0.1", False),
        ("255.255.255.255", False), ("192.0.2.1", False), ("203.0.113.7", False),
        ("::1", False), ("::", False), ("fe80::1%eth0", False), ("fd00::1", False), ("fc00::", False),
        ("ff02::1", False), ("ff0e::1", False), ("fec0::1", False), ("2001:db8::1", False),
        ("3fff::1", False), ("5f00::1", False), ("2606:4700::1111", True),
        ("::ffff:10.0.0.1", False), ("::ffff:8.8.8.8", True), ("::ffff:169.254.169.254", False),
        ("::127.0.0.1", False), ("::7f00:1", False), ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True), ("64:ff9b:1::808:808", False), ("2002:7f00:1::", False),
        ("2002:a00:1::1", False), ("2002:808:808::1", True), ("2001:0:4136:e378:8000:63bf:80ff:fffe", False),
        ("2606:4700::5efe:7f00:1", False), ("2606:4700::200:5efe:a00:1", False),
    ],
)  # fmt: skip
def test_what_a_public_address_is(address, expected):
    assert is_public(address) is expected


@every_row(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"), ("127.1", "127.0.0.1"), ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"), ("0x7f000001", "127.0.0.1"), ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"), ("017700000001", "127.0.0.1"), ("0", "0.0.0.0"),
        ("127.0.0.1.", "127.0.0.1"), ("[::1]", "::1"), ("::1", "::1"),
        ("[::ffff:127.0.0.1]", "::ffff:7f00:1"), ("0:0:0:0:0:0:0:1", "::1"),
        ("fe80::1%25eth0", "fe80::1"), ("3232235777", "192.168.1.1"),
        ("example.com", ""), ("1.2.3.4.example.com", ""), ("1e100.net", ""), ("999.1.1.1", ""), ("", ""),
    ],
)  # fmt: skip
def test_every_spelling_of_an_address_is_recognised(host, address):
    found = literal_address(host)
    assert found in {address, "::ffff:127.0.0.1"} if "ffff" in host else found == address


@every_row(
    ("host", "private"),
    [
        ("localhost", True), ("LOCALHOST.", True), ("a.localhost", True), ("printer.local", True),
        ("metadata.google.internal", True), ("nas", True), ("router.lan", True), ("x.home.arpa", True),
        ("2130706433", True), ("0x7f.1", True), ("[::1]", True), ("::ffff:10.0.0.1", True),
        ("example.com", False), ("8.8.8.8", False), ("134744072", False), ("127.0.0.1.nip.io", False),
        ("localhost.example.com", False), ("2606:4700::1111", False),
    ],
)  # fmt: skip
def test_a_private_host_is_recognised_without_a_lookup(host, private):
    assert is_private_host(host) is private


@given(st.integers(0, 2**32 - 1))
def test_a_number_is_as_public_as_its_address(number):
    dotted = socket.inet_ntoa(number.to_bytes(4, "big"))
    spellings = (dotted, str(number), hex(number), f"0{number:o}", f"::ffff:{dotted}")
    assert {is_private_host(one) for one in spellings} == {not is_public(dotted)}


# ── aiohttp ──


async def test_only_the_public_addresses_of_a_name_are_tried(monkeypatch):
    async def resolve(self, host, port=0, family=0):
        return [{"host": address} for address in ("10.0.0.1", "8.8.8.8", "::1")]

    monkeypatch.setattr("toolbridge.upstream.address_guard.DefaultResolver.resolve", resolve)
    guard = AddressGuard()
    assert await guard.resolve("example.com") == [{"host": "8.8.8.8"}]
    assert len(await AddressGuard(local=frozenset({"example.com"})).resolve("example.com")) == 3
    await guard.close()


# ── sockets ──


class Names:
    """Answers lookups from a list, one entry per lookup, as a rebinding name server does."""

    def __init__(self, monkeypatch, *answers):
        self.answers = list(answers)
        self.asked = 0
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self, raising=False)

    async def __call__(self, _, port, **__):
        self.asked += 1
        found = self.answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]


@pytest.fixture
async def listening():
    accepted = []

    async def accept(_, writer):
        accepted.append(writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], accepted
    server.close()


async def test_a_name_at_a_private_address_is_not_contacted(monkeypatch, listening):
    port, accepted = listening
    Names(monkeypatch, ["127.0.0.1", "10.0.0.1"])
    with pytest.raises(PrivateAddress, match=r"rebind\.example is at a private address"):
        await open_socket("rebind.example", port)
    assert accepted == []


async def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch, listening):
    port, _ = listening
    names = Names(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
    sock = await open_socket("rebind.example", port, private=True)
    assert (sock.getpeername(), names.asked) == (("127.0.0.1", port), 1)
    assert sock.gettimeout() == 0, "it does not stop the event loop"
    sock.close()


async def test_the_next_address_is_tried_when_one_does_not_answer(monkeypatch, listening):
    port, _ = listening
    Names(monkeypatch, ["127.0.0.2", "127.0.0.1"])
    sock = await open_socket("two.example", port, private=True)
    assert sock.getpeername() == ("127.0.0.1", port)
    sock.close()


async def test_the_last_failure_is_raised(monkeypatch):
    Names(monkeypatch, ["127.0.0.1"])
    with pytest.raises(ConnectionRefusedError):
        await open_socket("gone.example", 1, private=True)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost"])
async def test_numbers_are_resolved_and_refused(host, listening):
    port, accepted = listening
    with pytest.raises(PrivateAddress):
        await open_socket(host, port)
    assert accepted == []
