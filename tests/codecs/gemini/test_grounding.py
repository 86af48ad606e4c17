"""Sources of an answer, from `groundingMetadata` to citations and back."""

from tests.tables import every_row

from toolbridge.codecs.gemini.grounding import (
    GroundingSources,
    encode_sources,
    fetches,
    tool_record,
)
from toolbridge.codecs.gemini.shapes import CITATION, Candidate
from toolbridge.core.citations import link
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Foreign, Text
from toolbridge.core.server_tools import (
    FetchedPage,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerToolError,
)

A, B = ({"web": {"uri": f"https://{name}.org", "title": name}} for name in "ab")


def support(start, end, *chunks, text=""):
    return {
        "segment": {"startIndex": start, "endIndex": end, "text": text},
        "groundingChunkIndices": [*chunks],
    }


def sources(*chunks, supports=(), **fields):
    found = GroundingSources()
    grounding = {"groundingChunks": [*chunks], "groundingSupports": [*supports], **fields}
    found.read(Candidate(grounding_metadata=grounding))
    return found


def cited(found, before, text, whole):
    """Return (url, start, end) of each citation; None for a page without a passage."""
    return [
        (one["url"], one.get("start_index"), one.get("end_index"))
        for one in found.take(before, text, whole)
    ]


WHOLE = "äb cd"


@every_row(
    ("one", "expected"),
    [
        (support(0, 3, 0), [("https://a.org", 0, 2), ("https://b.org", None, None)]),
        (support(3, 6, 1, 0), [("https://b.org", 2, 5), ("https://a.org", 2, 5)]),
        # An offset inside a character, beyond the end or before the beginning.
        (support(-5, 99, 0, 1), [("https://a.org", 0, 5), ("https://b.org", 0, 5)]),
        # Offsets that count from another beginning: the text of the passage finds it.
        (support(0, 2, 0, 1, text="cd"), [("https://a.org", 3, 5), ("https://b.org", 3, 5)]),
        (support(4, 6, 0, 1, text="äb"), [("https://a.org", 0, 2), ("https://b.org", 0, 2)]),
        (support(0, 2, 0, 1, text="zz"), [("https://a.org", None, None), ("https://b.org", None, None)]),
        # Chunks that are not there.
        (support(0, 3, 2, -1, "0", 1), [("https://b.org", 0, 2), ("https://a.org", None, None)]),
        ({"segment": {"endIndex": 3}, "groundingChunkIndices": [0, 1]}, [("https://a.org", 0, 2), ("https://b.org", 0, 2)]),
        ({"segment": {"startIndex": 0}, "groundingChunkIndices": [0]}, [("https://a.org", None, None), ("https://b.org", None, None)]),
        ({"segment": 5, "groundingChunkIndices": [0]}, [("https://a.org", None, None), ("https://b.org", None, None)]),
        ({"segment": {"endIndex": 3}, "groundingChunkIndices": 0}, [("https://a.org", None, None), ("https://b.org", None, None)]),
    ],
)  # fmt: skip
def test_a_passage_has_its_characters(one, expected):
    assert cited(sources(A, B, supports=[one]), 0, WHOLE, WHOLE) == expected


def test_a_passage_belongs_to_the_text_that_contains_it():
    found = sources(A, B, supports=[support(0, 2, 0), support(3, 5, 1), support(1, 4, 0)])
    whole = "ab cd"
    assert found.left(whole)
    assert cited(found, 0, "ab", whole) == [("https://a.org", 0, 2)]
    assert found.left(whole), "the page of the second text"
    assert cited(found, 3, "cd", whole) == [("https://b.org", 0, 2)]
    assert not found.left(whole)
    assert cited(found, 3, "cd", whole) == [], "each once"


def test_the_pages_of_a_search_are_its_results():
    queries = {"webSearchQueries": ["q", "r", 5]}
    found = sources(A, {"web": {}}, 7, supports=[], searchEntryPoint={"x": 1}, **queries)
    assert cited(found, 0, "ab", "ab") == []
    assert not found.left("ab")
    call, result = found.search("s1")
    assert (call.id, call.kind, call.arguments) == ("s1", "web_search", {"query": "q", "queries": ["q", "r"]})  # fmt: skip
    assert result.outcome == SearchHits((SearchHit("https://a.org", "a"),))
    one = sources(A, webSearchQueries=["q"])
    assert one.search("s1")[0].arguments == {"query": "q"}
    assert sources(A).search("s1") is None
    assert sources(A, webSearchQueries=5).search("s1") is None


def test_the_latest_metadata_count_and_citations_are_given_once():
    found = GroundingSources()
    assert not found
    for field in ("citationSources", "citations"):
        found.read(Candidate(citation_metadata={field: [{"uri": "u"}, "x", {"uri": field}]}))
    assert found
    expected = [{"type": CITATION, "uri": uri} for uri in ("u", "citationSources", "citations")]
    assert found.left("")
    assert found.take(0, "", "") == expected
    assert found.take(0, "", "") == []
    found.read(Candidate(grounding_metadata={"groundingChunks": [A]}))
    found.read(Candidate(grounding_metadata={"groundingChunks": [B]}))
    found.read(Candidate())
    assert cited(found, 0, "", "") == [("https://b.org", None, None)]
    maps = {"maps": {"uri": "https://m.org"}}
    assert cited(sources(maps), 0, "", "") == [("https://m.org", None, None)]


@every_row(
    ("grounding", "kind"),
    [
        (None, None),
        ({"groundingChunks": [A], "groundingSupports": [{}]}, None),
        ({"groundingChunks": [A], "retrievalMetadata": {}, "webSearchQueries": ["q"]}, "webSearchQueries"),
    ],
)  # fmt: skip
def test_the_record_of_a_tool(grounding, kind):
    found = tool_record(Candidate(grounding_metadata=grounding))
    assert (found and found.kind) == kind
    if found is not None:
        assert found.raw == {"groundingMetadata": {"webSearchQueries": ["q"]}}


@every_row(
    ("status", "outcome"),
    [
        ("URL_RETRIEVAL_STATUS_SUCCESS", FetchedPage("u")),
        ("URL_RETRIEVAL_STATUS_ERROR", ServerToolError("url_not_accessible")),
        ("URL_RETRIEVAL_STATUS_UNSAFE", ServerToolError("url_not_allowed")),
    ],
)
def test_a_page_that_was_fetched(status, outcome):
    entry = {"retrievedUrl": "u", "urlRetrievalStatus": status}
    call, result = fetches({"urlMetadata": [entry, 5]}, Ids("t"))
    assert (call.arguments, result.call_id, result.outcome) == ({"url": "u"}, call.id, outcome)
    own = {"urlContextMetadata": {"urlMetadata": [entry]}}
    assert encode_sources((call, result)) == own
    bare = ServerResult(call.id, "web_fetch", outcome)
    assert encode_sources((call, bare)) == own


def test_sources_of_several_texts_are_written_in_bytes():
    content = (
        Text("ä ", (link("https://a.org", "a", (0, 1)),)),
        ServerCall("s", "web_search", "web_search", {"query": "q"}),
        ServerResult("s", "web_search", SearchHits((SearchHit("https://b.org", "b"),))),
        Text("b c", (link("https://b.org", "b", (2, 3)), link("https://a.org", "a"), {"type": CITATION, "uri": "u"})),
    )  # fmt: skip
    assert encode_sources(content) == {
        "citationMetadata": {"citationSources": [{"uri": "u"}]},
        "groundingMetadata": {
            "webSearchQueries": ["q"],
            "groundingChunks": [B, A],
            "groundingSupports": [
                support(0, 2, 1, text="ä"),
                support(5, 6, 0, text="c"),
            ],
        },
    }
    assert encode_sources((Text("a"),)) == {}
    kept = Foreign("gemini", "x", {"groundingMetadata": {"retrievalMetadata": {"a": 1}}})
    other = Foreign("gemini", "x", {"groundingMetadata": {}, "more": 1})
    assert encode_sources((kept, other, Foreign("openai_chat", "x", kept.raw))) == kept.raw
    both = encode_sources((kept, Text("a", (link("https://a.org", "a"),))))
    assert both["groundingMetadata"] == {"retrievalMetadata": {"a": 1}, "groundingChunks": [A]}
