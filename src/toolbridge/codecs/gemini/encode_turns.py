"""Our turns, as contents of the Gemini API.

Gemini API, function calling: one content holds a response for every call of the content before it.
Requests of other APIs get their results in the order of the calls.
"""

from math import inf

from toolbridge.codecs.gemini.media import encode_detail, encode_media, inline_part
from toolbridge.codecs.gemini.quirks import Quirks
from toolbridge.codecs.gemini.shapes import MESSAGE, METADATA, ORIGIN
from toolbridge.codecs.gemini.signatures import SKIP, encode_signature
from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Loss,
    Reference,
    Request,
    Result,
    ResultPart,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.parts_text import available_text, document_text
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.source import own_words


class TurnEncoder:
    """Writes the contents of one request and reports what a content cannot hold."""

    def __init__(self, request: Request, quirks: Quirks, losses: list[Loss]) -> None:
        self._own = request.origin == ORIGIN
        self._quirks = quirks
        self.losses = losses
        self.calls: dict[str, tuple[int, str]] = {}
        """The position and the name of every call so far, by its id."""

    def _lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def encode(self, number: int, turn: Turn) -> list[JsonObject]:
        """Return the content of a turn, or nothing if no part of it is left.

        Gemini API, generateContent: a content without parts is a 400.
        """
        where = f"turns.{number}.content"
        results: list[tuple[float, list[JsonObject]]] = []
        others: list[Json] = []
        signed = False
        fields: JsonObject = {}
        for index, part in enumerate(turn.content):
            here = f"{where}.{index}"
            if isinstance(part, Foreign) and (part.origin, part.kind) == (ORIGIN, MESSAGE):
                fields |= part.raw
            elif isinstance(part, Result):
                results.append(
                    (self.calls.get(part.call_id, (inf, ""))[0], self._result(part, here))
                )
            elif isinstance(part, Call):
                others.append(self._call(part, first=not signed))
                signed = True
            elif (found := self._part(part, here)) is not None:
                others.append(found)
        if not self._own:
            results.sort(key=lambda result: result[0])
        answers: list[Json] = [found[0] for _, found in results]
        media: list[Json] = [part for _, found in results for part in found[1:]]
        parts = answers + media + others
        if not parts:
            return []
        # Gemini API, Content: "user" and "model" are the only roles.
        role = "model" if turn.role == "assistant" else "user"
        return [{**fields, "role": role, "parts": parts}]

    def _call(self, call: Call, *, first: bool) -> JsonObject:
        self.calls.setdefault(call.id, (len(self.calls), call.name))
        arguments: JsonObject = {"raw": call.raw} if call.raw else call.arguments
        part: JsonObject = {
            "functionCall": {"id": call.id, "name": call.name, "args": arguments},
            **encode_signature(call.opaque),
        }
        part = own_words(call, ORIGIN) or part
        # Gemini API, thought signatures: of parallel calls only the first is signed and checked.
        return {**part, "thoughtSignature": part.get("thoughtSignature", SKIP)} if first else part

    def _part(
        self, part: ResultPart | Thinking | ServerCall | ServerResult, where: str
    ) -> JsonObject | None:
        written = own_words(part, ORIGIN)
        if written is not None:
            return written
        match part:
            case Text(text):
                if part.citations:
                    self._lose(f"{where}.citations", "Gemini accepts no citations in a request")
                return {"text": text, **encode_signature(part.opaque)}
            case Thinking():
                return self._thought(part, where)
            case Image() | Document() | Audio():
                return self._media(part, where)
            case Reference(name):
                return {"text": available_text(name)}
            case ServerCall() | ServerResult():
                return {"text": server_text(part)}
            case Foreign(origin, kind, raw):
                if origin == ORIGIN:
                    return (
                        None if METADATA.issuperset(raw) else raw
                    )  # fields of a candidate, not a part
                self._lose(where, foreign_why(origin, kind))
                return None

    def _thought(self, thought: Thinking, where: str) -> JsonObject | None:
        signature = encode_signature(thought.opaque)
        if thought.text and (signature or self._own):
            return {"text": thought.text, "thought": True, **signature}
        # Gemini API, thought signatures: a signature may stand on an empty text.
        if signature:
            return {"text": "", **signature}
        self._lose(where, "Gemini accepts only its own thoughts")
        return None

    def _media(self, media: Image | Document | Audio, where: str) -> JsonObject | None:
        if isinstance(media, Audio):
            return inline_part(media.data, media.media_type)
        if isinstance(media, Document) and media.cite:
            self._lose(f"{where}.cite", "Gemini cites no documents of a request")
        if isinstance(media, Document) and media.text:
            return {"text": document_text(media)}
        part = encode_media(media)
        if part is None:
            self._lose(where, "Gemini takes media as data or by URL, not by the id of a file")
            return None
        if isinstance(media, Document):
            for name in ("title", "context"):
                if getattr(media, name):
                    self._lose(
                        f"{where}.{name}", "Gemini's media have neither a title nor a context"
                    )
            return part
        if media.detail and not self._own:
            self._lose(f"{where}.detail", "Gemini's models set the detail of an image themselves")
        return {**part, **encode_detail(media)} if self._own else part

    # ── results ──

    def _result(self, result: Result, where: str) -> list[JsonObject]:
        """Return the response, followed by the media that it cannot hold."""
        written = own_words(result, ORIGIN)
        if written is not None and (self._quirks.media_in_results or not _holds_media(result)):
            return [written]
        name = result.name or self.calls.get(result.call_id, (0, "unknown"))[1]
        texts: list[str] = []
        media: list[Json] = []
        for index, part in enumerate(result.content):
            found = self._part(part, f"{where}.content.{index}")
            if found is None:
                continue
            text = found.get("text")
            if isinstance(text, str):
                texts.append(text)
            else:
                media.append(found)
        response: JsonObject = {
            "id": result.call_id,
            "name": name,
            "response": self._response("\n".join(texts), is_error=result.is_error),
        }
        if not media:
            return [{"functionResponse": response}]
        # Gemini API, FunctionResponse: media inside a response need Gemini 3.
        if self._quirks.media_in_results:
            return [{"functionResponse": {**response, "parts": media}}]
        # Gemini API, function calling: other parts follow all responses of the content.
        heading: JsonObject = {"text": f"[media from the tool {name}]"}
        following = [part for part in media if isinstance(part, dict)]
        return [{"functionResponse": response}, heading, *following]

    def _response(self, text: str, *, is_error: bool) -> JsonObject:
        # Gemini API, FunctionResponse: an object; "output" and "error" are the documented keys.
        if is_error:
            return {"error": text}
        if self._own and text.startswith("{"):
            # `decode_turns` reads an object as its JSON text; unchanged text becomes that object again.
            found = maybe_object(text)
            if found and found.keys() not in ({"output"}, {"error"}) and dumps(found) == text:
                return found
        return {"output": text}


def _holds_media(result: Result) -> bool:
    return any(not isinstance(part, Text) for part in result.content)
