"""The documentation cannot drift: what exists is described, and what is shown runs."""

import argparse
import re
import textwrap
from importlib import import_module
from pathlib import Path

import aiohttp
import pytest
from tests.peers import gateway
from tests.tables import every_row

import toolbridge
from toolbridge import codecs, config, config_file, dialects, providers
from toolbridge.cli import COMMANDS
from toolbridge.core.errors import KINDS
from toolbridge.policy.routing_rules import RoutingRule
from toolbridge.server_tool_settings import SERVER_TOOL_TABLES

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "clients/typescript/README.md"]
)


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.req("PX-51")
@every_row(
    ("name", "words"),
    [
        ("README.md", ["make run", "ANTHROPIC_BASE_URL"]),
        ("ARCHITECTURE.md", ["Stage", "codecs/", "server/"]),
        ("AGENTS.md", ["make test", "make check"]),
        ("docs/reference/api.md", ["/v1/messages/count_tokens", "x-toolbridge-warning"]),
        ("docs/explain/streaming.md", ["thinking_delta", "signature_delta", "input_json_delta"]),
        ("docs/explain/thinking.md", ["thinking_not_supported"]),
    ],
)
def test_the_pages_that_people_look_for_are_there(name, words):
    assert all(word in page(name) for word in words)


ROUTES = re.findall(r"`(?:(?:GET|POST|HEAD|DELETE) )?(/(?:v1|api|health|metrics|ui)[^`?]*)`", page("docs/reference/api.md").partition("## ")[0])  # fmt: skip


@pytest.mark.req("PX-51")
async def test_every_route_that_is_described_is_served():
    paths = {re.sub(r"\{(?:id|model)\}", "x", path).replace("{run}", "run_0a") for path in ROUTES}
    # Prefixes, and a path that takes nothing but the upgrade to a WebSocket.
    paths -= {"/v1/", "/v1", "/v1/stream/ws"}
    async with gateway() as (url, _), aiohttp.ClientSession() as session:
        found = {}
        for path in sorted(paths):
            async with session.request("PATCH", url + path) as answer:
                found[path] = answer.status
    assert len(found) > 30
    assert [path for path, status in found.items() if status != 405] == [], (
        "405: only the method is wrong"
    )


@pytest.mark.req("PX-51")
def test_every_event_of_a_stream_is_described():
    folder = ROOT / "src/toolbridge/codecs/anthropic"
    files = (folder / "encode_stream.py", folder / "plain_answers.py")
    encoder = "".join(file.read_text("utf-8") for file in files)
    types = set(re.findall(r'(?:_event\("|b"event: |b\'event: )(\w+)', encoder))
    assert {"message_start", "message_delta", "content_block_stop", "error"} <= types
    described = page("docs/explain/streaming.md")
    types |= {"thinking_delta", "signature_delta", "input_json_delta", "ping", "message_stop"}
    assert sorted(type for type in types if f"`{type}`" not in described) == []


def test_every_command_has_a_heading():
    headings = re.findall(r"^## (\w+)$", page("docs/reference/commands.md"), re.MULTILINE)
    assert sorted(headings) == sorted(COMMANDS)


def test_every_command_is_on_the_first_page():
    assert all(name in page("README.md") for name in COMMANDS)


@every_row(
    "struct",
    [
        config.Config,
        config.ProviderConfig,
        config.ModelConfig,
        config.RatesConfig,
        config.StreamConfig,
        RoutingRule,
        *SERVER_TOOL_TABLES.values(),
    ],
)
def test_every_setting_is_described(struct):
    described = set(re.findall(r"`(\w+)`", page("docs/reference/settings.md")))
    assert set(struct.__struct_fields__) <= described


def test_every_kind_of_error_is_described():
    described = re.findall(r"^\| `(\w+)`", page("docs/reference/errors.md"), re.MULTILINE)
    assert sorted(described) == sorted(KINDS)


def test_every_api_and_provider_is_described():
    described = set(re.findall(r"`([\w.-]+)`", page("docs/reference/providers.md")))
    assert {*codecs.names(), *providers.names()} <= described


def test_every_public_name_is_there_and_described():
    described = set(re.findall(r"`(\w+)", page("docs/reference/library.md")))
    for name in toolbridge.__all__:
        assert hasattr(toolbridge, name)
    assert set(toolbridge.__all__) <= described


BLOCKS = [
    pytest.param(block, id=f"{p.name}:{n}")
    for p in PAGES
    for n, block in enumerate(re.findall(r"```python\n(.*?)```", p.read_text("utf-8"), re.DOTALL))
    if "Protocol" not in block
]


@pytest.mark.parametrize("block", BLOCKS)
def test_what_is_shown_runs(block):
    exec(compile(block, "docs", "exec"), {})


LINKS = [
    pytest.param(p, link, id=f"{p.name}→{link}")
    for p in PAGES
    for link in re.findall(r"\]\(([^):\s]+)\)", p.read_text("utf-8"))
]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_row(("start", "link"), LINKS)
def test_links_lead_somewhere(start, link):
    path, _, anchor = link.partition("#")
    page = (start.parent / path) if path else start
    assert page.exists()
    assert not anchor or anchor in anchors(page.read_text("utf-8"))


TOML = [
    pytest.param(block, id=f"{p.name}:{n}")
    for p in PAGES
    for n, block in enumerate(
        re.findall(r"^ *```toml\n(.*?)^ *```", p.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    )
    if re.search(r"^\s*\[(map|providers|models|stream|http|\[routes)\b", block, re.MULTILINE)
]


@pytest.mark.parametrize("block", TOML)
def test_a_configuration_that_is_shown_can_be_loaded(block, tmp_path):
    file = tmp_path / "toolbridge.toml"
    file.write_text(textwrap.dedent(block))
    source = config_file.ConfigSource(file, file.read_bytes())
    assert config_file.read(source, env={}) != config.Config()


def options_of(command: str) -> set[str]:
    parser = argparse.ArgumentParser()
    import_module(f"toolbridge.cli.{command}").arguments(parser)
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    parsers = [parser, *(p for action in below for p in action.choices.values())]
    return {option for p in parsers for option in p._option_string_actions}


@every_row("p", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_that_a_page_shows_exists_with_its_options(p):
    shown = r"(?:`|\| |^\s*\$ )(?:\S*/)?toolbridge (\w+)([^`\n#|]*)"
    for name, rest in re.findall(shown, p.read_text("utf-8"), re.MULTILINE):
        if name == "COMMAND" or p.name == "CHANGELOG.md":  # which also names what is gone
            continue
        assert name in COMMANDS
        if name != "claude":  # what follows is Claude Code's own
            assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest)) <= options_of(name)


def test_the_figures_of_the_first_page_add_up():
    readme = page("README.md")
    rows = re.findall(r"^\|[^|]+\|[^|]+3456[^|]*((?:\| \d+ ){5})\|$", readme, re.MULTILINE)
    total = sum(int(number) for row in rows for number in re.findall(r"\d+", row))
    assert len(rows) == len(codecs.names())
    assert f"{total} of {total} cases over {len(rows) ** 2} pairs" in readme
    assert f"{len(dialects.names())} dialects" in readme


@every_row(
    "symptom",
    [
        "My tool calls are printed as text",
        "The context overflows",
        "Thinking leaks into the answer",
        "The demo model answers instead of mine",
        "Unknown model (404)",
        "Claude Code waits for minutes",
        "401 or 403",
        "My file toolbridge.toml is not used",
    ],
)
def test_a_symptom_has_its_section_with_a_cause_and_a_way_out(symptom):
    text = page("docs/guide/trouble.md").partition(f"\n## {symptom}\n")[2].partition("\n## ")[0]
    assert re.search(r"\*\*Cause|\| cause \|", text)
    assert re.search(r"`toolbridge |\$ toolbridge |`/metrics`", text)
    assert re.search(r"\*\*Setting|\bset `", text)


def test_nothing_speaks_of_the_workplace():
    banned = re.compile(r"/work/|/root/|/home/[a-z]+/\.|index-url|https?://[^ \"]*/simple")
    for name in [
        *PAGES,
        ROOT / "Makefile",
        ROOT / "pyproject.toml",
        *(ROOT / "requirements").iterdir(),
        ROOT / ".ci/run",
        *(ROOT / ".github").rglob("*.yml"),
    ]:
        assert not banned.search(name.read_text("utf-8")), name
