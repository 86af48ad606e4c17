"""What each API cannot say about server tools."""

from msgspec.structs import replace

from toolbridge.core.answer_losses import AnswerFeatures, in_words
from toolbridge.core.messages import Message, Part, Text
from toolbridge.core.server_tools import (
    CodeOutput,
    FetchedPage,
    McpOutput,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerToolError,
)


def in_text(message: Message, shows: AnswerFeatures) -> Message:
    """Return an answer with words in place of the parts that an API does not have."""
    return replace(message, content=in_words(message.content, shows))


def spoken(message: Message, shows: AnswerFeatures) -> Message:
    """Executed code is text where an API has no part for it; other server tools are not shown."""
    words = in_text(message, shows).content
    content = tuple(part for part in words if not isinstance(part, ServerCall | ServerResult))
    return replace(message, content=content, usage=replace(message.usage, searches=0))


# ── anthropic ──


def anthropic(part: Part) -> Part:
    """A result has no name, a hit no snippet, a page is whole, and only few errors have a text."""
    if not isinstance(part, ServerResult):
        return part
    return replace(part, name="", server="", outcome=_anthropic(part.outcome))


def _anthropic(outcome):
    match outcome:
        case SearchHits(hits):
            return SearchHits(tuple(replace(hit, snippet="") for hit in hits))
        case ServerToolError():
            return replace(outcome, text="")
        case _:
            return outcome


# ── openai_responses ──


def responses(content: tuple[Part, ...]) -> tuple[Part, ...]:
    """An item holds a call and its result, wherever they stood; most errors look the same."""
    parts = [part for part in content if not isinstance(part, ServerCall | ServerResult)]
    calls = {part.id: part for part in content if isinstance(part, ServerCall)}
    results = {part.call_id: part for part in content if isinstance(part, ServerResult)}
    served = [
        (replace(calls[id], name=""), _responses(results[id]))
        for id in sorted(calls)
        if id in results
    ]
    return (*parts, *(part for pair in served for part in pair))


def _responses(result: ServerResult) -> ServerResult:
    outcome = result.outcome
    match outcome:
        case SearchHits(hits):
            outcome = SearchHits(tuple(replace(hit, age="", sealed="") for hit in hits))
        case FetchedPage(url):
            outcome = FetchedPage(url)
        case CodeOutput(stdout, stderr):
            outcome = replace(outcome, stdout=stdout + stderr, stderr="")
        case McpOutput(content, is_error):
            text = "\n".join(part.text for part in content)
            # OpenAI Responses: a call without output has no key for it.
            outcome = McpOutput((Text(text),) if text else (), is_error)
        case ServerToolError() if result.kind == "code_execution":
            outcome = CodeOutput(return_code=1)
        case ServerToolError():
            outcome = ServerToolError("unavailable")
    return replace(result, outcome=outcome, name="")


# ── gemini ──


def gemini(content: tuple[Part, ...]) -> tuple[Part, ...]:
    """Searches are one, at the end, as fetches are; tools of MCP servers are not shown."""
    calls = [part for part in content if isinstance(part, ServerCall)]
    results = {part.call_id: part for part in content if isinstance(part, ServerResult)}
    others = [part for part in content if not isinstance(part, ServerCall | ServerResult)]
    return (*others, *_search(calls, results), *_fetches(calls, results), *_code(content, results))


def _search(calls, results):
    found = [call for call in calls if call.kind == "web_search"]
    queries = [query for call in found for query in _queries(call)]
    outcomes = [results[call.id].outcome for call in found if call.id in results]
    hits = [hit for one in outcomes if isinstance(one, SearchHits) for hit in one.hits]
    pages = dict.fromkeys((hit.url, hit.title) for hit in hits)
    return [Text(f"searched {queries} {sorted(pages)}")] if queries else []


def _queries(call: ServerCall) -> list[object]:
    several = call.arguments.get("queries")
    return several if isinstance(several, list) else [call.arguments.get("query")]


def _fetches(calls, results):
    for call in calls:
        if call.kind == "web_fetch":
            outcome = results[call.id].outcome if call.id in results else FetchedPage("")
            yield Text(f"fetched {call.arguments['url']} {isinstance(outcome, FetchedPage)}")


def _code(content, results):
    for part in content:
        if isinstance(part, ServerCall) and part.kind == "code_execution":
            outcome = results[part.id].outcome if part.id in results else CodeOutput()
            yield Text(f"ran {part.arguments} {_printed(outcome)}")


def _printed(outcome) -> str:
    if isinstance(outcome, ServerToolError):
        return f"failed {outcome.text}"
    code = "failed " if outcome.return_code else ""
    return code + outcome.stdout + outcome.stderr
