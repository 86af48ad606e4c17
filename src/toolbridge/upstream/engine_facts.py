"""Reads what model servers report about themselves and their models.

Each function takes the body of one endpoint and returns facts; a body of another shape gives none.
Fields that are missing, or that have another type than expected, count as unknown. `engines.py`
sends the requests.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Effort
from toolbridge.policy.model_facts import KnownModel


class EngineModel(msgspec.Struct, frozen=True):
    """One model of a server, as the server reports it."""

    known: KnownModel = KnownModel()
    template: str = ""
    """A hash of the chat template; empty if the server does not show it."""
    embeds: bool = False
    """Whether it is an embedding model that cannot chat."""
    slots: int = 0
    """The number of prompts that the server keeps at the same time (llama.cpp); 0 if unknown."""


def read_object(body: bytes) -> JsonObject:
    """Return a JSON object; an empty one for anything else."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def read_props(props: JsonObject) -> EngineModel | None:
    """Return the facts in llama.cpp's `/props`; None if another server answered.

    llama.cpp server, `GET /props`: `default_generation_settings.n_ctx` is the context of one slot,
    `chat_template_caps` describes the model's chat template, `total_slots` is the number of slots.
    The template decides about tools.
    Whether the model thinks stays unknown: there is no field for it.
    """
    settings = props.get("default_generation_settings")
    if not isinstance(settings, dict) or "build_info" not in props:
        return None
    caps, media = _object(props, "chat_template_caps"), _object(props, "modalities")
    stated = {
        "tools": _flag(caps, "supports_tools"),
        "parallel": _flag(caps, "supports_parallel_tool_calls"),
        "vision": _flag(media, "vision"),
        "audio": _flag(media, "audio"),
        # llama.cpp compiles a JSON Schema into a grammar for every model.
        "schema": True,
    }
    template = props.get("chat_template")
    known = msgspec.structs.replace(stated_facts(stated), window=_count(settings, "n_ctx"))
    hashed = hash_of(template) if isinstance(template, str) else ""
    return EngineModel(known, hashed, slots=_count(props, "total_slots"))


def hash_of(template: str) -> str:
    """Return the hash by which a chat template is recognized."""
    return blake2b(template.encode(), digest_size=8).hexdigest()


# ── lists of models ──


class ServerList(msgspec.Struct, frozen=True):
    """The models that a server lists."""

    models: Mapping[str, EngineModel] = {}
    owner: str = ""
    """`owned_by` of the first model: vLLM, SGLang and llama.cpp write their own names there."""


def read_list(body: bytes) -> ServerList:
    """Return the models of a `/models` endpoint, of any provider.

    OpenAI lists ids only. Fields of others: vLLM and SGLang `max_model_len`, OpenRouter and Together
    `context_length`, Groq `context_window`, Mistral `max_context_length`, Anthropic
    `max_input_tokens`, Gemini `inputTokenLimit`, llama.cpp `meta.n_ctx`.
    """
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ServerList()
    if isinstance(found, dict):
        # Gemini API: `models`. llama.cpp sends `models` in Ollama's shape beside `data`.
        found = found["data"] if isinstance(found.get("data"), list) else found.get("models")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    models = {name: _listed(row, name) for row in rows if (name := _name(row))}
    owner = rows[0].get("owned_by") if rows else ""
    return ServerList(models, owner if isinstance(owner, str) else "")


def _name(row: JsonObject) -> str:
    name = row.get("id") or row.get("name")
    return name.removeprefix("models/") if isinstance(name, str) else ""


def _listed(row: JsonObject, name: str) -> EngineModel:
    top, meta = _object(row, "top_provider"), _object(row, "meta")
    window = _count(row, *_WINDOWS) or _count(top, "context_length") or _count(meta, "n_ctx")
    most = _count(row, *_OUTPUTS) or _count(top, "max_completion_tokens")
    # Anthropic, models: `max_tokens` is the maximum of output tokens; elsewhere it may be the window.
    most = most or (_count(row, "max_tokens") if "max_input_tokens" in row else 0)
    known = msgspec.structs.replace(
        _abilities(row), window=window, max_output=most, retires=_date(row.get("retires_at"))
    )
    return EngineModel(known, embeds=_embeds(row, name))


_WINDOWS = (
    "max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens",
    "inputTokenLimit",
)  # fmt: skip
_OUTPUTS = ("max_completion_tokens", "max_output_tokens", "outputTokenLimit")


def _abilities(row: JsonObject) -> KnownModel:
    can = _object(row, "capabilities")
    if "thinking" in can or "effort" in can:
        return _of_anthropic(can)
    # OpenRouter, models: `supported_parameters`, `architecture.input_modalities`.
    taken, media = row.get("supported_parameters"), _object(row, "architecture")
    kinds = media.get("input_modalities")
    stated = {
        "tools": "tools" in taken if isinstance(taken, list) else _flag(can, "function_calling"),
        "thinking": "reasoning" in taken if isinstance(taken, list) else _flag(row, "thinking"),
        "vision": "image" in kinds if isinstance(kinds, list) else _flag(can, "vision"),
        "audio": "audio" in kinds if isinstance(kinds, list) else None,
    }
    if isinstance(taken, list):
        stated["schema"] = "structured_outputs" in taken
    return stated_facts(stated)


def _of_anthropic(can: JsonObject) -> KnownModel:
    """Return the facts in the capability tree of Anthropic's `GET /v1/models`.

    A leaf is true or false, or an object with `supported`.
    """
    thinking, types = _object(can, "thinking"), _object(_object(can, "thinking"), "types")
    effort = _object(can, "effort")
    stated = {
        "thinking": _supported(thinking),
        "vision": _supported(can.get("image_input")),
        "pdf": _supported(can.get("pdf_input")),
        "schema": _supported(can.get("structured_outputs")),
        "tools": True,
    }
    known = stated_facts(stated)
    if types:
        # A type that is newer than this version cannot be requested, so that it does not count.
        accepted = tuple(name for name in _TYPES if _supported(types.get(name)))
        known = msgspec.structs.replace(
            known, thinking_types=accepted, always_thinks="disabled" not in accepted
        )
    if effort:
        words = tuple(word for word in _EFFORTS if _supported(effort.get(word)))
        known = msgspec.structs.replace(known, efforts=words)
    return known


_TYPES = ("adaptive", "enabled", "disabled", "between_tools")
_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


def _supported(value: Json) -> bool | None:
    if isinstance(value, dict):
        value = value.get("supported")
    return value if isinstance(value, bool) else None


def _embeds(row: JsonObject, name: str) -> bool:
    methods = row.get("supportedGenerationMethods")
    if isinstance(methods, list):  # Gemini API
        return "generateContent" not in methods
    kind = row.get("type")
    if isinstance(kind, str) and kind not in {"model", "object"}:
        return kind in _OTHER_KINDS
    return is_not_chat(name)


_OTHER_KINDS = {
    "embedding", "embeddings", "rerank", "image", "audio", "video", "moderation", "transcribe",
}  # fmt: skip
_NOT_CHAT = re.compile(
    r"embed|(?:^|[/-])(?:tts|whisper|dall-e|sora|bge|rerank|moderation)|-tts|gpt-image|"
    r"gpt-audio|realtime|transcribe|moderation|babbage|davinci|image-preview|imagen|veo-|lyria"
)


def is_not_chat(name: str) -> bool:
    """Return whether a name is that of a model for embeddings, images or sound."""
    return _NOT_CHAT.search(name.lower()) is not None


# ── engines ──


def read_lmstudio(found: JsonObject) -> dict[str, EngineModel]:
    """Return the models of LM Studio's `/api/v1/models`, or of `/api/v0/models` before 0.4."""
    models: dict[str, EngineModel] = {}
    rows = found.get("models") if "models" in found else found.get("data")
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or "max_context_length" not in row:
            continue
        model, loaded = _of_lmstudio(row), _loaded_window(row)
        if loaded:
            model = msgspec.structs.replace(
                model, known=msgspec.structs.replace(model.known, window=loaded)
            )
        names = [row.get("key"), row.get("id"), *_instances(row)]
        models |= {name: model for name in names if isinstance(name, str)}
    return models


def _of_lmstudio(row: JsonObject) -> EngineModel:
    can = row.get("capabilities")
    if isinstance(can, dict):
        stated = {"vision": _flag(can, "vision"), "tools": _flag(can, "trained_for_tool_use")}
    else:
        named = can if isinstance(can, list) else []
        stated = {"vision": row.get("type") == "vlm", "tools": "tool_use" in named or None}
    known = msgspec.structs.replace(stated_facts(stated), window=_count(row, "max_context_length"))
    return EngineModel(known, embeds=row.get("type") in {"embedding", "embeddings"})


def _instances(row: JsonObject) -> list[Json]:
    loaded = row.get("loaded_instances")
    rows = loaded if isinstance(loaded, list) else []
    return [one.get("id") for one in rows if isinstance(one, dict)]


def _loaded_window(row: JsonObject) -> int:
    loaded = row.get("loaded_instances")
    first = loaded[0] if isinstance(loaded, list) and loaded else {}
    config = _object(first, "config") if isinstance(first, dict) else {}
    return _count(config, "context_length") or _count(row, "loaded_context_length")


def read_tgi(info: JsonObject) -> dict[str, EngineModel]:
    """Return the model of TGI's `/info`; none if another server answered."""
    name = info.get("model_id")
    if not isinstance(name, str) or "max_concurrent_requests" not in info:
        return {}
    window = _count(info, "max_total_tokens", "max_input_tokens", "max_input_length")
    return {name: EngineModel(KnownModel(window=window))}


def read_sglang(info: JsonObject, server: JsonObject) -> KnownModel:
    """Return the facts in SGLang's `/model_info` and `/server_info`.

    A parser that is not set leaves tools and thoughts in the text, where the dialects find them.
    """
    stated = {
        "tools": True if info.get("tool_call_parser") else None,
        "thinking": True if info.get("reasoning_parser") else None,
        "vision": _flag(info, "has_image_understanding"),
        "audio": _flag(info, "has_audio_understanding"),
        "schema": True,
    }
    return msgspec.structs.replace(stated_facts(stated), window=_count(server, "context_length"))


# ── fields ──


def stated_facts(stated: Mapping[str, bool | None]) -> KnownModel:
    """Return the capabilities that are stated to be there or not."""
    return KnownModel(
        can=frozenset(name for name, value in stated.items() if value is True),
        cannot=frozenset(name for name, value in stated.items() if value is False),
    )


def _object(holder: JsonObject, name: str) -> JsonObject:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _flag(holder: JsonObject, name: str) -> bool | None:
    value = holder.get(name)
    return value if isinstance(value, bool) else None


def _count(holder: JsonObject, *names: str) -> int:
    """Return the first of the fields that is a positive number; 0 without one."""
    values = (holder.get(name) for name in names)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), 0)


def _date(value: Json) -> str:
    return value[:10] if isinstance(value, str) else ""
