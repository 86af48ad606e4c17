"""The marks of DeepSeek, as its models write them.

The fullwidth bars and the low line are the model's own; servers and fine-tunes write look-alikes.
"""

# ruff: noqa: RUF001 -- look-alikes are the point

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
DROP = (
    *_spelled("tool outputs begin"),
    *_spelled("tool outputs end"),
    *_spelled("tool output begin"),
    *_spelled("tool output end"),
    "<｜end▁of▁sentence｜>",
)
