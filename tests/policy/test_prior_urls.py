"""Only addresses that occurred may be fetched."""

import pytest

from toolbridge.core.messages import Call, Request, Result, Text, Turn
from toolbridge.core.server_tools import SearchHit, SearchHits, ServerResult
from toolbridge.policy.prior_urls import occurs


def said(text: str, role: str = "user") -> Request:
    return Request("m", (Turn(role, (Text(text),)),))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("Read https://example.org/a.", "https://example.org/a"),
        ("Read example.org/docs, please", "https://example.org/docs"),
        ("[a](https://example.org/a?x=1#top)", "https://example.org/a?x=1"),
        ("see (https://example.org/a)", "https://EXAMPLE.org/a/"),
        ('{"url": "https://example.org/a"}', "https://example.org/a"),
        ("http://example.org", "http://example.org/"),
        ("https://de.wikipedia.org/wiki/Aal_(Fisch)", "https://de.wikipedia.org/wiki/Aal_(Fisch)"),
    ],
)
def test_an_address_in_the_text_of_the_user_occurs(text, url):
    assert occurs(url, said(text))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a?secret=1", "https://example.org/b", "https://evil.example/",
        "https://example.org.evil.example/a", "https://example.org", "",
    ],
)  # fmt: skip
def test_another_address_does_not(url):
    assert not occurs(url, said("Read https://example.org/a"))


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
