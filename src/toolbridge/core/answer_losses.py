"""What an answer loses when an API writes it.

A decoder reports what our events cannot hold, as `Lost`. What an event holds and a client's API
cannot write is known from the whole message alone, so each codec describes its answers once, as
`AnswerFeatures`, and the functions here compare a message with that: no encoder does more work per delta.
The gateway puts the result into its header and log, `toolbridge translate` prints it, and encoders
write it into their last event.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.citations import maybe_link
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Foreign, Image, Loss, Message, Part, Text

FIELD = "toolbridge"
"""The field of a last event that lists losses. The clients of every API ignore unknown fields."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 60


class AnswerFeatures(msgspec.Struct, frozen=True):
    """What an answer of an API can hold beside text, thoughts and calls."""

    api: str
    foreign: bool = True
    """Whether it holds parts that only this API understands."""
    images: frozenset[str] = frozenset()
    """How it holds an image: by its `data`, by its `url`."""
    alternatives: bool = False
    """Whether it gives several answers to one request."""
    logprobs: bool = True
    explanations: bool = True
    """Whether it says why a provider refused."""
    links: bool = True
    """Whether its text can cite web pages."""
    citations: frozenset[str] = frozenset()
    """The types of citation that are its own."""


def losses_of(message: Message, shows: AnswerFeatures) -> tuple[Loss, ...]:
    """Return what an answer of this API leaves out of `message`, each kind once."""
    found: dict[str, Loss] = {}
    for loss in _losses(message, shows):
        if found.setdefault(loss.what, loss).minor:
            found[loss.what] = loss  # one of a kind that matters is enough for a warning
    return tuple(found.values())


def all_losses(message: Message, shows: AnswerFeatures) -> tuple[Loss, ...]:
    """Return what the answer lost on both sides: in its decoder, and where this API writes it."""
    return (*message.losses, *losses_of(message, shows))


def loss_field(message: Message, shows: AnswerFeatures) -> JsonObject:
    """Return the field for a last event that lists what was lost; nothing where nothing was."""
    lost: list[Json] = [str(loss) for loss in all_losses(message, shows) if not loss.minor]
    return {FIELD: {"lost": lost}} if lost else {}


def kind_name(kind: str) -> str:
    """Return a kind that a provider named, fit for a header and a log."""
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


# ── words in place of a part ─────────────────────────────────────────────────


def words_for(part: Part, shows: AnswerFeatures) -> str:
    """Return what an API writes in place of a part that it cannot hold; nothing where it can."""
    if isinstance(part, Foreign) and not _holds_foreign(part, shows):
        return part.text
    if isinstance(part, Image) and not _holds_image(part, shows):
        return _image_words(part)
    return ""


def _image_words(image: Image) -> str:
    if image.url and not image.url.startswith("data:"):
        return f"![image]({image.url})"
    return f"[{image.media_type or 'image'} that this API cannot show]"


def in_words(content: tuple[Part, ...], shows: AnswerFeatures) -> tuple[Part, ...]:
    """Return parts with words in place of those that an API cannot hold."""
    return tuple(Text(words) if (words := words_for(part, shows)) else part for part in content)


Spelled: TypeAlias = ev.TextStart | ev.TextDelta | ev.TextEnd | ev.PartAdded


def spelled(event: ev.PartAdded, shows: AnswerFeatures) -> list[Spelled]:
    """Return a part as it is, or as the events of a text where an API cannot hold it."""
    words = words_for(event.part, shows)
    if not words:
        return [event]
    index = event.index
    return [ev.TextStart(index), ev.TextDelta(index, words), ev.TextEnd(index, Text(words))]
