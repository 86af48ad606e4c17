"""What the processes of a team write for one another: membership, questions, answers and rows."""

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.store.ledger import LedgerRow


class TeamMember(msgspec.Struct, frozen=True):
    """A process that runs."""

    id: str
    name: str


class TeamQuestion(msgspec.Struct, frozen=True):
    """What a process asks the others: about one request, or for their rows."""

    id: str
    process: str
    """The process that asks."""
    request: str = ""
    """The id of a request, or `last`; empty for the rows of all."""
    owner: str = ""
    """The hash of the caller: contents are shown to the caller who made the request only."""
    bodies: bool = False
    """Whether the answer has the bodies beside the explanation."""


class TeamAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process has of a request; nothing if `at` is 0."""

    name: str
    at: float = 0.0
    """When the request began."""
    row: LedgerRow | None = None
    running: bool = False
    contents: JsonObject = {}
    """The explanation, with the bodies if asked for; empty if the caller may not see them."""
    why: str = ""
    """Why there are no contents."""


class TeamRows(msgspec.Struct, frozen=True):
    """The requests of a process."""

    process: str
    name: str
    running: list[LedgerRow]
    ended: list[LedgerRow]
    """In the order of their ends."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    row: LedgerRow
    running: bool = False


_head = msgspec.json.Decoder(TeamMember)
_line = msgspec.json.Decoder(_Line)


def encode_rows(rows: TeamRows) -> bytes:
    """Return lines of JSON; the store redacts such a text in a tenth of the time of one value."""
    lines = [msgspec.json.encode(TeamMember(rows.process, rows.name))]
    lines += [msgspec.json.encode(_Line(row, running=True)) for row in rows.running]
    lines += [msgspec.json.encode(_Line(row)) for row in rows.ended]
    return b"\n".join(lines)


def decode_rows(value: bytes) -> TeamRows | None:
    """Return the rows; None for a text of another version. A row that a mask has broken is left out."""
    head, *lines = value.split(b"\n")
    try:
        member = _head.decode(head)
    except msgspec.MsgspecError:
        return None
    rows = TeamRows(member.id, member.name, [], [])
    for line in lines:
        try:
            one = _line.decode(line)
        except msgspec.MsgspecError:
            continue
        (rows.running if one.running else rows.ended).append(one.row)
    return rows
