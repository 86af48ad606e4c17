"""Reads HTML as tags and text, in linear time for any input.

It follows the rules of the HTML standard (WHATWG, 13.2.5) as far as they decide what is a tag and
what is text; the end of the input inside a tag or a comment ends the document, so nothing is read
twice. `html.parser` of the standard library takes quadratic time for many unclosed comments or tags
(CVE-2025-6069), and Python versions without the correction are in use.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from toolbridge.tools.web.plain_text import unescape

RAW = frozenset({"script", "style", "xmp", "iframe", "noembed", "noframes"})
"""Elements whose content is not markup; it is left out."""
_ESCAPABLE = frozenset({"title", "textarea"})
_WITH_ATTRIBUTES = frozenset(
    {"a", "base", "code", "div", "img", "main", "meta", "ol", "pre", "section", "span"}
)
_OPEN = re.compile(r"<(?:(!--)|(/?)([A-Za-z][^\s/>]*+)|[!?/])")
# A quantifier with `+` keeps what it matched, so a failure is found without backtracking.
_SKIP = re.compile(r"(?:[^>\"'=]++|=\s*+\"[^\"]*+\"|=\s*+'[^']*+'|[=\"'])*+>")
_ATTRIBUTE = re.compile(
    r"[\s/]*+(?:(>)|([^\s/>][^\s/>=]*+)"
    r"(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>\"'][^\s>]*+)|([\"'])))?)"
)
_COMMENT_END = re.compile(r"--!?>")
_LONGEST_NAME = 40


class Tag(NamedTuple):
    """A tag; `text` is the content of a `title`."""

    name: str
    closing: bool = False
    attributes: Mapping[str, str] = {}
    text: str = ""


def html_tokens(page: str) -> Iterator[Tag | str]:
    """Yield the tags and texts of a page; texts have their character references replaced."""
    at = 0
    while match := _OPEN.search(page, at):
        if match.start() > at:
            yield unescape(page[at : match.start()])
        if match[3]:
            tag, at = _tag(page, match)
            yield tag
        else:
            at = _comment_end(page, match)
    if at < len(page):
        yield unescape(page[at:])


def _comment_end(page: str, match: re.Match[str]) -> int:
    if match[1] is None:
        end = page.find(">", match.end())
        return len(page) if end < 0 else end + 1
    # `<!-->` and `<!--->` are complete comments.
    found = _COMMENT_END.search(page, match.end() - 2)
    return len(page) if found is None else found.end()


def _tag(page: str, match: re.Match[str]) -> tuple[Tag, int]:
    """Return the tag that begins at `match`, and the position after it."""
    name = match[3][:_LONGEST_NAME].lower()
    closing = bool(match[2])
    attributes: Mapping[str, str] = {}
    if closing or name not in _WITH_ATTRIBUTES:
        rest = _SKIP.match(page, match.end())
        at = len(page) if rest is None else rest.end()
    else:
        attributes, at = _attributes(page, match.end())
    if closing or (name not in RAW and name not in _ESCAPABLE):
        return Tag(name, closing, attributes), at
    end, after = _raw_end(page, name, at)
    text = unescape(page[at:end]) if name == "title" else ""
    return Tag(name, attributes=attributes, text=text), after


def _raw_end(page: str, name: str, at: int) -> tuple[int, int]:
    """Return where the content of a raw element ends, and where its end tag ends."""
    found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(page, at)
    if found is None:
        return len(page), len(page)
    rest = _SKIP.match(page, found.end())
    return found.start(), len(page) if rest is None else rest.end()


def _attributes(page: str, at: int) -> tuple[dict[str, str], int]:
    found: dict[str, str] = {}
    while match := _ATTRIBUTE.match(page, at):
        at = match.end()
        if match[1]:
            return found, at
        if match[6]:  # the quotation mark is never closed
            break
        value = next((match[group] for group in (3, 4, 5) if match[group] is not None), "")
        # HTML, 13.2.5.33: the first of several attributes with the same name counts.
        found.setdefault(match[2][:_LONGEST_NAME].lower(), value)
    return found, len(page)
