"""The table of known models: its age, its size, and sixty models as two sources describe them."""

import json
import os
import tarfile
import zipfile
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge.policy import model_table
from toolbridge.policy.model_facts import KnownModel
from toolbridge.policy.model_families import find_family
from toolbridge.policy.model_quirks import quirks_for
from toolbridge.policy.model_table import (
    find_in_table,
    known_names,
    load_table,
    spellings,
    vendor_of,
)

HERE = Path(__file__).parent
FOLDER = Path(model_table.__file__).parent
SOURCES = Path(os.environ.get("MODEL_SOURCES", HERE.parents[1] / "build" / "model-sources"))
ROWS = [
    line.split()
    for line in (HERE / "known_models.txt").read_text().splitlines()
    if not line.startswith("#")
]
PROVIDERS = {row[0] for row in ROWS}


def described(known: KnownModel) -> list[str]:
    """Return a row of the text file."""
    yes = {None: "?", True: "yes", False: "no"}
    efforts = "?" if known.efforts is None else ",".join(known.efforts) or "-"
    return [
        str(known.window),
        str(known.max_output),
        known.style or "?",
        efforts,
        {None: "?", True: "always", False: "off"}[known.always_thinks],
        ",".join(known.thinking_types or ()) or "-",
        known.sampling or "?",
        yes[known.forced_tools],
        yes[known.prefill],
        known.api or "-",
        known.retires or "-",
    ]


def test_there_are_sixty_models_of_eight_providers():
    assert len(ROWS) >= 60
    assert len(PROVIDERS) >= 8


@every_row("row", ROWS, ids=lambda row: "/".join(row[:2]))
def test_a_known_model_is_looked_up(row):
    known = find_in_table(row[0], row[1])
    assert known is not None
    assert described(known) == row[2:]


def test_the_table_is_small():
    size = (FOLDER / model_table.TABLE).stat().st_size
    assert size <= 40_000
    assert sum(map(len, load_table().sections.values())) > 1000


def test_the_table_is_not_older_than_a_year():
    age = datetime.now(UTC).date() - date.fromisoformat(load_table().built)
    assert age.days <= 366, "rebuild it with `make models-table`"


def test_the_sources_and_their_licenses_are_recorded():
    notice = (FOLDER / "model_table.NOTICE").read_text()
    for name, version in load_table().sources.items():
        assert f"{name} {version}" in notice
    assert notice.count("Permission is hereby granted") == 2
    assert "Berri AI" in notice


# ── names as users type them ──


@every_row(
    ("provider", "name", "same"),
    [
        ("anthropic", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
        ("anthropic", "Claude-Opus-5-5-latest", "anthropic/claude-opus-5-5"),
        ("anthropic", "claude-opus-5-5[1m]", "anthropic/claude-opus-5-5"),
        ("openai", "gpt-5.4-2026-03-05", "openai/gpt-5.4"),
        ("openai", "openai/gpt-5.1", "openai/gpt-5.1"),
        ("google", "models/gemini-3.8-flash", "google/gemini-3.8-flash"),
        ("bedrock", "us.anthropic.claude-opus-4-5-20251101-v1:0", "anthropic/claude-opus-4-5"),
        ("bedrock", "anthropic.claude-opus-4-6-v1", "anthropic/claude-opus-4-6"),
        ("bedrock", "global.openai.gpt-5.6-luna", "openai/gpt-5.6-luna"),
        ("vertex", "claude-opus-4-5@20251101", "anthropic/claude-opus-4-5"),
        ("vertex", "publishers/anthropic/models/claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"),
        ("mine", "openrouter/anthropic/claude-opus-4.5", "anthropic/claude-opus-4-5"),
        ("mine", "claude-haiku-4-5@default", "anthropic/claude-haiku-4-5"),
    ],
)  # fmt: skip
def test_the_spellings_of_a_name_lead_to_one_row(provider, name, same):
    expected = find_in_table(*same.split("/", 1))
    assert expected is not None
    assert find_in_table(provider, name) == expected


@every_row(
    "name", ["", " ", "/", "nonesuch", "qwen3:8b", "a/b/c/d", "..", "us.x.y-v1:0", "x" * 300]
)
def test_any_name_may_be_unknown(name):
    assert find_in_table("openai", name) is None
    assert list(spellings(name))
    assert find_family(name) is None


def test_a_reseller_lends_only_what_holds_everywhere():
    known = find_in_table("vercel", "anthropic/claude-opus-5-5")
    assert known is not None
    assert (known.sampling, known.window, known.efforts, known.api) == ("no", 0, None, "")


@every_row(
    ("name", "vendor"),
    [
        ("claude-x", "anthropic"), ("gpt-5", "openai"), ("gpt-oss-20b", ""), ("o3", "openai"),
        ("gemini-9", "google"), ("glm-9", "zai"), ("llama-9", ""),
    ],
)  # fmt: skip
def test_a_vendor_is_found_by_the_names_of_its_models(name, vendor):
    assert vendor_of(name) == vendor


# ── families, for models that are newer than the table ──


@every_row(
    ("name", "types", "efforts", "sampling", "forced", "prefill"),
    [
        ("claude-fable-5-2", ("adaptive",), 5, "no", False, False),
        ("claude-mythos-5-2", ("adaptive",), 5, "no", False, False),
        ("claude-opus-6", ("adaptive",), 5, "no", False, False),
        ("claude-haiku-6-1", ("adaptive", "disabled"), 5, "no", None, False),
        ("us.anthropic.claude-opus-4-20250514-v1:0", ("enabled", "disabled"), 0, "yes", True, True),
        ("claude-3-7-sonnet-20250219", ("enabled", "disabled"), 0, "yes", True, True),
    ],
)
def test_a_new_claude_follows_its_family(name, types, efforts, sampling, forced, prefill):
    known = find_family(name)
    assert known is not None
    assert known.thinking_types == types
    assert len(known.efforts or ()) == efforts
    assert (known.sampling, known.forced_tools, known.prefill) == (sampling, forced, prefill)


@every_row(
    ("name", "kept"),
    [
        ("claude-3-5-haiku-20241022", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-1", False),
        ("claude-haiku-4-5-20251001", False),
        ("claude-sonnet-4-6", False),
        ("claude-opus-4-7", False),
        ("claude-opus-4-8", None),
        ("claude-opus-5", None),
        ("claude-sonnet-5", None),
        ("claude-haiku-5-5", None),
        ("claude-fable-5", None),
        ("claude-opus-4-10", None),
    ],
)
def test_claude_models_before_opus_4_8_refuse_system_messages_inside_a_conversation(name, kept):
    known = find_family(name)
    assert known is not None
    assert known.system_in_place is kept
    quirk = quirks_for(known, "anthropic").get("system_in_place", True)
    assert quirk is (kept is None)


@every_row(
    ("name", "api", "sampling"),
    [
        ("gpt-7", "responses_for_tools", "effort_none"),
        ("gpt-7-pro", "responses", "no"),
        ("gpt-6.3-codex", "responses", "no"),
        ("o4-mini-deep-research", "", "no"),
        ("gpt-4.5-preview", "", "yes"),
        ("o3-deep-research-2025-06-26", "responses", "no"),
    ],
)
def test_a_new_gpt_follows_its_family(name, api, sampling):
    known = find_family(name)
    assert known is not None
    assert (known.api, known.sampling) == (api, sampling)


# ── the sources themselves, where they were downloaded ──


def read_sources() -> tuple[dict, dict]:
    wheels, packages = sorted(SOURCES.glob("litellm-*.whl")), sorted(SOURCES.glob("*pi-ai-*.tgz"))
    if not wheels or not packages:
        pytest.skip(f"{SOURCES} has no litellm wheel and pi-ai package; `make models-table` does")
    with zipfile.ZipFile(wheels[-1]) as archive:
        name = "litellm/model_prices_and_context_window_backup.json"
        lite = json.loads(archive.read(name))
    pi: dict[str, dict] = {}
    with tarfile.open(packages[-1]) as archive:
        for member in archive.getmembers():
            if "/providers/data/" in member.name and member.name.endswith(".json"):
                wires = json.load(archive.extractfile(member))
                pi[Path(member.name).stem] = {
                    row["id"].lower(): row
                    for rows in wires.values()
                    if isinstance(rows, dict)
                    for row in rows.values()
                    if isinstance(row, dict) and row.get("type") == "chat"
                }
    return lite, pi


PREFIXES = {"google": "gemini/", "together": "together_ai/"}
FILES = {"moonshot": "moonshotai"}


def test_every_row_agrees_with_both_sources():
    sources = read_sources()
    for row in ROWS:
        check(row, *sources)


def check(row: list[str], lite: dict, pi: dict) -> None:
    provider, name, window, most, _, efforts, off, _, sampling, forced, prefill, api, retires = row
    bare = {key.lower(): value for key, value in lite.items()}
    prefix = PREFIXES.get(provider, f"{provider}/")
    one = bare.get(prefix + name) or bare.get(name) or {}
    other = pi[FILES.get(provider, provider)].get(name, {})
    assert one or other, row
    assert int(window) in {one.get("max_input_tokens"), other.get("contextWindow")}
    assert int(most) in {one.get("max_output_tokens"), other.get("maxTokens"), 0}
    assert retires in {one.get("deprecation_date", "-"), "-"}
    levels = other.get("thinkingLevelMap") or {}
    for effort in () if efforts in {"-", "?"} else efforts.split(","):
        assert levels.get(effort, effort) is not None
        assert one.get(f"supports_{effort}_reasoning_effort") is not False
    if off == "off":
        assert one.get("thinking_always_on") is not True
        assert one.get("supports_none_reasoning_effort") is not False
    flags = {
        "supports_sampling_params": sampling,
        "supports_forced_tool_use": forced,
        "supports_assistant_prefill": prefill,
    }
    for flag, value in flags.items():
        if flag in one and value != "?":
            assert value == ("yes" if one[flag] else "no")
    if api == "responses":
        assert "/v1/chat/completions" not in one["supported_endpoints"]


def test_the_models_of_a_vendor_are_known_without_its_list():
    rows = load_table().sections["anthropic"]
    found = known_names("anthropic")
    assert found == [name for name in rows if not rows[name].retires]
    assert found
    assert any(
        row.retires for section in load_table().sections.values() for row in section.values()
    )
    assert known_names("openrouter") == known_names("nobody") == []
