"""Only addresses that occurred may be fetched."""

from tests.tables import every_row

from toolbridge.core.messages import Call, Request, Result, Text, Turn
from toolbridge.core.server_tools import SearchHit, SearchHits, ServerResult
from toolbridge.policy.prior_urls import occurs


def said(text: str, role: str = "user") -> Request:
    return Request("m", (Turn(role, (Text(text),)),))


@every_row(
    ("text", "url"),
    [
        ("Read https://example.org/a.", "https://example.org/a"),
        ("Read example.org/docs, please", "https://example.org/docs"),
        ("[a](https://example.org/a?x=1#top)", "https://example.org/a?x=1"),
        ("see (https://example.org/a)", "https://EXAMPLE.org/a/"),
        ('{"url": "https://example.org/a"}', "https://example.org/a"),
        ("http://example.org", "http://example.org/"),
        ("https://de.wikipedia.org/wiki/Aal_(Fisch)", "https://de.wikipedia.org/wiki/Aal_(Fisch)"),
        ("read http://localhost:7110/page please", "http://localhost:7110/page"),
        ("http://wiki", "http://wiki/"),
        ("read http://[::1]:7110/page.", "http://[::1]:7110/page"),
        ("http://[FE80::1]/a", "http://[fe80::1]/a"),
        ("看http://127.0.0.1:7110/page。", "http://127.0.0.1:7110/page"),
        ("看（example.org/docs）。", "https://example.org/docs"),
        ("http://a.example/pageを読んで", "http://a.example/page"),
        ("“https://example.org/a”…", "https://example.org/a"),
        ("https://example.org/O'Brien", "https://example.org/O'Brien"),
        ("https://web.example/2020/https://example.org/a", "https://example.org/a"),
        ("a.example a.example/b a.example/b/c", "https://a.example/b"),
    ],
)
def test_an_address_in_the_text_of_the_user_occurs(text, url):
    assert occurs(url, said(text))


@every_row(
    "url",
    [
        "https://example.org/a?secret=1", "https://example.org/b", "https://evil.example/",
        "https://example.org.evil.example/a", "https://example.org", "", "https://", "/a",
        "https://example.org/A", "https://xample.org/a", "https://org/a", "http://Read",
        "ht\ntps://example.org/a", "https://example.org/a Read", "ftp://example.org/a",
    ],
)  # fmt: skip
def test_another_address_does_not(url):
    assert not occurs(url, said("Read https://example.org/a"))


@every_row(
    ("text", "url"),
    [
        ("the wiki is down", "http://wiki"),
        ("bücher.example", "http://cher.example"),
        ("例x.example", "http://x.example"),
        ("www.example.org", "http://example.org"),
        ("http://me@example.org/", "http://example.org/"),
        ("https://de.wikipedia.org/wiki/Aal_(Fisch)", "https://de.wikipedia.org/wiki/Aal_"),
        ("https://example.org/a.html", "https://example.org/a"),
        ("https://example.org/a?x=1", "https://example.org/a"),
    ],
)
def test_a_part_of_an_address_or_a_word_does_not(text, url):
    assert not occurs(url, said(text))


def test_a_long_text_without_spaces_is_searched_in_linear_time():
    url = "https://a.example/b"
    for text in ("a" * 2_000_000, "http://" * 300_000, "a.example/b#" * 200_000):
        occurs(url, said(text))
    # A million characters would take hours if each position were the beginning of an address.
    assert occurs(url, said("a" * 1_000_000 + " https://a.example/b"))


def test_what_the_model_wrote_does_not_count():
    url = "https://evil.example/?q=secret"
    assert not occurs(url, said(url, "assistant"))
    call = Turn("assistant", (Call("c", "f", {"url": url}),))
    assert not occurs(url, Request("m", (call,)))


def test_results_of_tools_count():
    url = "https://example.org/found"
    hits = SearchHits((SearchHit(url, "Found"),))
    search = Turn("assistant", (ServerResult("s", "web_search", hits),))
    assert occurs(url, Request("m", (search,)))
    result = Turn("user", (Result("c", (Text(f"see {url}"),)),))
    assert occurs(url, Request("m", (result,)))
