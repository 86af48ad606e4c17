"""A tolerant JSON parser: invalid JSON in, the value and a note of each change out.

It reads from left to right once, with an explicit stack, so that time is linear and depth is bounded.
Of the schema it uses only the property names, which distinguish a key from text.
"""

import re

from toolbridge.core.json import Json, JsonObject
from toolbridge.healing import steps, tokens
from toolbridge.healing.members import MemberReader
from toolbridge.healing.strings import OpenContainer

MAX_DEPTH = 200
_FIRST_MARKS = frozenset("\"'{[")


class TolerantReader(MemberReader):
    """Reads values; `docs` are the outermost ones, of which models sometimes write several."""

    __slots__ = ()

    def read(self) -> bool:
        """Read the whole text; return whether it contains JSON."""
        if self.text.startswith("{"):
            self._open_bracket()
        else:
            self.at = self.skip_space(0)
            if not self._find_start():
                return False
        self._run()
        if self.at < self.size:
            self._read_rest()
        return not self.hopeless

    def resume(self, members: JsonObject, at: int) -> bool:
        """Continue at `at` inside the outermost object; its first `members` are given."""
        self.at = at
        self._begin(members, "}")
        self._run()
        self._read_rest()
        return not self.hopeless

    def resume_string(self, members: JsonObject, key: str, start: int, floor: int) -> bool:
        """Continue inside the string of `key`; its content from `start` to `floor` is fixed."""
        self._begin(members, "}")
        self.stack[0].key = key
        self.put(self.read_joined(self.finish_string(start, floor, '"')))
        self._run()
        self._read_rest()
        return not self.hopeless

    # The beginning, and the text after the value.

    def _find_start(self) -> bool:
        text, at = self.text, self.at
        if text[at : at + 1] in ("{", "[", "\uff5b", "\uff3b"):
            return self._open_bracket()
        found = tokens.QUOTED_KEY.match(text, at) or self._bare_start(at)
        if found is not None:
            # A member without braces; a name outside the schema is prose before the JSON.
            value = text[found.end() : found.end() + 64].lstrip()[:1]
            if not value.startswith("{") or found.group(1) in self.keys:
                self.note(steps.MISSING_BRACES, at)
                self._begin({}, "")
                return True
        call = tokens.CALL.match(text, at)
        if call is not None:
            self.note(steps.CALL_NOTATION, at)
            self.at = call.end()
            self._begin({}, ")")
            return True
        start = tokens.START.search(text, at)
        if start is None:
            return False
        self.note(steps.TEXT_BEFORE, at)
        self.at = start.start()
        return self._open_bracket()

    def _bare_start(self, at: int) -> re.Match[str] | None:
        """Match `city: Paris` and `city="Paris"`; only the names distinguish them from prose."""
        found = tokens.BARE_KEY.match(self.text, at)
        if found is None or found.group(1) in self.keys:
            return found
        if self.keys or found.group().endswith(":"):
            return None
        return found

    def _read_rest(self) -> None:
        """Read the text after the outermost value: more members, more values, or prose."""
        text = self.text
        while not self.hopeless:
            between = tokens.BETWEEN.match(text, self.at)
            start, self.at = self.at, between.end() if between else self.at
            if self.at >= self.size:
                if text[start:].strip():
                    self.note(steps.EXTRA_BRACKET, start)
                return
            if self._goes_on():
                continue
            if text[self.at] not in "{[" or not tokens.START.match(text, self.at):
                self._leave_behind(self.at)
                return
            # A mismatched bracket ended the value too early: the rest belongs to it.
            self.hopeless |= steps.WRONG_BRACKET in self.notes
            if not self._open_bracket():
                return
            self._run()

    def _leave_behind(self, at: int) -> None:
        """Skip the text after the value, unless it is part of it."""
        self.note(steps.END_TAG if self.ends_here(at) else steps.TEXT_AFTER)
        # Quotes and a final brace: this is the rest of a string that ended too early.
        self.hopeless |= self.text.endswith(("}", "}\n")) and self.text.find('"', at) >= 0

    def _goes_on(self) -> bool:
        """Continue the outermost object if its next key follows an extra bracket."""
        last = self.docs[-1] if self.docs else None
        found = tokens.QUOTED_KEY.match(self.text, self.at)
        if not isinstance(last, dict) or found is None:
            return False
        self.note(steps.EXTRA_BRACKET)
        self.docs.pop()
        self._begin(last, "}")
        self._run()
        return True

    # Brackets.

    def _begin(self, holder: JsonObject | list[Json], closer: str) -> None:
        self.stack.append(OpenContainer(holder, closer))

    def _open_bracket(self) -> bool:
        bracket, stack = self.text[self.at], self.stack
        if len(stack) >= MAX_DEPTH:
            self.hopeless = True
            return False
        if bracket == "(":
            self.note(steps.PARENTHESES)
        elif bracket not in "{[":
            self.note(steps.FULL_WIDTH)
        holder: JsonObject | list[Json] = {} if bracket in "{\uff5b" else []
        if stack:
            self.put(holder)
        stack.append(OpenContainer(holder, tokens.OPENERS[bracket]))
        self.at += 1
        return True

    def _run(self) -> None:
        text, size, stack = self.text, self.size, self.stack
        while stack and not self.hopeless:
            container = stack[-1]
            before, holder = self.at, container.holder
            mark = text[before] if before < size else ""
            if mark and mark == container.closer:
                self.at += 1
                self._pop()
                continue
            if (mark in _FIRST_MARKS and not holder and not container.words) or self._go_on(
                container
            ):
                if isinstance(holder, dict):
                    self._read_member(container, holder)
                else:
                    self._read_element(container, holder)
            if self.at == before and stack and stack[-1] is container:
                self.hopeless = True

    def _go_on(self, container: OpenContainer) -> bool:
        """Skip to the next item; return whether it is a member and not the end."""
        if not self._skip_filler(container):
            self._end_of_text()
            return False
        mark = self.text[self.at]
        if mark in tokens.ENDS:
            self._close_bracket(container)
            return False
        if mark in "<`" and self._tag_follows():
            self._end_of_text()
            return False
        return True

    def _tag_follows(self) -> bool:
        """Whether the model ended its call here, without the brackets."""
        if not self.ends_here(self.at):
            return False
        self.note(steps.END_TAG)
        self.at = self.size
        return True

    def _skip_filler(self, container: OpenContainer) -> bool:
        """Skip the text between two members; return whether anything follows."""
        text, at = self.text, self.at
        fresh = not container.holder and not container.words
        plain = None if fresh else tokens.PLAIN_FILLER.match(text, at)
        if plain is not None:
            self.at = plain.end()
            if self.at < self.size and text[self.at] not in "}],/#.\\;":
                return True
        filler = tokens.FILLER.match(text, self.at)
        self.at = filler.end() if filler else self.at
        self._note_filler(text[at : self.at], at, fresh=fresh)
        return self.at < self.size

    def _note_filler(self, filler: str, at: int, *, fresh: bool) -> None:
        if self.at >= self.size:
            self.cut |= "," in filler or filler.endswith(".")
            return
        bare = filler.strip()
        if not fresh and not bare and self.text[self.at] not in tokens.ENDS:
            self.note(steps.MISSING_COMMA, at)
        elif bare and (fresh or bare != "," or self.text[self.at] in tokens.ENDS):
            self.note(_filler_name(bare, self.text[self.at]), at)

    def _close_bracket(self, container: OpenContainer) -> None:
        """Read a closing bracket: the expected one, or a mismatched or early one."""
        mark, at = self.text[self.at], self.at
        if container.closer in (mark, ""):
            self.at += 1
            self._pop()
            return
        parent = self.stack[-2] if len(self.stack) > 1 else None
        self.note(steps.WRONG_BRACKET, at)
        if parent is not None and parent.closer == mark and not self._is_typo(at):
            self._pop()  # the bracket closes the parent; the own one is missing
            return
        self.at += 1
        if (
            parent is None
            and tokens.PLAIN_FILLER.match(self.text, self.at)
            and mark != container.closer
        ):
            return  # a stray bracket: the members continue
        self._pop()

    def _is_typo(self, at: int) -> bool:
        """Whether a mismatched bracket replaces the right one: members of the parent follow."""
        if isinstance(self.stack[-2].holder, list):
            return False
        grand = self.stack[-3].holder if len(self.stack) > 2 else None
        if isinstance(grand, dict):
            return False
        found = tokens.PLAIN_FILLER.match(self.text, at + 1)
        return found is not None and tokens.QUOTED_KEY.match(self.text, found.end()) is not None

    def _pop(self) -> None:
        container = self.stack.pop()
        holder: Json = container.holder
        if container.words:
            holder = self._with_words(container)
        if not self.stack:
            self.docs.append(holder)

    def _with_words(self, container: OpenContainer) -> Json:
        if container.holder or not self.stack:
            self.note(steps.NO_COLON)
            return container.holder
        self.note(steps.SET)
        self.put(container.words)
        return container.words

    def _end_of_text(self) -> None:
        """Close all open containers at the end of the text."""
        self.open = True
        if any(container.closer for container in self.stack):
            self.note(steps.MISSING_BRACKET, max(self.size - 1, 0))
        while self.stack:
            self._pop()

    # Members and elements.

    def _read_member(self, container: OpenContainer, holder: JsonObject) -> None:
        if self.read_clear_members(holder):
            return
        sound = tokens.SOUND_KEY.match(self.text, self.at)
        if sound is not None:
            container.key, self.at = sound.group(1), sound.end()
        elif not self._read_odd_key(container):
            return
        if container.key in holder:
            self.doubt_repeated()
        if sound is not None or self.read_colon(container):
            self._read_member_value(container)

    def _read_odd_key(self, container: OpenContainer) -> bool:
        """Read a key that is not valid JSON; return whether a key was found."""
        self.skip_backslash()
        mark = self.text[self.at : self.at + 1]
        if mark and mark in tokens.QUOTES:
            container.key = self.read_string(key=True)
            return not self.cut or self.at < self.size
        if mark == "{":
            self._restart()
            return False
        return self.read_bare_key(container)

    def _read_member_value(self, container: OpenContainer) -> None:
        mark = self.text[self.at : self.at + 1]
        if not mark:
            self.cut = True
            self.note(steps.NO_VALUE, self.size - 1)
        elif mark in tokens.SEPARATORS or mark in tokens.ENDS:
            self.note(steps.NO_VALUE)
        elif mark in tokens.OPENERS:
            self._open_bracket()
        else:
            self.read_scalar(container)

    def _read_element(self, container: OpenContainer, holder: list[Json]) -> None:
        self.skip_backslash()
        mark = self.text[self.at : self.at + 1]
        if mark in tokens.OPENERS:
            self._open_bracket()
            return
        self.read_scalar(container)
        if self.text[self.at : self.at + 1] in (":", " ") and holder and self.stack:
            self._element_is_key(container, holder)

    def _element_is_key(self, container: OpenContainer, holder: list[Json]) -> None:
        """Close an array if its last element turns out to be the next key of the object around it."""
        separator = tokens.SEPARATOR.match(self.text, self.at)
        if separator is None or not isinstance(holder[-1], str) or self.stack[-1] is not container:
            return
        key = holder.pop()
        parent = self.stack[-2] if len(self.stack) > 1 else None
        self.note(steps.MISSING_BRACKET)
        if parent is not None and isinstance(parent.holder, dict):
            self._pop()
            parent.key = str(key)
            self.at = separator.end()
            self._read_member_value(parent)
        else:
            self.hopeless = True

    def _restart(self) -> None:
        """Close an unfinished object when another object begins in place of a key."""
        if len(self.stack) == 1:
            self.note(steps.RESTARTED)
            self.doubtful |= not self.restarts(self.at)
            self._pop()
        elif isinstance(self.stack[-2].holder, list):
            self.note(steps.MISSING_BRACKET)
            self._pop()
        else:
            self.hopeless = True


def _filler_name(filler: str, following: str) -> str:
    if "//" in filler or "/*" in filler or "#" in filler:
        return steps.COMMENT
    if "." in filler or "\u2026" in filler:
        return steps.ELLIPSIS
    if "\\" in filler:
        return steps.ESCAPED_SPACE
    if "," in filler:
        return steps.TRAILING_COMMA if following in tokens.ENDS else steps.EXTRA_COMMA
    return (
        steps.WRONG_SEPARATOR if filler.strip("\ufeff\u200b\u200c\u200d\u2060") else steps.INVISIBLE
    )
