"""Reads numbers, literals and text without quotes in invalid JSON."""

from toolbridge.core.json import Json
from toolbridge.healing import steps, tokens
from toolbridge.healing.strings import LONG, OpenContainer, StringReader


class ScalarReader(StringReader):
    """The part of the tolerant reader for values other than objects and lists."""

    __slots__ = ()

    def put(self, value: Json) -> None:
        container = self.stack[-1]
        if isinstance(container.holder, dict):
            container.holder[container.key] = value
        elif container.words is not value:
            container.holder.append(value)

    def skip_backslash(self) -> None:
        if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in tokens.CLOSERS:
            self.note(steps.ESCAPED_QUOTES)
            self.at += 1

    def read_scalar(self, container: OpenContainer) -> None:
        text = self.text
        if text[self.at] == "\\":
            self.skip_backslash()
        prefix = tokens.PREFIX.match(text, self.at)
        if prefix is not None:
            self.note(steps.LITERAL)
            self.at = prefix.end()
        if text[self.at] in tokens.QUOTES:
            self.put(self.read_joined(self.read_string(key=False)))
            return
        found = tokens.NUMBER.match(text, self.at)
        value = tokens.number(found.group()) if found else None
        if found is not None and value is not None:
            self._put_number(found.group(), value, found.end())
            return
        word = tokens.WORD.match(text, self.at)
        if word is not None and tokens.literal(word.group())[0]:
            self.put(self.take_literal(word.group()))
            self.at = word.end()
            return
        self._read_bare(container)

    def read_joined(self, first: str) -> str:
        """Read strings that are concatenated to `first` with a plus."""
        pieces = [first]
        while (joined := tokens.JOINED.match(self.text, self.at)) is not None:
            self.note(steps.JOINED)
            self.at = joined.end()
            pieces.append(self.read_string(key=False))
        return "".join(pieces)

    def _put_number(self, written: str, value: float, end: int) -> None:
        if not tokens.STRICT_NUMBER.fullmatch(written):
            self.note(steps.NUMBER)
        self.at = end
        # A number at the end of the text may have lost digits.
        self.cut |= end >= self.size and bool(self.stack[0].closer)
        self.put(written if self.verbatim else value)

    def take_literal(self, word: str) -> Json:
        """Return the value of the literal `word` at `at`."""
        value = tokens.literal(word)[1]
        if word not in {"true", "false", "null"}:
            finite = not isinstance(value, float)
            self.note(steps.LITERAL if finite else steps.NOT_FINITE)
        return value

    def _read_bare(self, container: OpenContainer) -> None:
        """Read a string without quotes, up to the next member or the end."""
        text, start, at = self.text, self.at, self.at
        in_object = isinstance(container.holder, dict)
        braces = 0
        while (stop := tokens.BARE_STOP.search(text, at)) is not None:
            at = stop.start()
            if text[at] == "{":
                braces += 1
            elif text[at] == "}" and braces:
                braces -= 1
            elif not braces and self._ends_bare(container, at, in_object=in_object):
                break
            at = self.skip_space(at + 1) if text[at] in "\n\r" else at + 1
        else:
            at = self.size
        self.at = at
        if at >= self.size and self._cut_scalar(text[start:]):
            return
        raw = text[start:at].strip()
        self.note(steps.MISSING_QUOTES, start)
        if raw[-1:] in tokens.CLOSERS and raw[-1] not in raw[:-1]:
            raw = raw[:-1]
        # An odd number of quotes, or a key: the text contains more than one value.
        self.doubtful |= len(raw) > LONG or raw.count('"') % 2 == 1 or '":' in raw
        self.put(raw)

    def _ends_bare(self, container: OpenContainer, at: int, *, in_object: bool) -> bool:
        mark = self.text[at]
        if mark in tokens.SEPARATORS:
            return not in_object or self.next_fits(at + 1, in_object=True, dirty=True)
        if mark in "\n\r":
            return not container.closer or self.next_fits(at + 1, in_object=in_object, dirty=True)
        if mark == "<":
            return self.ends_here(at)
        if mark in {"/", "#"}:
            return self.text[at - 1].isspace() and tokens.NOISE.match(self.text, at) is not None
        if mark != (container.closer or "}") and not (mark == "}" and container.closer == "]"):
            return False
        return self.bracket_fits(at, dirty=False)

    def _cut_scalar(self, rest: str) -> bool:
        """Read a number or literal that the end of the text cuts; return False for anything else."""
        if not self.stack[0].closer:
            return False
        self.cut = True
        rest = rest.strip()
        whole = tokens.half_literal(rest.lower()) if rest.isalpha() else ""
        if whole:
            self.note(steps.CUT_LITERAL, self.size - 1)
            self.put(tokens.literal(whole)[1])
            return True
        if len(rest) > 64 or not tokens.HALF_NUMBER.fullmatch(rest):
            return False
        self.note(steps.CUT_NUMBER, self.size - 1)
        value = tokens.number(rest.rstrip("+-eE.") or "x")
        if value is not None:
            self.put(value)
        return True
