"""Reads the user's own messages from a request, without the text that clients add.

Agents add reminders, environments and instructions to the user's message, and send messages in the
user's name after a cut-off answer. Only the user's own last message is a request; everything after it
is progress on that request.
"""

import re
from collections import deque
from collections.abc import Iterator

import msgspec

from toolbridge.core.json import JsonObject, loads, maybe_object, replace_lone_surrogates
from toolbridge.core.messages import Call, Document, Image, Reference, Request, Result, Text, Turn
from toolbridge.demo.edit_blocks import without_rules


class FinishedCall(msgspec.Struct, frozen=True):
    """A tool call of the model and its result."""

    name: str
    arguments: JsonObject
    text: str
    failed: bool
    position: int = -1
    """Its index among the calls since the last message; -1 for a result without a call."""


class DemoConversation(msgspec.Struct, frozen=True):
    words: str = ""
    """The user's own last message."""
    asked: tuple[str, ...] = ()
    """All messages of the user, oldest first; `words` is the last one."""
    system: str = ""
    cwd: str = ""
    media: tuple[str, ...] = ()
    """The media types of the attachments of the last message."""
    calls: tuple[Call, ...] = ()
    """The calls since the last message."""
    done: tuple[FinishedCall, ...] = ()
    """Their results."""
    loaded: frozenset[str] = frozenset()
    """The deferred tools that a tool search has loaded."""
    begun: str = ""
    """The beginning of the answer, if the client prefills one."""


_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,200})?>")
_NOISE = re.compile(
    r"reminder|context|instructions|environment|\benv\b|info|metadata|workspace|tokens|budget"
    r"|command-|local-command|notification|attribution|permissions|datetime",
    re.IGNORECASE,
)
_FRAMES = ("task", "user_query", "user_message", "user_request", "prompt", "query")
_NUDGES = (
    "[Your previous response",
    "Output token limit hit",
    "Your response above was",
    "Please continue from where you left off",
    "[Request interrupted by user",
    "Tool loaded.",
    "This session is being continued from a previous conversation",
    "# AGENTS.md instructions",
    "This is the Qwen Code. We are setting up the context",
    "Caveat: The messages below were generated",
)
_CWD = re.compile(
    r"(?:working directory|working in the directory|current directory|\bcwd\b|workspace root|workspace directory)"
    r"(?: is now| is)?[*`\"']{0,3} ?[:=>]? ?[`\"']?((?:/|[A-Za-z]:\\)[^\n<>`\"']{0,400})",
    re.IGNORECASE,
)


def read_conversation(request: Request) -> DemoConversation:
    """Return the conversation of `request`: the user's messages, the calls and their results."""
    last = _last_words(request.turns)
    since = request.turns[last + 1 :]
    calls = tuple(part for turn in since for part in turn.content if isinstance(part, Call))
    asked = tuple(words for turn in request.turns if (words := own_words(turn)))
    return DemoConversation(
        words=own_words(request.turns[last]) if last >= 0 else "",
        asked=asked,
        system="\n".join(_system_texts(request)),
        cwd=_working_directory(request),
        media=_media(request.turns[last]) if last >= 0 else (),
        calls=calls,
        done=tuple(_done(since, calls)),
        loaded=frozenset(_loaded(request.turns)),
        begun=_begun(request.turns),
    )


def own_words(turn: Turn) -> str:
    """Return the user's own text in `turn`; empty if a client generated all of it."""
    if turn.role != "user":
        return ""
    texts = (without_rules(clean(part.text)) for part in turn.content if isinstance(part, Text))
    own = [text for text in texts if text and not text.startswith(_NUDGES)]
    return _unwrap("\n".join(own))


def clean(text: str) -> str:
    """Return `text` without the blocks that clients put into it."""
    kept: list[str] = []
    position = 0
    while (tag := _TAG.search(text, position)) is not None:
        if not _NOISE.search(tag[1]):
            kept.append(text[position : tag.end()])
            position = tag.end()
            continue
        kept.append(text[position : tag.start()])
        closing = re.compile(re.escape(f"</{tag[1]}>"), re.IGNORECASE).search(text, tag.end())
        position = closing.end() if closing else len(text)
    kept.append(text[position:])
    return replace_lone_surrogates("".join(kept)).strip()


def _unwrap(words: str) -> str:
    """Return `words` without a tag or quotes around all of them."""
    for frame in _FRAMES:
        if words.startswith(f"<{frame}>") and words.endswith(f"</{frame}>"):
            words = words[len(frame) + 2 : -len(frame) - 3].strip()
    inside = words[1:-1]
    # opencode sends a prompt from its command line in quotes.
    if len(words) > 2 and words[0] == words[-1] == '"' and '"' not in inside.replace('\\"', ""):
        return inside.replace('\\"', '"').strip()
    return words


def _last_words(turns: tuple[Turn, ...]) -> int:
    speaking = (at for at, turn in enumerate(turns) if own_words(turn) or _media(turn))
    return max(speaking, default=-1)


def _system_texts(request: Request) -> Iterator[str]:
    yield from (text.text for text in request.system)
    for turn in request.turns:
        if turn.role == "system":
            yield from (part.text for part in turn.content if isinstance(part, Text))


def _working_directory(request: Request) -> str:
    texts = list(_system_texts(request))
    for turn in request.turns:
        if turn.role == "user":
            texts += [part.text for part in turn.content if isinstance(part, Text)]
    found = [match[1] for text in texts for match in _CWD.finditer(text)]
    return found[-1].strip().rstrip(".,;)") if found else ""


def _begun(turns: tuple[Turn, ...]) -> str:
    if not turns or turns[-1].role != "assistant":
        return ""
    return "".join(part.text for part in turns[-1].content if isinstance(part, Text))


def _media(turn: Turn) -> tuple[str, ...]:
    if turn.role != "user":
        return ()
    attached = (part for part in turn.content if isinstance(part, Image | Document))
    return tuple(part.media_type or type(part).__name__.lower() for part in attached)


def _loaded(turns: tuple[Turn, ...]) -> Iterator[str]:
    for turn in turns:
        for part in turn.content:
            if isinstance(part, Reference):
                yield part.name
            if isinstance(part, Result):
                yield from (inner.name for inner in part.content if isinstance(inner, Reference))


def _done(turns: tuple[Turn, ...], calls: tuple[Call, ...]) -> Iterator[FinishedCall]:
    # An id may be used twice; its results are then matched in the order of the calls.
    positions: dict[str, deque[int]] = {}
    for at, call in enumerate(calls):
        positions.setdefault(call.id, deque()).append(at)
    for turn in turns:
        for part in turn.content:
            if isinstance(part, Result):
                waiting = positions.get(part.call_id)
                at = waiting.popleft() if waiting else -1
                call = calls[at] if at >= 0 else Call(part.call_id, part.name)
                yield _outcome(call, part, at)


def _outcome(call: Call, result: Result, position: int) -> FinishedCall:
    text = clean("\n".join(_result_texts(result)))
    failed = result.is_error or _says_failure(text)
    name = call.name or result.name or "tool"
    return FinishedCall(name, call.arguments, _essence(text), failed, position)


def _result_texts(result: Result) -> Iterator[str]:
    for part in result.content:
        match part:
            case Text(text):
                yield text
            case Reference(name):
                yield f"[tool {name}]"
            case Image(media_type=kind) | Document(media_type=kind):
                yield f"[{kind or 'attachment'}]"
            case _:
                pass


_EXIT = re.compile(r"(?:exited with code|^exit code:?) (-?\d{1,10})", re.IGNORECASE | re.MULTILINE)


def _says_failure(text: str) -> bool:
    """Whether the text of a result reports a failure; some APIs cannot mark one."""
    if text[:6].lower() in {"error:", "error "}:
        return True
    code = _EXIT.search(text[:400])
    if code is not None:
        return int(code[1]) != 0
    inside = maybe_object(text)
    return inside is not None and bool(inside.get("error"))


def _essence(text: str) -> str:
    """Return the content of a result without the envelope that its client adds."""
    inside = maybe_object(text)
    if inside is not None and len(inside) == 1:
        value = next(iter(inside.values()))
        if isinstance(value, str):
            return _essence_of_shell(value)
    return _essence_of_shell(_plain(text))


def _plain(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        value = loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def _essence_of_shell(text: str) -> str:
    head, found, output = text.partition("Output:\n")
    is_envelope = found and _EXIT.search(head)
    return (output if is_envelope else text).strip()
