"""The marks of DeepSeek, as its models write them.

The fullwidth bars and the low line are the model's own; servers and fine-tunes write look-alikes.
"""

# ruff: noqa: RUF001 -- look-alikes are the point

from dataclasses import dataclass, field

from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.wire.tags import Marks, Wait

_SPELLINGS = ("<｜{}｜>", "<|{}|>")
_GAPS = ("▁", "_", " ")


def _spelled(words: str) -> tuple[str, ...]:
    return tuple(
        spelling.format(words.replace(" ", gap)) for spelling in _SPELLINGS for gap in _GAPS
    )


BEGIN = _spelled("tool calls begin")
END = _spelled("tool calls end")
CALL = _spelled("tool call begin")
CALL_END = _spelled("tool call end")
SEPARATOR = _spelled("tool sep")
OUTPUTS = _spelled("tool outputs begin")
_OUTPUTS_END = _spelled("tool outputs end")
DROP = (
    *OUTPUTS,
    *_OUTPUTS_END,
    *_spelled("tool output begin"),
    *_spelled("tool output end"),
    "<｜end▁of▁sentence｜>",
)


@dataclass(frozen=True)
class MadeUpOutputs:
    """Results that the model writes itself instead of waiting for them: nobody's answer."""

    ends: Marks = field(default_factory=lambda: Marks(_OUTPUTS_END))

    @property
    def closing(self) -> tuple[str, ...]:
        return ()

    def __call__(self, scribe: EventWriter, _mark: str, /) -> Wait[None]:
        if not (yield from scribe.cursor.until(self.ends, lambda _: None)):
            raise NotACall("results that do not end")
