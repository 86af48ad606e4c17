"""Reads the members of objects in invalid JSON: unambiguous ones by pattern, others key by key."""

import re

from toolbridge.core.json import JsonObject
from toolbridge.healing import steps, tokens
from toolbridge.healing.scalars import ScalarReader
from toolbridge.healing.strings import OpenContainer


class MemberReader(ScalarReader):
    """The part of the tolerant reader for keys and members."""

    __slots__ = ()

    def read_clear_members(self, holder: JsonObject) -> bool:
        """Read the unambiguous members from here on.

        Return False if the member at `at` is ambiguous, and True if something else may follow.
        """
        clear = tokens.CLEAR_MEMBER.match(self.text, self.at)
        if clear is None or not self._take_clear(clear, holder):
            return False
        while (clear := tokens.NEXT_CLEAR_MEMBER.match(self.text, self.at)) is not None:
            if clear.lastindex is None or not self._take_clear(clear, holder):
                if self.text.startswith('"', clear.end()):
                    self.at = clear.end()
                    return False
                break
        return True

    def _take_clear(self, clear: re.Match[str], holder: JsonObject) -> bool:
        """Add an unambiguous member; return False for a number that the end of the text may cut."""
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
            holder[key] = number if self.verbatim else tokens.plain_number(number)
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
        """Refuse a repeated key after quotes inside a string: that string ended too early."""
        self.hopeless |= steps.INNER_QUOTES in self.notes

    def read_bare_key(self, container: OpenContainer) -> bool:
        bare = tokens.BARE_KEY.match(self.text, self.at)
        found = bare or tokens.KEY_WORD.match(self.text, self.at)
        if found is None:
            word = tokens.NUMBER.match(self.text, self.at)
            if word is None:
                self.hopeless = True
                return False
            self.at = word.end()
            self.doubtful = True  # `1,000`, or a number as a key
            container.words.append(word.group())
            return False
        container.key = found.group(1 if bare else 0)
        self.note(steps.MISSING_QUOTES)
        self.at = found.end(1 if bare else 0)
        if self.text[self.at : self.at + 1] in tokens.CLOSERS:
            self.at += 1
        return True

    def read_colon(self, container: OpenContainer) -> bool:
        """Skip the separator after a key; return whether a value may follow."""
        separator = tokens.SEPARATOR.match(self.text, self.at)
        if separator is None:
            return self._value_follows(container)
        self.at = separator.end()
        if separator.group(1) != ":":
            self.note(steps.WRONG_COLON, separator.start(1))
        return True

    def _value_follows(self, container: OpenContainer) -> bool:
        """Whether a value follows a key without a colon."""
        self.at = self.skip_space(self.at)
        mark = self.text[self.at : self.at + 1]
        if not mark:
            self.cut = True
            return False
        if mark in tokens.ENDS or mark in tokens.SEPARATORS:
            container.words.append(container.key)
            return False
        self.note(steps.MISSING_COLON)
        return True
