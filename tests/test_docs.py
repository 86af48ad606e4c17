"""The documentation cannot drift: what exists is described, and what is shown runs."""

import re
from pathlib import Path

import pytest

import toolbridge
from toolbridge import codecs, config, providers
from toolbridge.cli import COMMANDS
from toolbridge.core.errors import KINDS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.req("PX-51")
@pytest.mark.parametrize(
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


def test_every_command_has_a_heading():
    headings = re.findall(r"^## (\w+)$", page("docs/reference/commands.md"), re.MULTILINE)
    assert sorted(headings) == sorted(COMMANDS)


def test_every_command_is_on_the_first_page():
    assert all(name in page("README.md") for name in COMMANDS)


@pytest.mark.parametrize(
    "struct",
    [
        config.Config,
        config.ProviderConfig,
        config.ModelConfig,
        config.RatesConfig,
        config.StreamConfig,
    ],
)
def test_every_setting_is_described(struct):
    described = set(re.findall(r"`(\w+)`", page("docs/reference/settings.md")))
    assert set(struct.__struct_fields__) <= described


def test_every_kind_of_error_is_described():
    described = re.findall(r"^\| `(\w+)`", page("docs/reference/errors.md"), re.MULTILINE)
    assert sorted(described) == sorted(KINDS)


def test_every_api_and_provider_is_described():
    described = set(re.findall(r"`([\w.]+)`", page("docs/reference/providers.md")))
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
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", p.read_text("utf-8"))
]


@pytest.mark.parametrize(("start", "link"), LINKS)
def test_links_lead_somewhere(start, link):
    assert (start.parent / link).exists()


def test_nothing_speaks_of_the_workplace():
    banned = re.compile(r"/work/|/root/|/home/[a-z]+/\.|index-url|https?://[^ \"]*/simple")
    for name in [*PAGES, ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "requirements/dev.txt"]:
        assert not banned.search(name.read_text("utf-8")), name
