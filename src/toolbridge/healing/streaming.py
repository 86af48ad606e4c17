"""Heals the arguments of one call while they arrive.

Text is sent on as soon as healing cannot change it: the content of a string parameter as it comes, any
other member when its value is complete and fits, and the end of a string when the next key confirms
it. From the first fault on, everything is held until the call ends; then the rest is healed as a
continuation of the text that was sent, which is never retracted.
"""

import msgspec

from toolbridge.core.json import JsonObject, dumps, loads
from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.messages import Step
from toolbridge.healing.ladder import Healing, Ladder
from toolbridge.healing.schema import Schema
from toolbridge.healing.steps import CONTROL_CHARACTER
from toolbridge.healing.syntax import TolerantReader
from toolbridge.wire.json_stream import JsonReader, Member

_HELD = lazy_pattern(r",\s{0,16}$")
"""A comma that may follow a string without a closing quote, and is not part of it."""
_SPECIAL = lazy_pattern(r"[\"\\,\x00-\x1f\ud800-\udfff]")
_UNPLAIN = frozenset({"enum", "const", "format", "anyOf", "oneOf", "allOf", "nullable"})


class HealedArguments(msgspec.Struct, frozen=True):
    """The result of healing a call at its end."""

    arguments: JsonObject
    rest: str
    """The text that completes the arguments after the part that was sent."""
    steps: tuple[Step, ...] = ()
    cut: bool = False
    open: bool = False
    hopeless: bool = False


class StreamHealing:
    """Takes pieces of arguments and returns the text that may be sent."""

    def __init__(self, rules: Schema, *, level: int = 2, words: bool = False) -> None:
        self._rules = rules
        self._level = level
        self._words = words
        self._members = rules.members(rules.root)
        self._pieces: list[str] = []
        self._clean: list[str] = []
        self._kept: list[str] = []
        self._reader = JsonReader()
        self._stopped = False
        self._checked = 0
        self._sound = 0
        self._escaped = ""
        self._flowing = False
        """Whether everything received was sent and a string continues."""
        self.sent = 0
        """The number of characters that were sent."""

    @property
    def text(self) -> str:
        """Everything that was received."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def unsent(self) -> str:
        """The text that was received and not sent."""
        return "".join(self._clean)[self.sent :]

    def feed(self, piece: str) -> str:
        """Add a piece; return the text that may be sent now."""
        self._pieces.append(piece)
        if self._flowing and not _SPECIAL.search(piece):
            self._reader.feed(piece)
            self._clean.append(piece)
            self.sent += len(piece)
            return piece
        while piece and not self._stopped:
            taken = self._reader.feed(piece)
            self._keep(piece[:taken])
            piece = piece[taken:]
            if self._reader.fault:
                piece = self._escape(piece)
        if piece:
            self._clean.append(piece)
        out = self._release()
        self._flowing = (
            self.sent == self._reader.taken and self._reader.in_string and not self._stopped
        )
        return out

    def _keep(self, text: str) -> None:
        if text:
            self._clean.append(text)
            self._kept.append(text)

    def _escape(self, piece: str) -> str:
        """Put an escape in the place of a raw control character; stop at any other fault."""
        first = piece[:1]
        if (
            not (self._reader.in_string and first < " ")
            or self._reader.in_escape
            or not self._level
        ):
            self._stopped = True
            return piece
        self._reader.forgive()
        escape = dumps(first)[1:-1]
        self._reader.feed(escape)
        self._keep(escape)
        self._escaped = self._escaped or first
        return piece[1:]

    # What is certain.

    def _release(self) -> str:
        settled = self._settled()
        if settled <= self.sent:
            return ""
        kept = "".join(self._kept)
        out, rest = kept[: settled - self.sent], kept[settled - self.sent :]
        self._kept = [rest]
        self.sent = settled
        return out

    def _settled(self) -> int:
        """Return the length of the text that may be sent."""
        members = self._reader.members
        while self._checked < len(members) and not self._stopped_at(members[self._checked]):
            if self._checked:
                self._sound = members[self._checked - 1].end
            self._checked += 1
        if self._checked < len(members):
            return self._up_to_stop(members)
        return self._up_to_now(members)

    def _stopped_at(self, member: Member) -> bool:
        return not self._declared(member.key) or not self._rules.fits(
            member.value, self._members.get(member.key, True)
        )

    def _up_to_stop(self, members: list[Member]) -> int:
        """Return the length that may be sent when the next member needs healing."""
        self._stopped = True
        if self._checked and self._declared(members[self._checked].key):
            self._sound = members[self._checked - 1].end
        return max(self._sound, self._inside(members))

    def _up_to_now(self, members: list[Member]) -> int:
        reader = self._reader
        if not reader.in_member or not reader.path or not isinstance(reader.path[0], str):
            return max(self._sound, self._inside(members))
        key = reader.path[0]
        if not self._declared(key):
            self._stopped = True
            return max(self._sound, self._inside(members))
        if members:
            self._sound = members[-1].end
        if len(reader.path) == 1 and reader.in_string and self._plain(key):
            return self._without_held(reader.taken - reader.in_escape)
        return self._sound

    def _inside(self, members: list[Member]) -> int:
        """Return the end of the content of a string whose closing quote is not confirmed yet."""
        if not self._checked:
            return 0
        last = members[self._checked - 1]
        if not self._plain(last.key) or not isinstance(last.value, str):
            return 0
        return self._without_held(last.end - 1)

    def _without_held(self, end: int) -> int:
        kept = "".join(self._kept)
        self._kept = [kept]
        at = end - self.sent
        found = _HELD.search(kept, max(at - 17, 0), at) if at > 0 else None
        return end - len(found.group()) if found else end

    def _declared(self, key: str) -> bool:
        return not self._members or key in self._members

    def _plain(self, key: str) -> bool:
        """Whether the parameter `key` accepts any string."""
        if not self._members:
            return True
        rule = self._rules.resolve(self._members[key])
        return rule.get("type") == "string" and _UNPLAIN.isdisjoint(rule)

    # The end.

    def finish(self) -> HealedArguments:
        """End the call and return its result."""
        text = self.text
        whole = self._reader.value if self._reader.complete and not self._stopped else None
        if isinstance(whole, dict):
            steps = (Step(CONTROL_CHARACTER, 1, dumps(self._escaped), ""),)
            return HealedArguments(whole, "".join(self._kept), steps if self._escaped else ())
        if not self.sent:
            return self._heal_all(text)
        healing = self._heal_rest("".join(self._clean))
        if healing.hopeless or not self._honours(healing.value):
            return HealedArguments({}, "", healing.steps, healing.cut, healing.open, hopeless=True)
        rest = self._write_rest(healing.value)
        return HealedArguments(healing.value, rest, healing.steps, healing.cut, healing.open)

    def _heal_all(self, text: str) -> HealedArguments:
        healing = Ladder(text, self._rules, self._level, words=self._words).heal_text()
        if healing.hopeless:
            rest = dumps(healing.value)
            return HealedArguments(
                healing.value, rest, healing.steps, healing.cut, healing.open, hopeless=True
            )
        rest = dumps(healing.value) if healing.steps else text if text.strip() else ""
        return HealedArguments(healing.value, rest, healing.steps, healing.cut, healing.open)

    def _settled_members(self) -> JsonObject:
        return {m.key: m.value for m in self._reader.members if m.end <= self.sent}

    def _open_member(self) -> tuple[str, int]:
        """Return the key of the string that was sent in part, and the index of its content."""
        for member in self._reader.members:
            if member.start < self.sent < member.end:
                return member.key, member.start + 1
        if self._reader.value_start < self.sent and self._reader.path:
            in_open = not self._reader.members or self._reader.members[-1].end < self.sent
            return (str(self._reader.path[0]), self._reader.value_start + 1) if in_open else ("", 0)
        return "", 0

    def _heal_rest(self, text: str) -> Healing:
        ladder = Ladder(text, self._rules, self._level, words=self._words)
        reader = TolerantReader(text, self._rules.all_names)
        key, start = self._open_member()
        if key:
            reader.resume_string(self._settled_members(), key, start, self.sent)
        else:
            reader.resume(self._settled_members(), self.sent)
        return ladder.heal_resumed(reader)

    def _honours(self, value: JsonObject) -> bool:
        """Whether `value` continues the text that was sent; checked because that text stays."""
        settled = self._settled_members()
        key, start = self._open_member()
        begun = value.get(key, "") if key else ""
        same = all(key in value and value[key] == member for key, member in settled.items())
        return same and (
            not key or (isinstance(begun, str) and begun.startswith(self._content(start)))
        )

    def _content(self, start: int) -> str:
        """Return the part of the open string that was sent."""
        content = loads('"' + "".join(self._clean)[start : self.sent] + '"')
        return content if isinstance(content, str) else ""

    def _write_rest(self, value: JsonObject) -> str:
        settled = self._settled_members()
        key, start = self._open_member()
        pieces: list[str] = []
        if key:
            pieces.append(dumps(str(value[key])[len(self._content(start)) :])[1:])
        pieces += [
            f",{dumps(name)}:{dumps(member)}"
            for name, member in value.items()
            if name not in settled and name != key
        ]
        return "".join(pieces) + "}"
