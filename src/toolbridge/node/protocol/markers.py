"""Escape the turn markers of chat templates in the content of a prompt.

A prompt is one text. A marker such as `<|im_start|>` in a user's message or a tool's result would
begin a new turn there, with any role. Nodes since 8.5.5 delete the markers that are known to them,
which garbles a text about them. So a word joiner (U+2060, which has no width) is put behind the
first character or two of a marker: the text reads the same, but no template or tokenizer finds the
marker. `Unescaper` removes the word joiner from the answer where the model repeats the text.
"""

import re

JOINER = "\u2060"

_NAMES = (
    "im_start", "im_end", "im_sep", "im_user", "im_assistant", "im_system", "im_middle",
    "start", "end", "message", "channel", "return", "constrain",
    "system", "user", "assistant", "observation", "developer", "tool",
    "begin_of_text", "end_of_text", "start_header_id", "end_header_id", "eot_id", "eom_id", "eot",
    "header_start", "header_end", "endoftext", "startoftext", "end_of_msg", "role_sep", "message_sep",
    "START_OF_TURN_TOKEN", "END_OF_TURN_TOKEN", "SYSTEM_TOKEN", "USER_TOKEN", "CHATBOT_TOKEN",
    "message_user", "message_model", "end_message", "turn",
)  # fmt: skip
"""Markers in the form `<|name|>`: ChatML, Harmony, GLM, Llama 3 and 4, Phi, Kimi, Cohere, GigaChat."""

_OTHERS = (
    "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<<SYS>>", "<</SYS>>", "<s>", "</s>",
    "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<bos>", "<eos>", "[gMASK]", "<sop>",
    "<seed:bos>", "<seed:eos>", "]~b]", "[e~[", "]~!b[",
    "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
)  # fmt: skip
"""Llama 2, Mistral, Gemma, GLM, Seed, MiniMax, DeepSeek."""

_OPENING = re.compile(r"\[/|<<|<\||<\uff5c|\]~|</|[\[<]")
_MARKER = re.compile("|".join([rf"<\|(?:{'|'.join(_NAMES)})\|>", *map(re.escape, _OTHERS)]))
_LABEL = re.compile(r"^(?=(?:System|User|Assistant):)", re.MULTILINE)
_ESCAPED = re.compile(rf"({_OPENING.pattern}|\n)({JOINER}+)")


def escape(text: str) -> str:
    """Return `text` with a word joiner in each turn marker.

    A marker that contains a word joiner already gets another one, so that `unescape` is exact.
    """
    if not any(one in text for one in ("<", "[", "]", JOINER)):
        return text
    text = _ESCAPED.sub(rf"\1{JOINER}\2", text)
    return _MARKER.sub(lambda found: _split(found[0]), text)


def escape_labels(text: str) -> str:
    """Return `text` with a word joiner before `System:`, `User:` and `Assistant:` at a line's start."""
    return _LABEL.sub(JOINER, text) if ":" in text else text


def _split(marker: str) -> str:
    opening = _OPENING.match(marker)
    size = opening.end() if opening else 1
    return marker[:size] + JOINER + marker[size:]


class Unescaper:
    """Removes the word joiners of `escape` from an answer, chunk by chunk."""

    def __init__(self) -> None:
        self._tail = "\n"
        """The last two characters, which may be the beginning of a marker. Of a word joiner only
        what follows it is kept, because only the first behind a beginning is removed."""

    def feed(self, text: str) -> str:
        """Return `text` without the first word joiner behind the beginning of a marker."""
        tail = self._tail
        joined = tail + text
        self._tail = joined[-2:].rpartition(JOINER)[2]
        if JOINER not in text:
            return text
        plain = _ESCAPED.sub(lambda found: found[1] + found[2][1:], joined)
        return plain[len(tail) :]
