"""Parts of Gemini's built-in tools, as our calls and results of server tools, in both directions.

Gemini API, Part: `executableCode` and `codeExecutionResult` stand in the content; with
`includeServerSideToolInvocations` so do `toolCall` and `toolResponse` of searches and fetches.
Without it, a candidate has only metadata about them (`grounding`).
"""

from typing import Literal

from toolbridge.codecs.gemini.shapes import ORIGIN
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject, dumps, text_in
from toolbridge.core.messages import Origin
from toolbridge.core.server_tools import (
    CodeOutput,
    FetchedPage,
    SearchHits,
    ServerCall,
    ServerPart,
    ServerResult,
    ServerToolError,
    ServerToolKind,
    ServerToolOutcome,
)
from toolbridge.core.source import own_words, sourced

CODE: Literal["code_execution"] = "code_execution"
_PYTHON = "PYTHON"
_TYPES: dict[str, ServerToolKind] = {"GOOGLE_SEARCH_WEB": "web_search", "URL_CONTEXT": "web_fetch"}
"""Gemini API, ToolType: the built-in tools that other APIs have, too."""
_LATE = "OUTCOME_DEADLINE_EXCEEDED"


class BuiltinParts:
    """Decodes the parts of one content; a part without an id belongs to the call before it."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._calls: dict[str, ServerCall] = {}
        self._last = ""
        """The id of the last code that was executed."""
        self.searched = False
        """True if a part was the call of a search: the metadata then describe the same search."""

    def decode(self, raw: JsonObject, where: str = "") -> ServerPart | None:
        """Return a call or a result; None for any other part."""
        part = self._decode(raw)
        if isinstance(part, ServerCall):
            self._calls[part.id] = part
            self.searched = self.searched or part.kind == "web_search"
        return None if part is None else sourced(part, Origin(ORIGIN, where, raw))

    def _decode(self, raw: JsonObject) -> ServerPart | None:
        match raw:
            case {"executableCode": dict(code)}:
                return self._code(code)
            case {"codeExecutionResult": dict(result)}:
                id = text_in(result, "id") or self._last or self._new_id()
                return ServerResult(id, CODE, _output(result), CODE)
            case {"toolCall": dict(call)}:
                return self._call(call)
            case {"toolResponse": dict(response)}:
                return self._response(response)
            case _:
                return None

    def _code(self, code: JsonObject) -> ServerCall:
        self._last = text_in(code, "id") or self._new_id()
        arguments: JsonObject = {"code": text_in(code, "code")}
        language = text_in(code, "language")
        if language not in {"", _PYTHON, "LANGUAGE_UNSPECIFIED"}:
            arguments["language"] = language.lower()
        return ServerCall(self._last, CODE, CODE, arguments)

    def _call(self, call: JsonObject) -> ServerCall | None:
        kind = _TYPES.get(text_in(call, "toolType"))
        if kind is None:
            return None
        given = call.get("args")
        arguments = dict(given) if isinstance(given, dict) else {}
        single, several = ("query", "queries") if kind == "web_search" else ("url", "urls")
        listed = arguments.get(several)
        if single not in arguments and isinstance(listed, list) and listed:
            arguments = {single: listed[0], **arguments}
        return ServerCall(text_in(call, "id") or self._new_id(), kind, kind, arguments)

    def _response(self, response: JsonObject) -> ServerResult | None:
        kind = _TYPES.get(text_in(response, "toolType"))
        if kind is None:
            return None
        id = text_in(response, "id")
        outcome: ServerToolOutcome = SearchHits()
        if kind == "web_fetch":
            call = self._calls.get(id)
            outcome = FetchedPage(text_in(call.arguments, "url") if call else "")
        return ServerResult(id, kind, outcome, kind)

    def _new_id(self) -> str:
        return f"builtin_{self._ids.draw(16)}"


def _output(result: JsonObject) -> ServerToolOutcome:
    text, outcome = text_in(result, "output"), text_in(result, "outcome")
    if outcome == _LATE:
        return ServerToolError("execution_time_exceeded", text)
    if outcome == "OUTCOME_FAILED":
        return CodeOutput(stderr=text, return_code=1)
    return CodeOutput(text)


# ── ours to theirs ───────────────────────────────────────────────────────────


def encode_builtin(part: ServerPart) -> JsonObject | None:
    """Return the part of executed code or of its output; None for a tool that has no parts."""
    written = own_words(part, ORIGIN)
    if written is not None and "groundingMetadata" not in written:
        return None if "urlContextMetadata" in written else written
    if part.kind != CODE:
        return None
    if isinstance(part, ServerCall):
        # Gemini API, ExecutableCode: the only named language is Python.
        language = _PYTHON if "code" in part.arguments else "LANGUAGE_UNSPECIFIED"
        code: JsonObject = {"language": language, "code": _source_code(part.arguments)}
        return {"executableCode": {"id": part.id, **code}}
    return {"codeExecutionResult": {"id": part.call_id, **_result(part.outcome)}}


def _source_code(arguments: JsonObject) -> str:
    code = arguments.get("code") or arguments.get("command")
    return code if isinstance(code, str) else dumps(arguments)


def _result(outcome: ServerToolOutcome) -> JsonObject:
    if isinstance(outcome, ServerToolError):
        late = outcome.code == "execution_time_exceeded"
        return {"outcome": _LATE if late else "OUTCOME_FAILED", "output": outcome.text}
    if not isinstance(outcome, CodeOutput):
        return {"outcome": "OUTCOME_OK", "output": ""}
    failed = outcome.return_code != 0
    return {
        "outcome": "OUTCOME_FAILED" if failed else "OUTCOME_OK",
        "output": outcome.stdout + outcome.stderr,
    }
