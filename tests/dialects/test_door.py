"""Dialects are found by their names."""

import re
from importlib import import_module, metadata
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge import dialects
from toolbridge.core.errors import ConfigError
from toolbridge.dialects import FAMILIES, for_model, load, names
from toolbridge.dialects.models import MODELS


def test_every_dialect_is_loaded_by_its_name():
    assert [load(name).name for name in names()] == names()
    assert len(names()) == 67


def test_the_reference_page_lists_every_dialect_and_no_other():
    page = Path(__file__).parents[2] / "docs/reference/dialects.md"
    table = page.read_text("utf-8").partition("| written by |")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == names()


@every_row("module", FAMILIES)
def test_a_family_file_holds_the_dialects_that_are_listed(module):
    held = import_module(f"toolbridge.dialects.{module}").DIALECTS
    assert sorted(dialect.name for dialect in held) == sorted(FAMILIES[module])


@every_row("name", ["reader", "engines", "os", "..core", ""])
def test_nothing_else_is_loaded(name):
    with pytest.raises(ConfigError):
        load(name)


def test_others_may_bring_a_dialect(monkeypatch):
    entry = metadata.EntryPoint("elvish", "toolbridge.dialects.seed_oss:DIALECT", dialects.GROUP)
    monkeypatch.setattr(dialects, "_entry_points", lambda: {"elvish": entry})
    assert "elvish" in names()
    load.cache_clear()
    assert load("elvish") is load("seed_oss")
    load.cache_clear()


@every_row(
    ("model", "dialect"),
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_xml"),
        ("qwen2.5:7b", "hermes_json"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek_dsml_v32"),
        ("zai-org/GLM-4.6", "glm45"),
        ("gpt-oss:20b", "harmony"),
        ("moonshotai/Kimi-K2-Thinking", "kimi_k2"),
        ("llama3.2:3b", "llama3_json"),
        ("some-model", None),
    ],
)
def test_a_model_is_known_by_its_name(model, dialect):
    assert for_model(model) == dialect


def test_the_table_of_models_names_dialects_only():
    assert {dialect for _, dialect in MODELS} <= set(names())


def test_no_row_of_the_table_hides_a_later_one():
    for at, (part, dialect) in enumerate(MODELS):
        assert for_model(part) == dialect, MODELS[at]
