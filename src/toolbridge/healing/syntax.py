"""A tolerant reader: broken JSON in, the value that was meant and a note of each repair out.

It reads from left to right, once, with a stack of its own, so that neither length nor depth hurts.
It knows no schema but the names of the parameters, which tell a key from a piece of text.
"""

import re

from toolbridge.core.json import Json, JsonObject
from toolbridge.healing import steps
from toolbridge.healing import tokens as lx
from toolbridge.healing.members import MemberReader
from toolbridge.healing.strings import OpenContainer

MAX_DEPTH = 200
_FIRST_MARKS = frozenset("\"'{[")


class TolerantReader(MemberReader):
    """Reads values; `docs` are the outermost ones, of which a confused model writes several."""

    __slots__ = ()

    def read(self) -> bool:
        """Read the whole text; return whether there is anything of JSON in it."""
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
        """Read on at `at`, inside an outermost object whose first members are settled."""
        self.at = at
        self._begin(members, "}")
        self._run()
        self._read_rest()
        return not self.hopeless

    def resume_string(self, members: JsonObject, key: str, start: int, floor: int) -> bool:
        """Read on inside the string at `key`, which is settled from `start` up to `floor`."""
        self._begin(members, "}")
        self.stack[0].key = key
        self.put(self.read_joined(self.finish_string(start, floor, '"')))
        self._run()
        self._read_rest()
        return not self.hopeless

    # Where it begins and what comes after.

    def _find_start(self) -> bool:
        text, at = self.text, self.at
        if text[at : at + 1] in ("{", "[", "\uff5b", "\uff3b"):
            return self._open_bracket()
        found = lx.QUOTED_KEY.match(text, at) or self._bare_start(at)
        if found is not None:
            # A member without its brace: what is no name of a parameter is prose in front of JSON.
            value = text[found.end() : found.end() + 64].lstrip()[:1]
            if not value.startswith("{") or found.group(1) in self.keys:
                self.note(steps.MISSING_BRACES, at)
                self._begin({}, "")
                return True
        call = lx.CALL.match(text, at)
        if call is not None:
            self.note(steps.CALL_NOTATION, at)
            self.at = call.end()
            self._begin({}, ")")
            return True
        start = lx.START.search(text, at)
        if start is None:
            return False
        self.note(steps.TEXT_BEFORE, at)
        self.at = start.start()
        return self._open_bracket()

    def _bare_start(self, at: int) -> re.Match[str] | None:
        """Match `city: Paris` and `city="Paris"`, where nothing but the names tells it from prose."""
        found = lx.BARE_KEY.match(self.text, at)
        if found is None or found.group(1) in self.keys:
            return found
        if self.keys or found.group().endswith(":"):
            return None
        return found

    def _read_rest(self) -> None:
        """Read what follows the outermost value: more of its members, more values, or prose."""
        text = self.text
        while not self.hopeless:
            between = lx.BETWEEN.match(text, self.at)
            start, self.at = self.at, between.end() if between else self.at
            if self.at >= self.size:
                if text[start:].strip():
                    self.note(steps.EXTRA_BRACKET, start)
                return
            if self._goes_on():
                continue
            if text[self.at] not in "{[" or not lx.START.match(text, self.at):
                self._leave_behind(self.at)
                return
            # A wrong bracket ended the value before: what follows belongs to it.
            self.hopeless |= steps.WRONG_BRACKET in self.notes
            if not self._open_bracket():
                return
            self._run()

    def _leave_behind(self, at: int) -> None:
        """Pass over the text behind the value, unless it looks like a part of it."""
        self.note(steps.END_TAG if self.ends_here(at) else steps.TEXT_AFTER)
        # With quotes in it and a brace at its end, it is the rest of a string that ended too early.
        self.hopeless |= self.text.endswith(("}", "}\n")) and self.text.find('"', at) >= 0

    def _goes_on(self) -> bool:
        """Take up the outermost object again when its next key follows a bracket too many."""
        last = self.docs[-1] if self.docs else None
        found = lx.QUOTED_KEY.match(self.text, self.at)
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
        stack.append(OpenContainer(holder, lx.OPENERS[bracket]))
        self.at += 1
        return True

    def _run(self) -> None:
        text, size, stack = self.text, self.size, self.stack
        while stack and not self.hopeless:
            frame = stack[-1]
            before, holder = self.at, frame.holder
            mark = text[before] if before < size else ""
            if mark and mark == frame.closer:
                self.at += 1
                self._pop()
                continue
            if (mark in _FIRST_MARKS and not holder and not frame.words) or self._go_on(frame):
                if isinstance(holder, dict):
                    self._read_member(frame, holder)
                else:
                    self._read_element(frame, holder)
            if self.at == before and stack and stack[-1] is frame:
                self.hopeless = True

    def _go_on(self, frame: OpenContainer) -> bool:
        """Pass on to what comes next; return whether it is a member and not an end."""
        if not self._skip_filler(frame):
            self._end_of_text()
            return False
        mark = self.text[self.at]
        if mark in lx.ENDS:
            self._close_bracket(frame)
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

    def _skip_filler(self, frame: OpenContainer) -> bool:
        """Pass over what separates two members; return whether anything follows."""
        text, at = self.text, self.at
        fresh = not frame.holder and not frame.words
        plain = None if fresh else lx.PLAIN_FILLER.match(text, at)
        if plain is not None:
            self.at = plain.end()
            if self.at < self.size and text[self.at] not in "}],/#.\\;":
                return True
        filler = lx.FILLER.match(text, self.at)
        self.at = filler.end() if filler else self.at
        self._note_filler(text[at : self.at], at, fresh=fresh)
        return self.at < self.size

    def _note_filler(self, filler: str, at: int, *, fresh: bool) -> None:
        if self.at >= self.size:
            self.cut |= "," in filler or filler.endswith(".")
            return
        bare = filler.strip()
        if not fresh and not bare and self.text[self.at] not in lx.ENDS:
            self.note(steps.MISSING_COMMA, at)
        elif bare and (fresh or bare != "," or self.text[self.at] in lx.ENDS):
            self.note(_filler_name(bare, self.text[self.at]), at)

    def _close_bracket(self, frame: OpenContainer) -> None:
        """Take a closing bracket: the one that is due, or a wrong or an early one."""
        mark, at = self.text[self.at], self.at
        if frame.closer in (mark, ""):
            self.at += 1
            self._pop()
            return
        parent = self.stack[-2] if len(self.stack) > 1 else None
        self.note(steps.WRONG_BRACKET, at)
        if parent is not None and parent.closer == mark and not self._is_typo(at):
            self._pop()  # the bracket is the parent's; ours is missing
            return
        self.at += 1
        if parent is None and lx.PLAIN_FILLER.match(self.text, self.at) and mark != frame.closer:
            return  # a stray one: the members go on
        self._pop()

    def _is_typo(self, at: int) -> bool:
        """Whether a wrong bracket stands for the right one: members of the parent follow it."""
        if isinstance(self.stack[-2].holder, list):
            return False
        grand = self.stack[-3].holder if len(self.stack) > 2 else None
        if isinstance(grand, dict):
            return False
        found = lx.PLAIN_FILLER.match(self.text, at + 1)
        return found is not None and lx.QUOTED_KEY.match(self.text, found.end()) is not None

    def _pop(self) -> None:
        frame = self.stack.pop()
        holder: Json = frame.holder
        if frame.words:
            holder = self._with_words(frame)
        if not self.stack:
            self.docs.append(holder)

    def _with_words(self, frame: OpenContainer) -> Json:
        if frame.holder or not self.stack:
            self.note(steps.NO_COLON)
            return frame.holder
        self.note(steps.SET)
        self.put(frame.words)
        return frame.words

    def _end_of_text(self) -> None:
        """Close what is open: the text is over."""
        self.open = True
        if any(frame.closer for frame in self.stack):
            self.note(steps.MISSING_BRACKET, max(self.size - 1, 0))
        while self.stack:
            self._pop()

    # Members and elements.

    def _read_member(self, frame: OpenContainer, holder: JsonObject) -> None:
        if self.read_clear_members(holder):
            return
        sound = lx.SOUND_KEY.match(self.text, self.at)
        if sound is not None:
            frame.key, self.at = sound.group(1), sound.end()
        elif not self._read_odd_key(frame):
            return
        if frame.key in holder:
            self.doubt_repeated()
        if sound is not None or self.read_colon(frame):
            self._read_member_value(frame)

    def _read_odd_key(self, frame: OpenContainer) -> bool:
        """Read a key that is not as it should be; return whether there is one."""
        self.skip_backslash()
        mark = self.text[self.at : self.at + 1]
        if mark and mark in lx.QUOTES:
            frame.key = self.read_string(key=True)
            return not self.cut or self.at < self.size
        if mark == "{":
            self._restart()
            return False
        return self.read_bare_key(frame)

    def _read_member_value(self, frame: OpenContainer) -> None:
        mark = self.text[self.at : self.at + 1]
        if not mark:
            self.cut = True
            self.note(steps.NO_VALUE, self.size - 1)
        elif mark in lx.SEPARATORS or mark in lx.ENDS:
            self.note(steps.NO_VALUE)
        elif mark in lx.OPENERS:
            self._open_bracket()
        else:
            self.read_scalar(frame)

    def _read_element(self, frame: OpenContainer, holder: list[Json]) -> None:
        self.skip_backslash()
        mark = self.text[self.at : self.at + 1]
        if mark in lx.OPENERS:
            self._open_bracket()
            return
        self.read_scalar(frame)
        if self.text[self.at : self.at + 1] in (":", " ") and holder and self.stack:
            self._element_is_key(frame, holder)

    def _element_is_key(self, frame: OpenContainer, holder: list[Json]) -> None:
        """Close an array when what looked like its last element is the next key of its object."""
        separator = lx.SEPARATOR.match(self.text, self.at)
        if separator is None or not isinstance(holder[-1], str) or self.stack[-1] is not frame:
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
        """An object begins where a key should stand: the one before it was left unfinished."""
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
        return steps.TRAILING_COMMA if following in lx.ENDS else steps.EXTRA_COMMA
    return (
        steps.WRONG_SEPARATOR if filler.strip("\ufeff\u200b\u200c\u200d\u2060") else steps.INVISIBLE
    )
