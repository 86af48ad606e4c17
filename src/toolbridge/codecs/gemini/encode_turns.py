"""Our turns as Gemini's contents: results in the order of their calls, media beside the text."""

from math import inf

from toolbridge.codecs.gemini.decode_turns import MESSAGE
from toolbridge.codecs.gemini.encode_thinking import Lose
from toolbridge.codecs.gemini.media import encode_detail, encode_media, inline_part
from toolbridge.codecs.gemini.quirks import Quirks
from toolbridge.codecs.gemini.shapes import METADATA, ORIGIN, SKIP, write_signature
from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Reference,
    Request,
    Result,
    ResultPart,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.source import own_words


class TurnEncoder:
    """Writes the contents of one request."""

    def __init__(self, request: Request, quirks: Quirks, lose: Lose) -> None:
        self._own = request.origin == ORIGIN
        self._quirks = quirks
        self._lose = lose
        self._calls: dict[str, tuple[int, str]] = {}
        """The place and the tool's name of every call so far, by its id."""

    def encode(self, number: int, turn: Turn) -> JsonObject | None:
        """Return a turn; None where nothing of it is left, for an empty content is refused."""
        where = f"turns.{number}.content"
        results: list[tuple[float, list[JsonObject]]] = []
        others: list[Json] = []
        signed = False
        fields: JsonObject = {}
        for place, part in enumerate(turn.content):
            here = f"{where}.{place}"
            if isinstance(part, Foreign) and (part.origin, part.kind) == (ORIGIN, MESSAGE):
                fields |= part.raw
            elif isinstance(part, Result):
                results.append(
                    (self._calls.get(part.call_id, (inf, ""))[0], self._result(part, here))
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
            return None
        role = "model" if turn.role == "assistant" else "user"
        return {**fields, "role": role, "parts": parts}

    def _call(self, call: Call, *, first: bool) -> JsonObject:
        self._calls.setdefault(call.id, (len(self._calls), call.name))
        arguments: JsonObject = {"raw": call.raw} if call.raw else call.arguments
        part: JsonObject = {
            "functionCall": {"id": call.id, "name": call.name, "args": arguments},
            **write_signature(call.opaque),
        }
        part = own_words(call, ORIGIN) or part
        # Of parallel calls only the first is signed, and only there a signature is missed.
        return {**part, "thoughtSignature": part.get("thoughtSignature", SKIP)} if first else part

    def _part(self, part: ResultPart | Thinking, where: str) -> JsonObject | None:
        said = own_words(part, ORIGIN)
        if said is not None:
            return said
        match part:
            case Text(text):
                if part.citations:
                    self._lose(f"{where}.citations", "Gemini takes no citations back")
                return {"text": text, **write_signature(part.opaque)}
            case Thinking():
                return self._thought(part, where)
            case Image() | Document() | Audio():
                return self._media(part, where)
            case Reference(name):
                return {"text": _available(name)}
            case Foreign(origin, kind, raw):
                if origin == ORIGIN:
                    return None if METADATA.issuperset(raw) else raw  # an answer's, not a turn's
                self._lose(where, foreign_why(origin, kind))
                return None

    def _thought(self, thought: Thinking, where: str) -> JsonObject | None:
        signature = write_signature(thought.opaque)
        if thought.text and (signature or self._own):
            return {"text": thought.text, "thought": True, **signature}
        if signature:
            return {"text": "", **signature}
        self._lose(where, "Gemini takes back only its own thoughts")
        return None

    def _media(self, media: Image | Document | Audio, where: str) -> JsonObject | None:
        if isinstance(media, Audio):
            return inline_part(media.data, media.media_type)
        if isinstance(media, Document) and media.cite:
            self._lose(f"{where}.cite", "Gemini cites no documents of the prompt")
        if isinstance(media, Document) and media.text:
            return {"text": _document_text(media)}
        part = encode_media(media)
        if part is None:
            self._lose(where, "Gemini takes media as data or by address, not by an id")
            return None
        if isinstance(media, Document):
            for name in ("title", "context"):
                if getattr(media, name):
                    self._lose(f"{where}.{name}", "Gemini's media have no words beside them")
            return part
        if media.detail and not self._own:
            self._lose(f"{where}.detail", "Gemini chooses the detail of an image by itself")
        return {**part, **encode_detail(media)} if self._own else part

    # ── results ──

    def _result(self, result: Result, where: str) -> list[JsonObject]:
        """Return the response, and after it the media that may not stand in it."""
        said = own_words(result, ORIGIN)
        if said is not None and (self._quirks.media_in_results or not _holds_media(result)):
            return [said]
        name = result.name or self._calls.get(result.call_id, (0, "unknown"))[1]
        texts: list[str] = []
        media: list[Json] = []
        for place, part in enumerate(result.content):
            found = self._part(part, f"{where}.content.{place}")
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
        if self._quirks.media_in_results:
            return [{"functionResponse": {**response, "parts": media}}]
        heading: JsonObject = {"text": f"[media from the tool {name}]"}
        following = [part for part in media if isinstance(part, dict)]
        return [{"functionResponse": response}, heading, *following]

    def _response(self, text: str, *, is_error: bool) -> JsonObject:
        if is_error:
            return {"error": text}
        if self._own and text.startswith("{"):
            # An object was read as its JSON; where that is what stands here, it is one again.
            found = maybe_object(text)
            if found and found.keys() not in ({"output"}, {"error"}) and dumps(found) == text:
                return found
        return {"output": text}


def _holds_media(result: Result) -> bool:
    return any(not isinstance(part, Text) for part in result.content)


def _available(name: str) -> str:
    return f"Tool {name} is now available."


def _document_text(document: Document) -> str:
    title = f"[document: {document.title}]" if document.title else ""
    return "\n".join(line for line in (title, document.context, document.text) if line)
