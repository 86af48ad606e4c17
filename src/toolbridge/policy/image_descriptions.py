"""Replace images by descriptions, for models that accept no images.

The setting `describe_images` names a model that sees. `routing/image_describer.py` asks it with
`describing_request`; `with_descriptions` puts its texts into the conversation. A description
depends on the image alone and not on the conversation, so that it is the same in every request and
the model's prompt cache stays valid.
"""

from collections.abc import Mapping
from hashlib import blake2b

from msgspec.structs import replace

from toolbridge.core.messages import Image, Loss, Part, Request, Result, ResultPart, Text, Turn

MAX_CHARACTERS = 6000
"""Characters of a description; the rest is cut off."""
MAX_TOKENS = 1500
_PROMPT = (
    "Describe this image for a language model that cannot see it. Begin with the kind of image. "
    "Transcribe all text in it exactly, keep code and tables in their layout, and give numbers, "
    "labels and states of controls. Then describe what else is visible. Do not guess."
)


def images_of(request: Request) -> dict[str, Image]:
    """Return the images of a request that can be described, by the hash of their content."""
    found: dict[str, Image] = {}
    for turn in request.turns:
        for part in turn.content:
            for image in part.content if isinstance(part, Result) else (part,):
                if isinstance(image, Image) and (key := image_key(image)):
                    found.setdefault(key, image)
    return found


def image_key(image: Image) -> str:
    """Return the hash of an image; empty for a file id, which only its own provider can read."""
    content = image.data or image.url
    if not content:
        return ""
    return blake2b(f"{image.media_type}\0{content}".encode(), digest_size=16).hexdigest()


def describing_request(image: Image) -> Request:
    """Return the request for the description of one image."""
    plain = Image(image.data, image.media_type, image.url, detail=image.detail)
    turn = Turn("user", (Text(_PROMPT), plain))
    return Request(model="", turns=(turn,), max_tokens=MAX_TOKENS)


def bounded_description(text: str) -> str:
    """Return the text of a description, shortened to `MAX_CHARACTERS`."""
    text = text.strip()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} …"


def with_descriptions(
    request: Request, descriptions: Mapping[str, str], describer: str
) -> tuple[Request, tuple[Loss, ...]]:
    """Return `request` with the described images as texts, and a loss for each of them."""
    replacement = _Replacement(descriptions, describer)
    turns = tuple(replacement.turn(number, turn) for number, turn in enumerate(request.turns))
    return replace(request, turns=turns), tuple(replacement.losses)


class _Replacement:
    def __init__(self, descriptions: Mapping[str, str], describer: str) -> None:
        self._descriptions = descriptions
        self._describer = describer
        self.losses: list[Loss] = []

    def turn(self, number: int, turn: Turn) -> Turn:
        if not any(_has_image(part) for part in turn.content):
            return turn
        parts: list[Part] = []
        for index, part in enumerate(turn.content):
            where = f"turns.{number}.content.{index}"
            if isinstance(part, Result):
                inner: list[ResultPart] = []
                for position, one in enumerate(part.content):
                    at = f"{where}.content.{position}"
                    inner.append(self._image(one, at) if isinstance(one, Image) else one)
                parts.append(replace(part, content=tuple(inner)))
            else:
                parts.append(self._image(part, where) if isinstance(part, Image) else part)
        return replace(turn, content=tuple(parts))

    def _image(self, image: Image, where: str) -> Text | Image:
        text = self._descriptions.get(image_key(image))
        if text is None:
            return image
        path = image.source.path if image.source else where
        why = f"the model accepts no images; replaced by a description of {self._describer}"
        self.losses.append(Loss(path, why))
        return Text(f"[Image, described by {self._describer}:\n{text}]", cache=image.cache)


def _has_image(part: Part) -> bool:
    return any(
        isinstance(one, Image) for one in (part.content if isinstance(part, Result) else (part,))
    )
