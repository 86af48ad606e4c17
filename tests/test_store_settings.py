"""`store` and `ledger`: which addresses are accepted, and that no password is shown."""

import pytest
from tests.tables import every_row

from toolbridge import config_file
from toolbridge.config import secrets_of
from toolbridge.core.errors import ConfigError
from toolbridge.store_settings import ServerUrl, remedy


def read(env=None, **given):
    return config_file.read(config_file.ConfigSource(), env=env or {}, flags=given)


@every_row(
    "given",
    [
        {"store": "redis://localhost"},
        {"store": "redis://localhost/"},
        {"store": "redis://localhost:6379/3"},
        {"store": "rediss://user:pw@host:6380/1"},
        {"store": "valkey://host"},
        {"store": "unix:///run/redis.sock?db=1"},
        {"ledger": "postgresql://a:b@host/db"},
        {"ledger": "postgres:///db?host=/run/postgresql"},
        {"ledger": "off"},
    ],
)
def test_addresses_of_servers_are_accepted(given):
    loaded = read(**given)
    assert {name: getattr(loaded, name) for name in given} == given


@every_row(
    ("given", "text"),
    [
        ({"store": "off"}, "store: must be"),
        ({"store": "http://x"}, "redis:// or rediss://"),
        ({"store": "redis://"}, "it has no host"),
        ({"store": "redis://h:99999"}, "store: .*[Pp]ort"),
        ({"store": "unix:"}, "no path"),
        ({"store": "redis://h/abc"}, "the database 'abc' must be a number"),
        ({"ledger": "mysql://x"}, "postgresql:// or postgres://"),
        ({"ledger": "$NONE"}, "the variable NONE is not set"),
    ],
)
def test_others_are_refused_with_the_setting_and_the_reason(given, text):
    with pytest.raises(ConfigError, match=text):
        read(**given)


def test_variables_set_them_and_an_address_may_be_in_a_variable_of_its_own():
    env = {"TOOLBRIDGE_STORE": "$URL", "URL": "redis://:p%40ss@h", "TOOLBRIDGE_LEDGER": "off"}
    loaded = read(env)
    assert (loaded.store, loaded.ledger) == ("$URL", "off")
    assert {"p%40ss", "p@ss"} <= set(secrets_of(loaded, (), env))


@every_row(
    ("url", "shown"),
    [
        ("redis://:pass@h:1/0", "redis://:***@h:1/0"),
        ("redis://user:pass@h", "redis://user:***@h"),
        ("redis://h?password=pass", "redis://h"),
        ("postgresql://user@h/db", "postgresql://user@h/db"),
        ("unix://:pass@/run/s?db=1", "unix://:***@/run/s"),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    found = ServerUrl(url)
    assert found.shown == shown
    assert "pass" not in found.without_password(f"cannot use {url}").replace("password", "")


@every_row(
    ("trouble", "words"),
    [
        ("Authentication required.", "correct the user and the password in `store`"),
        ("invalid username-password pair or user is disabled.", "the password in `store`"),
        ('FATAL: password authentication failed for user "tb"', "the password in `store`"),
        ("fe_sendauth: no password supplied", "the password in `store`"),
        ("Error 111 connecting to auth.example:6379. Connection refused.", "start the server, or"),
    ],
)
def test_the_remedy_for_a_wrong_password_is_about_the_password(trouble, words):
    assert words in remedy(trouble, "store")
