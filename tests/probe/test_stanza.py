"""The result of a probe in the configuration file."""

import tomllib

import pytest
from tests.tables import every_row

from toolbridge.core.errors import ConfigError
from toolbridge.probe.card import Attempt, Card
from toolbridge.probe.stanza import with_stanza

CARD = Card(
    "local/a.b", "openai_chat", 0,
    (Attempt("weather", "one-call", "prompt", True, True, True, dialect="qwen3_xml"),),
)  # fmt: skip
FOUND = {"tool_mode": "prompt", "dialect": "qwen3_xml"}


@every_row(
    "before",
    [
        "",
        "# mine\nport = 1\n",
        '[models."local/other"]\nheal = 1',
        '[models."local/a.bc"]\nheal = 1\n',
        '[models]\n"local/other" = { heal = 1 }\n',
        '[map]\n"local/a.b" = "local/c"\n',
        '[map]\n"local/a.b".x = 1\n',
    ],
)
def test_a_table_is_added_at_the_end(before):
    written = with_stanza(before, CARD)
    assert written.startswith(before)
    assert tomllib.loads(written)["models"]["local/a.b"] == FOUND


@pytest.mark.parametrize(
    "header",
    ['[models."local/a.b"]', "[models.'local/a.b'] # my model", '[ models . "local/a\\u002Eb" ]'],
)
def test_an_existing_table_keeps_its_other_settings_and_comments(header):
    before = f'{header}\n# why\nwindow = 4096\ntool_mode = "native"  # measured\n\n[http]\nmax_body = 5\n'
    written = with_stanza(before, CARD)
    found = tomllib.loads(written)
    assert found["models"]["local/a.b"] == {"window": 4096, **FOUND}
    assert found["http"] == {"max_body": 5}
    assert "# why\n" in written
    assert 'tool_mode = "prompt"  # measured\n' in written


@every_row(
    ("line", "expected"),
    [
        (
            '"local/a.b" = { window = 9000 }  # mine',
            '"local/a.b" = { window = 9000, tool_mode = "prompt", dialect = "qwen3_xml" }  # mine',
        ),
        (
            "'local/a.b'={tool_mode='native',window=9000}",
            "'local/a.b'={tool_mode=\"prompt\",window=9000, dialect = \"qwen3_xml\"}",
        ),
        ('"local/a.b" = {}', '"local/a.b" = { tool_mode = "prompt", dialect = "qwen3_xml" }'),
        (
            '"local/a.b" = { options = { stop = ["},", "]"] }, dialect = "auto" } # {',
            '"local/a.b" = { options = { stop = ["},", "]"] }, dialect = "qwen3_xml", tool_mode = "prompt" } # {',
        ),
        (
            '"local/a.b".window = 9000 # mine',
            '"local/a.b".tool_mode = "prompt"\n"local/a.b".dialect = "qwen3_xml"\n"local/a.b".window = 9000 # mine',
        ),
        (
            '"local/a.b".heal = 1\n"local/a.b".tool_mode = "native" # mine',
            '"local/a.b".dialect = "qwen3_xml"\n"local/a.b".heal = 1\n"local/a.b".tool_mode = "prompt" # mine',
        ),
    ],
)  # fmt: skip
def test_inline_tables_and_dotted_keys_are_changed_in_place(line, expected):
    before = '[models]\n"local/other" = { heal = 1 }\n{}\n\n[http]\nmax_body = 5\n'
    assert with_stanza(before.replace("{}", line), CARD) == before.replace("{}", expected)


def test_keys_of_the_file_itself_are_changed_in_place():
    before = 'port = 1\nmodels."local/a.b" = { heal = 1 }\n[http]\n'
    expected = 'models."local/a.b" = { heal = 1, tool_mode = "prompt", dialect = "qwen3_xml" }\n'
    assert with_stanza(before, CARD) == f"port = 1\n{expected}[http]\n"


def test_the_form_of_the_file_is_kept():
    """A mark of the byte order, Windows' ends of lines, and a separator of lines in a comment."""
    before = '\ufeff# a\u2028b\r\n[models."local/a.b"]\r\nheal = 1\r\n'
    written = 'tool_mode = "prompt"\r\ndialect = "qwen3_xml"\r\nheal = 1\r\n'
    assert with_stanza(before, CARD) == before.replace("heal = 1\r\n", written)


@every_row(
    ("before", "text"),
    [
        (
            'models = { "local/a.b" = { heal = 1 } }\n',
            'set these in it for the model "local/a.b": tool_mode = "prompt", dialect = "qwen3_xml"',
        ),
        (
            'models = { "local/other" = { heal = 1 } }\n',
            'add this to its `models`: "local/a.b" = { tool_mode = "prompt", dialect = "qwen3_xml" }',
        ),
        (
            'note = """\n[models."local/a.b"]\n"""\n[models]\n"local/a.b" = { tool_mode = """native""" }\n',
            'set these in it for the model "local/a.b": tool_mode',
        ),
        ("models = 1\n", "add this to its `models`"),
        ("port = \n", "not valid TOML"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_changed_safely_is_an_error_with_what_to_change(before, text):
    with pytest.raises(ConfigError) as found:
        with_stanza(before, CARD)
    assert text in str(found.value)


def test_a_text_that_looks_like_a_table_is_not_changed():
    before = 'note = """\n[models."local/a.b"]\ntool_mode = "native"\n"""\n'
    written = with_stanza(before, CARD)
    assert written.startswith(before)
    assert tomllib.loads(written)["models"]["local/a.b"] == FOUND
