"""Text of strangers as plain text: without tags, invisible characters and very long words.

Invisible characters can hide instructions for the model from the people who read the same page:
zero-width characters, marks of direction, and the tag characters U+E0000 to U+E007F.
"""

import html
import re

_TAG = re.compile(r"<!--.*?-->|<[/!?]?[A-Za-z][^<>]{0,2000}>", re.DOTALL)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_LONG_REFERENCE = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{7,});?")
"""Character references beyond Unicode; Python refuses to read numbers of thousands of digits."""
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+[^\s)\"'<>]{100,}")
_SPACE = re.compile(r"[ \t\r\n\f\v\u0085\u00a0\u2028\u2029\u3000]+")


def one_line(text: str, most: int) -> str:
    """Return HTML as one line of at most `most` characters, without tags."""
    # The work is bounded: what may remain after tags were removed is a small part.
    written = _TAG.sub("", text[: 8 * most + 4000])
    return cut(_SPACE.sub(" ", visible(unescape(written))).strip(), most)


def unescape(text: str) -> str:
    """Return `text` with its character references replaced."""
    return html.unescape(_LONG_REFERENCE.sub("\ufffd", text)) if "&" in text else text


def visible(text: str) -> str:
    """Return `text` without characters that are not shown, and without long `data:` addresses."""
    found = text if text.isascii() and text.isprintable() else _INVISIBLE.sub("", text)
    return _DATA_URL.sub("data:…", found) if "data:" in found else found


def cut(text: str, most: int) -> str:
    """Return the first `most` characters; an ellipsis marks the missing rest."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
