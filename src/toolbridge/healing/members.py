"""The members of objects: those that can be read in one way only, and keys that are not as they should be."""

import re

from toolbridge.core.json import JsonObject
from toolbridge.healing import steps
from toolbridge.healing import tokens as lx
from toolbridge.healing.scalars import ScalarReader
from toolbridge.healing.strings import OpenContainer


class MemberReader(ScalarReader):
    """The part of the reader that knows keys, and members that need no thought."""

    __slots__ = ()

    def read_clear_members(self, holder: JsonObject) -> bool:
        """Read the members from here on that need no thought.

        Return False where a member begins at `at` that does, and True where something else may.
        """
        clear = lx.CLEAR_MEMBER.match(self.text, self.at)
        if clear is None or not self._take_clear(clear, holder):
            return False
        while (clear := lx.NEXT_CLEAR_MEMBER.match(self.text, self.at)) is not None:
            if clear.lastindex is None or not self._take_clear(clear, holder):
                if self.text.startswith('"', clear.end()):
                    self.at = clear.end()
                    return False
                break
        return True

    def _take_clear(self, clear: re.Match[str], holder: JsonObject) -> bool:
        """Take a member that needs no thought, unless it is a number that the end may have cut."""
        key, key_1, key_bare, text, text_1, number, word = clear.groups()
        if number is not None and clear.end() == self.size:
            return False
        if key is None or text_1 is not None:
            self._note_quotes(clear)
            key = key or key_1 or key_bare
        if key in holder:
            self.doubt_repeated()
        if text is not None:
            holder[key] = text
        elif number is not None:
            holder[key] = number if self.verbatim else lx.plain_number(number)
        elif word is not None:
            self.at = clear.start(7)
            holder[key] = self.take_literal(word)
        else:
            holder[key] = text_1
        self.at = clear.end()
        return True

    def _note_quotes(self, clear: re.Match[str]) -> None:
        bare = clear.start(3)
        if bare >= 0:
            self.note(steps.MISSING_QUOTES, bare)
        else:
            self.note(steps.SINGLE_QUOTES, max(clear.start(1), clear.start(2)) - 1)

    def doubt_repeated(self) -> None:
        """Judge a key that comes again: after quotes inside a string, that ended too early."""
        self.hopeless |= steps.INNER_QUOTES in self.notes

    def read_bare_key(self, frame: OpenContainer) -> bool:
        found = lx.BARE_KEY.match(self.text, self.at) or lx.KEY_WORD.match(self.text, self.at)
        if found is None:
            word = lx.NUMBER.match(self.text, self.at)
            if word is None:
                self.hopeless = True
                return False
            self.at = word.end()
            self.doubtful = True  # `1,000`, or a key that is a number
            frame.words.append(word.group())
            return False
        frame.key = found.group(1) if found.re is lx.BARE_KEY else found.group()
        self.note(steps.MISSING_QUOTES)
        self.at = found.end(1) if found.re is lx.BARE_KEY else found.end()
        if self.text[self.at : self.at + 1] in lx.CLOSERS:
            self.at += 1
        return True

    def read_colon(self, frame: OpenContainer) -> bool:
        """Pass over what separates a key and its value; return whether a value may follow."""
        separator = lx.SEPARATOR.match(self.text, self.at)
        if separator is None:
            return self._value_follows(frame)
        self.at = separator.end()
        if separator.group(1) != ":":
            self.note(steps.WRONG_COLON, separator.start(1))
        return True

    def _value_follows(self, frame: OpenContainer) -> bool:
        """Whether a value follows a key at once, without a colon."""
        self.at = self.skip_space(self.at)
        mark = self.text[self.at : self.at + 1]
        if not mark:
            self.cut = True
            return False
        if mark in lx.ENDS or mark in lx.SEPARATORS:
            frame.words.append(frame.key)
            return False
        self.note(steps.MISSING_COLON)
        return True
