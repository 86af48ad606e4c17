"""Recognises requests to write, read or list files, or to run a command.

An intent leads to real tool calls in the user's directory, so recognition is conservative: the verb
must be an instruction, and its object must be named.
"""

import re
from typing import TypeAlias

import msgspec

from toolbridge.demo.paths import NamedPath, find_path, is_path, unquote


class WriteFile(msgspec.Struct, frozen=True):
    path: str
    content: str


class RunCommand(msgspec.Struct, frozen=True):
    command: str


class ReadFile(msgspec.Struct, frozen=True):
    path: str


class ListFiles(msgspec.Struct, frozen=True):
    path: str


Intent: TypeAlias = WriteFile | RunCommand | ReadFile | ListFiles

_VERBS = "create|write|make|save|put|store|generate|run|execute|read|show|open|print|display|view|cat|list"
_THEN = re.compile(rf"[,;.]?\s(?:and )?then,? (?=(?:{_VERBS})\b)", re.IGNORECASE)
_ALSO = re.compile(
    r"\s(?:and|, and|,) (?=(?:create )?[\w./-]{1,200}\.\w{1,10} (?:saying|containing|with)\b)",
    re.IGNORECASE,
)
_EXACT = re.compile(r"\b(?:content|contents|text)\b[^:\n]{0,20}:", re.IGNORECASE)
_POLITE = re.compile(
    r"(?:(?:please|kindly|can|could|would|will|you|now|ok|okay|hey|hi|hello|so|i|want|like|need|to"
    r"|let's|let us|just|first|next|also|go ahead and|your task is|for me)\b[\s,.!:]{0,5}){1,12}",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"(?:please )?(?:can|could|would|will) you\b", re.IGNORECASE)
_WHERE = re.compile(
    r"(?:in|inside|under) (?:the )?(?:directory |folder )?([^,\n]{1,200}), ", re.IGNORECASE
)
_WITH_TOOL = re.compile(
    r"(?:use|using|call|with) (?:the |your )?[`'\"]?[\w.-]{1,80}[`'\"]?(?: tool| command)?"
    r"(?: to|,| and) ",
    re.IGNORECASE,
)


def read_intents(words: str) -> list[list[Intent]]:
    """Return the steps that `words` ask for; the intents of one step may run at the same time."""
    words = words.strip()
    if _QUESTION.match(words):
        words = words.removesuffix("?")
    steps: list[list[Intent]] = []
    for sentence in _split(_THEN, words):
        pieces = _split(_ALSO, sentence)
        intents = [_read_one(piece, also=at > 0) for at, piece in enumerate(pieces)]
        known = [intent for intent in intents if intent is not None]
        if len(known) == len(intents):
            steps.append(known)
        elif not steps:
            return []
    return steps


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Split `text` at `pattern`, but not inside content that extends to the end of the text."""
    exact = _EXACT.search(text)
    limit = exact.end() if exact else len(text)
    pieces: list[str] = []
    start = 0
    for match in pattern.finditer(text, 0, limit):
        pieces.append(text[start : match.start()])
        start = match.end()
    return [*pieces, text[start:]]


def _read_one(piece: str, *, also: bool) -> Intent | None:
    where = _WHERE.match(piece)
    if where is not None:
        return _moved(_read_one(piece[where.end() :], also=also), where[1].strip("`'\""))
    order = _order(piece)
    if also and is_path(order.split(" ", 1)[0]):
        order = f"create {order}"
    verb, _, rest = order.partition(" ")
    verb = verb.lower().rstrip(":,")
    if order.lower().startswith(("execute:", "run:")):
        verb, _, rest = order.partition(":")
        verb = verb.lower()
    if verb in {"create", "write", "make", "save", "put", "store", "generate"}:
        return _read_folder(rest) or _read_write(rest)
    if verb in {"run", "execute"}:
        return _read_run(rest)
    return _read_listing(order) or _read_reading(order)


def _moved(intent: Intent | None, folder: str) -> Intent | None:
    """Return `intent` in `folder`, if the words name a folder before the verb."""
    if not isinstance(intent, WriteFile | ReadFile) or not (is_path(folder) or "/" in folder):
        return intent
    if intent.path.startswith(("/", "~")):
        return intent
    return msgspec.structs.replace(intent, path=f"{folder.rstrip('/')}/{intent.path}")


def _order(piece: str) -> str:
    """Return `piece` from its verb on, without polite phrases before it."""
    piece = piece.strip()
    for prefix in (_POLITE, _WITH_TOOL, _POLITE):
        match = prefix.match(piece)
        if match is not None:
            piece = piece[match.end() :]
    return piece


# Writing.

_FOLDER = re.compile(
    r"(?:an? |the )?(?:new |empty )?(?:directory|folder|dir) (?:called |named )?([^\s`'\",;]{1,300})",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\s{1,3}(?:in|inside|under|at) (?:the |this |my )?(?:current |working |project ){0,2}"
    r"(?:directory|folder|project|repository|repo|root|here)?\s?([/~.][^\s,;:]{0,300})?",
    re.IGNORECASE,
)
_CONNECTOR = re.compile(
    r"[\s,]{0,3}(?:and )?(?:that |which |it |whose |where )?(?:should |must |just )?"
    r"(saying|say|says|reading|reads|containing|contain|contains|with|holding|holds|having|has"
    r"|prints|print|outputs|content|contents|text|:)(?!\w)",
    re.IGNORECASE,
)
_CONTENT_IS = re.compile(
    r"[\s.,;]{0,3}(?:its |the |file )?(?:content|contents|text) (?:should be|must be|is|:)\s?:?",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"\s{0,3}(?:(?:exactly|only|just|the|this|these|following|its|a|one|single|simple|exact|file"
    r"|literal) ){0,6}(?:content|contents|text|word|words|line|body|message|string|phrase)\b"
    r"(?: in it| inside)?(?: is| being| of)?\s?(:?)",
    re.IGNORECASE,
)
_COLON = re.compile(r"\s{0,3}(?:(?:exactly|only|just|the|this|following) ?){0,4}:", re.IGNORECASE)
_BEFORE = re.compile(
    r"(?:\b(?:to|into|in|as|at|the|a|new|file|called|named)\b\s{0,3}){1,6}$", re.IGNORECASE
)
_A_FILE = re.compile(
    r"\s{0,3}(?:(?:me|a|an|the|new|empty|text|simple|small|short|blank|file|python|script|markdown"
    r"|shell|document|called|named)\b\s{0,3}){0,9}",
    re.IGNORECASE,
)
_SOME_FILE = re.compile(
    r"\s{0,3}(?:[\w-]{1,30} ){0,3}(?:file|script|document|page)(?: called| named| at| as)?\s{0,3}",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"[.!] (?:use|do not|don't|then|after|when|reply|answer|please|tell|just|only|nothing)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_PRINTING = {"py": 'print("{}")', "js": 'console.log("{}");', "sh": 'echo "{}"'}


def _read_folder(rest: str) -> Intent | None:
    match = _FOLDER.match(rest)
    return RunCommand(f"mkdir -p {match[1].rstrip('.!?')}") if match else None


def _read_write(rest: str) -> Intent | None:
    named = find_path(rest)
    if named is None:
        return None
    path, after = _placed(named, rest[named.end :])
    before = rest[: named.start]
    # "Write a function that reads config.json" names a file, but not one to write.
    introduced = _A_FILE.fullmatch(before) or _SOME_FILE.fullmatch(before)
    content = _content_after(path, after) if introduced else None
    if content is None:
        content = _content_before(before, after)
    return None if content is None else WriteFile(path, content)


def _placed(named: NamedPath, after: str) -> tuple[str, str]:
    """Return the path of "x.txt in /tmp", and the text after it."""
    place = _PLACE.match(after)
    if place is None:
        return named.path, after
    if place[1] and not named.path.startswith(("/", "~")):
        return f"{place[1].rstrip('/.')}/{named.path}", after[place.end() :]
    return named.path, after[place.end() :]


def _content_after(path: str, after: str) -> str | None:
    sentence = _CONTENT_IS.match(after)
    if sentence is not None:
        return _exact(after[sentence.end() :])
    connector = _CONNECTOR.match(after)
    if connector is None:
        return None
    word = connector[1].lower()
    rest = after[connector.end() :]
    if word == ":":
        return _exact(rest)
    if word in {"prints", "print", "outputs"}:
        return _printing(path, _loose(rest))
    colon = _COLON.match(rest)
    if colon is not None:
        return _exact(rest[colon.end() :])
    lead = None if word in {"saying", "say", "says", "reading", "reads"} else _LEAD.match(rest)
    if lead is None:
        return _loose(rest)
    return (_exact if lead[1] else _loose)(rest[lead.end() :])


def _content_before(before: str, after: str) -> str | None:
    """Return the content of "write hi to x.txt"; None for "create x.txt"."""
    if after.strip(" .!\n") and not after.strip().lower().startswith("please"):
        return None
    stripped = _BEFORE.sub("", before.rstrip() + " ").strip()
    kind = _A_FILE.match(stripped)
    rest = stripped[kind.end() :] if kind else stripped
    if not rest:
        return ""
    inner = _content_after("", " " + rest)
    if inner is not None:
        return inner
    preposition = re.search(r"\b(?:to|into|in|as)\b", before, re.IGNORECASE)
    return _loose(stripped) if preposition else None


def _exact(text: str) -> str:
    """Return content that extends to the end: a fenced block, a quotation, or all of it."""
    text = text.strip("\n").strip()
    if text.startswith("```") and text.count("```") >= 2:
        return text.split("```")[1].partition("\n")[2]
    return unquote(text)


def _loose(text: str) -> str:
    """Return content inside a sentence, without the rest of the sentence."""
    text = text.strip()
    if text[:1] in {'"', "'", "`"}:
        end = text.find(text[0], 1)
        closes = end > 0 and not text[end + 1 : end + 2].isalnum()
        if closes:
            return text[1:end]
    text = _ASIDE.sub("", text).removesuffix(" please").rstrip(",")
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text


def _printing(path: str, text: str) -> str:
    form = _PRINTING.get(path.rpartition(".")[2].lower())
    safe = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return form.format(safe) if form else text


# Running.

_COMMAND = re.compile(
    r"\s{0,3}(?:(?:the|this|a|following|shell|bash|terminal|command|commands)\b[\s:]{0,3}){0,6}",
    re.IGNORECASE,
)
_ENDING = re.compile(
    r",? (?:and|in the (?:shell|terminal)|with bash|for me|please)\b(?: (?:tell|show|give|report|say"
    r"|print|explain)\b.*)?$",
    re.IGNORECASE | re.DOTALL,
)


def _read_run(rest: str) -> Intent | None:
    ticked = re.search(r"`{1,3}([^`]{1,2000})`", rest)
    if ticked is not None:
        return RunCommand(ticked[1].removeprefix("bash\n").removeprefix("sh\n").strip())
    lead = _COMMAND.match(rest)
    said = lead[0].lower() if lead else ""
    command = rest[len(said) :].strip()
    # "run the tests" names no command; "run the command make test" does.
    if not command or (said.strip() and "command" not in said and ":" not in said):
        return None
    command = _ENDING.sub("", unquote(command)).strip()
    is_program = re.match(r"[\w./~-]{1,100}(?:\s|$|=)", command)
    return RunCommand(command.removesuffix(".")) if is_program else None


# Reading and listing.

_READ = re.compile(
    r"(?:read|show|open|print|display|view|cat|look at|what is in|what's in|what does|what is inside)"
    r"\b",
    re.IGNORECASE,
)
_LISTING = re.compile(
    r"(?:list|show|display)\b[\w ]{0,30}?\b(?:files|directory|directories|folder|folders|dir)\b"
    r"|(?:what|which) (?:other )?(?:files|directories|folders) (?:are|do|can|exist)\b"
    r"|what(?:'s| is) in (?:the|this|my)(?: current| working)? (?:directory|folder)\b"
    r"|ls\b",
    re.IGNORECASE,
)
_NO_PLACE = {
    "the", "this", "here", "my", "current", "working", "directory", "folder", "project", "a", "it",
    "there", "repository", "repo", "",
}  # fmt: skip


def _read_reading(order: str) -> Intent | None:
    verb = _READ.match(order)
    if verb is None or len(order) > 300:
        return None
    named = find_path(order[verb.end() :])
    return ReadFile(named.path) if named else None


def _read_listing(order: str) -> Intent | None:
    match = _LISTING.match(order)
    if match is None or len(order) > 300:
        return None
    return ListFiles(_directory(order[match.end() :]))


def _directory(rest: str) -> str:
    previous = ""
    for token in rest.split():
        bare = token.strip("`'\"?!,;:")
        bare = bare if bare in {".", ".."} else bare.rstrip(".")
        if "/" in bare or bare.startswith(("~", "..")):
            return bare
        follows = previous in {"in", "of", "under", "inside", "directory", "folder"}
        if follows and bare.lower() not in _NO_PLACE:
            return bare
        previous = bare.lower()
    return "."
