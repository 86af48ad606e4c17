"""Everything that may be asked and answered, for hypothesis to choose from.

Strategies are built once and not in each draw: hypothesis validates every new one.
"""

import string
from collections.abc import Callable
from functools import cache
from itertools import count, pairwise

from hypothesis import strategies as st

from toolbridge.core import events as ev
from toolbridge.core.draft import FLOW, Draft
from toolbridge.core.errors import KINDS
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Message,
    Opaque,
    OutputFormat,
    Problem,
    Reference,
    Request,
    Result,
    Sampling,
    Text,
    Think,
    Thinking,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.core.server_tools import (
    ERROR_CODES,
    CodeOutput,
    FetchedPage,
    McpOutput,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerToolError,
)
from toolbridge.core.usage import Usage

MODEL = "some-model"
PNG = "iVBORw0KGgoA"
WAV = "UklGRiQAAABXQVZF"
"""How a picture and a sound begin, in base64: some APIs know media only by their first bytes."""

# Characters that break readers: line ends of three kinds, U+2028, quotes, braces, tags, two bytes
# to four in UTF-8, and a NUL.
_HARD = 'ab \n\r\t"\\{}[]<>/:,.\u2028\u0085\x00\xe9\u27e6\ufeff\U0001f600'
_characters = st.one_of(
    st.sampled_from(_HARD),
    st.characters(exclude_categories=["Cs"]),
)
_word = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=12)

texts = st.text(_characters, max_size=12)
some_text = st.text(_characters, min_size=1, max_size=12)
spoken = some_text.filter(lambda text: bool(text.strip()))
"""Text with something to read in it: several APIs refuse any other."""
names = _word
call_ids = _word.map(lambda word: f"toolu_{word}")
message_ids = _word.map(lambda word: f"msg_{word}")

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    texts,
)
json_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)


# ── answers ──────────────────────────────────────────────────────────────────


_counts = st.integers(0, 100_000)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    write = draw(_counts)
    output = draw(_counts)
    return Usage(
        input=draw(_counts),
        output=output,
        cache_read=draw(_counts),
        cache_write=write,
        cache_write_long=draw(st.integers(0, write)),
        reasoning=draw(st.integers(0, output)),
    )


def pieces(text: str) -> st.SearchStrategy[list[str]]:
    """`text`, cut anywhere."""
    cuts = st.lists(st.integers(0, len(text)), max_size=4).map(lambda found: sorted(set(found)))
    return cuts.map(lambda at: _cut(text, at))


def _cut(text: str, at: list[int]) -> list[str]:
    edges = [0, *at, len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def cuts(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """`data`, cut anywhere."""
    at = st.lists(st.integers(0, len(data)), max_size=12).map(sorted)
    return at.map(lambda found: _cut_bytes(data, found))


def _cut_bytes(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *at, len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


Write = Callable[[Draft], list[ev.Event]]
Track = list[Write]
"""What is written into one block, in its order; tracks of one answer interleave."""


def _flow_text(piece: str) -> Write:
    return lambda draft: draft.text(piece)


def _flow_thought(piece: str) -> Write:
    return lambda draft: draft.think(piece)


def _seal(opaque: Opaque) -> Write:
    return lambda draft: draft.seal(opaque)


_some_texts = st.lists(some_text, min_size=1, max_size=3)
_booleans = st.booleans()


@st.composite
def _thought_tracks(draw: st.DrawFn, origin: str) -> Track:
    track = [_flow_thought(piece) for piece in draw(_some_texts)]
    if draw(_booleans):
        seal = _seal(Opaque(origin, "signature", draw(_word)))
        track.append(lambda draft: seal(draft) + draft.end(FLOW))  # one signature a thought
    return track


@st.composite
def _redacted_tracks(draw: st.DrawFn, origin: str) -> Track:
    seal = _seal(Opaque(origin, "redacted", draw(_word)))
    # Hidden thoughts are blocks of their own, so nothing else comes between.
    return [lambda draft: draft.end(FLOW) + seal(draft) + draft.end(FLOW)]


_text_tracks = _some_texts.map(lambda found: [_flow_text(piece) for piece in found])


_ids_or_none = st.just("") | call_ids
_written_objects = st.just("") | json_objects.map(dumps)


@st.composite
def _call_tracks(draw: st.DrawFn, *, broken: bool) -> Track:
    key = object()
    name, id = draw(names), draw(_ids_or_none)
    written = draw(_written_objects)
    if broken and written and draw(_booleans):
        written = written[: draw(st.integers(0, len(written) - 1))]

    def write(piece: str) -> Write:
        return lambda draft: draft.arguments(key, piece)

    def begin(draft: Draft) -> list[ev.Event]:
        return draft.call(key, name=name, id=id)

    return [begin, *map(write, draw(pieces(written))), lambda draft: draft.end(key)]


def _usage_tracks() -> st.SearchStrategy[Track]:
    return usages().map(lambda usage: [lambda draft: draft.usage(usage)])


_images = st.builds(
    Image, data=st.sampled_from([PNG, PNG + "aGkh"]), media_type=st.just("image/png")
)


_loss_tracks = st.sampled_from(["answer.audio", "answer.other"]).map(
    lambda what: [lambda draft: draft.lose(what, "events cannot hold it")]
)


def _part_tracks() -> st.SearchStrategy[Track]:
    return _images.map(lambda image: [lambda draft: draft.add(image)])


# ── server tools ──

urls = _word.map(lambda word: f"https://example.org/{word}")
_hits = st.builds(SearchHit, urls, title=texts, snippet=texts, age=st.just("") | spoken)
_errors = st.builds(ServerToolError, st.sampled_from(sorted(ERROR_CODES)), texts)
_searches = st.tuples(
    st.just("web_search"),
    st.just("web_search"),
    st.builds(lambda query: {"query": query}, spoken),
    st.builds(SearchHits, st.lists(_hits, max_size=3, unique_by=lambda hit: hit.url).map(tuple))
    | _errors,
)
_fetches = urls.flatmap(
    lambda url: st.tuples(
        st.just("web_fetch"),
        st.just("web_fetch"),
        st.just({"url": url}),
        st.builds(FetchedPage, st.just(url), title=texts, text=texts) | _errors,
    )
)
_codes = st.tuples(
    st.just("code_execution"),
    st.just("code_execution"),
    st.builds(lambda code: {"code": code}, spoken),
    st.builds(CodeOutput, stdout=texts) | _errors,
)
_mcp_calls = st.tuples(
    st.just("mcp"),
    names,
    json_objects,
    st.builds(
        McpOutput, st.lists(st.builds(Text, spoken), max_size=2).map(tuple), is_error=_booleans
    ),
)


_numbers = count()


@st.composite
def _server_tracks(draw: st.DrawFn) -> Track:
    """A call of a server tool and its result; other blocks may come between them."""
    kind, name, arguments, outcome = draw(st.one_of(_searches, _fetches, _codes, _mcp_calls))
    server = draw(names) if kind == "mcp" else ""
    key: list[str] = []

    def begin(draft: Draft) -> list[ev.Event]:
        key.append(f"srv_{next(_numbers)}")
        return draft.add(ServerCall(key[-1], kind, name, arguments, server))

    def end(draft: Draft) -> list[ev.Event]:
        return draft.add(ServerResult(key[-1], kind, outcome, name, server))

    return [begin, end]


problems = st.builds(
    Problem,
    kind=st.sampled_from(sorted(set(KINDS) - {"internal"})),
    text=spoken,
)


@st.composite
def _interleaved(draw: st.DrawFn, tracks: list[Track]) -> Track:
    left = [list(track) for track in tracks if track]
    together: Track = []
    while left:
        chosen = draw(st.sampled_from(left)) if draw(_booleans) else left[0]
        together.append(chosen.pop(0))
        left = [track for track in left if track]
    return together


@st.composite
def answers(
    draw: st.DrawFn,
    *,
    origin: str = "anthropic",
    failed: bool | None = None,
    broken: bool = True,
    parts: bool = True,
    server_tools: bool = True,
) -> list[ev.Event]:
    """A whole, legal row of events, its blocks interleaved.

    `failed` decides how it ends, `broken` whether the JSON of a call may be cut, `parts` whether
    pictures are in it, `server_tools` whether tools of the server are.
    """
    tracks = draw(_tracks(origin, broken=broken, parts=parts, server_tools=server_tools))
    draft = Draft(Ids("answers"))
    events = draft.start(id=draw(message_ids), model=MODEL)
    for write in draw(_interleaved(tracks)):
        events += write(draft)
    return events + draw(_ends(draft, failed=failed))


@cache
def _tracks(
    origin: str, *, broken: bool, parts: bool, server_tools: bool
) -> st.SearchStrategy[list[Track]]:
    kinds = [
        _text_tracks,
        _thought_tracks(origin),
        _redacted_tracks(origin),
        _call_tracks(broken=broken),
        _call_tracks(broken=broken),
        _usage_tracks(),
        _loss_tracks,
    ]
    if parts:
        kinds.append(_part_tracks())
    if server_tools:
        kinds += [_server_tracks(), _server_tracks()]
    return st.lists(st.one_of(kinds), max_size=5)


_one_in_three = st.sampled_from([False, False, True])
_reasons = st.sampled_from(
    ["end", "length", "tool_use", "stop_sequence", "refusal", "pause", "context_overflow"]
)


@st.composite
def _ends(draw: st.DrawFn, draft: Draft, *, failed: bool | None) -> list[ev.Event]:
    if draw(_one_in_three) if failed is None else failed:
        return draft.fail(draw(problems))
    reason = draw(_reasons)
    return draft.finish(reason, stop_sequence=draw(_word) if reason == "stop_sequence" else "")


def messages(*, origin: str = "anthropic") -> st.SearchStrategy[Message]:
    """A whole answer."""
    return answers(origin=origin, failed=False).map(collect)


# ── requests ─────────────────────────────────────────────────────────────────

caches = st.sampled_from(["", "", "5m", "1h"])
_text_parts = st.builds(Text, spoken, cache=caches)
_image_parts = st.one_of(
    st.builds(Image, data=st.just(PNG), media_type=st.just("image/png"), cache=caches),
    st.builds(Image, url=st.just("https://example.org/a.png"), cache=caches),
    st.builds(Image, file_id=st.just("file_1"), cache=caches),
)
_document_parts = st.one_of(
    st.builds(Document, data=st.just("aGk="), media_type=st.just("application/pdf"), cache=caches),
    st.builds(
        Document,
        text=spoken,
        media_type=st.just("text/plain"),
        title=st.just("") | spoken,
        context=st.just("") | spoken,
        cite=st.booleans(),
    ),
    st.builds(Document, url=st.just("https://example.org/a.pdf"), cache=caches),
    st.builds(Document, file_id=st.just("file_2")),
)
_audio_parts = st.builds(Audio, st.just(WAV), st.just("audio/wav"))


def _foreign_parts(origin: str) -> st.SearchStrategy[Foreign]:
    return st.builds(
        lambda kind, word: Foreign(origin, kind, {"type": kind, "word": word}),
        st.sampled_from(["some_new_block", "another_block"]),
        spoken,
    )


def _thinking_parts(origin: str) -> st.SearchStrategy[Thinking]:
    signed = _word.map(lambda word: (Opaque(origin, "signature", word),))
    redacted = _word.map(lambda word: Thinking("", (Opaque(origin, "redacted", word),)))
    return st.one_of(st.builds(Thinking, spoken, st.just(()) | signed), redacted)


def calls(ids: st.SearchStrategy[str] = call_ids) -> st.SearchStrategy[Call]:
    return st.builds(Call, ids, names, json_objects, cache=caches)


_shown_parts = st.lists(st.one_of(_text_parts, _image_parts), max_size=2)


@st.composite
def _results(draw: st.DrawFn, call: Call) -> Result:
    content = draw(_shown_parts)
    return Result(
        call.id,
        tuple(content),
        is_error=draw(_booleans),
        name=draw(st.sampled_from(["", call.name])),
        cache=draw(caches),
    )


_user_parts = st.lists(
    st.one_of(_text_parts, _image_parts, _document_parts, _audio_parts), max_size=2
)
_asked_calls = st.lists(calls(), max_size=2, unique_by=lambda call: call.id)
_no_or_one_text = st.lists(_text_parts, max_size=1)


@cache
def _speech(origin: str) -> st.SearchStrategy[list[Text | Thinking | Foreign]]:
    kinds = st.one_of(_text_parts, _thinking_parts(origin), _foreign_parts(origin))
    return st.lists(kinds, max_size=2)


@st.composite
def _exchanges(draw: st.DrawFn, origin: str) -> list[Turn]:
    """The user speaks; the model answers, perhaps with calls; each call gets its result."""
    # An API that cannot hear or read a file has at least a text to send.
    turns = [Turn("user", (draw(_text_parts), *draw(_user_parts)))]
    answer = draw(_speech(origin))
    asked = draw(_asked_calls)
    if answer or asked:
        turns.append(Turn("assistant", (*answer, *asked)))
    if asked:
        results = [draw(_results(call)) for call in asked]
        after = draw(_no_or_one_text)
        turns.append(Turn("user", (*results, *after)))
    return turns


_schemas = st.builds(
    lambda properties: {
        "type": "object",
        "properties": properties,
        "required": sorted(properties)[:1],
    },
    st.dictionaries(
        names,
        st.fixed_dictionaries(
            {"type": st.sampled_from(["string", "integer", "array", "object"])},
            optional={"description": texts, "enum": st.lists(texts, min_size=1, max_size=2)},
        ),
        max_size=3,
    ),
)
tools = st.builds(
    Tool,
    names,
    description=texts,
    schema=_schemas,
    strict=st.sampled_from([None, True, False]),
    deferred=st.booleans(),
    cache=caches,
)


_modes = st.sampled_from(["auto", "none", "required", "named"])
_yes_no_or_unset = st.sampled_from([None, True, False])


@st.composite
def _choices(draw: st.DrawFn, offered: list[Tool]) -> ToolChoice:
    if not offered:
        return ToolChoice()
    mode = draw(_modes)
    chosen = (draw(st.sampled_from(offered)).name,) if mode == "named" else ()
    parallel = None if mode == "none" else draw(_yes_no_or_unset)
    return ToolChoice(mode, chosen, parallel)


_fractions = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0])
samplings = st.builds(
    Sampling,
    temperature=_fractions,
    top_p=_fractions,
    top_k=st.none() | st.integers(1, 100),
    min_p=_fractions,
    seed=st.none() | st.integers(0, 2**31),
    frequency_penalty=_fractions,
    presence_penalty=_fractions,
    repeat_penalty=_fractions,
    logprobs=st.none() | st.integers(0, 5),
    n=st.none() | st.integers(2, 4),
)
thinks = st.one_of(
    st.just(Think()),
    st.just(Think("off")),
    st.builds(Think, st.just("on"), budget=st.integers(1024, 9000)),
    st.builds(Think, st.just("auto"), effort=st.sampled_from(["", "low", "medium", "high", "max"])),
    st.builds(Think, st.just("on"), effort=st.sampled_from(["low", "medium", "high"])),
)
outputs = st.none() | st.just(OutputFormat()) | st.builds(OutputFormat, schema=_schemas)


_offered_tools = st.lists(tools, max_size=3, unique_by=lambda tool: tool.name)
_system_parts = st.lists(_text_parts, max_size=2)
_most_tokens = st.integers(1, 4096)
_stop_words = st.lists(_word, max_size=2, unique=True)
_users = st.just("") | names


@cache
def _conversations(origin: str) -> st.SearchStrategy[list[list[Turn]]]:
    return st.lists(_exchanges(origin), max_size=2)


@st.composite
def requests(draw: st.DrawFn, *, origin: str = "anthropic") -> Request:
    """A legal conversation: pairs of calls and results are whole, the user speaks first and last."""
    exchanges = draw(_conversations(origin))
    turns = [turn for exchange in exchanges for turn in exchange]
    if not turns or turns[-1].role != "user":
        turns.append(Turn("user", (draw(_text_parts),)))
    offered = draw(_offered_tools)
    return Request(
        model=MODEL,
        turns=tuple(_merged(turns)),
        system=tuple(draw(_system_parts)),
        tools=tuple(offered),
        tool_choice=draw(_choices(offered)),
        max_tokens=draw(_most_tokens),
        stop=tuple(draw(_stop_words)),
        sampling=draw(samplings),
        think=draw(thinks),
        output=draw(outputs),
        stream=draw(_booleans),
        user=draw(_users),
        origin=origin,
    )


def _merged(turns: list[Turn]) -> list[Turn]:
    """Turns of the same role, one after the other, are one turn."""
    merged: list[Turn] = []
    for turn in turns:
        if merged and merged[-1].role == turn.role:
            merged[-1] = Turn(turn.role, merged[-1].content + turn.content)
        else:
            merged.append(turn)
    return merged


references = st.builds(Reference, names)
