"""Environment variables: the first that is set counts, and a bad number is named."""

import pytest
from tests.tables import every_row

from toolbridge.core.errors import ConfigError
from toolbridge.environment import CALLER, key_variable, models_from, secret, settings_from


@every_row(
    ("env", "settings"),
    [
        ({}, {}),
        ({"TOOLBRIDGE_HOST": ""}, {}),
        ({"TOOLBRIDGE_HOST": "::1", "OTHER": "x"}, {"host": "::1"}),
        ({"PORT": "80", "TOOLBRIDGE_PORT": "81"}, {"port": 81}),
        ({"CLAUDE_BRIDGE_PORT": "65535", "PORT": ""}, {"port": 65535}),
        ({"TOOLBRIDGE_WORKERS": "256", "TOOLBRIDGE_KEY": "k"}, {"key": "k", "workers": 256}),
    ],
)
def test_settings_are_those_of_the_variables_that_are_set(env, settings):
    assert settings_from(env) == settings


@every_row(
    ("variable", "value", "text"),
    [
        ("PORT", "65536", "must be a port number, not '65536'"),
        ("PORT", "-1", "must be a port number, not '-1'"),
        ("TOOLBRIDGE_WORKERS", "257", "must be a number from 1 to 256, not '257'"),
        ("TOOLBRIDGE_WORKERS", "two", "must be a number from 1 to 256, not 'two'"),
    ],
)
def test_a_bad_number_is_named_with_its_variable(variable, value, text):
    with pytest.raises(ConfigError, match=text) as raised:
        settings_from({variable: value})
    assert raised.value.problem.where == variable


def test_models_are_named_by_variables():
    assert models_from({"TOOLBRIDGE_MODEL": "a", "MODEL_OPUS": "", "MODEL_HAIKU": "h"}) == {
        "default": "a",
        "haiku": "h",
    }


@every_row("value", ["$NAME", "${NAME}", "env:NAME", "env.NAME", "os.environ/NAME"])
def test_a_key_may_be_given_by_its_variable(value):
    assert key_variable(f" {value} ") == "NAME"
    assert secret(value, {"NAME": "sk-1"}) == "sk-1"
    assert secret(value, {}) == ""


def test_a_key_that_is_no_reference_is_the_key_and_the_callers_login_is_none():
    assert secret("sk-$1", {}) == "sk-$1"
    assert key_variable("sk-$1") == ""
    assert secret(CALLER, {CALLER: "x"}) == ""
