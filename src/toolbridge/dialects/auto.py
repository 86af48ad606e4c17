"""When nobody knows the dialect, what is seen decides.

One loop looks for the marks of all dialects at once. What follows a shared mark tells its dialects
apart; a frame at the beginning of an answer hands the whole of it to the reader of its frames.
Forms without a mark count only at the beginning, and only with the name of an offered tool.
"""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

import re
from dataclasses import dataclass
from functools import cache

from toolbridge.dialects import load, names
from toolbridge.dialects.dialect import ReadStream
from toolbridge.dialects.engines.calls_json import Shape
from toolbridge.dialects.engines.prose import FENCE, CallReader, Prose, Span
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.scribe import NotACall, Scribe
from toolbridge.dialects.engines.shared import BARE_JSON
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.wire.tags import Wait

_FRAMES = (
    ("harmony", "<|channel|>"),
    ("harmony", "<|start|>assistant<|channel|>"),
    ("harmony", "<|start|>assistant to=functions."),
    ("harmony", "<|start|>"),
    ("muse_atem", "<|start|>assistant to="),
    ("muse_atem", "<atem:function_calls>"),
    ("kimi_k3", "<|open|>"),
    ("kimi_k3", "<|close|>"),
    ("inkling", "<|message_model|>"),
    ("inkling", "<|content_thinking|>"),
    ("inkling", "<|content_text|>"),
    ("inkling", "<|content_invoke_tool_json|>"),
    ("inkling", "<|content_invoke_tool_text|>"),
)


@dataclass(frozen=True)
class _Addressed:
    """An answer that begins with its recipient, because the prompt has opened the header."""

    def __call__(self, scribe: Scribe, _mark: str, /) -> Wait[None]:
        cursor = scribe.cursor
        place = cursor.remember()
        head = yield from cursor.match(_HEADER)
        cursor.take(len(head))
        follows = yield from cursor.stands("<|channel|>", "<|message|>")
        if not follows:
            raise NotACall("no header")
        cursor.rewind(place)
        cursor.forget()
        yield from load("harmony" if follows == "<|channel|>" else "muse_atem").reader(scribe)


_HEADER = re.compile(r"\s*to=[^\s<]*\s*")
_FENCED = JsonBody(shape=Shape(strict=True), fence=True)
_BARE: dict[str, tuple[CallReader, ...]] = {
    "{": BARE_JSON,
    "[": (*BARE_JSON, PythonCalls(json=False)),
    FENCE: (_FENCED,),
    " to=": (_Addressed(),),
}


@cache
def auto_reader() -> ReadStream:
    """Return the reader that knows all dialects."""
    all_prose = [reader for name in names() if isinstance(reader := load(name).reader, Prose)]
    calls: dict[str, list[CallReader]] = {}
    thoughts: dict[Span, None] = {}
    for prose in all_prose:
        for mark, readers in prose.calls.items():
            if mark not in prose.loose:
                known = calls.setdefault(mark, [])
                known += [reader for reader in readers if reader not in known]
        thoughts |= {span: None for span in prose.thoughts if _is_tag(span)}
    for mark, known in calls.items():
        for beginning, others in calls.items():
            if mark != beginning and mark.startswith(beginning):
                known += [reader for reader in others if reader not in known]
    return Prose(
        {**calls, **_BARE},
        thoughts=sorted(thoughts, key=lambda span: span.open != "<think>"),
        first=_BARE,
        leftovers={mark for prose in all_prose for mark in prose.leftovers},
        drop={mark for prose in all_prose for mark in prose.drop if mark[:2] in {"<|", "<｜"}},
        frames={mark: load(name).reader for name, mark in _FRAMES},
    )


def _is_tag(span: Span) -> bool:
    return span.open[0] in "<["
