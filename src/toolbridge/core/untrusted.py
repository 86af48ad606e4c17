"""Marks text of strangers, such as web pages, so that a model reads it as data.

A page may contain marks of the frame, of a chat template or of a dialect of tool calls
(`<|im_start|>`, `[INST]`, `<tool_call>`). Engines put the text of messages into their
templates as it is, so such marks are escaped before the text is sent.
"""

from toolbridge.core.lazy_pattern import lazy_pattern

_TAG = "untrusted_content"
# A template's mark begins with "<" and a letter, "/", "|", "!", "?", or DeepSeek's full-width bar.
_ANGLE = lazy_pattern(r"<(?=[A-Za-z/|!?\uff5c])")
# Mistral, chat templates: the marks of turns, tools and calls are words in square brackets.
_SQUARE = lazy_pattern(r"\[(?=/?[A-Z]+(?:_[A-Z]+)*\])")
_INVISIBLE = lazy_pattern(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


def escape_marks(text: str) -> str:
    """Return `text` with marks of templates and dialects escaped, without invisible characters."""
    visible = _INVISIBLE.sub("", text)
    return _SQUARE.sub("&#91;", _ANGLE.sub("&lt;", visible))


def framed(text: str, source: str) -> str:
    """Return `text` as untrusted content from `source`, a short name such as `web_search`."""
    return f'<{_TAG} source="{source}">\n{escape_marks(text)}\n</{_TAG}>'
