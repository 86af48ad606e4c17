"""Finds the end of strings in invalid JSON.

Models forget to escape quotes inside a string. A quote ends a string if a comma and a key, a closing
bracket or the end of the text follows; any other quote is part of the string. The lookahead is
bounded, so the time is linear in the length of the text.
"""

import re
from collections.abc import Callable

from toolbridge.core.json import Json
from toolbridge.healing import steps, tokens

LONG = 2000
"""Longer strings with unescaped quotes are refused: a wrong guess would corrupt a file."""


_MAY_FOLLOW = ("//", "/*", "</", "<|", "<\uff5c", "```")
_SUSPECT = frozenset(
    {
        steps.WRONG_BRACKET, steps.EXTRA_BRACKET, steps.MISSING_COMMA, steps.MISSING_COLON,
        steps.NO_VALUE, steps.SET, steps.NO_COLON, steps.RESTARTED, steps.TEXT_AFTER,
        steps.WRONG_COLON, steps.COMMENT, steps.MISSING_QUOTES, steps.SINGLE_QUOTES,
        steps.CURLY_QUOTES, steps.BACKTICKS, steps.TRIPLE_QUOTES,
    }
)  # fmt: skip


class OpenContainer:
    """An object or array whose end was not read yet."""

    __slots__ = ("closer", "holder", "key", "words")

    def __init__(self, holder: "dict[str, Json] | list[Json]", closer: str) -> None:
        self.holder = holder
        self.closer = closer
        """Its closing bracket; empty for an object without braces."""
        self.key = ""
        self.words: list[Json] = []
        """Keys without a value; a Python set has only such keys."""


class StringReader:
    """The part of the tolerant reader for strings.

    `names` returns the names in the schema, for quotes that are ambiguous without them.
    """

    __slots__ = (
        "_names", "at", "cut", "docs", "doubtful", "hopeless", "notes", "open", "size", "stack",
        "text", "verbatim",
    )  # fmt: skip

    def __init__(
        self,
        text: str,
        names: Callable[[], frozenset[str]] = frozenset,
        *,
        verbatim: bool = False,
    ) -> None:
        self.text = text
        self.size = len(text)
        self.verbatim = verbatim
        """Whether numbers are returned as text."""
        self._names = names
        self.at = 0
        self.cut = False
        """Whether the text ends inside a value."""
        self.open = False
        """Whether brackets are missing at the end."""
        self.doubtful = False
        """Whether another reading is equally possible."""
        self.hopeless = False
        """Whether the text cannot be read."""
        self.docs: list[Json] = []
        """The outermost values."""
        self.stack: list[OpenContainer] = []
        self.notes: dict[str, int] = {}
        """The names of the changes, and the index of the first of each."""

    @property
    def keys(self) -> frozenset[str]:
        return self._names()

    def note(self, what: str, at: int = -1) -> None:
        # A new kind of fault after unescaped quotes shows that a quote was interpreted wrongly.
        if what in _SUSPECT and steps.INNER_QUOTES in self.notes and what not in self.notes:
            self.hopeless = True
        self.notes.setdefault(what, self.at if at < 0 else at)

    def skip_space(self, at: int) -> int:
        if at < self.size and "!" <= self.text[at] <= "~":
            return at
        return tokens.SPACE.match(self.text, at).end()  # type: ignore[union-attr]  # may match nothing

    def read_string(self, *, key: bool) -> str:
        """Read the string whose opening quote is at `at`."""
        text, start = self.text, self.at
        quote = text[start]
        if text.startswith((quote * 3,), start) and quote in "\"'`":
            end = text.find(quote * 3, start + 3)
            if end > 0 and self._ends(end + 3, key=key, dirty=True):
                self.note(steps.TRIPLE_QUOTES, start)
                self.at = end + 3
                return self._content(start + 3, end)
        if quote != '"':
            self.note(_QUOTE_NAMES.get(quote, steps.CURLY_QUOTES), start)
        return self.finish_string(start + 1, start + 1, tokens.CLOSERS[quote], key=key)

    def finish_string(self, start: int, floor: int, closers: str, *, key: bool = False) -> str:
        """Read the string whose content begins at `start`; return its content.

        The string does not end before `floor`: that part was sent already.
        """
        text, at, inner, quotes = self.text, floor, -1, 0
        escaped = start >= 2 and text[start - 2] == "\\"
        marks = tokens.MARKS[closers]
        while (mark := marks.search(text, at)) is not None:
            at = mark.start()
            if text[at] == "\\":
                if self._escaped_end(at, closers, escaped=escaped, key=key):
                    self.at = at + 2
                    self.note(steps.ESCAPED_QUOTES, at)
                    return self._content(start, at if escaped or key else at + 1)
                at += 2
                continue
            if key and inner < 0 and self._half_key(start, at):
                return self._end_half_key(start)
            if self._ends(at + 1, key=key, dirty=inner >= 0):
                self.at = at + 1
                # The last of several quotes may also be part of the string.
                self.cut |= inner >= 0 and self.skip_space(at + 1) >= self.size
                return self._content(start, at, inner)
            if not key and quotes == 1 and self._begins_next_key(inner, at):
                content = self._end_before(start, floor, inner)
                if content is not None:
                    return content
            inner = at
            quotes += 1
            at += 1
        return self._unfinished(start, floor, inner)

    def _content(self, start: int, end: int, inner: int = -1) -> str:
        raw = self.text[start:end]
        content, sound = tokens.unescape(raw)
        if not sound:
            self.note(steps.INVALID_ESCAPE, start)
        if inner >= 0:
            self.note(steps.INNER_QUOTES, inner)
            self.hopeless |= len(raw) > LONG
        if not raw.isprintable() and any(mark < " " for mark in raw):
            self.note(steps.CONTROL_CHARACTER, start)
        return content

    # The text after a string.

    def _ends(self, after: int, *, key: bool, dirty: bool) -> bool:
        """Whether the quote before `after` ends its string; `dirty` if the string contains quotes."""
        at = self.skip_space(after)
        if at >= self.size:
            return True
        mark = self.text[at]
        if key:
            return tokens.may_follow_key(mark)
        in_object = bool(self.stack) and isinstance(self.stack[-1].holder, dict)
        if mark in tokens.ENDS:
            return self.bracket_fits(at, dirty=dirty)
        if mark in tokens.SEPARATORS:
            return self.next_fits(at + 1, in_object=in_object, dirty=dirty)
        if mark == ":" and not in_object:
            return True
        return self._ends_oddly(at, mark, in_object=in_object, dirty=dirty)

    def _ends_oddly(self, at: int, mark: str, *, in_object: bool, dirty: bool) -> bool:
        """Whether a string ends here although neither a comma nor a bracket follows."""
        text = self.text
        if mark == "+":
            plus = at - 1 if text[at - 1].isspace() else at
            return tokens.JOINED.match(text, plus) is not None and not dirty
        if mark in {"<", "`"}:
            return self.ends_here(at)
        if mark == "{":
            return self.restarts(at)
        if mark in "/#\\":
            noise = tokens.NOISE.match(text, at)
            return (
                noise is not None and not dirty and self._ends(noise.end(), key=False, dirty=True)
            )
        spaced = "\n" if in_object and self.stack[-1].closer not in ("", ")") else " \n"
        if in_object and (mark in tokens.QUOTES or text[at - 1] in spaced):
            return self._key_fits(at, dirty=dirty)
        return not in_object and mark in tokens.QUOTES and not dirty and text[at - 1 : at].isspace()

    def next_fits(self, at: int, *, in_object: bool, dirty: bool) -> bool:
        """Whether a member can begin at `at`, after a comma."""
        at = self.skip_space(at)
        if at >= self.size:
            return True
        at = tokens.COMMAS.match(self.text, at).end()  # type: ignore[union-attr]  # may match nothing
        if at >= self.size:
            return True
        mark = self.text[at]
        if mark in tokens.ENDS:
            return self.bracket_fits(at, dirty=dirty)
        if self.text.startswith("...", at):
            return not dirty
        if mark == "#" or self.text.startswith(("//", "/*"), at):
            return True
        if in_object:
            return self._key_fits(at, dirty=dirty) or (mark == "{" and self._object_fits(at))
        if not dirty:
            return True
        return mark in tokens.QUOTES or mark in "-[{" or mark.isdigit()

    def _object_fits(self, at: int) -> bool:
        """Whether an object can begin in place of a key: the one before lacks its bracket."""
        if len(self.stack) > 1 and isinstance(self.stack[-2].holder, list):
            return tokens.QUOTED_KEY.match(self.text, at + 1) is not None
        return self.restarts(at)

    def _key_fits(self, at: int, *, dirty: bool) -> bool:
        found = tokens.QUOTED_KEY.match(self.text, at)
        if found is None:
            found = self._bare_key(at)
        if found is None and steps.MISSING_COLON in self.notes:
            found = tokens.LONE_KEY.match(self.text, at)
        if found is None:
            return not dirty and self.text[at] in tokens.QUOTES and self._cut_key(at)
        # After a quote inside the string, only a name in the schema counts as a key.
        return not (dirty and self.keys) or found.group(1) in self.keys

    def _bare_key(self, at: int) -> re.Match[str] | None:
        """Match a key without quotes, if it is in the schema or others were unquoted too."""
        found = tokens.BARE_KEY.match(self.text, at)
        if found is None or not self.keys or steps.MISSING_QUOTES in self.notes:
            return found
        return found if found.group(1) in self.keys else None

    def _cut_key(self, at: int) -> bool:
        """Whether the text ends inside a key, or a key without a value follows."""
        rest = self.text[at + 1 : at + 82]
        quote = rest.find(self.text[at])
        if quote < 0:
            return at + 1 + len(rest) >= self.size
        if rest[quote + 1 :].lstrip()[:1] not in ("", "}", ","):
            return False
        name = rest[:quote]
        return name in self.keys if self.keys else tokens.KEY_WORD.fullmatch(name) is not None

    def bracket_fits(self, at: int, *, dirty: bool) -> bool:
        """Whether the bracket at `at` can close a container, judged by the text after it."""
        if dirty:
            return self._brackets_match(at)
        text, after = self.text, self.skip_space(at + 1)
        if text[at] == ")" and not self._parenthesis_fits():
            return False
        if after >= self.size:
            return True
        mark = text[after]
        if mark in tokens.ENDS or mark in tokens.SEPARATORS or text.startswith(_MAY_FOLLOW, after):
            return True
        if len(self.stack) <= 1:
            closer = self.stack[0].closer if self.stack else "}"
            return text[at] == (closer or "}") and mark not in "\"'\\).;:+-*/&|=>"
        return self._key_fits(after, dirty=True) or (mark == "{" and text[at] == "}")

    def _parenthesis_fits(self) -> bool:
        """Whether a closing parenthesis can end a tuple, a call, or a list by mistake."""
        top = self.stack[-1] if self.stack else None
        return top is not None and (isinstance(top.holder, list) or top.closer in (")", ""))

    def _brackets_match(self, at: int) -> bool:
        """Whether the brackets from `at` on close the open containers in order."""
        text, depth = self.text, len(self.stack)
        while at < self.size and text[at] in tokens.ENDS:
            if depth and self.stack[depth - 1].closer not in (text[at], ""):
                return False
            depth = max(depth - 1, 0)
            at = self.skip_space(at + 1)
        if at >= self.size:
            return True
        if text[at] in tokens.SEPARATORS and depth:
            in_object = isinstance(self.stack[depth - 1].holder, dict)
            return self.next_fits(at + 1, in_object=in_object, dirty=True)
        return text[at] in "<`" and self.ends_here(at)

    def ends_here(self, at: int) -> bool:
        """Whether only tags follow with which models and servers end a call."""
        return self.size - at <= 256 and tokens.LAST_TAGS.match(self.text, at) is not None

    def restarts(self, at: int) -> bool:
        """Whether the outermost object begins again at `at`, with the same key as before."""
        holder = self.stack[0].holder if self.stack else None
        if not isinstance(holder, dict):
            return False
        first = next(iter(holder), self.stack[0].key)
        found = tokens.QUOTED_KEY.match(self.text, at + 1)
        return found is not None and found.group(1) == first

    # Strings without a closing quote.

    def _escaped_end(self, at: int, closers: str, *, escaped: bool, key: bool) -> bool:
        """Whether an escaped quote ends the string: some texts are escaped only in part."""
        if at + 1 >= self.size or self.text[at + 1] not in closers:
            return False
        if key:
            return tokens.SEPARATOR.match(self.text, at + 2) is not None
        if escaped:
            return self._ends(at + 2, key=False, dirty=False)
        # `"C:\tmp\", "content": …`: the backslash belongs to the path, the quote ends the string.
        after = self.skip_space(at + 2)
        if self.text[after : after + 1] != ",":
            return False
        found = tokens.QUOTED_KEY.match(self.text, after + 1)
        return found is not None and found.group(1) in self.keys and "\\" not in found.group()

    def _half_key(self, start: int, at: int) -> bool:
        """Whether the quote at `at` begins a value: `"city: "Paris"`."""
        if self._ends_key_surely(at + 1):
            return False
        found = tokens.HALF_KEY.match(self.text, start)
        return found is not None and found.end() <= at

    def _ends_key_surely(self, after: int) -> bool:
        at = self.skip_space(after)
        return self.text[at : at + 1] in (":", "\uff1a", "=")

    def _end_half_key(self, start: int) -> str:
        found = tokens.HALF_KEY.match(self.text, start)
        name = found.group(1) if found else ""
        self.note(steps.MISSING_QUOTES, start)
        self.at = start + len(name)
        return name

    def _begins_next_key(self, inner: int, at: int) -> bool:
        """Whether the quotes at `inner` and `at` enclose the next key: the value lacks its quote."""
        if inner < 0 or not self.stack or not isinstance(self.stack[-1].holder, dict):
            return False
        name = self.text[inner + 1 : min(at, inner + 82)]
        after = self.skip_space(at + 1)
        container = self.stack[-1]
        if self.text[after : after + 1] != ":" or name == container.key or name in container.holder:
            return False
        return name in self.keys if self.keys else bool(tokens.KEY_WORD.fullmatch(name))

    def _end_before(self, start: int, floor: int, inner: int) -> str | None:
        """End a string before the comma in front of the next key, if there is one."""
        end = inner
        while end > max(start, inner - 16) and self.text[end - 1].isspace():
            end -= 1
        comma = end > start and self.text[end - 1] in tokens.SEPARATORS
        if not comma and "\n" not in self.text[end:inner]:
            return None
        end -= comma
        if end < floor or end - start > LONG:
            return None
        self.note(steps.CLOSING_QUOTE, end)
        self.at = end
        return self._content(start, end)

    def _unfinished(self, start: int, floor: int, inner: int) -> str:
        """Return the available content of a string without an end."""
        text = self.text
        if (
            inner >= floor
            and self.size - inner <= 64
            and not text[inner + 1 :].strip(" \n\r\t}])>;")
        ):
            # The last quote of the text ends the string, whatever follows.
            self.at = inner + 1
            return self._content(start, inner, inner)
        self.cut = True
        self.at = self.size
        end = self._without_brackets(max(start, floor))
        self.note(steps.CUT_STRING, start)
        return self._content(start, tokens.without_half_escape(text, start, end), inner)

    def _without_brackets(self, start: int) -> int:
        """Return the end of a string without the closing brackets of the open containers."""
        end = self.size
        for container in self.stack:
            while end > start and self.text[end - 1].isspace():
                end -= 1
            if end <= start or self.text[end - 1] != container.closer:
                return self.size
            end -= 1
        self.at = end
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return end


_QUOTE_NAMES = {"'": steps.SINGLE_QUOTES, "`": steps.BACKTICKS}
