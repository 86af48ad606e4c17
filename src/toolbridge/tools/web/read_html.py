"""HTML as markdown: headings, links, lists, code and tables; without menus and scripts.

`MarkdownWriter` gets tags and texts in order and keeps no tree, so deep nesting costs nothing. The
content of `<main>`, or of the only `<article>`, is used if there is enough text in it.
"""

import re
from collections.abc import Callable
from urllib.parse import urljoin

from toolbridge.tools.web.html_tables import Table, written_table
from toolbridge.tools.web.html_tokens import Tag, html_tokens
from toolbridge.tools.web.plain_text import unescape

_NEVER = frozenset(
    {"template", "noscript", "svg", "select", "datalist", "object", "canvas", "audio", "video"}
)
"""Elements without text for readers."""
_MENUS = frozenset({"nav", "footer", "aside", "button", "dialog", "menu"})
_PARAGRAPHS = frozenset({"p", "blockquote", "figure", "hr", "dl", "details", "address"})
_LINES = frozenset(
    {"div", "section", "article", "main", "header", "li", "dt", "dd", "br", "tr", "caption", "form",
     "fieldset", "figcaption", "summary", "center", "body", "legend", "option", "hgroup"}
)  # fmt: skip
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_CELLS = frozenset({"td", "th"})
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_LANGUAGE = re.compile(r"(?:language|lang|highlight-source)-([\w+#.-]{1,20})")
_DEEPEST_TABLE = 8
"""Nested tables beyond this are read as text: the text of a table is copied at its end."""
_DEEPEST_INDENT = 6
_LONGEST_LINK = 2000
_ENOUGH = 200
"""Characters from which a part of a page counts as its content."""
_MUCH = 4
"""How many times longer a page with its menus must be, to be used instead of a short text."""

_NOTHING, _SAME_LINE, _NEXT_LINE, _PARAGRAPH = range(4)
_GAPS = ("", " ", "\n", "\n\n")


def read_html(page: str, url: str) -> tuple[str, str]:
    """Return the title of a page and its text as markdown; links become absolute by `url`."""
    written = _written(page, url, _NEVER | _MENUS)
    text = written.content()
    if len(text) < _ENOUGH and written.skipped:
        # A page may be inside a menu element that is never closed.
        whole = _written(page, url, _NEVER).content()
        text = whole if len(whole) > _MUCH * len(text) else text
    return _SPACE.sub(" ", written.title).strip(), text


def _written(page: str, url: str, skipped: frozenset[str]) -> "MarkdownWriter":
    writer = MarkdownWriter(url, skipped)
    for token in html_tokens(page):
        if isinstance(token, str):
            writer.text(token)
        elif token.closing:
            writer.end(token.name)
        else:
            writer.start(token)
    writer.close()
    return writer


class MarkdownWriter:
    """Writes markdown from tags and texts."""

    def __init__(self, url: str, skipped: frozenset[str]) -> None:
        self.title = ""
        self.skipped = False
        """Whether an element was left out."""
        self._base = url
        self._skipped_names = skipped
        self._skipping = ""
        """The element that is left out, and how many of its name are open."""
        self._skip_depth = 0
        self._parts: list[str] = []
        self._gap = _NOTHING
        self._prefix = ""
        self._lists: list[int] = []
        """For each open list the number of its last item; -1 for a list without numbers."""
        self._pre: list[str] | None = None
        self._language = ""
        self._link: tuple[int, int, str] | None = None
        """Where the text of the open link begins, the gap before it, and its address."""
        self._code: tuple[int, int] | None = None
        self._tables: list[Table] = []
        self._deeper_tables = 0
        self._regions: dict[str, list[tuple[int, int]]] = {"main": [], "article": []}
        self._open_regions: dict[str, int] = {}
        self._starters: dict[str, Callable[[Tag], None]] = {
            "a": self._start_a, "base": self._start_base, "img": self._start_img,
            "li": self._start_li, "ol": self._start_ol, "pre": self._start_pre,
            "table": self._start_table, "title": self._start_title, "tr": self._start_tr,
            "ul": self._start_ul,
        }  # fmt: skip

    # ── tags ─────────────────────────────────────────────────────────────────

    def start(self, tag: Tag) -> None:
        name = tag.name
        if self._skipping:
            self._skip_depth += name == self._skipping
        elif name in self._skipped_names or _is_hidden(tag):
            self._skipping, self._skip_depth, self.skipped = name, 1, True
        elif self._pre is not None:
            self._start_in_pre(tag)
        elif name in _HEADINGS:
            self._break(_PARAGRAPH)
            self._prefix = _HEADINGS[name]
        elif name in self._starters:
            self._starters[name](tag)
        elif name in _CODE:
            self._start_inline_code()
        elif name in _CELLS:
            self._start_cell()
        elif name in _PARAGRAPHS or name in _LINES:
            self._start_block(name)

    def end(self, name: str) -> None:
        if self._skipping:
            self._skip_depth -= name == self._skipping
            if not self._skip_depth:
                self._skipping = ""
        elif name == "pre":
            self._end_pre()
        elif self._pre is not None:
            return
        elif name == "a":
            self._end_link()
        elif name in _CODE:
            self._end_inline_code()
        elif name in {"ul", "ol"}:
            self._end_list()
        elif name in {"table", "tr"} or name in _CELLS:
            self._end_in_table(name)
        elif name in _HEADINGS or name in _PARAGRAPHS or name in _LINES:
            self._end_block(name)

    def _start_block(self, name: str) -> None:
        self._break(_PARAGRAPH if name in _PARAGRAPHS and not self._lists else _NEXT_LINE)
        if name == "blockquote":
            self._prefix = "> "
        elif name in self._regions and not self._tables:
            self._end_link()
            self._open_regions.setdefault(name, len(self._parts))

    def _end_block(self, name: str) -> None:
        if self._gap != _NOTHING or self._parts:
            self._break(_NEXT_LINE if name in _LINES or self._lists else _PARAGRAPH)
        if name in _HEADINGS or name == "blockquote":
            self._prefix = ""
        if name in self._open_regions and not self._tables:
            self._end_link()
            self._regions[name].append((self._open_regions.pop(name), len(self._parts)))

    def _start_title(self, tag: Tag) -> None:
        self.title = self.title or tag.text

    def _start_base(self, tag: Tag) -> None:
        self._base = _absolute(self._base, tag.attributes.get("href", "")) or self._base

    def _start_img(self, tag: Tag) -> None:
        if alt := _SPACE.sub(" ", unescape(tag.attributes.get("alt", ""))).strip():
            self.text(f"[image: {alt}]")

    def _start_ul(self, _tag: Tag) -> None:
        self._break(_NEXT_LINE if self._lists else _PARAGRAPH)
        self._lists.append(-1)

    def _start_ol(self, tag: Tag) -> None:
        self._break(_NEXT_LINE if self._lists else _PARAGRAPH)
        first = tag.attributes.get("start", "1")
        self._lists.append(int(first) - 1 if re.fullmatch(r"[0-9]{1,6}", first) else 0)

    def _end_list(self) -> None:
        if self._lists:
            self._lists.pop()
        self._break(_NEXT_LINE if self._lists else _PARAGRAPH)

    def _start_li(self, _tag: Tag) -> None:
        self._break(_NEXT_LINE)
        mark = "- "
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            mark = f"{self._lists[-1]}. "
        self._prefix = "  " * min(max(len(self._lists) - 1, 0), _DEEPEST_INDENT) + mark

    # ── text ─────────────────────────────────────────────────────────────────

    def text(self, text: str) -> None:
        if self._skipping:
            return
        if self._pre is not None:
            self._pre.append(text)
            return
        if text[:1] in " \t\r\n\f\u00a0":
            self._break(_SAME_LINE)
        if words := _SPACE.sub(" ", text).strip():
            self._write(words)
            if text[-1:] in " \t\r\n\f\u00a0":
                self._gap = _SAME_LINE

    def _write(self, text: str) -> None:
        if self._gap and self._parts:
            self._parts.append(_GAPS[self._gap])
        self._gap = _NOTHING
        self._parts.append(f"{self._prefix}{text}")
        self._prefix = ""

    def _break(self, gap: int) -> None:
        self._gap = max(self._gap, gap)

    # ── links and code ───────────────────────────────────────────────────────

    def _start_a(self, tag: Tag) -> None:
        self._end_link()
        href = _absolute(self._base, unescape(tag.attributes.get("href", "")))
        if href and self._code is None:
            self._link = (len(self._parts), self._gap, href)
            self._gap = _NOTHING

    def _end_link(self) -> None:
        if self._link is None:
            return
        if self._code is not None and self._code[0] >= self._link[0]:
            self._end_inline_code()
        begin, gap, href = self._link
        self._link = None
        label = self._taken(begin, gap)
        if label:
            self._write(f"[{label.lstrip('# ').replace(']', ')')}]({href})")
            self._gap, self._after = self._after, _NOTHING

    def _start_inline_code(self) -> None:
        if self._code is None:
            self._code = (len(self._parts), self._gap)
            self._gap = _NOTHING

    def _end_inline_code(self) -> None:
        if self._code is None:
            return
        begin, gap = self._code
        self._code = None
        if label := self._taken(begin, gap):
            self._write(f"`{label}`")
            self._gap, self._after = self._after, _NOTHING

    _after = _NOTHING

    def _taken(self, begin: int, gap: int) -> str:
        """Remove the text since `begin` and return it as one line; restore the gap before it."""
        label = _SPACE.sub(" ", "".join(self._parts[begin:])).strip()
        del self._parts[begin:]
        self._after, self._gap = self._gap, gap if label else max(gap, self._gap)
        return label

    def _start_pre(self, tag: Tag) -> None:
        self._end_link()
        self._end_inline_code()
        self._break(_PARAGRAPH)
        self._pre = []
        self._language = _language(tag)

    def _start_in_pre(self, tag: Tag) -> None:
        if tag.name == "br" and self._pre is not None:
            self._pre.append("\n")
        elif tag.name == "code":
            self._language = self._language or _language(tag)

    def _end_pre(self) -> None:
        if self._pre is None:
            return
        text = "".join(self._pre).strip("\n").replace("\r\n", "\n")
        self._pre = None
        if text.strip():
            fence = "````" if "```" in text else "```"
            self._write(f"{fence}{self._language}\n{text}\n{fence}")
        self._gap = _PARAGRAPH

    # ── tables ───────────────────────────────────────────────────────────────

    def _start_table(self, _tag: Tag) -> None:
        self._break(_PARAGRAPH)
        if len(self._tables) >= _DEEPEST_TABLE:
            self._deeper_tables += 1
            return
        self._end_link()
        self._end_inline_code()
        self._tables.append(Table())

    def _start_tr(self, _tag: Tag) -> None:
        if not self._tables or self._deeper_tables:
            self._break(_NEXT_LINE)
            return
        self._end_cell()
        self._tables[-1].rows.append([])

    def _start_cell(self) -> None:
        if not self._tables or self._deeper_tables:
            self._break(_NEXT_LINE)
            return
        self._end_cell()
        table = self._tables[-1]
        if not table.rows:
            table.rows.append([])
        table.outside = (self._parts, self._gap, self._prefix, self._lists)
        self._parts, self._gap, self._prefix, self._lists = [], _NOTHING, "", []

    def _end_cell(self) -> None:
        self._end_link()
        self._end_inline_code()
        table = self._tables[-1]
        if table.outside is not None:
            table.rows[-1].append("".join(self._parts).strip())
            self._parts, self._gap, self._prefix, self._lists = table.outside
            table.outside = None

    def _end_in_table(self, name: str) -> None:
        if name == "table" and self._deeper_tables:
            self._deeper_tables -= 1
        elif self._tables and not self._deeper_tables:
            self._end_cell()
            if name == "table":
                self._break(_PARAGRAPH)
                if written := written_table(self._tables.pop()):
                    self._write(written)
        self._break(_PARAGRAPH if name == "table" else _NEXT_LINE)

    # ── the end ──────────────────────────────────────────────────────────────

    def close(self) -> None:
        self._skipping = ""
        self._deeper_tables = 0
        self._end_pre()
        while self._tables:
            self._end_in_table("table")
        self._end_link()
        self._end_inline_code()
        for name in list(self._open_regions):
            self._end_block(name)

    def content(self) -> str:
        """Return the text of `<main>`, of the only `<article>`, or of the whole page."""
        for name, regions in self._regions.items():
            if len(regions) == 1 or (name == "main" and regions):
                begin, end = regions[0]
                if len(text := "".join(self._parts[begin:end]).strip()) >= _ENOUGH:
                    return text
        return "".join(self._parts).strip()


def _is_hidden(tag: Tag) -> bool:
    if tag.name not in {"div", "section", "span"}:
        return False
    style = tag.attributes.get("style", "")[:500].replace(" ", "").lower()
    return "hidden" in tag.attributes or "display:none" in style or "visibility:hidden" in style


def _language(tag: Tag) -> str:
    found = _LANGUAGE.search(tag.attributes.get("class", "")[:500])
    return found[1] if found else ""


def _absolute(base: str, href: str) -> str:
    """Return an http address for a link; empty for others, such as `javascript:` and `#`."""
    given = href.strip()
    if not given or given.startswith("#") or len(given) > _LONGEST_LINK:
        return ""
    try:
        found = urljoin(base, given)
    except ValueError:
        return ""
    if not found.startswith(("http://", "https://")):
        return ""
    return re.sub(r"[\s()<>]", lambda m: f"%{ord(m[0]):02X}", found)
