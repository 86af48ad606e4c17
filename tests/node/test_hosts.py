"""Which hosts can be used, and in which order."""

import json
import random
from collections import Counter

import pytest
from tests.tables import every_row

from toolbridge.node.chain.address import address_of
from toolbridge.node.hosts.access import HostAccess
from toolbridge.node.hosts.candidates import (
    NATIVE_PER_STABLE,
    HostCandidate,
    HostRequirements,
    ListedHost,
    claimed_key,
    given_key,
    rank,
    substitute_localhost,
    take,
)
from toolbridge.node.hosts.probing import health_url
from toolbridge.node.hosts.scoring import WEIGHTS, factors, score
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.settings import read_settings

KEY = Secret.from_hex("46" * 32)
PUBLIC = encryption.public_key(KEY)
MODEL = b"\1" * 32
FAB = 10**18


def listed(**changes):
    given = {
        "address": address_of(PUBLIC), "stake": 1000 * FAB, "active": True, "metadata": "{}",
        "url": "https://host.example/", "models": (MODEL,), "price": 2000,
    } | changes  # fmt: skip
    return ListedHost(**given)


def candidate(name, stake=1000 * FAB, price=2000, latency=None):
    return HostCandidate(name, f"http://{name}", b"", stake, price, latency=latency)


@every_row(
    ("changes", "words"),
    [
        ({}, ""),
        ({"active": False}, "not active"),
        ({"models": (b"\2" * 32,)}, "does not serve"),
        ({"url": ""}, "no URL"),
        ({"url": "http://host.example"}, "without TLS"),
        ({"url": "host.example:8080"}, "its URL is invalid"),
        ({"url": "http://[::1"}, "its URL is invalid"),
        ({"url": "javascript:alert(1)"}, "its URL is invalid"),
        ({"url": "https://host.example/\x1b[2J"}, "its URL "),
        ({"url": "https://host\n.example"}, "its URL "),
        ({"url": "http://192.168.1.4:8080"}, "private"),
        ({"price": 0}, "no price"),
        ({"price": 5001}, "exceeds `price` (5000)"),
    ],
)
def test_a_host_is_left_out_for_a_reason(changes, words):
    said = HostRequirements(MODEL, most=5000).objection(listed(**changes))
    assert words in said if words else said == ""


@every_row(
    ("url", "private"),
    [
        ("http://localhost:80", True), ("http://127.0.0.1", True), ("ws://10.1.2.3/v1/ws", True),
        ("http://169.254.169.254/", True), ("http://[::1]:8080", True), ("http://[fd00::1]", True),
        ("http://printer.local", True), ("http://metadata.google.internal", True),
        ("http://0.0.0.0", True), ("https://host.example", False), ("http://8.8.8.8:81", False),
    ],
)  # fmt: skip
def test_an_address_of_the_users_own_network_is_known(url, private):
    objection = HostRequirements(MODEL, access=HostAccess(plain=True)).objection(listed(url=url))
    assert ("private" in objection) is private
    open_to_all = HostAccess(private=True, plain=True)
    assert HostRequirements(MODEL, access=open_to_all).objection(listed(url=url)) == ""


def test_the_machine_itself_may_have_another_name():
    wishes = HostRequirements(MODEL, localhost="host.docker.internal")
    assert wishes.url_of(listed(url="http://localhost:8083/")) == "http://host.docker.internal:8083"
    assert substitute_localhost("http://127.0.0.1/x", "h") == "http://h/x"
    assert substitute_localhost("https://host.example:1", "h") == "https://host.example:1"


def test_the_user_may_know_better_where_a_host_is():
    urls = {address_of(PUBLIC).lower(): "http://10.0.0.1:8083/"}
    assert HostRequirements(MODEL, urls=urls).url_of(listed()) == "http://10.0.0.1:8083"
    other = listed(address="0x" + "00" * 20)
    assert HostRequirements(MODEL, urls=urls).url_of(other) == "https://host.example"


@every_row("prefix", ["", "0x", " "])
@every_row("public", [PUBLIC, encryption.uncompressed(PUBLIC)])
def test_a_key_from_which_the_address_follows_is_taken(prefix, public):
    metadata = json.dumps({"publicKey": prefix + public.hex(), "location": 5})
    assert claimed_key(listed(metadata=metadata)) == PUBLIC


def test_a_key_that_the_user_gives_must_fit_the_address_too():
    other = encryption.public_key(Secret.from_hex("47" * 32))
    assert given_key(listed(), (other, PUBLIC)) == PUBLIC
    assert given_key(listed(), (other,)) is None


@pytest.mark.req("CB-19")
@every_row("mode", WEIGHTS)
def test_hosts_are_ranked_by_their_scores(mode):
    hosts = [candidate("a", 10 * FAB, 90_000), candidate("b", 9000 * FAB, 200), candidate("c")]
    ranked = rank(hosts, mode)
    assert [one.address for one in ranked] == ["b", "c", "a"]
    assert ranked[1].score == score(factors(1000 * FAB, 2000), mode)


class TestPrices:
    """Hosts are compared by the price that is paid, in the currency of payment."""

    def test_a_price_in_the_chains_coin_has_the_score_of_the_same_price_in_dollars(self):
        (coin,) = rank([candidate("a", price=2000 * NATIVE_PER_STABLE)], "auto", native=True)
        assert coin.score == rank([candidate("a", price=2000)], "auto")[0].score

    def test_a_price_in_the_chains_coin_counts_and_a_low_one_in_dollars_does_not_hide_it(self):
        dear, usual = 4 * 10**8 * 3_000_000, 3_000_000
        hosts = [candidate("dear", 9000 * FAB, dear), candidate("usual", 8000 * FAB, usual)]
        for mode in WEIGHTS:
            ranked = rank(hosts, mode, native=True)
            assert ranked[0].address == "usual", mode

    def test_of_equal_scores_the_lower_price_comes_first(self):
        hosts = [candidate("a", price=3_000_001), candidate("b", price=3_000_000)]
        assert rank(hosts, "auto", native=True)[0].address == "b"

    def test_the_cheapest_is_that_with_the_lowest_price_whatever_its_stake(self):
        hosts = [candidate("rich", 10_000 * FAB, 5000), candidate("cheap", 1000 * FAB, 4999)]
        assert rank(hosts, "cheapest")[0].address == "cheap"

    @pytest.mark.req("CB-06")
    @pytest.mark.parametrize("pay", ["native", "token"])
    def test_a_host_far_above_the_usual_price_is_refused_without_any_setting(self, pay):
        most = read_settings({"model": "a:b", "pay": pay}).highest_price
        usual = {"native": 3_000_000, "token": 2000}[pay]
        wishes = HostRequirements(MODEL, most)
        assert wishes.objection(listed(price=usual)) == ""
        assert "exceeds `price`" in wishes.objection(listed(price=4 * 10**8 * usual))
        assert "exceeds `price`" in wishes.objection(listed(price=most + 1))

    def test_hosts_can_be_allowed_and_denied(self):
        host = listed()
        this, other = frozenset({host.address.lower()}), frozenset({"0x" + "12" * 20})
        assert HostRequirements(MODEL, allow=this).objection(host) == ""
        assert HostRequirements(MODEL, deny=other).objection(host) == ""
        assert "not in `allow`" in HostRequirements(MODEL, allow=other).objection(host)
        assert "in `deny`" in HostRequirements(MODEL, deny=this, allow=this).objection(host)


def test_a_host_that_answers_faster_comes_first_when_that_is_wished():
    hosts = [candidate("slow", 5000 * FAB, latency=0.9), candidate("fast", latency=0.05)]
    assert rank(hosts, "fastest")[0].address == "fast"
    assert rank(hosts, "reliable")[0].address == "slow"
    assert rank([candidate("late", latency=30.0)], "fastest")[0].score > 0


@pytest.mark.req("CB-19")
def test_the_draw_follows_the_scores_and_can_be_repeated():
    def draw(seed):
        dice = random.Random(seed)
        ranked = rank([candidate("a", 10_000 * FAB, 100), candidate("b", 0, 99_999)], "reliable")
        return take(list(ranked), dice.random()).address

    drawn = Counter(draw(seed) for seed in range(2000))
    assert drawn["a"] / drawn["b"] == pytest.approx(0.98 / 0.425, rel=0.2)
    assert draw(5) == draw(5)


def test_a_host_is_taken_once():
    left = list(rank([candidate("a"), candidate("b"), candidate("c")], "auto"))
    assert {take(left, 0.99).address for _ in range(3)} == {"a", "b", "c"}
    assert left == []


@every_row(
    ("url", "health"),
    [
        ("http://h:1", "http://h:1/health"), ("https://h/node/", "https://h/node/health"),
        ("ws://h:1/v1/ws", "http://h:1/health"), ("wss://h/v1/ws", "https://h/health"),
    ],
)  # fmt: skip
def test_every_kind_of_url_leads_to_the_hosts_health(url, health):
    assert health_url(url) == health
