"""Server tools as text, for models and clients of APIs that have no part for them.

A model reads the result of a tool that ran at another vendor, or here, as text. Text that comes
from the web or from an MCP server is marked as untrusted (`core.untrusted`).
"""

from toolbridge.core.content import Image, Text
from toolbridge.core.fences import fenced
from toolbridge.core.json import dumps, text_of
from toolbridge.core.server_tools import (
    CodeOutput,
    FetchedPage,
    FoundTools,
    McpApproval,
    McpListing,
    McpOutput,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerToolError,
    ServerToolOutcome,
)
from toolbridge.core.untrusted import framed

_LANGUAGES = {"code": "python", "command": "bash"}


def server_text(part: ServerCall | ServerResult) -> str:
    """Return a past call or result as a text in the history."""
    if isinstance(part, ServerResult):
        return f"\n{outcome_text(part.outcome)}\n"
    if part.kind == "code_execution":
        return code_text(part)
    return f"\n[{_deed(part)}]\n"


def _deed(call: ServerCall) -> str:
    query = dumps(call.arguments.get("query", ""))
    match call.kind:
        case "web_search":
            return f"searched the web for {query}"
        case "web_fetch":
            return f"fetched {dumps(call.arguments.get('url', ''))}"
        case "tool_search":
            return f"searched the tools for {query}"
        case _:
            return f"called {call.name} of {call.server or 'a server'} with {dumps(call.arguments)}"


def code_text(part: ServerCall | ServerResult) -> str:
    """Return executed code, or its output, as fenced code."""
    if isinstance(part, ServerCall):
        return "".join(
            fenced(text_of(part.arguments.get(field)), language)
            for field, language in _LANGUAGES.items()
        )
    if isinstance(part.outcome, CodeOutput):
        return fenced(part.outcome.stdout) + fenced(part.outcome.stderr)
    return outcome_text(part.outcome)


def outcome_text(outcome: ServerToolOutcome) -> str:
    """Return a result as the text that the model reads."""
    match outcome:
        case SearchHits(hits):
            return framed(hits_text(hits), "web_search") if hits else "No results were found."
        case FetchedPage():
            return _page_text(outcome)
        case FoundTools(names):
            listed = ", ".join(names)
            return f"Tools that can be called now: {listed}." if names else "No tool was found."
        case CodeOutput(stdout, stderr, code):
            ending = f"[exit code {code}]" if code else ""
            return (fenced(stdout) + fenced(stderr) + ending).strip() or "[no output]"
        case McpListing(tools):
            return "Tools of the server: " + ", ".join(tool.name for tool in tools)
        case McpOutput():
            return framed("\n".join(outcome.texts), "mcp")
        case McpApproval(approve, reason):
            return f"[the user {'approved' if approve else 'declined'} the call] {reason}".rstrip()
        case ServerToolError(code, text):
            return f"Error: {code}. {text}".rstrip()


def outcome_summary(outcome: ServerToolOutcome) -> str:
    """Return what came out, without the content, for the log."""
    match outcome:
        case SearchHits(hits):
            return f"{len(hits)} results"
        case FetchedPage():
            cut = ", cut" if outcome.truncated else ""
            return f"{len(outcome.text or outcome.data)} characters from {outcome.url}{cut}"
        case FoundTools(names):
            return f"found {', '.join(names) or 'no tool'}"
        case CodeOutput(_, _, code):
            return f"exit code {code}"
        case McpListing(tools):
            return f"{len(tools)} tools"
        case McpOutput(content, is_error):
            return f"{'an error' if is_error else 'a result'} with {len(content)} parts"
        case McpApproval(approve):
            return "approved" if approve else "declined"
        case ServerToolError(code, text):
            return f"error {code}: {text}".rstrip(": ")


def outcome_parts(outcome: ServerToolOutcome) -> tuple[Text | Image, ...]:
    """Return a result as the content of a tool result; images are kept."""
    if not isinstance(outcome, McpOutput):
        return (Text(outcome_text(outcome)),)
    parts = tuple(
        part if isinstance(part, Image) else Text(framed(part.text, "mcp"))
        for part in outcome.content
    )
    return parts or (Text("[no output]"),)


def hits_text(hits: tuple[SearchHit, ...]) -> str:
    """Return search results as a numbered list: title, address, age and snippet."""
    return "\n".join(_hit_text(number, hit) for number, hit in enumerate(hits, 1))


def _hit_text(number: int, hit: SearchHit) -> str:
    age = f" ({hit.age})" if hit.age else ""
    head = f"{number}. {hit.title or hit.url} — {hit.url}{age}"
    return f"{head}\n   {hit.snippet}" if hit.snippet else head


def _page_text(page: FetchedPage) -> str:
    if page.data:
        return f"[{page.media_type} from {page.url}]"
    head = f"{page.title}\n{page.url}\n\n" if page.title else f"{page.url}\n\n"
    cut = "\n[The page is longer; the rest was left out.]" if page.truncated else ""
    return framed(head + page.text, "web_fetch") + cut
