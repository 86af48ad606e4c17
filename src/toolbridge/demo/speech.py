"""The texts of the demo model."""

import re

from toolbridge.core.messages import Call
from toolbridge.demo.conversation import DemoConversation, FinishedCall
from toolbridge.demo.intent import Intent, ListFiles, ReadFile, RunCommand, WriteFile, read_intents
from toolbridge.demo.paths import unquote
from toolbridge.demo.sums import maybe_sum

ABOUT = (
    "I am the embedded demo model of toolbridge: small, deterministic, and no network behind me. "
    "I can create, read and list files and run commands with the tools that your client offers, "
    "call other tools by their schemas, do small sums, count words and repeat after you. "
    "For real answers, connect a real model: start Ollama and run `ollama pull qwen3:8b`, which the "
    "gateway finds without a restart, or run `toolbridge init` to add a provider."
)
GREETING = "Hello! " + ABOUT
UNICODE = "Grüße aus Zürich 👋🏽, 東京 🗼, Ελλάδα 🏛️ and the family 👨‍👩‍👧‍👦: all whole. 🎉"
CODE = 'Here is a function:\n\n```python\ndef greet(name: str) -> str:\n    return f"Hello, {name}!"\n```\n'

_HELLO = re.compile(
    r"(?:hi|hello|hey|good (?:morning|evening|afternoon))\b[\w ,]{0,20}[.!?]{0,3}", re.IGNORECASE
)
_ECHO = re.compile(
    r"(?:please )?(?:say|repeat|echo|reply|respond|answer|output)\b"
    r"(?: (?:after me|back|with|exactly|only|just|the|this|following|word|words|text|phrase)\b){0,6}"
    r"[:,]?\s",
    re.IGNORECASE,
)
_AND_STOP = re.compile(r",? and (?:then )?(?:stop|nothing else|nothing more)[.!]?$", re.IGNORECASE)
_COUNT = re.compile(
    r"(?:please )?(?:count (?:the )?words|how many words)\b[^:\"\n]{0,40}[:\"]?\s?(.*)",
    re.IGNORECASE | re.DOTALL,
)
_MOST_LINES = 12
_MOST_CHARACTERS = 600


def small_talk(words: str) -> str:
    """Return an answer to words that ask for nothing that a tool does."""
    words = words.strip()
    if _HELLO.fullmatch(words):
        return GREETING
    total = maybe_sum(words)
    if total is not None:
        return total
    counted = _COUNT.match(words)
    if counted is not None:
        text = counted[1].strip().strip('"')
        return f"I count {len(text.split())} words."
    echoed = _ECHO.match(words)
    if echoed is not None and words[echoed.end() :].strip():
        return unquote(_AND_STOP.sub("", words[echoed.end() :]))
    return ABOUT


def seen(media: tuple[str, ...]) -> str:
    """Return a sentence about the attachments."""
    noun = "image" if all(kind.startswith("image") for kind in media) else "attachment"
    count = f"{len(media)} {noun}{'s' if len(media) > 1 else ''}"
    return f"I got {count} ({', '.join(media)}), but I am a demo model and cannot look inside."


def announce(calls: list[Call], intents: list[Intent]) -> str:
    """Return a sentence about the next calls."""
    if intents and len(intents) == len(calls):
        return "I will " + " and ".join(purpose(intent) for intent in intents) + "."
    names = list(dict.fromkeys(call.name for call in calls))
    return f"I will use {' and '.join(names)}."


def purpose(intent: Intent) -> str:
    match intent:
        case WriteFile(path):
            return f"create {path}"
        case RunCommand(command):
            return f"run `{command}`"
        case ReadFile(path):
            return f"read {path}"
        case ListFiles(path):
            return "list the files here" if path == "." else f"list the files in {path}"


def unable(intent: Intent, offered: int) -> str:
    """Return a sentence that no offered tool can do what is asked."""
    why = "none of the tools on offer does that" if offered else "your client offers no tools"
    return f"I would {purpose(intent)}, but {why}. With an agent such as Claude Code I can do it."


def report(done: tuple[FinishedCall, ...], purposes: list[Intent | None]) -> str:
    """Return a report of the calls and their results."""
    return "\n\n".join(_outcome(*pair) for pair in zip(done, purposes, strict=True))


def _outcome(done: FinishedCall, intent: Intent | None) -> str:
    if done.failed:
        why = excerpt(done.text) or "it gave no reason"
        return f"The tool {done.name} failed, so this is not done: {why}"
    match intent:
        case WriteFile(path):
            return _written(path, done)
        case RunCommand(command):
            return _shown(f"I ran `{command}`.", done.text, "It printed nothing.")
        case ReadFile(path):
            return _shown(f"Here is {path}:", done.text, "It is empty.")
        case ListFiles():
            return _shown("These are the files:", done.text, "There are none.")
        case None:
            return _shown(f"The tool {done.name} answered:", done.text, "nothing.")


_CONFIRMS = re.compile(
    r"\b(?:success\w*|created|wrote|written|saved|updated|added|done|ok|completed|executed)\b"
    r"|\bno output\b|\bexit(?:ed)?\b[\w ]{0,12}:? ?0\b",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:not|cannot|can't|couldn't|failed|failure|error|denied|invalid|unable|missing|must)\b",
    re.IGNORECASE,
)


def _written(path: str, done: FinishedCall) -> str:
    """Return that a file was created only if the result confirms it; many tools fail in plain text."""
    if not done.text or (_CONFIRMS.search(done.text) and not _DENIES.search(done.text[:400])):
        return f"Done: I created {path}."
    return f"The tool {done.name} did not confirm that {path} was created: {excerpt(done.text)}"


def _shown(lead: str, text: str, otherwise: str) -> str:
    shown = excerpt(text)
    if not shown:
        return f"{lead} {otherwise}"
    return f"{lead}\n\n{shown}" if "\n" in shown else f"{lead} {shown}"


def excerpt(text: str) -> str:
    """Return the beginning of `text`, with a mark if it was cut."""
    lines = text.strip()[: _MOST_CHARACTERS + 1].split("\n")
    shown = "\n".join(lines[:_MOST_LINES])[:_MOST_CHARACTERS]
    return shown if len(shown) == len(text.strip()) else shown.rstrip() + " …"


# Requests that clients send by themselves: titles and summaries.

TITLE_ORDER = re.compile(
    r"\b(?:generate|write|create|suggest|come up with)\b[^.\n]{0,60}\btitle\b", re.IGNORECASE
)
_SESSION = re.compile(
    r"<(session|chat_history|conversation|message)>(.{0,4000}?)</\1>", re.IGNORECASE | re.DOTALL
)


def title_of(conversation: DemoConversation) -> str:
    """Return a short name for the conversation."""
    told = _SESSION.search(conversation.words)
    subject = told[2].strip() if told else _without_order(conversation)
    steps = read_intents(subject)
    if steps:
        words = _title_words(purpose(steps[0][0]))
    else:
        words = re.sub(r"[^\w\s.'/-]", " ", subject).split()
    title = " ".join(words[:6])[:60].strip(" .-")
    return title[:1].upper() + title[1:] if title else "New conversation"


def _without_order(conversation: DemoConversation) -> str:
    """Return the topic of the conversation, without the instruction to write a title."""
    lines = [line for line in conversation.words.split("\n") if not TITLE_ORDER.search(line)]
    return unquote("\n".join(lines)) or "".join(conversation.asked[:1])


def _title_words(text: str) -> list[str]:
    return [word.rpartition("/")[2] or word for word in text.replace("`", "").split()]


def summary_of(conversation: DemoConversation) -> str:
    """Return a summary of the conversation in the tags that the client expects."""
    asked = conversation.asked[:-1] or ("nothing yet",)
    lines = "\n".join(f"- {words[:200]}" for words in asked)
    body = f"The user asked for:\n{lines}\nNo work is left open that I know of."
    wish = conversation.words + conversation.system
    if "<state_snapshot>" in wish:
        return f"<state_snapshot>\n{body}\n</state_snapshot>"
    if "<summary>" in wish or "TEXT ONLY" in conversation.words:
        analysis = f"Requests of the user so far: {len(conversation.asked) - 1}."
        return f"<analysis>\n{analysis}\n</analysis>\n\n<summary>\n{body}\n</summary>"
    return body
