"""Extracts values for tool arguments from a prompt: names, numbers, quotations, addresses."""

import re
from functools import cached_property

from toolbridge.demo.paths import find_path

_QUOTED = re.compile(r"\"([^\"\n]{1,300})\"|`([^`\n]{1,300})`|(?<!\w)'([^'\n]{1,300})'(?!\w)")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?![\w.]\d)")
_URL = re.compile(r"https?://[^\s<>\"'`)]{1,500}")
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5}")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_WORD = re.compile(r"[^\W\d_][\w'\u2019-]{0,60}|[.!?:;,()&\n]")
_ABOUT = re.compile(
    r"\b(?:in|for|at|of|about|on|from|with) (?!the\s*$)((?:the )?[^\n.!?;,]{1,200})", re.IGNORECASE
)
_TIME = re.compile(
    r"\s{0,3}\b(?:today|tomorrow|now|right now|tonight|please|this week|currently|like)$",
    re.IGNORECASE,
)
_LONGEST = 4000
_COMMON_WORDS = (
    "a about all also an and are ask book call calculate can check city compare compute convert could"
    " create current describe did do does execute explain extract fetch find for forecast generate get give go"
    " has have hello help hey hi how i i'd i'll i'm if in invoke is it it's its let let's list look make"
    " may me my need now of ok on open or please print read reply run say search send set should show so"
    " summarize summarise tell temperature than thanks that the their then there these they this to"
    " today tomorrow translate try use using was we weather were what what's when where which who why"
    " will with would write yes no you your json api url"
)
_COMMON = frozenset(_COMMON_WORDS.split())


class PromptFacts:
    """The values in a prompt, by kind; each kind is extracted once."""

    def __init__(self, words: str) -> None:
        # In a prompt with a long text, the request is usually at the beginning.
        self.words = words[:_LONGEST]

    @cached_property
    def quoted(self) -> list[str]:
        return [m[1] or m[2] or m[3] for m in _QUOTED.finditer(self.words)]

    @cached_property
    def numbers(self) -> list[float]:
        return [float(m[0]) for m in _NUMBER.finditer(self.words)]

    @cached_property
    def url(self) -> str:
        match = _URL.search(self.words)
        return match[0].rstrip(".,") if match else ""

    @cached_property
    def email(self) -> str:
        match = _EMAIL.search(self.words)
        return match[0] if match else ""

    @cached_property
    def date(self) -> str:
        match = _DATE.search(self.words)
        return match[0] if match else ""

    @cached_property
    def path(self) -> str:
        named = find_path(self.words)
        return named.path if named else ""

    @cached_property
    def about(self) -> str:
        """The topic of a prompt without proper names: "weather in paris"."""
        matches = _ABOUT.findall(self.words)
        return _TIME.sub("", matches[-1]).strip() if matches else ""

    @cached_property
    def groups(self) -> list[list[str]]:
        """Groups of proper names: "Rome, Oslo and Bonn" is one group of three."""
        groups: list[list[str]] = []
        listed: list[str] = []
        for name, joint in _runs(self.words):
            if joint in _JOINTS and groups:
                groups[-1].append(name)
                listed[-1] += joint
            else:
                groups.append([name])
                listed.append("")
        # Without "and" it is one name: "Paris, France".
        return [
            g if how.strip(",") else [", ".join(g)] for g, how in zip(groups, listed, strict=True)
        ]

    @cached_property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for group in self.groups for name in group))

    def name_after(self, word: str) -> str:
        """Return the name right after `word`, as in "from Rome"."""
        found = re.search(rf"\b{word} ([^\W\d_][\w'-]{{0,60}})", self.words, re.IGNORECASE)
        return next((n for n in self.names if found and n.startswith(found[1])), "")


_JOINTS = {",", "and", "or", "&", ",and", ",or"}


def _runs(words: str) -> list[tuple[str, str]]:
    """Return each run of capitalised words with the text between it and the previous run."""
    runs: list[list[str]] = []
    joints: list[str] = []
    between: list[str] = []
    for token in _WORD.findall(words):
        word = token.removesuffix("'s").removesuffix("\u2019s")
        if not word[0].isupper() or word.lower() in _COMMON:
            between.append(token.lower())
        elif between or not runs:
            runs.append([word])
            joints.append("".join(between))
            between = []
        else:
            runs[-1].append(word)
    return [(" ".join(run), joint) for run, joint in zip(runs, joints, strict=True)]
