"""RSS and Atom feeds as text: the title of each entry, its address, its date and its summary."""

import re

from toolbridge.tools.web.plain_text import one_line, unescape

_ENTRY = re.compile(r"<(?:\w+:)?(item|entry)[\s>]", re.IGNORECASE)
_CDATA = re.compile(r"<!\[CDATA\[|\]\]>")
_HEAD = 2000
_MOST = 100
"""The most entries."""
_SUMMARY = 1000
_LINK = re.compile(r"<link\b[^>]{0,500}?\bhref\s*=\s*[\"']([^\"']{1,2000})", re.IGNORECASE)


def is_feed(kind: str, text: str) -> bool:
    """Whether XML is a feed."""
    if kind in {"application/rss+xml", "application/atom+xml"}:
        return True
    return "xml" in kind and re.search(r"<(?:rss|feed|rdf:RDF)[\s>]", text[:_HEAD]) is not None


def read_feed(text: str) -> tuple[str, str]:
    """Return the title of a feed and its entries."""
    starts = [match.start() for match in _ENTRY.finditer(text)][: _MOST + 1]
    head = text[: starts[0]] if starts else text[:_HEAD]
    ends = [*starts[1:], len(text)]
    entries = [_entry(text[a:b]) for a, b in zip(starts, ends, strict=True)]
    return _field(head, "title", 300), "\n\n".join(entries[:_MOST])


def _entry(text: str) -> str:
    title = _field(text, "title", 300)
    link = _field(text, "link", 2000) or (found[1] if (found := _LINK.search(text)) else "")
    when = next((d for n in ("pubDate", "updated", "published", "date") if (d := _field(text, n, 60))), "")  # fmt: skip
    summary = next((s for n in ("description", "summary", "content", "encoded") if (s := _field(text, n, _SUMMARY))), "")  # fmt: skip
    return "\n".join(filter(None, (f"## {title}", unescape(link), when, summary)))


def _field(text: str, name: str, most: int) -> str:
    """Return the text of the first element `name`, without tags; its content may be escaped HTML."""
    start = re.search(rf"<(?:\w+:)?{name}(?:\s[^>]*+)?(?<!/)>", text, re.IGNORECASE)
    if start is None:
        return ""
    end = re.compile(rf"</(?:\w+:)?{name}\s*>", re.IGNORECASE).search(text, start.end())
    found = text[start.end() : end.start() if end else len(text)]
    if "<![CDATA[" in found:
        return one_line(_CDATA.sub("", found), most)
    return one_line(unescape(found[: 10 * most]), most)
