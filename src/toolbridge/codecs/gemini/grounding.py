"""Sources of an answer: pages that a search found, and the passages that rest on them.

Gemini API, GroundingMetadata: they stand beside the text, in the last chunk or in every chunk, with
spans in bytes of UTF-8. Our citations belong to one text and have spans in characters.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from toolbridge.codecs.gemini.shapes import CITATION, METADATA, ORIGIN, Candidate
from toolbridge.core.citations import link, links
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, objects_of
from toolbridge.core.messages import Foreign, Origin, Part, Text
from toolbridge.core.server_tools import (
    FetchedPage,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerPart,
    ServerResult,
    ServerToolError,
    ServerToolErrorCode,
)
from toolbridge.core.source import own_words, sourced

_CHUNKS = ("web", "retrievedContext", "maps")
"""The kinds of a grounding chunk that can have a URL."""
_CITED = frozenset({"groundingChunks", "groundingSupports"})
"""The fields from which citations are made; the others are records of tools."""
_Span: TypeAlias = tuple[int, int]


class _Page(NamedTuple):
    url: str
    title: str


class _Support(NamedTuple):
    """A passage, in bytes of the answer, and the indices of the chunks that it rests on."""

    start: int
    end: int
    text: str
    chunks: list[Json]


class GroundingSources:
    """The sources in the chunks of an answer; the latest `groundingMetadata` counts."""

    def __init__(self) -> None:
        self._grounding: JsonObject | None = None
        self._cited: list[JsonObject] = []
        self._given: set[tuple[str, _Span | None]] = set()

    def __bool__(self) -> bool:
        return self._grounding is not None or bool(self._cited)

    def read(self, candidate: Candidate) -> None:
        if candidate.grounding_metadata is not None:
            self._grounding = candidate.grounding_metadata
        found = candidate.citation_metadata or {}
        # Gemini API, CitationMetadata: `citationSources`; Vertex AI: `citations`.
        for source in objects_of(found.get("citationSources") or found.get("citations")):
            if (cited := {"type": CITATION, **source}) not in self._cited:
                self._cited.append(cited)

    @property
    def queries(self) -> list[str]:
        """The queries of the searches."""
        found = (self._grounding or {}).get("webSearchQueries")
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []

    def take(self, before: int, text: str, whole: str) -> list[JsonObject]:
        """Return the citations of `text`, which begins after `before` characters of `whole`."""
        found: list[JsonObject] = []
        spanned: set[_Page] = set()
        for page, span in self._passages(whole):
            spanned.add(page)
            inside = before <= span[0] and span[1] <= before + len(text)
            if inside and self._is_new(page.url, span):
                found.append(link(page.url, page.title, (span[0] - before, span[1] - before)))
        # The pages of a search are its results; other pages without a passage are citations.
        if not self.queries:
            named = (page for page in _pages(self._grounding) if page is not None)
            rest = (page for page in named if page not in spanned and self._is_new(page.url, None))
            found += [link(page.url, page.title) for page in rest]
        cited, self._cited = self._cited, []
        return found + cited

    def left(self, whole: str) -> bool:
        """Return whether a source was attached to no text."""
        passages = {page.url for page, span in self._passages(whole)}
        pages = {page.url for page in _pages(self._grounding) if page is not None}
        given = {url for url, _ in self._given}
        named = passages if self.queries else passages | pages
        return bool(self._cited) or not named <= given

    def search(self, id: str) -> tuple[ServerCall, ServerResult] | None:
        """Return the searches as one call and its result; None if there was no search."""
        queries = self.queries
        if not queries:
            return None
        arguments: JsonObject = {"query": queries[0]}
        if len(queries) > 1:
            arguments["queries"] = [*queries]
        pages = (page for page in _pages(self._grounding) if page is not None)
        hits = SearchHits(tuple(SearchHit(page.url, page.title) for page in pages))
        rest: JsonObject = {k: v for k, v in (self._grounding or {}).items() if k not in _CITED}
        source = Origin(ORIGIN, "", {"groundingMetadata": rest})
        call = ServerCall(id, "web_search", "web_search", arguments)
        return call, sourced(ServerResult(id, "web_search", hits, "web_search"), source)

    def _is_new(self, url: str, span: _Span | None) -> bool:
        if (url, span) in self._given:
            return False
        self._given.add((url, span))
        return True

    def _passages(self, whole: str) -> list[tuple[_Page, _Span]]:
        pages = _pages(self._grounding)
        supports = [*_supports(self._grounding)]
        positions = _characters(whole, [at for s in supports for at in (s.start, s.end)])
        found: list[tuple[_Page, _Span]] = []
        for support in supports:
            span = _span(support, positions, whole)
            for number in support.chunks:
                known = isinstance(number, int) and 0 <= number < len(pages)
                page = pages[number] if known and isinstance(number, int) else None
                if page is not None and span is not None:
                    found.append((page, span))
        return found


def _pages(grounding: JsonObject | None) -> list[_Page | None]:
    """Return the page of every grounding chunk; None for a chunk without a URL."""
    chunks = (grounding or {}).get("groundingChunks")
    return [_page(chunk) for chunk in chunks] if isinstance(chunks, list) else []


def _page(chunk: Json) -> _Page | None:
    for kind in _CHUNKS:
        inner = chunk.get(kind) if isinstance(chunk, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("uri"), str):
            return _Page(str(inner["uri"]), str(inner.get("title") or ""))
    return None


def _supports(grounding: JsonObject | None) -> Iterable[_Support]:
    for support in objects_of((grounding or {}).get("groundingSupports")):
        segment, chunks = support.get("segment"), support.get("groundingChunkIndices")
        if isinstance(segment, dict) and isinstance(chunks, list):
            # Protocol buffers, JSON mapping: a field with the value 0 is left out.
            start, end = segment.get("startIndex") or 0, segment.get("endIndex")
            if isinstance(start, int) and isinstance(end, int):
                yield _Support(start, end, str(segment.get("text") or ""), chunks)


def _span(support: _Support, positions: dict[int, int], whole: str) -> _Span | None:
    span = (positions[support.start], positions[support.end])
    if not support.text or whole[span[0] : span[1]] == support.text:
        return span
    # Gemini API, Segment: offsets count from the beginning of a part. Its text finds the passage.
    at = whole.find(support.text)
    return None if at < 0 else (at, at + len(support.text))


def _characters(text: str, offsets: list[int]) -> dict[int, int]:
    """Return the position in characters of each offset in bytes, in one pass."""
    data = text.encode("utf-8", "replace")
    found: dict[int, int] = {}
    last = characters = 0
    for offset in sorted(set(offsets)):
        end = min(max(offset, 0), len(data))
        characters += len(data[last:end].decode("utf-8", "ignore"))
        last = max(last, end)
        found[offset] = characters
    return found


def tool_record(candidate: Candidate) -> Foreign | None:
    """Return the record of a built-in tool in a candidate that found pages without a search."""
    grounding = candidate.grounding_metadata or {}
    rest: JsonObject = {k: v for k, v in grounding.items() if v and k not in _CITED}
    return Foreign(ORIGIN, next(iter(rest)), {"groundingMetadata": rest}) if rest else None


_FAILED: dict[str, ServerToolErrorCode] = {
    "URL_RETRIEVAL_STATUS_ERROR": "url_not_accessible",
    "URL_RETRIEVAL_STATUS_PAYWALL": "url_not_accessible",
    "URL_RETRIEVAL_STATUS_UNSAFE": "url_not_allowed",
}
"""Gemini API, UrlRetrievalStatus: why a page was not read."""
_FETCHED = "URL_RETRIEVAL_STATUS_SUCCESS"


def fetches(metadata: JsonObject, ids: Ids) -> list[ServerPart]:
    """Return the pages in `urlContextMetadata` as calls and results."""
    found: list[ServerPart] = []
    for entry in objects_of(metadata.get("urlMetadata")):
        url, id = str(entry.get("retrievedUrl") or ""), f"builtin_{ids.draw(16)}"
        failed = _FAILED.get(str(entry.get("urlRetrievalStatus")))
        outcome = FetchedPage(url) if failed is None else ServerToolError(failed)
        result = ServerResult(id, "web_fetch", outcome, "web_fetch")
        source = Origin(ORIGIN, "", {"urlContextMetadata": {"urlMetadata": [entry]}})
        found += [
            ServerCall(id, "web_fetch", "web_fetch", {"url": url}),
            sourced(result, source),
        ]
    return found


# ── ours to theirs ───────────────────────────────────────────────────────────


def encode_sources(content: tuple[Part, ...]) -> JsonObject:
    """Return the fields of a candidate with the sources of its text."""
    cited: list[Json] = []
    pages = {page: number for number, page in enumerate(_found_pages(content))}
    supports: list[Json] = []
    before = 0
    for part in content:
        if not isinstance(part, Text):
            continue
        own = [one for one in part.citations if one.get("type") == CITATION]
        cited += [{k: v for k, v in one.items() if k != "type"} for one in own]
        for found in links(Text(part.text, tuple(c for c in part.citations if c not in own))):
            number = pages.setdefault(_Page(found.url, found.title), len(pages))
            if found.exact:
                segment = _segment(part.text, before, (found.start, found.end))
                supports.append({"segment": segment, "groundingChunkIndices": [number]})
        before += len(part.text.encode("utf-8", "replace"))
    return _with_records(_fields(cited, [*pages], supports), content)


def _found_pages(content: tuple[Part, ...]) -> dict[_Page, None]:
    """Return the pages that searches found, each once."""
    results = (part.outcome for part in content if isinstance(part, ServerResult))
    hits = (hit for outcome in results if isinstance(outcome, SearchHits) for hit in outcome.hits)
    return dict.fromkeys(_Page(hit.url, hit.title) for hit in hits)


def _queries(call: ServerCall) -> list[Json]:
    queries = call.arguments.get("queries")
    return queries if isinstance(queries, list) else [call.arguments.get("query", "")]


def _with_calls(fields: JsonObject, content: tuple[Part, ...]) -> JsonObject:
    """Return `fields` with the queries of searches and the pages that were fetched."""
    calls = [part for part in content if isinstance(part, ServerCall)]
    queries = [query for call in calls if call.kind == "web_search" for query in _queries(call)]
    if queries:
        known = fields.get("groundingMetadata")
        searched: JsonObject = {"webSearchQueries": queries}
        fields["groundingMetadata"] = searched | (known if isinstance(known, dict) else {})
    results = {part.call_id: part for part in content if isinstance(part, ServerResult)}
    pages = [_page_record(call, results) for call in calls if call.kind == "web_fetch"]
    if pages:
        fields["urlContextMetadata"] = {"urlMetadata": [*pages]}
    return fields


def _page_record(call: ServerCall, results: dict[str, ServerResult]) -> JsonObject:
    result = results.get(call.id)
    if result is not None and (written := own_words(result, ORIGIN)) is not None:
        metadata = written.get("urlContextMetadata")
        entries = objects_of(metadata.get("urlMetadata")) if isinstance(metadata, dict) else []
        if entries:
            return entries[0]
    outcome = result.outcome if result is not None else None
    failed = outcome.code if isinstance(outcome, ServerToolError) else ""
    unsafe = failed in {"url_not_allowed", "url_not_in_prior_context"}
    status = "URL_RETRIEVAL_STATUS_UNSAFE" if unsafe else "URL_RETRIEVAL_STATUS_ERROR"
    url = outcome.url if isinstance(outcome, FetchedPage) else call.arguments.get("url", "")
    return {"retrievedUrl": url, "urlRetrievalStatus": status if failed else _FETCHED}


def _with_records(fields: JsonObject, content: tuple[Part, ...]) -> JsonObject:
    """Return `fields` with the records of Gemini's built-in tools."""
    for part in content:
        for name, value in _record(part).items():
            sources = fields.get(name)
            if isinstance(sources, dict) and isinstance(value, dict):
                fields[name] = value | sources
            else:
                fields[name] = value
    return _with_calls(fields, content)


def _record(part: Part) -> JsonObject:
    """Return the metadata of a candidate that a part keeps."""
    if isinstance(part, Foreign) and part.origin == ORIGIN and METADATA.issuperset(part.raw):
        return part.raw
    if not isinstance(part, ServerResult) or part.kind != "web_search":
        return {}
    written = own_words(part, ORIGIN) or {}
    return written if METADATA.issuperset(written) else {}


def _segment(text: str, before: int, span: _Span) -> JsonObject:
    passage = text[span[0] : span[1]]
    start = before + len(text[: span[0]].encode("utf-8", "replace"))
    end = start + len(passage.encode("utf-8", "replace"))
    return {"startIndex": start, "endIndex": end, "text": passage}


def _fields(cited: list[Json], pages: list[_Page], supports: list[Json]) -> JsonObject:
    fields: JsonObject = {"citationMetadata": {"citationSources": cited}} if cited else {}
    if pages:
        chunks: list[Json] = [{"web": {"uri": page.url, "title": page.title}} for page in pages]
        grounding: JsonObject = {"groundingChunks": chunks}
        fields["groundingMetadata"] = grounding | (
            {"groundingSupports": supports} if supports else {}
        )
    return fields
