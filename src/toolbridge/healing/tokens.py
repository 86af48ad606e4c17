"""Tokens of invalid JSON: patterns for quotes, separators, keys, numbers and literals.

Every pattern is possessive or bounded, so that matching takes linear time.
"""

import re

from toolbridge.core.json import Json
from toolbridge.core.lazy_pattern import lazy_pattern

CLOSERS = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": '\u201d\u201c\u201e"',
    "\u201d": '\u201d"',
    "\u201e": '\u201d\u201c"',
    "\u2018": "\u2019\u2018'",
    "\u2019": "\u2019'",
    "\u00ab": "\u00bb",
    "\uff02": '\uff02"',
}
"""The closing quotes of each opening quote."""
QUOTES = "".join(CLOSERS)
MARKS = {closers: lazy_pattern(rf"[{closers}\\]") for closers in CLOSERS.values()}
OPENERS = {"{": "}", "[": "]", "(": ")", "\uff5b": "\uff5d", "\uff3b": "\uff3d"}
ENDS = "}])\uff5d\uff3d"
_ENDS = re.escape(ENDS)
SEPARATORS = ",;\uff0c\u3001"

_BLANK = r"\s\ufeff\u200b\u200c\u200d\u2060"
SPACE = lazy_pattern(rf"[{_BLANK}]*+")
NOISE = lazy_pattern(
    rf"(?://[^\n]{{0,200}}\n|#[^\n]{{0,200}}\n|/\*[^*]{{0,200}}\*/|\\[nrt](?:[{_BLANK}]|\\[nrt]){{0,32}})"
)
"""A comment, or white space written as an escape."""
FILLER = lazy_pattern(
    rf"(?:[{_BLANK}{SEPARATORS}]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|$)|#[^\n]*+|\\[nrt]"
    r"|\.\.\.|\u2026)*+"
)
"""The text between two members."""
BETWEEN = lazy_pattern(rf"[{_BLANK}{SEPARATORS}{_ENDS}]*+")
COMMAS = lazy_pattern(rf"(?:[,\uff0c][{_BLANK}]{{0,32}}+){{0,8}}+")
PLAIN_FILLER = lazy_pattern(r"[ \t\r\n]*+,[ \t\r\n]*+")
SEPARATOR = lazy_pattern(
    rf"(?:[{_BLANK}]|\\[nrt])*+(=>|->|[:=\uff1a\uff1d])(?:[{_BLANK}]|\\[nrt])*+"
)
"""The separator between a key and its value."""
QUOTED_KEY = lazy_pattern(
    rf"[{_BLANK}]{{0,32}}+\\{{0,3}}[{QUOTES}]([^{QUOTES}\\\n,:{{}}\[\]]{{1,80}}?)\\{{0,3}}[{QUOTES}]"
    rf"[{_BLANK}]{{0,16}}+(?:[:=\uff1a\uff1d]|->)"
)
BARE_KEY = lazy_pattern(
    rf"[{_BLANK}]{{0,32}}+[{QUOTES}]?([^\W\d][\w$.\-]{{0,63}})[{QUOTES}]?"
    rf"[{_BLANK}]{{0,16}}+(?:[:=\uff1a\uff1d]|->)(?!//)"
)
"""Also a key with one quote missing. A colon before two slashes belongs to a URL."""
_WS = r"[ \t\r\n]*+"
_TEXT = r'[^"\\\x00-\x1f]'
_TEXT_1 = r"[^'\\\x00-\x1f]"
_MEMBER = (
    rf'(?:"({_TEXT}{{1,64}}+)"|\'({_TEXT_1}{{1,64}}+)\'|([A-Za-z_]\w{{0,63}}+)){_WS}:{_WS}'
    rf'(?:"({_TEXT}*+)"|\'({_TEXT_1}*+)\'|(-?(?:0|[1-9]\d{{0,15}}+)(?:\.\d{{1,15}}+)?)'
    r"|(true|false|null|True|False|None))"
    rf'(?={_WS}(?:,?+{_WS}(?:"{_TEXT}{{1,64}}+"|\'{_TEXT_1}{{1,64}}+\'){_WS}:'
    rf"|,{_WS}[A-Za-z_]\w{{0,63}}+{_WS}:|,?+{_WS}\}}{_WS}(?:$|[,}}\]]|</|<\||```)|$))"
)
"""An unambiguous member: without quotes or escapes inside, followed by a key or the end."""
CLEAR_MEMBER = lazy_pattern(_MEMBER)
NEXT_CLEAR_MEMBER = lazy_pattern(rf"{_WS},{_WS}(?:{_MEMBER})?")
"""A comma, with the unambiguous member after it, if any.

Not possessive: with Python up to 3.11.4 the match would end inside a member (python/cpython#106052)."""
SOUND_KEY = lazy_pattern(rf'"({_TEXT}{{1,64}}+)"[ \t]{{0,8}}+:(?:[{_BLANK}]|\\[nrt])*+')
"""A valid key with its colon and white space."""
LONE_KEY = lazy_pattern(
    rf"[{QUOTES}]([^{QUOTES}\\\n,:{{}}\[\]]{{1,80}}?)[{QUOTES}][{_BLANK}]{{1,16}}+[{QUOTES}\d\[{{\-tfnTFN]"
)
"""A key before its value, without a colon."""
KEY_WORD = lazy_pattern(r"[^\W\d][\w$.\-]{0,63}|[$@\-][\w$.\-]{1,63}")
HALF_KEY = lazy_pattern(
    rf"([\w$@\-][\w$.\- ]{{0,63}}?)[{_BLANK}]{{0,16}}[:=][{_BLANK}]{{0,16}}(?=[{QUOTES}\d\[{{\-tfnTFN])"
)
JOINED = lazy_pattern(
    rf"(?:[{_BLANK}]{{1,32}}+\+[{_BLANK}]{{0,32}}+|\+[{_BLANK}]{{1,32}}+)(?=[{QUOTES}])"
)
"""A plus between two strings. Without a space it is text: `== "+"`."""
_TAG = r"</[\w:.\-|]{1,40}>|<\|[^<>|]{1,40}\|>|<\uff5c[^<>]{1,40}\uff5c>|```"
LAST_TAGS = lazy_pattern(rf"(?:[{_BLANK}{_ENDS}]++|{_TAG}){{1,24}}+$")
"""Tags with which a model or its server ends a call, at the end of the text."""
START = lazy_pattern(
    rf"[{{\[][{_BLANK}]{{0,32}}+(?:[{{}}\]\[{QUOTES}\\,]|&quot;|[^\W\d][\w$\-]{{0,63}}[{_BLANK}]{{0,16}}[:=]|[\d\-])"
)
"""The beginning of JSON inside prose: a bracket followed by a token of JSON."""
_STOP = rf"(?=[{_BLANK}]{{0,32}}(?:[{SEPARATORS}{_ENDS}\n\r\"'}}]|$|//|#|/\*|</|<\||```))"
PREFIX = lazy_pattern(r"[rRbBuUfF]{1,2}(?=[\"'])")
"""The prefix of a Python string."""
NUMBER = lazy_pattern(
    rf"[+\-]?(?:0[xX][0-9a-fA-F]++|\d[\d_]*+(?:\.\d*+)?(?:[eE][+\-]?\d++)?|\.\d++(?:[eE][+\-]?\d++)?){_STOP}"
)
STRICT_NUMBER = lazy_pattern(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+\-]?\d++)?")
BARE_STOP = lazy_pattern(rf"[{SEPARATORS}{_ENDS}{{\n\r<#/]")
CALL = lazy_pattern(
    rf"[^\W\d][\w.\-]{{0,63}}\((?=[{_BLANK}]{{0,32}}(?:\)|[^\W\d][\w\-]{{0,63}}[{_BLANK}]{{0,8}}=))"
)
HALF_NUMBER = lazy_pattern(r"[+\-]?(?:\d[\d_]*+)?(?:\.\d*+)?(?:[eE][+\-]?\d*+)?$")
WORD = lazy_pattern(rf"[+\-]?[A-Za-z]{{2,9}}{_STOP}")
_LITERALS: dict[str, Json] = {
    "true": True, "false": False, "null": None, "none": None, "undefined": None, "nil": None,
}  # fmt: skip
NOT_FINITE = {"NaN", "Infinity", "-Infinity", "+Infinity", "-NaN", "inf", "-inf", "nan"}


def literal(word: str) -> tuple[bool, Json]:
    """Return whether `word` is a literal in JSON, Python or JavaScript, and its value."""
    if word in NOT_FINITE:
        return True, float("nan")
    lower = word.lower()
    return lower in _LITERALS, _LITERALS.get(lower)


def half_literal(word: str) -> str:
    """Return the literal that begins with `word`, or an empty string."""
    return next((whole for whole in ("true", "false", "null") if whole.startswith(word)), "")


def number(written: str) -> int | float | None:
    """Return the value of a number in any common notation, or None."""
    bare = written.replace("_", "").lstrip("+")
    try:
        if "x" in bare.lower():
            return int(bare, 16)
        if bare.lstrip("-").isdigit():
            return _whole(bare)
        value = float(bare)
    except ValueError:
        return None
    return value if abs(value) != float("inf") else None


def plain_number(written: str) -> int | float:
    """Return the value of a short JSON number without an exponent."""
    return float(written) if "." in written else int(written)


def _whole(digits: str) -> int | None:
    # Python raises ValueError for integers of more than 4,300 digits.
    return int(digits) if len(digits) <= 4000 else None


_ESCAPE = lazy_pattern(r"\\(u[0-9a-fA-F]{4}|[^u]|u)", re.DOTALL)
HALF_ESCAPE = lazy_pattern(
    r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?$"
)
"""An escape that the end of the text cuts, with the first half of a surrogate pair before it."""
_SIMPLE = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "'": "'", "\n": "",
}  # fmt: skip


def unescape(raw: str) -> tuple[str, bool]:
    r"""Return the text of a string's raw content, and whether all its escapes are valid JSON.

    A backslash before any other character is kept: models write `\d` and `C:\Users`. Lone surrogates
    become U+FFFD, because UTF-8 cannot encode them.
    """
    if "\\" not in raw:
        return raw, True
    sound = True

    def decode(match: re.Match[str]) -> str:
        nonlocal sound
        body = match.group(1)
        if len(body) == 5:
            return chr(int(body[1:], 16))
        if body in "'\n" or body not in _SIMPLE:
            sound = False
        return _SIMPLE.get(body, match.group())

    text = _ESCAPE.sub(decode, raw)
    if text.isascii():
        return text, sound
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined, sound and "\ufffd" not in joined


def unescape_layer(text: str) -> str:
    """Return `text` with one layer of escaping removed."""
    return unescape(text)[0]


def may_follow_key(mark: str) -> bool:
    """Whether `mark` can follow a key."""
    if mark in ":=\uff1a\uff1d" or mark in ENDS or mark in SEPARATORS:
        return True
    # A key without its colon is followed by a value.
    return mark in "-[{" or mark.isdigit() or mark in QUOTES or mark == "\\"


def without_half_escape(text: str, start: int, end: int) -> int:
    """Return the index of an escape that the end of the text cuts, or `end`."""
    found = HALF_ESCAPE.search(text, max(start, end - 12), end)
    if found is None:
        return end
    before = found.start()
    while before > start and text[before - 1] == "\\":
        before -= 1
    return end if (found.start() - before) % 2 else found.start()
