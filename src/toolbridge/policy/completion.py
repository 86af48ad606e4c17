"""A text completion, asked of a model that only chats.

A prompt without a suffix is sent as the user's message, as Ollama does for its own models. With a
suffix (fill in the middle) the model is asked for the text between the two and for nothing else.
"""

import msgspec

from toolbridge.core.messages import Completion, Loss, Request, Text, Turn

_ORDER = (
    "You complete text and code at the cursor. The user gives what stands before the cursor in "
    "<prefix> and what stands after it in <suffix>. Answer with exactly the text to insert at the "
    "cursor: no explanation, no code fence, no repetition of the prefix or the suffix."
)


def completion_as_chat(request: Request) -> tuple[Request, tuple[Loss, ...]]:
    """Return `request` as a conversation, and what that loses."""
    completion = request.completion
    if completion is None:
        return request, ()
    plain = msgspec.structs.replace(request, completion=Completion(echo=completion.echo))
    if not completion.suffix:
        return plain, ()
    parts = request.turns[-1].content if request.turns else ()
    prompt = "".join(part.text for part in parts if isinstance(part, Text))
    text = f"<prefix>{prompt}</prefix>\n<suffix>{completion.suffix}</suffix>"
    filled = msgspec.structs.replace(
        plain,
        system=(*request.system, Text(_ORDER)),
        turns=(*request.turns[:-1], Turn("user", (Text(text),))),
    )
    why = "the model has no fill-in-the-middle endpoint; it is asked for the gap in a chat"
    return filled, (Loss("suffix", why),)
