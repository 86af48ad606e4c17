"""Build the table of known models from two public data sets.

Usage: python scripts/build_model_table.py [--sources DIR] [--date YYYY-MM-DD]

DIR holds `litellm-VERSION-….whl` (`pip download --no-deps litellm`) and `earendil-works-pi-ai-VERSION.tgz`
(`npm pack @earendil-works/pi-ai`); `make models-table` downloads both. Both data sets have the MIT
license; their notices are written beside the table.

Where the two differ: windows, limits and dates are litellm's (the widest cover), levels of thinking are
pi-ai's (the best data per provider), and a level that one of them refuses is left out. `OVERRIDES` has
facts of the vendors' documents that neither contains.
"""

import argparse
import json
import re
import sys
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from toolbridge.policy.model_facts import KnownModel
from toolbridge.policy.model_table import TABLE, ModelRow, ModelTable, spellings

TARGET = Path(__file__).parents[1] / "src" / "toolbridge" / "policy"
NOTICE = "model_table.NOTICE"
LITELLM = {
    "anthropic": ("anthropic",),
    "openai": ("openai",),
    "google": ("gemini",),
    "xai": ("xai",),
    "deepseek": ("deepseek",),
    "mistral": ("mistral",),
    "moonshot": ("moonshot",),
    "zai": ("zai",),
    "groq": ("groq",),
    "cerebras": ("cerebras",),
    "fireworks": ("fireworks_ai",),
    "together": ("together_ai",),
    "nvidia": ("nvidia_nim",),
    "openrouter": ("openrouter",),
    "minimax": ("minimax",),
    "qwen": ("dashscope",),
    "vercel": ("vercel_ai_gateway",),
    "cloudflare": ("cloudflare",),
    "cohere": ("cohere_chat", "cohere"),
    "perplexity": ("perplexity",),
    "bedrock": ("bedrock", "bedrock_converse"),
    "vertex": ("vertex_ai-language-models", "vertex_ai-anthropic_models"),
    "azure": ("azure",),
}
"""Our provider → `litellm_provider`."""
PI = {
    "anthropic": ("anthropic",),
    "openai": ("openai",),
    "google": ("google",),
    "xai": ("xai",),
    "deepseek": ("deepseek",),
    "mistral": ("mistral",),
    "moonshot": ("moonshotai",),
    "zai": ("zai",),
    "groq": ("groq",),
    "cerebras": ("cerebras",),
    "fireworks": ("fireworks",),
    "together": ("together",),
    "nvidia": ("nvidia",),
    "openrouter": ("openrouter",),
    "minimax": ("minimax",),
    "huggingface": ("huggingface",),
    "kimi-coding": ("kimi-coding",),
    "vercel": ("vercel-ai-gateway",),
    "cloudflare": ("cloudflare-workers-ai", "cloudflare-ai-gateway"),
    "bedrock": ("amazon-bedrock",),
    "vertex": ("google-vertex",),
    "azure": ("azure",),
}
"""Our provider → the files of pi-ai."""
STRICT = {"anthropic", "openai", "google"}
"""Providers whose rows are complete: a capability that no source states is not there."""
NAMESPACED = {"openrouter", "together", "groq", "nvidia", "fireworks", "vercel", "cloudflare"}
"""Providers whose own model names contain slashes; elsewhere such a row is a price per region."""
LADDER = ("minimal", "low", "medium", "high", "xhigh", "max")
OVERRIDES: dict[tuple[str, str], dict[str, Any]] = {
    # Gemini API, thinking: 2.5 takes a budget in tokens; Pro cannot be turned off.
    ("google", "gemini-2.5-pro"): {
        "style": "budget",
        "budget": (128, 32768),
        "always_thinks": True,
    },
    ("google", "gemini-2.5-flash"): {
        "style": "budget",
        "budget": (0, 24576),
        "always_thinks": False,
    },
    ("google", "gemini-2.5-flash-lite"): {
        "style": "budget",
        "budget": (512, 24576),
        "always_thinks": False,
    },
    # Gemini API: from 3.6 on, temperature, topP and topK are ignored and announced to be rejected.
    ("google", "gemini-4-argon"): {"sampling": "no"},
    # Anthropic, extended thinking: Sonnet 5.5 has the type "between_tools".
    ("anthropic", "claude-sonnet-5-5"): {"thinking_types": ("adaptive", "between_tools")},
}
# litellm states the search for gpt-4.1 and gpt-4.1-mini, and nothing for gpt-4.1-nano, which other lists
# of models with OpenAI's search leave out as well. OpenAI's own document was not checked.
WITHOUT_SEARCH = re.compile(r"openai/gpt-4\.1-nano\b")
"""Models without web search, of vendors that search for their others."""
SKIPPED = re.compile(
    r"^(ft:|.*(?:-tts|image|audio|realtime|transcribe|lyria|learnlm|gemini-exp|container))"
)
PREFIX = re.compile(
    r"^(?:gemini|xai|deepseek|mistral|moonshot|zai|groq|cerebras|fireworks_ai|together_ai|nvidia_nim|"
    r"openrouter|minimax|dashscope|perplexity|vertex_ai|azure|bedrock|cohere|cohere_chat|"
    r"vercel_ai_gateway|cloudflare)/"
)


class Sources:
    """The rows of both data sets, by our provider and the model's name."""

    def __init__(self, folder: Path) -> None:
        wheel = _newest(folder, "litellm-*.whl")
        package = _newest(folder, "earendil-works-pi-ai-*.tgz")
        self.versions = {
            "litellm": wheel.name.split("-")[1],
            "@earendil-works/pi-ai": package.stem.rpartition("-")[2],
        }
        with zipfile.ZipFile(wheel) as archive:
            name = "litellm/model_prices_and_context_window_backup.json"
            self._litellm = json.loads(archive.read(name))
            notice = next(n for n in archive.namelist() if n.endswith("licenses/LICENSE"))
            self.litellm_notice = archive.read(notice).decode()
        self._pi: dict[str, dict[str, Any]] = {}
        with tarfile.open(package) as archive:
            for member in archive.getmembers():
                if "/dist/providers/data/" in member.name and member.name.endswith(".json"):
                    data = json.load(archive.extractfile(member))  # type: ignore[arg-type]
                    self._pi[Path(member.name).stem] = {
                        row["id"]: {**row, "wire": wire}
                        for wire, rows in data.items()
                        if isinstance(rows, dict)
                        for row in rows.values()
                        if isinstance(row, dict) and row.get("type") == "chat"
                    }
            about = json.load(archive.extractfile("package/package.json"))  # type: ignore[arg-type]
            self.pi_license = f"{about['name']} {about['version']}, license {about['license']}"

    def litellm(self, provider: str) -> dict[str, dict[str, Any]]:
        wanted = LITELLM.get(provider, ())
        found: dict[str, dict[str, Any]] = {}
        for name, row in self._litellm.items():
            if row.get("litellm_provider") in wanted and row.get("mode") in {"chat", "responses"}:
                bare = PREFIX.sub("", name).lower()
                if "/" not in bare or provider in NAMESPACED:
                    found.setdefault(bare, row)
        return found

    def pi(self, provider: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for file in PI.get(provider, ()):
            found |= {name.lower(): row for name, row in self._pi.get(file, {}).items()}
        return {n: row for n, row in found.items() if not n.endswith((":batch", "-batch"))}


def _newest(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        sys.exit(f"there is no {pattern} in {folder}; run `make models-table`, which downloads it")
    return found[-1]


# ── one model ──


def facts(provider: str, name: str, lite: dict[str, Any], pi: dict[str, Any]) -> KnownModel:
    """Return what both sources state about a model."""
    fields: dict[str, Any] = {
        "window": lite.get("max_input_tokens") or pi.get("contextWindow") or 0,
        "max_output": most_output(provider, lite, pi),
        "retires": lite.get("deprecation_date", ""),
    }
    can, cannot = abilities(provider, lite, pi)
    cannot |= {"web_search"} if WITHOUT_SEARCH.match(f"{provider}/{name}") else set()
    fields |= thinking(provider, lite, pi, thinks="thinking" in can)
    fields |= refusals(provider, lite, pi)
    if provider == "openai":
        fields |= of_openai(name, lite, fields, thinks="thinking" in can)
    fields |= OVERRIDES.get((provider, name), {})
    return KnownModel(can=frozenset(can), cannot=frozenset(cannot), **fields)


def most_output(provider: str, lite: dict[str, Any], pi: dict[str, Any]) -> int:
    """Return the maximum of output tokens; 0 where requests depend on it and the sources disagree."""
    one, other = lite.get("max_output_tokens"), pi.get("maxTokens")
    if provider in STRICT and one and other and max(one, other) > 2 * min(one, other):
        return 0
    return one or other or 0


def abilities(provider: str, lite: dict[str, Any], pi: dict[str, Any]) -> tuple[set[str], set[str]]:
    flags = {
        "tools": "supports_function_calling",
        "vision": "supports_vision",
        "pdf": "supports_pdf_input",
        "audio": "supports_audio_input",
        "parallel": "supports_parallel_function_calling",
        "schema": "supports_response_schema",
        "thinking": "supports_reasoning",
        "web_search": "supports_web_search",
    }
    stated = {name: lite.get(flag) for name, flag in flags.items()}
    if pi:
        stated["tools"] = True if stated["tools"] is None else stated["tools"]
        stated["thinking"] = pi["reasoning"]
        images = "image" in pi.get("input", ())
        stated["vision"] = bool(stated["vision"]) or images
    if provider in STRICT and lite:
        for name in ("vision", "thinking"):
            stated[name] = bool(stated[name])
    can = {name for name, value in stated.items() if value is True}
    return can, {name for name, value in stated.items() if value is False}


def thinking(
    provider: str, lite: dict[str, Any], pi: dict[str, Any], *, thinks: bool
) -> dict[str, Any]:
    if not thinks:
        known = provider in STRICT or (pi and not pi["reasoning"])
        return {"style": "none", "efforts": ()} if known else {}
    if provider == "anthropic" or is_claude(lite, pi):
        return of_claude(lite, pi)
    levels = pi.get("thinkingLevelMap")
    compat = pi.get("compat") or {}
    found: dict[str, Any] = {}
    if compat.get("supportsReasoningEffort") is False:
        return {"style": "switch", "efforts": ()}
    if levels is not None:
        words = [
            word
            for word in LADDER
            if _word(levels, word) and lite.get(f"supports_{word}_reasoning_effort") is not False
        ]
        if provider == "openai" and lite and not lite.get("supports_max_reasoning_effort"):
            words = [word for word in words if word != "max"]
        found = {"style": "levels", "efforts": tuple(words)}
        if "off" in levels:
            found["always_thinks"] = levels["off"] is None
    elif lite.get("reasoning_effort_levels"):
        found = {"style": "levels", "efforts": tuple(lite["reasoning_effort_levels"])}
    if lite.get("supports_none_reasoning_effort") is False:
        found["always_thinks"] = True
    if lite.get("default_reasoning_effort"):
        found["default_effort"] = lite["default_reasoning_effort"]
    return found


def _word(levels: dict[str, str | None], word: str) -> bool:
    """Return whether pi-ai sends a level as the word itself; the two highest must be listed."""
    sent = levels.get(word, word if word in LADDER[:4] else None)
    return sent is not None and sent.lower() == word


def is_claude(lite: dict[str, Any], pi: dict[str, Any]) -> bool:
    return "anthropic" in str(lite.get("litellm_provider")) or "claude" in str(pi.get("id", ""))


def of_claude(lite: dict[str, Any], pi: dict[str, Any]) -> dict[str, Any]:
    """Return the thinking of a Claude model; Anthropic, extended thinking and effort."""
    compat = pi.get("compat") or {}
    adaptive = (
        lite.get("supports_adaptive_thinking") or compat.get("forceAdaptiveThinking") or False
    )
    legacy = lite.get("supports_legacy_thinking") or not adaptive
    levels = pi.get("thinkingLevelMap") or {}
    always = lite.get("thinking_always_on", False) or ("off" in levels and levels["off"] is None)
    types = [
        name
        for name, taken in (("adaptive", adaptive), ("enabled", legacy), ("disabled", not always))
        if taken
    ]
    efforts: list[str] = []
    if lite.get("supports_output_config") or (not lite and adaptive):
        efforts = ["low", "medium", "high"]
        efforts += [
            word
            for word in ("xhigh", "max")
            if lite.get(f"supports_{word}_reasoning_effort", levels.get(word))
        ]
    return {
        "style": "adaptive" if adaptive else "budget",
        "thinking_types": tuple(types),
        "efforts": tuple(efforts),
        "always_thinks": bool(always),
    }


def refusals(provider: str, lite: dict[str, Any], pi: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    taken = lite.get(
        "supports_sampling_params", (pi.get("compat") or {}).get("supportsTemperature")
    )
    if taken is not None:
        found["sampling"] = "yes" if taken else "no"
    if provider == "anthropic":
        found["sampling"] = found.get("sampling", "yes")
        found["forced_tools"] = lite.get("supports_forced_tool_use", True)
        found["prefill"] = lite.get("supports_assistant_prefill", False)
    return found


def of_openai(
    name: str, lite: dict[str, Any], known: dict[str, Any], *, thinks: bool
) -> dict[str, Any]:
    """Return which API an OpenAI model needs, and when it accepts temperature and top_p."""
    if not thinks:
        return {"sampling": "yes"}
    silent = known.get("always_thinks") is not False
    found: dict[str, Any] = {"sampling": "no" if silent else "effort_none"}
    endpoints = lite.get("supported_endpoints") or ["/v1/chat/completions"]
    if lite.get("mode") == "responses" or "/v1/chat/completions" not in endpoints:
        return found | {"api": "responses"}
    # OpenAI chat, from gpt-5.4 on: "Function tools with reasoning_effort are not supported".
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    if version and (int(version[1]), int(version[2] or 0)) >= (5, 4):
        found["api"] = "responses_for_tools"
    return found


# ── the table ──


def rows(sources: Sources, provider: str) -> Iterator[tuple[str, KnownModel]]:
    lite, pi = sources.litellm(provider), sources.pi(provider)
    for name in sorted({*lite, *pi}):
        if not SKIPPED.match(name):
            yield name, facts(provider, name, _row(lite, name), _row(pi, name))


def _row(rows: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the row of a model; for a name with a date, that of the name without it."""
    return next((rows[form] for form in spellings(name) if form in rows), {})


def build(sources: Sources, date: str) -> ModelTable:
    profiles: Counter[KnownModel] = Counter()
    sections: dict[str, dict[str, KnownModel]] = {}
    for provider in sorted({*LITELLM, *PI}):
        sections[provider] = dict(thinned(with_search(dict(rows(sources, provider)))))
    for vendor in ("bedrock", "vertex", "azure"):
        sections[vendor] = _own(sections[vendor], sections)
    for section in sections.values():
        profiles.update(_profile(known) for known in section.values())
    order = [profile for profile, _ in profiles.most_common()]
    number = {profile: at for at, profile in enumerate(order)}
    stored = {
        provider: {
            name: ModelRow(number[_profile(known)], known.window, known.max_output, known.retires)
            for name, known in section.items()
        }
        for provider, section in sections.items()
    }
    return ModelTable(date, sources.versions, tuple(order), stored)


def _profile(known: KnownModel) -> KnownModel:
    return msgspec.structs.replace(known, window=0, max_output=0, retires="")


def thinned(section: dict[str, KnownModel]) -> Iterator[tuple[str, KnownModel]]:
    """Yield the rows without those that a shorter name already gives."""
    for name, known in section.items():
        shorter = [form for form in spellings(name) if form != name and form in section]
        same = any(_alike(section[form], known) for form in shorter)
        if not same:
            yield name, known


def with_search(section: dict[str, KnownModel]) -> dict[str, KnownModel]:
    """Return the rows with `web_search` for all spellings of a name that has it for one of them."""
    searching = {
        form
        for name, known in section.items()
        if "web_search" in known.can
        for form in spellings(name)
    }
    return {
        name: msgspec.structs.replace(known, can=known.can | {"web_search"})
        if searching.intersection(spellings(name)) and "web_search" not in known.cannot
        else known
        for name, known in section.items()
    }


def _alike(one: KnownModel, other: KnownModel) -> bool:
    return _profile(one) == _profile(other) and one.window == other.window


def _own(
    section: dict[str, KnownModel], sections: dict[str, dict[str, KnownModel]]
) -> dict[str, KnownModel]:
    """Return the rows of a cloud for models that have none in their vendor's section."""
    vendors = ("anthropic", "openai", "google", "xai", "moonshot", "zai", "mistral", "deepseek")
    known = {name for vendor in vendors for name in sections[vendor]}
    bare = {list(spellings(name))[-1]: facts for name, facts in section.items()}
    return {name: facts for name, facts in bare.items() if name not in known}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, default=Path("build/model-sources"))
    parser.add_argument("--date", default=datetime.now(UTC).date().isoformat())
    args = parser.parse_args()
    sources = Sources(args.sources)
    table = build(sources, args.date)
    data = zlib.compress(msgspec.json.encode(table, order="deterministic"), 9)
    (TARGET / TABLE).write_bytes(data)
    (TARGET / NOTICE).write_text(notice(sources, args.date), encoding="utf-8")
    count = sum(len(section) for section in table.sections.values())
    print(f"{count} models, {len(table.profiles)} profiles, {len(data)} bytes")
    for provider, section in table.sections.items():
        print(f"  {provider:<12} {len(section)}")


def notice(sources: Sources, date: str) -> str:
    return (
        f"{TABLE} was built on {date} from the data of two projects, both under the MIT License.\n\n"
        f"litellm {sources.versions['litellm']}, model_prices_and_context_window_backup.json\n"
        f"https://github.com/BerriAI/litellm\n\n{sources.litellm_notice.strip()}\n\n"
        f"{'-' * 79}\n\n{sources.pi_license}, dist/providers/data\n"
        "https://github.com/earendil-works/pi\n\n"
    ) + MIT.format(holder="Copyright (c) 2025 Mario Zechner")


MIT = """MIT License

{holder}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including
without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE
USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


if __name__ == "__main__":
    main()
