"""The output of commands that print tokens."""

import json
import time

import pytest

from toolbridge.core.errors import ConfigError
from toolbridge.upstream.clouds import token_command
from toolbridge.upstream.clouds.sigv4 import AwsKeys
from toolbridge.upstream.clouds.token_command import PLAIN_LIFE, run_token_command


async def run(output: str):
    return await run_token_command(("/bin/echo", output), "there")


@pytest.mark.parametrize(
    ("output", "value", "life"),
    [
        ("tok", "tok", PLAIN_LIFE),
        (json.dumps({"access_token": "tok", "expires_in": 100}), "tok", 100),
        (json.dumps({"token": "tok"}), "tok", PLAIN_LIFE),
        (json.dumps({"accessToken": "tok", "expires_on": int(time.time()) + 500, "expiresOn": "2020-01-01 00:00:00.000000"}), "tok", 500),
        (json.dumps({"AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T", "Expiration": "2099-01-01T00:00:00+00:00"}), AwsKeys("A", "S", "T"), 4070908800 - time.time()),
        (json.dumps({"access_token": "tok", "expiry": "not a time"}), "tok", PLAIN_LIFE),
    ],
)  # fmt: skip
async def test_forms(output, value, life):
    found = await run(output)
    assert found.value == value
    assert found.until - time.time() == pytest.approx(life, abs=30)


async def test_nothing_is_interpreted_by_a_shell():
    found = await run("$(id)-`id`;x")
    assert found.value == "$(id)-`id`;x"


async def test_a_command_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(token_command, "TIMEOUT", 0.05)
    with pytest.raises(ConfigError, match=r"did not end within 0\.05 s.*token_command"):
        await run_token_command(("/bin/sleep", "60"), "there")


async def test_the_last_words_of_a_failed_command_are_shown():
    with pytest.raises(ConfigError, match=r"failed \(3\): please log in"):
        await run_token_command(("/bin/sh", "-c", "echo please log in >&2; exit 3"), "there")
