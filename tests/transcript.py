"""Transcripts: Markdown files that tell one answer, request or rejection several times.

The first fence is what came over the wire (`anthropic`, `anthropic request`, `anthropic rejection
529`), the second what we understood of it (`events`, `request`, `problem`), the others what we say
of it in an API (`openai_chat`, `openai_chat message`, `gemini request`, `ollama rejection`).
"""

import re
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext, Codec, Target
from toolbridge.core.errors import ClientError
from toolbridge.core.event_lines import tell_events
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import dump_bytes, dumps, loads
from toolbridge.core.messages import Problem, Request
from toolbridge.core.source import without_sources
from toolbridge.explain.transcript import pretty

HOME = Path(__file__).parent / "transcripts"
_FENCE = re.compile(r"^```([^\n`]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Fence(NamedTuple):
    language: str
    text: str


class Transcript(NamedTuple):
    title: str
    why: str
    fences: tuple[Fence, ...]


def paths() -> list[Path]:
    return sorted(HOME.rglob("*.md"))


def read(path: Path) -> Transcript:
    text = path.read_text(encoding="utf-8")
    fences = tuple(Fence(found[1].strip(), found[2]) for found in _FENCE.finditer(text))
    head, _, why = text.partition("```")[0].strip().partition("\n")
    return Transcript(head.removeprefix("# "), why.strip(), fences)


def bless(path: Path) -> bool:
    """Rewrite what is expected of a transcript; return whether that changed it."""
    old = path.read_text(encoding="utf-8")
    views = iter(tell(read(path)))
    new = _FENCE.sub(lambda found: f"```{found[1]}\n{next(views)}```", old)
    if new != old:
        path.write_text(new, encoding="utf-8")
    return new != old


def tell(transcript: Transcript) -> list[str]:
    """Return the text of every fence as it should be; the first is as it is."""
    first, *others = transcript.fences
    data = first.text.encode()
    codec = _codec(first.language)
    match first.language.split():
        case [_, "request"]:
            views = [_tell_request(codec, data, fence.language) for fence in others]
        case [_, "rejection", status]:
            problem = codec.decode_rejection(int(status), {}, data)
            views = [_tell_problem(problem, fence.language) for fence in others]
        case _:
            events = decode(codec, data)
            views = [_tell_answer(events, fence.language) for fence in others]
    return [first.text, *(view.rstrip("\n") + "\n" for view in views)]


def _codec(language: str) -> Codec:
    return codecs.load(language.partition(" ")[0])


def decode(codec: Codec, data: bytes) -> list[ev.Event]:
    decoder = codec.stream_decoder(Ids("transcript"))
    return decoder.feed(data) + decoder.close()


def _tell_answer(events: list[ev.Event], language: str) -> str:
    if language == "events":
        return tell_events(events)
    if language.endswith(" message"):
        return pretty(loads(_codec(language).encode_message(collect(events), AnswerContext(at=0))))
    encoder = _codec(language).stream_encoder(AnswerContext(at=0))
    pieces = [piece for event in events for piece in encoder.feed(event)]
    return b"".join(pieces + encoder.close()).decode()


def _without_sources(request: Request) -> Request:
    """Return `request` without the client's JSON of its parts."""
    return replace(
        request,
        system=tuple(replace(text, source=None) for text in request.system),
        turns=tuple(replace(turn, source=None) for turn in without_sources(request.turns)),
        tools=tuple(replace(tool, source=None) for tool in request.tools),
    )


def _tell_request(codec: Codec, data: bytes, language: str) -> str:
    try:
        request = codec.decode_request(data)
    except ClientError as error:
        return f"{error.problem.kind} {error}"
    if language == "request":
        fields = msgspec.json.decode(dump_bytes(_without_sources(request)), type=dict)
        return pretty({name: value for name, value in fields.items() if value != {}})
    outgoing = _codec(language).encode_request(request, Target())
    headers = [f"{name}: {value}" for name, value in sorted(outgoing.headers.items())]
    losses = [f"lost {loss}" for loss in outgoing.losses]
    stops = [f"stops at {dumps(stop)} where the answer is read" for stop in outgoing.stops]
    return "\n".join([f"POST {outgoing.path}", *headers, pretty(outgoing.body), *losses, *stops])


def _tell_problem(problem: Problem, language: str) -> str:
    if language == "problem":
        return pretty(loads(dump_bytes(problem)))
    rejection = _codec(language).encode_rejection(problem, "req_transcript")
    headers = [f"{name}: {value}" for name, value in sorted(rejection.headers.items())]
    return "\n".join([f"HTTP {rejection.status}", *headers, rejection.body.decode()])
