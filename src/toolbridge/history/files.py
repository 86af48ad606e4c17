"""Replaces references to files that are stored with another provider.

Anthropic, OpenAI and Google have file APIs; a request names an uploaded file by its id. At another
provider that id is unknown or belongs to a different file, so it is never sent there: a note
replaces the file, and a loss asks for the data itself. OpenAI's two APIs share their files.
"""

from msgspec.structs import replace

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import (
    Document,
    Foreign,
    Image,
    Loss,
    Part,
    Request,
    Result,
    ResultPart,
    Text,
    Turn,
)

HOMES = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "google",
}
"""The vendor that stores the files of each API."""
_GOOGLE = ("gs://", "https://generativelanguage.googleapis.com/")


def own_files(
    request: Request, api: str, *, files: str | None, provider: str
) -> tuple[Request, list[Loss]]:
    """Return `request` without the files that its target cannot read.

    `files` is the vendor whose file ids the target accepts; None means that of the target's API.
    """
    home = HOMES.get(request.origin, "")
    # A request that the library built has no origin: its file ids are those of the target.
    if not home or home == (HOMES.get(api) if files is None else files):
        return request, []
    notes = _Notes(home, provider)
    turns = tuple(notes.turn(turn) for turn in request.turns)
    return (replace(request, turns=turns), notes.losses) if notes.losses else (request, [])


class _Notes:
    """Replaces files with notes and collects the losses."""

    def __init__(self, home: str, provider: str) -> None:
        self._home = home
        self._provider = provider or "this provider"
        self.losses: list[Loss] = []

    def turn(self, turn: Turn) -> Turn:
        before = len(self.losses)
        content = tuple(map(self._part, turn.content))
        return turn if len(self.losses) == before else replace(turn, content=content)

    def _part(self, part: Part) -> Part:
        if isinstance(part, Result):
            before = len(self.losses)
            content = tuple(map(self._shown, part.content))
            return part if len(self.losses) == before else replace(part, content=content)
        return self._shown(part) if isinstance(part, Image | Document | Foreign) else part

    def _shown(self, part: ResultPart) -> ResultPart:
        if not _is_file(part):
            return part
        why = f"the file is kept by {self._home}; {self._provider} cannot read it: send its data"
        self.losses.append(Loss(part.source.path if part.source else "file", why))
        name = part.title if isinstance(part, Document) and part.title else ""
        kind = "image" if isinstance(part, Image) else "file"
        label = f"{kind} {name!r}" if name else kind
        return Text(f"[{label} is not available: it is kept by another provider]")


def holds_file(turn: Turn) -> bool:
    """Return whether a part of `turn` is a file that a vendor stores."""
    for part in turn.content:
        inside = part.content if isinstance(part, Result) else (part,)
        for one in inside:
            if isinstance(one, Image | Document | Foreign) and _is_file(one):
                return True
    return False


def _is_file(part: ResultPart) -> bool:
    match part:
        case Image() | Document():
            return bool(part.file_id) or part.url.startswith(_GOOGLE)
        case Foreign(_, _, raw):
            return isinstance(raw.get("file_id"), str) or _google_uri(raw).startswith(_GOOGLE)
        case _:
            return False


def _google_uri(raw: JsonObject) -> str:
    file = raw.get("fileData")
    uri = file.get("fileUri") if isinstance(file, dict) else None
    return uri if isinstance(uri, str) else ""
