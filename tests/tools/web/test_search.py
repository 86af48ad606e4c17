"""Web search: what each engine is asked, and what comes of its answers and its faults."""

import asyncio
import logging
import re
import sys

import pytest
from tests.search_double import search_double
from tests.tables import every_row

from toolbridge.core.errors import ConfigError
from toolbridge.core.server_tools import SearchHit, SearchHits, ServerToolError
from toolbridge.server_tool_settings import WebSearchSettings, chosen_engine
from toolbridge.tools.web.engines import with_sites
from toolbridge.tools.web.hits import hits_in, kept
from toolbridge.tools.web.search import SearchQuery, search_backend
from toolbridge.upstream.session import open_session

KEYED = ("brave", "tavily", "exa", "serper", "jina", "ollama")
ENGINES = ("searxng", *KEYED)


async def searched(engine, double, query, env=None, **settings):
    path = "" if engine == "searxng" else f"/{engine}"
    given = {"timeout": 5.0, "url": double.url + path, "key": "" if engine == "searxng" else "k-1"}
    async with open_session() as session:
        found = WebSearchSettings(backend=engine, **(given | settings))
        return await search_backend(found, env or {}, session).search(query)


@pytest.mark.parametrize("engine", ENGINES)
async def test_every_engine_gives_clean_hits(engine):
    async with search_double() as double:
        found = await searched(engine, double, SearchQuery("hello"))
    assert isinstance(found, SearchHits)
    first, second, third = found.hits
    assert first.url == "https://example.org/a"
    assert first.title == "Zürich über & alles"
    assert first.snippet == "The first hit <ok>"
    assert second.title == "Blocked"
    assert third == SearchHit("https://example.org/blog/c", "日本語", "third hidden", third.age), (
        "invisible characters are removed"
    )
    assert len(double.asked) == 1


@pytest.mark.parametrize("engine", ENGINES)
async def test_domains_are_filtered_whatever_the_engine_does(engine):
    async with search_double() as double:
        blocked = await searched(engine, double, SearchQuery("q", block=("blocked.example",)))
        allowed = await searched(engine, double, SearchQuery("q", allow=("EXAMPLE.org/blog",)))
        own = await searched(
            engine, double, SearchQuery("q", allow=("example.org",)), allow=("blocked.example",)
        )
    assert [hit.url for hit in blocked.hits] == [
        "https://example.org/a",
        "https://example.org/blog/c",
    ]
    assert [hit.url for hit in allowed.hits] == ["https://example.org/blog/c"]
    assert own.hits == (), "a request cannot widen the list of the settings"


@pytest.mark.parametrize(
    ("engine", "method", "header", "expected"),
    [
        ("searxng", "GET", None, {"q": "q (site:a.org OR site:b.org) -site:c.org", "format": "json", "language": "de-DE", "pageno": "1"}),
        ("brave", "GET", ("x-subscription-token", "k-1"), {"q": "(q) AND (site:a.org OR site:b.org) -site:c.org", "count": "8", "country": "DE", "search_lang": "de", "freshness": "2026-01-31to2026-02-28", "result_filter": "web", "text_decorations": "false"}),
        ("tavily", "POST", ("authorization", "Bearer k-1"), {"query": "q", "max_results": 8, "include_domains": ["a.org", "b.org"], "exclude_domains": ["c.org"], "start_date": "2026-01-31", "end_date": "2026-02-28"}),
        ("exa", "POST", ("x-api-key", "k-1"), {"query": "q", "type": "auto", "numResults": 8, "contents": {"text": {"maxCharacters": 2000}}, "includeDomains": ["a.org", "b.org"], "excludeDomains": ["c.org"], "userLocation": "DE", "startPublishedDate": "2026-01-31", "endPublishedDate": "2026-02-28"}),
        ("serper", "POST", ("x-api-key", "k-1"), {"q": "q (site:a.org OR site:b.org) -site:c.org", "num": 8, "gl": "de", "hl": "de", "tbs": "cdr:1,cd_min:01/31/2026,cd_max:02/28/2026"}),
        ("jina", "GET", ("authorization", "Bearer k-1"), {"q": "q (site:a.org OR site:b.org) -site:c.org", "num": "8", "gl": "de", "hl": "de"}),
        ("ollama", "POST", ("authorization", "Bearer k-1"), {"query": "q", "max_results": 8}),
    ],
)  # fmt: skip
async def test_every_engine_is_asked_in_its_own_way(engine, method, header, expected):
    query = SearchQuery(
        "q", 4, ("a.org", "b.org"), ("c.org",), "de", "de", "2026-01-31", "2026-02-28"
    )
    async with search_double() as double:
        await searched(engine, double, query)
    (asked,) = double.asked
    given = asked.body if method == "POST" else asked.query
    assert (asked.method, given) == (method, expected)
    assert header is None or asked.headers[header[0]] == header[1]
    assert asked.headers.get("cookie") is None


@pytest.mark.parametrize(
    ("limits", "freshness"),
    [({"after": "2026-01-31"}, r"2026-01-31to20\d\d-\d\d-\d\d"), ({"before": "2026-01-31"}, "1990-01-01to2026-01-31"), ({}, "")],
)  # fmt: skip
async def test_a_range_of_days_may_be_open(limits, freshness):
    async with search_double() as double:
        await searched("brave", double, SearchQuery("q", **limits))
    assert re.fullmatch(freshness, double.asked[0].query.get("freshness", ""))


def test_hits_with_a_date_outside_of_the_range_are_left_out():
    ages = ["2026-01-30", "2026-01-31", "2026-02-28T23:59:00", "2026-03-01", "3 days ago", ""]
    hits = [SearchHit(f"https://example.org/{n}", age=age) for n, age in enumerate(ages)]
    found = kept(hits, (), (), count=9, snippet=99, days=("2026-01-31", "2026-02-28"))
    assert [hit.age for hit in found] == [*ages[1:3], *ages[4:]]
    since = kept(hits, (), (), count=9, snippet=99, days=("2026-01-31", ""))
    assert [hit.age for hit in since] == ages[1:]


async def test_parameters_of_the_settings_are_sent():
    async with search_double() as double:
        await searched(
            "searxng",
            double,
            SearchQuery("qq"),
            parameters={"engines": "wikipedia", "safesearch": 1},
        )
    assert double.asked[0].query["engines"] == "wikipedia"
    assert double.asked[0].query["safesearch"] == "1"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("faults", "code", "requests", "text"),
    [
        ([429], "too_many_requests", 1, "rate limit"),
        ([401], "unavailable", 1, "401"),
        ([403], "unavailable", 1, "403"),
        ([404], "unavailable", 1, "404"),
        ([500, 503], "unavailable", 2, "503"),
        (["broken"], "unavailable", 1, "JSON"),
        (["html"], "unavailable", 1, "JSON"),
        (["large"], "unavailable", 1, "bytes"),
        (["redirect"], "unavailable", 1, "redirect"),
        (["cut", "cut"], "unavailable", 2, "reached"),
    ],
)
async def test_a_fault_is_an_error_of_the_tool(engine, faults, code, requests, text):
    async with search_double() as double:
        double.faults = list(faults)
        found = await searched(engine, double, SearchQuery("hello"))
    assert isinstance(found, ServerToolError)
    assert found.code == code
    assert text in found.text
    assert "k-1" not in found.text
    assert len(double.asked) == requests


async def test_a_server_error_is_retried_once():
    async with search_double() as double:
        double.faults = [502]
        found = await searched("tavily", double, SearchQuery("hello"))
    assert len(found.hits) == 3
    assert len(double.asked) == 2


async def test_a_hang_is_retried_once_and_ends_in_time():
    async with search_double() as double:
        double.faults = ["hang"]
        found = await searched("brave", double, SearchQuery("hello"), timeout=4.0)
        assert len(found.hits) == 3
        double.faults = ["hang", "hang"]
        found = await searched("brave", double, SearchQuery("hello"), timeout=2.0)
    assert (found.code, found.text) == ("unavailable", "Brave Search did not answer within 2 s")
    assert len(double.asked) == 4


async def test_a_caller_that_leaves_ends_the_request():
    async with search_double() as double:
        double.faults = ["hang"]
        task = asyncio.create_task(searched("exa", double, SearchQuery("hello"), timeout=60.0))
        async with asyncio.timeout(20):
            await double.silent.wait()
            task.cancel()
            await double.gone.wait()
    assert task.cancelled() or task.cancelling()


async def test_searxng_without_json_names_its_setting():
    async with search_double() as double:
        double.faults = [403]
        found = await searched("searxng", double, SearchQuery("hello"))
    assert "search.formats" in found.text


async def test_a_refused_key_is_named_in_the_log(caplog):
    env = {"TAVILY_API_KEY": "tvly-secret-1"}
    async with search_double() as double:
        double.faults = [401]
        with caplog.at_level(logging.WARNING):
            found = await searched("tavily", double, SearchQuery("hello"), env, key="")
    assert double.asked[0].headers["authorization"] == "Bearer tvly-secret-1"
    assert "TAVILY_API_KEY" in found.text
    assert "TAVILY_API_KEY" in caplog.text
    assert "secret" not in found.text + caplog.text


async def test_long_queries_are_refused_and_empty_ones_too():
    async with search_double() as double:
        long = await searched("brave", double, SearchQuery("x" * 401))
        empty = await searched("brave", double, SearchQuery("  "))
        many = SearchQuery("x" * 390, allow=tuple(f"d{n}.example.org" for n in range(50)))
        await searched("brave", double, many)
    assert long.code == "query_too_long"
    assert empty.code == "invalid_tool_input"
    assert double.asked[0].query["q"] == "x" * 390, "operators that do not fit are left out"


async def test_hits_are_bounded_and_not_repeated():
    async with search_double() as double:
        one = {"url": "https://e.org/", "title": "t" * 500, "content": "<p>" + "s" * 90_000}
        others = [{"url": f"https://e.org/{n}", "title": ""} for n in range(30)]
        bad = [
            {"url": "javascript:alert(1)", "title": "x"},
            {"url": "https://e.org/" + "x" * 5000},
            {"title": "no url"},
            "text",
            {"url": 5},
            {"url": "https://e.org/<script>"},
        ]
        double.answer = {"results": [*bad, one, {**one, "url": "https://e.org/#part"}, *others]}
        found = await searched("searxng", double, SearchQuery("hello", 4), snippet=100)
    assert [hit.url for hit in found.hits] == [
        "https://e.org/", "https://e.org/0", "https://e.org/1", "https://e.org/2",
    ]  # fmt: skip
    assert len(found.hits[0].title) == 120
    assert len(found.hits[0].snippet) == 100
    assert found.hits[1].title == "https://e.org/0"


@pytest.mark.parametrize("answer", [[], {}, {"results": {}}, {"results": None}, 5, {"web": []}])
@pytest.mark.parametrize("engine", ENGINES)
async def test_an_answer_without_hits_is_an_empty_list(engine, answer):
    async with search_double() as double:
        double.answer = answer or {"none": 1}
        assert await searched(engine, double, SearchQuery("hello")) == SearchHits()


# ── the choice of the engine ─────────────────────────────────────────────────


def test_the_first_variable_in_order_chooses_the_engine():
    names = {
        "OLLAMA_API_KEY": "ollama", "JINA_API_KEY": "jina", "SERPER_API_KEY": "serper",
        "EXA_API_KEY": "exa", "TAVILY_API_KEY": "tavily", "BRAVE_SEARCH_API_KEY": "brave",
        "SEARXNG_API_BASE": "searxng",
    }  # fmt: skip
    env = {"PATH": "/bin"}
    assert chosen_engine(WebSearchSettings(), env) == ""
    for variable, engine in names.items():
        env[variable] = "x"
        assert chosen_engine(WebSearchSettings(), env) == engine
    assert chosen_engine(WebSearchSettings(backend="off"), env) == ""
    assert chosen_engine(WebSearchSettings(backend="jina"), env) == "jina"


async def test_without_a_setting_and_a_variable_there_is_no_search():
    async with open_session() as session:
        with pytest.raises(ConfigError, match="SEARXNG_URL"):
            search_backend(WebSearchSettings(), {}, session)
        with pytest.raises(ConfigError, match="needs a key; set BRAVE_API_KEY"):
            search_backend(WebSearchSettings(backend="brave"), {}, session)
        with pytest.raises(ConfigError, match="not available here"):
            search_backend(WebSearchSettings(backend="model"), {}, session)


async def test_the_automatic_choice_is_in_the_log(caplog):
    async with search_double() as double, open_session() as session:
        with caplog.at_level(logging.INFO):
            backend = search_backend(WebSearchSettings(), {"SEARXNG_URL": double.url}, session)
        assert len((await backend.search(SearchQuery("hello"))).hits) == 3
    assert "web search uses searxng" in caplog.text


async def test_a_model_that_searches_is_asked_and_its_hits_are_filtered():
    async def ask(model, query):
        assert (model, query.text) == ("openai/gpt-5.5", "hello")
        return SearchHits((SearchHit("https://a.org/", "<b>A</b>"), SearchHit("https://b.org/")))

    settings = WebSearchSettings(backend="model", model="openai/gpt-5.5")
    async with open_session() as session:
        backend = search_backend(settings, {}, session, model=ask)
        found = await backend.search(SearchQuery("hello", allow=("a.org",)))
    assert found.hits == (SearchHit("https://a.org/", "A"),)


# ── a command ────────────────────────────────────────────────────────────────


async def commanded(program, env=None, **settings):
    given = {"command": (sys.executable, "-c", program), "timeout": 20.0} | settings
    async with open_session() as session:
        backend = search_backend(WebSearchSettings(backend="command", **given), env or {}, session)
        return await backend.search(SearchQuery("hällo"))


async def test_a_command_gets_the_query_and_prints_hits():
    program = """
import json, os, sys
asked = json.loads(sys.stdin.readline())
print(json.dumps([{"link": "https://e.org/", "title": asked["query"], "snippet": os.environ.get("MY_KEY", "") + os.environ.get("SECRET", "-")}]))
"""
    env = {"MY_KEY": "k", "SECRET": "s"}
    found = await commanded(program, env, key="$MY_KEY")
    assert found.hits == (SearchHit("https://e.org/", "hällo", "k-"),), "only the named variable"


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("import sys; sys.exit(3)", "status 3"),
        ("print('x' * 3_000_000)", "bytes"),
        ("import time; time.sleep(60)", "did not end within"),
    ],
)
async def test_a_command_that_fails_is_an_error(program, text):
    found = await commanded(program, timeout=0.5 if "sleep" in program else 20.0)
    assert isinstance(found, ServerToolError)
    assert text in found.text


async def test_a_missing_command_is_an_error():
    found = await commanded("", command=("no-such-program-4711",))
    assert "cannot be started" in found.text


async def test_a_command_may_print_links_as_text():
    found = await commanded("print('see [Title](https://e.org/x) and\\nother')")
    assert found.hits == (SearchHit("https://e.org/x", "Title"),)
    found = await commanded("print('Title: A\\nURL: https://a.org\\nText: aa\\nbb\\n\\nTitle: B\\nURL: https://b.org')")  # fmt: skip
    assert found.hits == (SearchHit("https://a.org", "A", "aa bb"), SearchHit("https://b.org", "B"))


async def test_duckduckgo_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ddgs", None)
    async with open_session() as session:
        with pytest.raises(ConfigError, match=r"'\.\[duckduckgo\]'"):
            search_backend(WebSearchSettings(backend="duckduckgo"), {}, session)


# ── answers of any shape ─────────────────────────────────────────────────────


@every_row(
    ("value", "urls"),
    [
        ([{"url": "https://a.org"}, {"no": 1}, "x"], ["https://a.org"]),
        ({"results": [{"link": "https://a.org"}]}, ["https://a.org"]),
        ({"web": {"results": [{"url": "https://a.org"}]}}, ["https://a.org"]),
        ({"a": [1], "b": [{"url": "https://b.org"}]}, ["https://b.org"]),
        ({"a": "x", "b": None}, []),
        ("text", []),
        (None, []),
    ],
)
def test_hits_in_json_of_an_unknown_shape(value, urls):
    assert [hit.url for hit in hits_in(value)] == urls


@every_row(
    ("query", "text"),
    [
        (SearchQuery("q"), "q"),
        (SearchQuery("q", allow=("a.org",)), "q (site:a.org)"),
        (SearchQuery("q", allow=("a.org", "b.org")), "q (site:a.org OR site:b.org)"),
        (SearchQuery("q", block=("a.org", "b.org")), "q -site:a.org -site:b.org"),
        (SearchQuery("q", allow=("a.org",), block=("b.org",)), "q (site:a.org) -site:b.org"),
    ],
)
def test_domains_become_operators(query, text):
    assert with_sites(query, "{q} ({sites})") == text
    assert with_sites(query, "{q} ({sites})", most=len(text)) == text
    assert with_sites(query, "{q} ({sites})", most=len(text) - 1) == "q"


def test_operators_that_do_not_fit_are_left_out():
    many = tuple(f"host{n:03}.example.org" for n in range(200))
    text = with_sites(SearchQuery("q", block=many), "{q}", most=100_000)
    assert text.startswith("q -site:host000.example.org -site:host001")
    assert len(text) < 330
    assert "host199" not in text
