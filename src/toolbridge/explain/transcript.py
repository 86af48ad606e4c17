"""Writes the answer of a provider as a transcript, the form of the project's own tests.

A transcript is Markdown: the bytes that came, the events that toolbridge reads from them, and the
bytes that a client of another API gets. `tests/transcripts/` has hundreds, and `make bless` writes
the expected parts of a new one again.
"""

from toolbridge import codecs
from toolbridge.core.codec import AnswerContext, Codec
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.event_lines import tell_events
from toolbridge.core.ids import Ids
from toolbridge.core.json import dump_bytes, dumps, loads
from toolbridge.explain.recording import RecordedAttempt, Recording

_WIDTH = 100
_WHY = (
    "Recorded by `toolbridge serve --record` from a request to {provider}. "
    "State here what is wrong with it, or why the case matters."
)


def write_transcript(recording: Recording) -> str:
    """Return the last answer of the provider as a transcript; raise `MalformedRequest`."""
    attempt = next((one for one in reversed(recording.attempts) if one.status), None)
    config = recording.route.get("config")
    api = str(config.get("api")) if isinstance(config, dict) else ""
    if attempt is None or api not in codecs.names():
        raise MalformedRequest(
            "the recording has no answer of a provider with one of the five APIs"
        )
    text = b"".join(attempt.response.data()).decode("utf-8", "replace").replace("\r\n", "\n")
    text = text if text.endswith("\n") else f"{text}\n"
    if "\n```" in f"\n{text}":
        raise MalformedRequest(
            "a line of the answer begins with ```, which a transcript cannot hold"
        )
    fences = _fences(recording, attempt, api, text)
    why = _WHY.format(provider=recording.route.get("provider") or "a provider")
    blocks = [f"```{language}\n{body.rstrip(chr(10))}\n```" for language, body in fences[1:]]
    first = f"```{fences[0][0]}\n{text}```"
    return "\n\n".join([f"# {recording.id}", why, first, *blocks]) + "\n"


def _fences(
    recording: Recording, attempt: RecordedAttempt, api: str, text: str
) -> list[tuple[str, str]]:
    codec, client = codecs.load(api), codecs.load(recording.api or api)
    if attempt.status >= 400:
        problem = codec.decode_rejection(attempt.status, {}, text.encode())
        rejection = client.encode_rejection(problem, "req_transcript")
        headers = [f"{name}: {value}" for name, value in sorted(rejection.headers.items())]
        shown = "\n".join([f"HTTP {rejection.status}", *headers, rejection.body.decode()])
        return [
            (f"{api} rejection {attempt.status}", text),
            ("problem", pretty(loads(dump_bytes(problem)))),
            (f"{client.name} rejection", shown),
        ]
    return [(api, text), *_answer_fences(codec, client, text)]


def _answer_fences(codec: Codec, client: Codec, text: str) -> list[tuple[str, str]]:
    decoder = codec.stream_decoder(Ids("transcript"))
    events = decoder.feed(text.encode()) + decoder.close()
    encoder = client.stream_encoder(AnswerContext(at=0))
    pieces = [piece for event in events for piece in encoder.feed(event)]
    shown = b"".join(pieces + encoder.close()).decode()
    return [("events", tell_events(events)), (client.name, shown)]


def pretty(value: object, indent: int = 0) -> str:
    """Return JSON with one member a line, and on one line whatever fits there."""
    flat = dumps(value)
    if len(flat) + indent <= _WIDTH or not isinstance(value, dict | list):
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        members = [f"{dumps(name)}: {pretty(item, inner)}" for name, item in value.items()]
    else:
        members = [pretty(item, inner) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines = ",\n".join(" " * inner + member for member in members)
    return f"{opening}\n{lines}\n{' ' * indent}{closing}"
