"""Lists of JSON values whose JSON is known for the most part.

Encoders keep the tools and the messages of a session (`core/encoded_turns.py`), and their JSON with
them, so that the body of the next request is copied and not encoded again. For everything else a
`WrittenList` is a list: a changed copy of it has no JSON and is encoded as any other list.
"""

from toolbridge.core.json import Json, WrittenList, dump_members

_SHORT = 4096


def written_list(values: list[Json], end: int, json: bytes) -> list[Json]:
    """Return a list of which the first `end` members are written in `json`."""
    made = WrittenList(values)
    made.begin, made.end, made.json = 0, end, json
    return made


def preceded(first: list[Json], rest: list[Json]) -> list[Json]:
    """Return a list of both, with the JSON that is known of `rest`."""
    joined = first + rest
    if not isinstance(rest, WrittenList):
        return joined
    made = WrittenList(joined)
    made.begin, made.end, made.json = rest.begin + len(first), rest.end + len(first), rest.json
    return made


def wholly_written(values: list[Json]) -> list[Json]:
    """Return a list with its JSON; a short one without, because it is encoded as fast as copied."""
    try:
        json = dump_members(values)
    except UnicodeEncodeError:
        return values
    return values if len(json) < _SHORT else written_list(values, len(values), json)
