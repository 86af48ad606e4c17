"""Send a text completion request to a model that has a chat endpoint only.

A prompt without a suffix becomes the user's message, as in Ollama's `/api/generate`. With a suffix
(fill in the middle, OpenAI `/v1/completions` and Ollama `suffix`), a system prompt asks for exactly
the text between prompt and suffix.
"""

import msgspec

from toolbridge.core.messages import Completion, Loss, Request, Text, Turn

_ORDER = (
    "You complete text and code at the cursor. The user gives what stands before the cursor in "
    "<prefix> and what stands after it in <suffix>. Answer with exactly the text to insert at the "
    "cursor: no explanation, no code fence, no repetition of the prefix or the suffix."
)


def completion_as_chat(request: Request) -> tuple[Request, tuple[Loss, ...]]:
    """Return a completion request as a chat request, with the losses of that."""
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
