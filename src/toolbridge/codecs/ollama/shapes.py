"""Ollama's shapes, and the tables that both directions read.

Only fields that somebody reads are listed; the server itself passes over any other.
"""

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import StopReason

ORIGIN = "ollama"
SHOWS = AnswerFeatures(ORIGIN, foreign=False, links=False, explanations=False)
"""No images either: the answer of Ollama has none, and its Python SDK refuses one that does."""

STOPS: dict[str, StopReason] = {"stop": "end", "length": "length", "load": "end", "unload": "end"}
"""What a `done_reason` means. Old servers give none, which is an end like any other."""

DONE_REASONS: dict[StopReason, str] = {"length": "length", "context_overflow": "length"}
"""The `done_reason` of a stop; every other one, calls included, is "stop"."""

SAMPLING = ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repeat_penalty")  # fmt: skip
"""Options that have the same name in our `Sampling`."""

SAMPLING_COUNTS = ("top_k", "seed")
"""The same, for whole numbers."""

OTHER_OPTIONS = (
    "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "use_mmap", "use_mlock",
    "num_thread", "typical_p", "repeat_last_n", "draft_num_predict", "low_vram", "numa",
    "mirostat", "mirostat_eta", "mirostat_tau", "tfs_z", "penalize_newline",
)  # fmt: skip
"""Options that no other API has."""

OPTIONS = frozenset((*SAMPLING, *SAMPLING_COUNTS, *OTHER_OPTIONS, "num_predict", "stop"))


ERROR_MARK = "Error: "
"""How a result says that it is an error: the API has no field for it."""

MESSAGE = "message"
"""The kind of a part that holds fields of a message which have no place of their own."""
CHAT_EXTRAS = ("keep_alive", "truncate", "shift", "_debug_render_only")
GENERATE_EXTRAS = ("template", "raw", "context")
GENERATE = "generate"
"""Marks, in `Request.extra`, a request that came to `/api/generate` and is answered in its shape."""
LOAD = "load"
"""Marks, in `Request.extra`, a request without messages: it only loads or unloads the model."""


class Function(msgspec.Struct):
    name: str | None = None
    arguments: Json = None
    """An object; old servers and careless templates send a string that holds one."""
    index: Json = None


class ToolCall(msgspec.Struct):
    function: Function = msgspec.field(default_factory=Function)
    id: str | None = None


class Message(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class Chunk(msgspec.Struct):
    """One line of an answer, or the whole of it; of `/api/chat` or of `/api/generate`."""

    model: str | None = None
    message: Message | None = None
    response: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: float | None = None
    eval_count: float | None = None
    logprobs: Json = None
    error: Json = None
    """Text; sometimes the text of another server's JSON, sometimes that JSON itself."""


class ToolFunction(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: JsonObject | None = None


class Tool(msgspec.Struct):
    function: ToolFunction


class Options(msgspec.Struct):
    """The options with a meaning of ours are typed, so that a wrong one is answered with its path.

    The server reads every number as a float first, so `128.0` is a good count.
    """

    num_predict: int | float | None = None
    stop: list[str] | str | None = None
    temperature: float | None = None
    top_p: float | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repeat_penalty: float | None = None
    top_k: int | float | None = None
    seed: int | float | None = None
    num_ctx: Json = None
    num_keep: Json = None
    num_batch: Json = None
    num_gpu: Json = None
    main_gpu: Json = None
    use_mmap: Json = None
    use_mlock: Json = None
    num_thread: Json = None
    typical_p: Json = None
    repeat_last_n: Json = None
    draft_num_predict: Json = None
    low_vram: Json = None
    numa: Json = None
    mirostat: Json = None
    mirostat_eta: Json = None
    mirostat_tau: Json = None
    tfs_z: Json = None
    penalize_newline: Json = None


class Body(msgspec.Struct, rename={"debug_render_only": "_debug_render_only"}):
    """What a request to either endpoint may say beside its prompt."""

    model: str | None = None
    stream: bool | None = None
    format: str | JsonObject | None = None
    options: Options | None = None
    think: bool | str | None = None
    keep_alive: str | int | float | None = None
    truncate: bool | None = None
    shift: bool | None = None
    debug_render_only: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class ChatBody(Body):
    messages: list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None


class GenerateBody(Body):
    prompt: str | None = None
    system: str | None = None
    images: list[str] | None = None
    suffix: str | None = None
    template: str | None = None
    raw: bool | None = None
    context: list[int] | None = None
