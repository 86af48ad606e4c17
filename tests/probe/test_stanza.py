"""The result of a probe in the configuration file."""

import tomllib

import pytest

from toolbridge.core.errors import ConfigError
from toolbridge.probe.card import Attempt, Card
from toolbridge.probe.stanza import with_stanza

CARD = Card(
    "local/a.b", "openai_chat", 0,
    (Attempt("weather", "one-call", "prompt", True, True, True, dialect="qwen3_xml"),),
)  # fmt: skip
FOUND = {"tool_mode": "prompt", "dialect": "qwen3_xml"}


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# mine\nport = 1\n",
        '[models."local/other"]\nheal = 1',
        '[models."local/a.bc"]\nheal = 1\n',
    ],
)
def test_a_table_is_added_at_the_end(before):
    written = with_stanza(before, CARD)
    assert written.startswith(before)
    assert tomllib.loads(written)["models"]["local/a.b"] == FOUND


@pytest.mark.parametrize("header", ['[models."local/a.b"]', "[models.'local/a.b'] # my model"])
def test_an_existing_table_keeps_its_other_settings_and_comments(header):
    before = f'{header}\n# why\nwindow = 4096\ntool_mode = "native"\n\n[http]\nmax_body = 5\n'
    written = with_stanza(before, CARD)
    found = tomllib.loads(written)
    assert found["models"]["local/a.b"] == {"window": 4096, **FOUND}
    assert found["http"] == {"max_body": 5}
    assert "# why\n" in written


def test_a_file_that_cannot_be_changed_safely_is_an_error_with_the_lines_to_add():
    with pytest.raises(ConfigError, match=r'add these lines to it:\n\[models\."local/a\.b"\]'):
        with_stanza('models = { "local/a.b" = { heal = 1 } }\n', CARD)
