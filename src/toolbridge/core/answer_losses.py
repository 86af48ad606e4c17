"""Finds what an answer loses when it is encoded in an API.

A decoder reports content that events cannot represent as `Lost`. Content that the client's API
cannot represent is found here, by comparing the message with the `AnswerFeatures` of the codec, so
that encoders do no work for it per delta. The gateway reports the losses in a header and in its
log, `toolbridge translate` prints them, and encoders write them into their last event.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.citations import maybe_link
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Call, Foreign, Image, Loss, Message, Part, Text, Thinking
from toolbridge.core.server_tool_text import code_text
from toolbridge.core.server_tools import ServerCall, ServerResult, ServerToolKind

FIELD = "toolbridge"
"""The field of the last event that lists losses. Clients of every API ignore unknown fields."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 60


class AnswerFeatures(msgspec.Struct, frozen=True):
    """What an answer of an API can contain besides text, thinking and calls."""

    api: str
    foreign: bool = True
    """Whether it contains parts that only this API has."""
    images: frozenset[str] = frozenset()
    """How it contains images: by their `data`, by their `url`."""
    alternatives: bool = False
    """Whether it supports several answers to one request."""
    logprobs: bool = True
    explanations: bool = True
    """Whether it has a field for the reason of a refusal."""
    links: bool = True
    """Whether its text can cite web pages."""
    citations: frozenset[str] = frozenset()
    """The citation types that only this API has."""
    server_tools: frozenset[ServerToolKind] = frozenset()
    """The server tools whose calls and results it contains."""


def losses_of(message: Message, shows: AnswerFeatures) -> tuple[Loss, ...]:
    """Return what `message` loses when it is encoded in this API, each kind once."""
    if _is_plain(message):
        return ()
    found: dict[str, Loss] = {}
    for loss in _losses(message, shows):
        if found.setdefault(loss.what, loss).minor:
            found[loss.what] = loss  # a single loss that is not minor makes its kind a warning
    return tuple(found.values())


_PLAIN = (Thinking, Call)


def _is_plain(message: Message) -> bool:
    """Whether a message has nothing but what every API can represent, as nearly every one."""
    if message.alternatives or message.logprobs or message.stop_details is not None:
        return False
    for part in message.content:
        if isinstance(part, Text):
            if part.citations:
                return False
        elif not isinstance(part, _PLAIN):
            return False
    return True


def all_losses(message: Message, shows: AnswerFeatures) -> tuple[Loss, ...]:
    """Return the losses of the answer's decoder and those of its encoding in this API."""
    if _is_plain(message):
        return message.losses
    return (*message.losses, *losses_of(message, shows))


def loss_field(message: Message, shows: AnswerFeatures) -> JsonObject:
    """Return the field of the last event that lists the losses; empty without losses."""
    lost: list[Json] = [str(loss) for loss in all_losses(message, shows) if not loss.minor]
    return {FIELD: {"lost": lost}} if lost else {}


def kind_name(kind: str) -> str:
    """Return the name of a provider's part type, safe for headers and logs."""
    return _UNSAFE.sub("_", kind)[:_LONGEST] or "part"


def _losses(message: Message, shows: AnswerFeatures) -> Iterator[Loss]:
    if message.alternatives and not shows.alternatives:
        yield Loss("answer.choices", f"{shows.api} gives one answer to a request")
    if message.logprobs and not shows.logprobs:
        yield Loss("answer.logprobs", f"{shows.api} does not report them")
    details = message.stop_details
    if details is not None and details.explanation and not shows.explanations:
        yield Loss("answer.stop_details", f"{shows.api} does not say why an answer was refused")
    elif details is not None and details.category and details.origin != shows.api:
        why = f"{shows.api} has other categories than {details.category!r}"
        yield Loss("answer.stop_details.category", why, minor=True)
    for part in message.content:
        if isinstance(part, Text) and not all(_holds(one, shows) for one in part.citations):
            held = "web pages only" if shows.links else "nothing"
            yield Loss("answer.citations", f"the text of {shows.api} cites {held}")
        elif isinstance(part, Image) and not _holds_image(part, shows):
            how = "written as a link" if part.url else "left out"
            why = f"{how}: an answer of {shows.api} holds no such image"
            yield Loss("answer.image", why, minor=bool(part.url))
        elif isinstance(part, Foreign) and not _holds_foreign(part, shows):
            yield _foreign_loss(part, shows)
        elif isinstance(part, ServerCall | ServerResult) and part.kind not in shows.server_tools:
            yield _server_loss(part, shows)


def _server_loss(part: ServerCall | ServerResult, shows: AnswerFeatures) -> Loss:
    what = f"answer.{part.kind}"
    if part.kind == "code_execution":
        return Loss(what, f"written as text: {shows.api} has no such part", minor=True)
    return Loss(what, f"an answer of {shows.api} has no part for it", minor=True)


def _foreign_loss(part: Foreign, shows: AnswerFeatures) -> Loss:
    what = f"answer.{kind_name(part.kind)}"
    if part.text:
        return Loss(what, f"written as text: {shows.api} has no such part", minor=True)
    return Loss(what, f"only {part.origin} has such a part")


def _holds(citation: JsonObject, shows: AnswerFeatures) -> bool:
    if str(citation.get("type")) in shows.citations:
        return True
    return shows.links and maybe_link(citation, "") is not None


def _holds_image(image: Image, shows: AnswerFeatures) -> bool:
    return ("data" in shows.images and bool(image.data)) or (
        "url" in shows.images and bool(image.url)
    )


def _holds_foreign(part: Foreign, shows: AnswerFeatures) -> bool:
    return shows.foreign and part.origin == shows.api


# ── texts in place of parts ──────────────────────────────────────────────────


def words_for(part: Part, shows: AnswerFeatures) -> str:
    """Return the text that replaces a part which an API does not have; empty where it has it."""
    if isinstance(part, Foreign) and not _holds_foreign(part, shows):
        return part.text
    if isinstance(part, Image) and not _holds_image(part, shows):
        return _image_words(part)
    if isinstance(part, ServerCall | ServerResult) and part.kind not in shows.server_tools:
        return code_text(part) if part.kind == "code_execution" else ""
    return ""


def _image_words(image: Image) -> str:
    if image.url and not image.url.startswith("data:"):
        return f"![image]({image.url})"
    return f"[{image.media_type or 'image'} that this API cannot show]"


def in_words(content: tuple[Part, ...], shows: AnswerFeatures) -> tuple[Part, ...]:
    """Return parts with texts in place of those that an API does not have."""
    for part in content:
        if not isinstance(part, _SAME):
            break
    else:
        return content
    return tuple(Text(words) if (words := words_for(part, shows)) else part for part in content)


_SAME = (Text, *_PLAIN)


Spelled: TypeAlias = ev.TextStart | ev.TextDelta | ev.TextEnd | ev.PartAdded


def spelled(event: ev.PartAdded, shows: AnswerFeatures) -> list[Spelled]:
    """Return `event`, or the events of a text where an API does not have such a part."""
    words = words_for(event.part, shows)
    if not words:
        return [event]
    index = event.index
    return [ev.TextStart(index), ev.TextDelta(index, words), ev.TextEnd(index, Text(words))]
