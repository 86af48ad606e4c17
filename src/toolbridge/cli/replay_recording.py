"""Runs a recorded request again and prints how the answer differs: a part of `toolbridge replay`."""

import argparse
import asyncio
import difflib
import os
import re
import sys
from pathlib import Path

from toolbridge import dialects
from toolbridge.cli.demo_trace import plain, wants_colour
from toolbridge.cli.files import read_file
from toolbridge.core.close_names import did_you_mean
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.redaction import MASK, Redactor
from toolbridge.explain.answer_lines import event_lines, wire_lines
from toolbridge.explain.recording import RecordedBytes, Recording, read_recording, redact_pieces
from toolbridge.explain.transcript import write_transcript
from toolbridge.server.replaying import ReplayChanges, replay

_MEASURED = re.compile(r'("(?:total|load|prompt_eval|eval)_duration":)\d+')
"""Durations in an answer to an Ollama client, which are never the same twice."""
_ESTIMATED = re.compile(r"^(finished +\S+) .*")
"""The end of an answer with its token counts, which depend on the length of masked secrets."""
_COLOURS = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m"}


def replay_file(args: argparse.Namespace) -> int:
    """Replay the recording in a file; return 1 if the answer differs."""
    path = Path(args.run)
    changes = ReplayChanges(_dialect(args.changes), args.heal, args.to or "")
    recording = read_recording(read_file(path), str(path))
    if args.transcript:
        print(write_transcript(recording), end="")
        return 0
    answer = asyncio.run(replay(recording, changes))
    body = redact_pieces(answer.pieces, Redactor())
    before, after = _lines(recording, changes, answer.status, _text(body))
    difference = list(difflib.unified_diff(before, after, "recorded", "replayed", lineterm=""))
    if not difference:
        print(f"{recording.id}: the answer is the same ({len(after)} lines)")
        return 0
    _print(difference)
    return 1


def _dialect(changes: list[str] | None) -> str | None:
    """Return the dialect of `--with dialect=NAME`."""
    dialect = None
    for change in changes or ():
        name, equals, value = change.partition("=")
        if name != "dialect" or not equals:
            raise MalformedRequest(
                f"{change!r} is not known; use dialect=NAME, for example dialect=hermes_json",
                where="--with",
            )
        if value not in {"auto", "off"}:
            _check_dialect(value)
        dialect = value
    return dialect


def _check_dialect(name: str) -> None:
    known = ["auto", "off", *dialects.names()]
    if name not in known:
        raise MalformedRequest(
            f"there is no dialect {name!r}; use one of {', '.join(known)}{did_you_mean(name, known)}",
            where="--with",
        )


def _lines(
    recording: Recording, changes: ReplayChanges, status: int, text: str
) -> tuple[list[str], list[str]]:
    response = recording.response
    recorded, text = (_MEASURED.sub(r"\g<1>0", one) for one in (_text(response.body), text))
    before, after = wire_lines(response.status, recorded), wire_lines(status, text)
    to = changes.to or recording.api
    # A masked secret has another length, so its answer is divided into other pieces.
    if to != recording.api or (MASK in recorded and before != after):
        before = event_lines(recording.api, response.status, recorded)
        after = event_lines(to, status, text)
    if MASK in recorded:
        before, after = ([_ESTIMATED.sub(r"\1", line) for line in one] for one in (before, after))
    if response.client_left:  # the client did not read the rest
        after = after[: len(before)]
    return before, after


def _text(body: RecordedBytes) -> str:
    return b"".join(body.data()).decode("utf-8", "replace")


def _print(difference: list[str]) -> None:
    colour = wants_colour(os.environ, is_terminal=sys.stdout.isatty())
    for line in difference:
        shown = plain(line)
        start = _COLOURS.get(line[:1], "") if colour else ""
        print(f"{start}{shown}\x1b[0m" if start else shown)
