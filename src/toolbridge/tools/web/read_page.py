"""The body of a page as text, by its content type.

HTML becomes markdown, a feed a list of its entries; JSON, markdown and other text stay as they are.
The character set is that of the header, else that of the page, else UTF-8.
"""

import codecs
import importlib.util
import re
from typing import Literal, NamedTuple

from toolbridge.tools.web.plain_text import visible
from toolbridge.tools.web.read_feed import is_feed, read_feed
from toolbridge.tools.web.read_html import read_html

_META = re.compile(rb"<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)  # fmt: skip
_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_HEAD = 4096
"""Bytes of a page in which its character set is searched; the HTML standard has 1024."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))  # fmt: skip
_CHARACTER_SETS = re.compile(
    r"utf-8|utf-16(?:-le|-be)?|iso8859-\d+|cp125\d|cp874|cp866|cp932|cp949|koi8-[ru]|gb2312|gbk"
    r"|gb18030|big5(?:hkscs)?|euc_jp|euc_kr|shift_jis|iso2022_jp|mac-(?:roman|cyrillic)"
)
"""The character sets of the web (WHATWG Encoding). Python has further codecs that are not text, or
take quadratic time."""
_TEXT_TYPES = re.compile(
    r"text/.*|application/(?:json|xml|javascript|x-javascript|ecmascript|yaml|x-yaml|toml|rtf"
    r"|x-ndjson|ld\+json|sql|x-sh|graphql)|.*\+(?:json|xml|yaml)"
)
_HEADING = re.compile(r"^# +(.{1,200})$", re.MULTILINE)

Reader = Literal["auto", "builtin", "trafilatura"]


class ReadPage(NamedTuple):
    title: str
    text: str


class PageUnreadable(Exception):
    """The content type has no text."""


def read_page(body: bytes, content_type: str, url: str, reader: Reader = "auto") -> ReadPage:
    """Return title and text of a page; raise `PageUnreadable` for images and other binary content."""
    kind = content_type.partition(";")[0].strip().lower() or _guessed(body)
    is_html = kind in {"text/html", "application/xhtml+xml"}
    if not is_html and _TEXT_TYPES.fullmatch(kind) is None:
        raise PageUnreadable(kind)
    text = _decoded(body, content_type)
    if "\0" in text[:_HEAD]:
        raise PageUnreadable(f"{kind} with binary content")
    if is_html:
        title, found = _html(text, url, reader)
    elif is_feed(kind, text):
        title, found = read_feed(text)
    else:
        title, found = "", text.strip()
        if "markdown" in kind and (heading := _HEADING.search(text[:_HEAD])):
            title = heading[1].strip()
    return ReadPage(visible(title)[:300], visible(found))


def _html(text: str, url: str, reader: Reader) -> tuple[str, str]:
    title, found = read_html(text, url)
    if reader != "builtin" and importlib.util.find_spec("trafilatura") is not None:
        from toolbridge.tools.web.read_with_trafilatura import read_with_trafilatura

        found = read_with_trafilatura(text, url) or found
    return title, found


def _guessed(body: bytes) -> str:
    """Return the type of a body without one."""
    head = body[:_HEAD].lstrip()
    if head[:1] == b"<":
        return "text/html"
    return "application/octet-stream" if b"\0" in head else "text/plain"


def _decoded(body: bytes, content_type: str) -> str:
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    header = _HEADER.search(content_type)
    meta = _META.search(body[:_HEAD])
    names = (header[1] if header else "", meta[1].decode("ascii") if meta else "")
    name = next((found for name in names if (found := _known(name))), "utf-8")
    return body.decode(name, "replace")


def _known(name: str) -> str:
    """Return Python's name of a character set of the web; empty for any other."""
    try:
        found = codecs.lookup(name).name if name else ""
    except LookupError:
        return ""
    # WHATWG Encoding, 4.2: pages that declare Latin-1 or ASCII mean Windows-1252.
    if found in {"ascii", "iso8859-1"}:
        return "cp1252"
    return found if _CHARACTER_SETS.fullmatch(found) else ""
