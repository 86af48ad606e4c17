"""The table of known models that ships in the wheel, and the lookup by the names that users type.

`scripts/build_model_table.py` builds `model_table.bin` from two public data sets, whose notices are in
`model_table.NOTICE`. The file is read at the first lookup. A model has a row in the section of its
provider, in that of the vendor who made it, or none; then the rule of its family may know it.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from toolbridge.policy.model_facts import KnownModel

TABLE = "model_table.bin"


class ModelRow(msgspec.Struct, frozen=True, array_like=True):
    """One model: the number of its profile, and the facts that few models share."""

    profile: int
    window: int = 0
    max_output: int = 0
    retires: str = ""


class ModelTable(msgspec.Struct, frozen=True):
    """The table as it is stored; models with equal facts share a profile."""

    built: str
    """The date of the build, as YYYY-MM-DD."""
    sources: Mapping[str, str]
    """Data set → version."""
    profiles: tuple[KnownModel, ...]
    sections: Mapping[str, Mapping[str, ModelRow]]
    """Provider → model → row."""

    def find(self, section: str, name: str) -> KnownModel | None:
        row = self.sections.get(section, {}).get(name)
        if row is None:
            return None
        return msgspec.structs.replace(
            self.profiles[row.profile],
            window=row.window,
            max_output=row.max_output,
            retires=row.retires,
        )


@cache
def load_table() -> ModelTable:
    """Return the table; it is read once per process."""
    data = Path(__file__).with_name(TABLE).read_bytes()
    return msgspec.json.decode(zlib.decompress(data), type=ModelTable)


# ── lookup ──


@lru_cache(512)
def find_in_table(provider: str, model: str) -> KnownModel | None:
    """Return the row of a model at a provider; that of its vendor if the provider has none."""
    table = load_table()
    names = list(spellings(model))
    for name in names:
        if (found := table.find(provider, name)) is not None:
            return found
    vendor = vendor_of(names[-1])
    if not vendor or vendor == provider:
        return None
    for name in names:
        if (found := table.find(vendor, name)) is not None:
            return _borrowed(found) if provider in RESELLERS else found
    return None


def known_names(provider: str) -> list[str]:
    """Return the models of a vendor that are not being retired, for a list that cannot be fetched."""
    if provider in RESELLERS:
        return []
    section = load_table().sections.get(provider, {})
    return [name for name, row in section.items() if not row.retires]


RESELLERS = frozenset({
    "cerebras", "cloudflare", "deepinfra", "fireworks", "github", "groq", "huggingface", "nvidia",
    "openrouter", "perplexity", "together", "vercel",
})  # fmt: skip
"""Providers that serve the models of others through an API of their own: limits, levels of thinking
and required APIs of the vendor do not hold there."""


def _borrowed(known: KnownModel) -> KnownModel:
    """Return the facts of a vendor's model that hold at every provider."""
    return KnownModel(can=known.can, cannot=known.cannot, sampling=known.sampling)


# A date, a version or "latest" at the end: `-20250929`, `@20250929`, `-2025-08-07`, `-latest`.
_SUFFIX = re.compile(r"(?:[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2}|latest|default)|:latest)$")
_LARGE = re.compile(r"\[1m\]$")
# AWS, model ids: `us.anthropic.claude-opus-4-5-20251101-v1:0`, `global.openai.gpt-6-sol`.
_BEDROCK = re.compile(
    r"(?:(?:us|us-gov|eu|apac|au|jp|in|ca|sa|me|global)\.)?(?P<vendor>[a-z0-9]+)\.(?P<name>[a-z].+)"
)
_VERSION = re.compile(r"-v\d+(?::\d+)?(?::\d+k)?$")


def spellings(model: str) -> Iterator[str]:
    """Yield the forms of a name from the one that was given to the barest, without repetition."""
    seen: dict[str, None] = {}
    name = _LARGE.sub("", model.strip().lower()).removeprefix("models/")
    for form in _shortened(name):
        seen.setdefault(form)
        seen.setdefault(_SUFFIX.sub("", form))
        if "claude" in form:  # OpenRouter: `claude-opus-4.5`
            dashed = _SUFFIX.sub("", form).replace(".", "-")
            seen.setdefault(dashed)
            seen.setdefault(dashed.partition(":")[0])
    yield from seen


def _shortened(name: str) -> Iterator[str]:
    """Yield `a/b/c`, `b/c`, `c`, and the name inside a Bedrock id."""
    yield name
    while "/" in name:
        name = name.partition("/")[2]
        yield name
    if found := _BEDROCK.fullmatch(name):
        yield _VERSION.sub("", found["name"])


_VENDORS = {
    "anthropic": r"claude-",
    "openai": r"gpt-(?!oss)|chatgpt|codex-|o[134](?:-|$)",
    "google": r"gemini-|gemma-",
    "xai": r"grok-",
    "deepseek": r"deepseek-",
    "mistral": r"(?:mi|ma|mini|co|dev|pix|vox)stral-",
    "moonshot": r"kimi-|moonshot-",
    "zai": r"glm-",
    "minimax": r"minimax-",
    "qwen": r"qwen",
}
_VENDOR_NAMES = {vendor: re.compile(names) for vendor, names in _VENDORS.items()}


def vendor_of(name: str) -> str:
    """Return the provider that makes the model `name`; an empty string if that is unknown."""
    return next((vendor for vendor, own in _VENDOR_NAMES.items() if own.match(name)), "")
