"""Ollama's wire structs, and the tables that both directions use.

The names are those of Ollama's api/types.go. Only the fields that the codec reads are listed; the
server ignores unknown ones too.
"""

from typing import Annotated

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import StopReason
from toolbridge.core.usage import TokenLimit

ORIGIN = "ollama"
SHOWS = AnswerFeatures(ORIGIN, foreign=False, links=False, explanations=False)
"""No images: Ollama's answers have no field for them, and its Python SDK rejects unknown ones."""

STOPS: dict[str, StopReason] = {"stop": "end", "length": "length", "load": "end", "unload": "end"}
"""Our stop reason for a `done_reason`; "end" for any other, also where old servers send none."""

DONE_REASONS: dict[StopReason, str] = {"length": "length", "context_overflow": "length"}
"""The `done_reason` for our stop reason; "stop" for any other, calls included."""

SAMPLING = ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repeat_penalty")  # fmt: skip
"""Options with the same name in our `Sampling`."""

SAMPLING_COUNTS = ("top_k", "seed")
"""The same, for whole numbers."""

# Ollama, docs/modelfile: the parameters of a model; the last six are ignored by new servers.
OTHER_OPTIONS = (
    "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "use_mmap", "use_mlock",
    "num_thread", "typical_p", "repeat_last_n", "draft_num_predict", "low_vram", "numa",
    "mirostat", "mirostat_eta", "mirostat_tau", "tfs_z", "penalize_newline",
)  # fmt: skip
"""Options that no other API has."""

OPTIONS = frozenset((*SAMPLING, *SAMPLING_COUNTS, *OTHER_OPTIONS, "num_predict", "stop"))

ERROR_MARK = "Error: "
"""Begins the content of a result that is an error: the API has no field for that."""

MESSAGE = "message"
"""The kind of the part that holds the unknown fields of a message."""
# Ollama, docs/api: how long the model stays loaded, and what happens to a prompt that is too long.
CHAT_EXTRAS = ("keep_alive", "truncate", "shift", "_debug_render_only")
# Ollama, docs/api: a template for the prompt, no template at all, and the tokens of a past answer.
GENERATE_EXTRAS = ("template", "raw", "context")
GENERATE = "generate"
"""Marks, in `Request.extra`, a request that came to `/api/generate` and is answered in its shape."""
LOAD = "load"
"""Marks, in `Request.extra`, a request without messages: it only loads or unloads the model."""


class Function(msgspec.Struct):
    name: str | None = None
    arguments: Json = None
    """An object; some templates and servers send a string with the JSON of one."""
    index: Json = None


class ToolCall(msgspec.Struct):
    """Ollama, api/types.go: servers before 0.12 send no `id`."""

    function: Function = msgspec.field(default_factory=Function)
    id: str | None = None


class Message(msgspec.Struct):
    """Ollama, docs/api: `content` is always a string; `tool_name` names the call of a result."""

    role: str | None = None
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class Chunk(msgspec.Struct):
    """One line of an answer, or the whole answer, of `/api/chat` or `/api/generate`."""

    model: str | None = None
    message: Message | None = None
    response: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: Json = None
    eval_count: Json = None
    total_duration: Json = None
    load_duration: Json = None
    prompt_eval_duration: Json = None
    eval_duration: Json = None
    logprobs: Json = None
    error: Json = None
    """Text; sometimes the JSON of the runner, as text or as an object."""


class OnlyText(msgspec.Struct, gc=False):
    """A message that has text and nothing else that is read."""

    content: str
    role: str | None = None
    thinking: None = None
    images: None = None
    tool_calls: None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class TextChunk(msgspec.Struct, gc=False):
    """A line that has text and nothing else that is read, as nearly every line of `/api/chat`.

    It lists the fields of `Chunk`, so that it decodes only what `Chunk` decodes.
    """

    message: OnlyText
    done: bool | None = None
    model: str | None = None
    response: str | None = None
    thinking: str | None = None
    tool_calls: None = None
    done_reason: str | None = None
    prompt_eval_count: None = None
    eval_count: None = None
    total_duration: None = None
    load_duration: None = None
    prompt_eval_duration: None = None
    eval_duration: None = None
    logprobs: None = None
    error: None = None


class ToolFunction(msgspec.Struct):
    """Ollama, api/types.go: templates see only a few keywords of `parameters`."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None


class Tool(msgspec.Struct):
    function: ToolFunction


class Options(msgspec.Struct):
    """Options that we read are typed, so that a wrong value is an error with its path.

    Ollama, api/types.go: the server reads every number as a float first, so `128.0` is a valid count.
    """

    num_predict: TokenLimit | Annotated[float, msgspec.Meta(le=2**63)] | None = None
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
    """The fields that requests to `/api/chat` and `/api/generate` share."""

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
    """Ollama, docs/api: the body of `/api/chat`."""

    messages: list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None


class GenerateBody(Body):
    """Ollama, docs/api: the body of `/api/generate`."""

    prompt: str | None = None
    system: str | None = None
    images: list[str] | None = None
    suffix: str | None = None
    template: str | None = None
    raw: bool | None = None
    context: list[int] | None = None
