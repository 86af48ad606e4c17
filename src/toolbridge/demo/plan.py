"""Decides what the demo model answers: text, thinking and tool calls."""

import re

import msgspec

from toolbridge.core.json import dumps
from toolbridge.core.messages import Call, Problem, Request, Tool
from toolbridge.demo import speech
from toolbridge.demo.conversation import DemoConversation
from toolbridge.demo.edit_blocks import edit_of
from toolbridge.demo.facts import PromptFacts
from toolbridge.demo.fill import Filler, fill
from toolbridge.demo.intent import Intent, read_intents
from toolbridge.demo.matching import calls_of, matching_calls
from toolbridge.demo.offer import OfferedTools, kit_of, name_tokens, shell_of
from toolbridge.demo.tools import forced, fulfil


class DemoReply(msgspec.Struct, frozen=True):
    """An answer of the demo model: text, thinking, calls, or an error."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    problem: Problem | None = None


class _Work(msgspec.Struct, frozen=True):
    """All calls that the prompt asks for, in steps, with their intents."""

    steps: tuple[tuple[Call, ...], ...] = ()
    intents: tuple[Intent, ...] = ()
    """One for each call; empty if the calls do not come from intents."""
    obstacle: str = ""
    """Why the prompt cannot be acted on."""


_MARK = re.compile(r"\[\[(\w{1,20})\]\]")
_COUNTING = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_LONG = 2000
_SUMMARY = re.compile(
    r"respond with TEXT ONLY|<state_snapshot>|handoff summary|CHECKPOINT COMPACTION"
    r"|\bsummar(?:y of|i[sz]e) (?:the|this|our) conversation",
    re.IGNORECASE,
)
_TITLE_SYSTEM = re.compile(
    r"title generator|naming a coding session|you generate titles", re.IGNORECASE
)


def plan(request: Request, conversation: DemoConversation) -> DemoReply:
    """Return the reply to a request."""
    marks = {mark.lower() for mark in _MARK.findall(conversation.words)}
    words = _MARK.sub("", conversation.words).strip()
    staged = None if conversation.calls else _staged(marks)
    if staged is not None:
        reply = staged
    elif _SUMMARY.search(words) or ("<summary>" in words and "<analysis>" in words):
        reply = DemoReply(speech.summary_of(conversation), thinking="I am asked for a summary.")
    elif _wants_title(request, conversation):
        reply = _title(request, conversation)
    else:
        reply = _act(request, conversation, _work(request, conversation, words, marks), words)
    return _with_thinking(request, reply, marks)


def _staged(marks: set[str]) -> DemoReply | None:
    """Return the reply for a control mark in the prompt, used by tests and demonstrations."""
    if "error" in marks:
        problem = Problem("overloaded", "the demo model was asked to fail", provider="demo")
        return DemoReply("I begin to answer, and then", problem=problem)
    texts = {
        "empty": "",
        "long": " ".join(_COUNTING[at % 10] for at in range(_LONG)),
        "unicode": speech.UNICODE,
        "json": '{"answer": "yes"}',
        "code": speech.CODE,
    }
    return next((DemoReply(texts[mark]) for mark in texts if mark in marks), None)


def _with_thinking(request: Request, reply: DemoReply, marks: set[str]) -> DemoReply:
    mode = request.think.mode
    asked = mode in {"on", "auto", "between_tools"} and request.think.effort != "none"
    if (not asked and not ("think" in marks and mode == "unset")) or "empty" in marks:
        return msgspec.structs.replace(reply, thinking="")
    first = reply.thinking or "I read the last message of the user."
    names = list(dict.fromkeys(call.name for call in reply.calls))
    second = f"I will call {' and '.join(names)}." if names else "I will answer in words."
    return msgspec.structs.replace(reply, thinking=f"{first} {second}")


# Titles.


def _wants_title(request: Request, conversation: DemoConversation) -> bool:
    if _TITLE_SYSTEM.search(conversation.system[:4000]):
        return not request.tools
    return not request.tools and bool(speech.TITLE_ORDER.search(conversation.words))


def _title(request: Request, conversation: DemoConversation) -> DemoReply:
    title = speech.title_of(conversation)
    schema = request.output.schema if request.output else None
    if schema is not None:
        filled = fill(schema, Filler(PromptFacts(""), say=title, fallback=title))
        return DemoReply(dumps(filled), thinking="I am asked for a title.")
    as_json = request.output is not None or '"title"' in conversation.words
    return DemoReply(
        dumps({"title": title}) if as_json else title, thinking="I am asked for a title."
    )


# Acting.


def _work(request: Request, conversation: DemoConversation, words: str, marks: set[str]) -> _Work:
    kit = kit_of(request, conversation)
    if marks & {"tool", "tool2", "texttool", "thinktool"}:
        work = _marked(kit, two="tool2" in marks)
    else:
        work = _asked(kit, words)
    if request.tool_choice.mode in {"required", "named"} and not work.steps:
        work = _called([calls_of(tool, words) for tool in kit.tools[:1]])
    if request.tool_choice.parallel is not False:
        return work
    one_by_one = tuple((call,) for step in work.steps for call in step)
    return msgspec.structs.replace(work, steps=one_by_one)


def _called(steps: list[list[Call]]) -> _Work:
    return _Work(tuple(tuple(step) for step in steps if step))


def _asked(kit: OfferedTools, words: str) -> _Work:
    """Return the calls for a prompt: by intent first, by matching tools second."""
    steps: list[tuple[Call, ...]] = []
    intents: list[Intent] = []
    for step in read_intents(words):
        calls = [fulfil(intent, kit) for intent in step]
        known = tuple(call for call in calls if call is not None)
        if len(known) < len(step):
            obstacle = speech.unable(step[0], len(kit.tools))
            return _Work(tuple(steps), tuple(intents), obstacle)
        steps.append(known)
        intents += step
    if steps:
        return _Work(tuple(steps), tuple(intents))
    return _called([matching_calls(words, kit)])


def _marked(kit: OfferedTools, *, two: bool) -> _Work:
    tool = shell_of(kit) or next(iter(kit.tools), None)
    if tool is None:
        return _Work()
    if not two:
        return _called([[forced(tool, "")]])
    return _called([[forced(tool, "Berlin", fallback="one"), forced(tool, "Rome", fallback="two")]])


def _act(request: Request, conversation: DemoConversation, work: _Work, words: str) -> DemoReply:
    failed = any(one.failed for one in conversation.done)
    upcoming = [] if failed else _upcoming(work, conversation.calls)
    if upcoming:
        return _calling(request, work, upcoming, len(conversation.calls))
    text = _say(conversation, work, words)
    final = _final_tool(kit_of(request, conversation))
    if final is not None and final.name not in {call.name for call in conversation.calls}:
        return DemoReply(calls=(forced(final, words, say=text, fallback=text),))
    return _spoken(request, conversation, text)


def _upcoming(work: _Work, made: tuple[Call, ...]) -> list[Call]:
    """Return the next step that was not called yet; the same call is never repeated in a row."""
    before = 0
    for step in work.steps:
        if before >= len(made):
            repeated = made and (made[-1].name, made[-1].arguments) == (
                step[0].name,
                step[0].arguments,
            )
            return [] if repeated else list(step)
        before += len(step)
    return []


def _calling(request: Request, work: _Work, calls: list[Call], position: int) -> DemoReply:
    intents = list(work.intents[position : position + len(calls)])
    said = speech.announce(calls, intents)
    thinking = (
        f"The user wants me to {speech.purpose(intents[0])}." if intents else "A tool fits this."
    )
    quiet = request.tool_choice.mode in {"required", "named"}
    return DemoReply("" if quiet else said, tuple(calls), thinking)


def _say(conversation: DemoConversation, work: _Work, words: str) -> str:
    if conversation.done:
        said = speech.report(conversation.done, _purposes(conversation, work))
        return f"{said}\n\n{work.obstacle}".strip()
    if work.obstacle:
        steps = read_intents(words)
        intents = [intent for step in steps for intent in step]
        return edit_of(intents, conversation.system) or work.obstacle
    if conversation.calls:
        return "I called a tool, but no result came back."
    talk = speech.small_talk(words)
    if conversation.media and talk == speech.ABOUT:
        return speech.seen(conversation.media)
    return talk


def _purposes(conversation: DemoConversation, work: _Work) -> list[Intent | None]:
    """Return what each result was for; nothing for calls that another model made."""
    planned = [call.name for step in work.steps for call in step]
    intents = dict(zip(range(len(planned)), zip(planned, work.intents, strict=False), strict=False))
    purposes: list[Intent | None] = []
    for done in conversation.done:
        name, intent = intents.get(done.position, ("", None))
        purposes.append(intent if name == done.name else None)
    return purposes


def _spoken(request: Request, conversation: DemoConversation, text: str) -> DemoReply:
    thinking = "The tools have answered." if conversation.done else ""
    if request.output is None:
        return DemoReply(text, thinking=thinking)
    if request.output.schema is None:
        return DemoReply(dumps({"answer": text}), thinking=thinking)
    filler = Filler(PromptFacts(conversation.words), say=text)
    return DemoReply(dumps(fill(request.output.schema, filler)), thinking=thinking)


_FINAL = {"structuredoutput", "finalresult", "finalanswer"}


def _final_tool(kit: OfferedTools) -> Tool | None:
    """Return the tool that takes the answer itself: some clients accept it only that way."""
    return next((tool for tool in kit.tools if "".join(name_tokens(tool.name)) in _FINAL), None)
