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


FAR = 4070908800
"""2099-01-01, in seconds since the epoch."""


@pytest.mark.parametrize(
    ("output", "value", "life", "until"),
    [
        ("tok", "tok", PLAIN_LIFE, 0),
        ({"access_token": "tok", "expires_in": 100}, "tok", 100, 0),
        ({"token": "tok"}, "tok", PLAIN_LIFE, 0),
        ({"accessToken": "tok", "expires_on": FAR, "expiresOn": "2020-01-01 00:00:00.000000"}, "tok", 0, FAR),
        ({"AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T", "Expiration": "2099-01-01T00:00:00+00:00"}, AwsKeys("A", "S", "T"), 0, FAR),
        ({"access_token": "tok", "expiry": "not a time"}, "tok", PLAIN_LIFE, 0),
    ],
    ids=["plain", "gcloud", "without an end", "az", "aws", "unknown end"],
)  # fmt: skip
async def test_forms(output, value, life, until):
    found = await run(output if isinstance(output, str) else json.dumps(output))
    assert found.value == value
    assert found.until == pytest.approx(until or time.time() + life, abs=30)


async def test_nothing_is_interpreted_by_a_shell():
    found = await run("$(id)-`id`;x")
    assert found.value == "$(id)-`id`;x"


async def test_a_command_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(token_command, "TIMEOUT", 0.05)
    with pytest.raises(ConfigError, match=r"did not end within 0\.05 s.*token_command"):
        await run_token_command(("/bin/sleep", "60"), "there")


async def test_the_last_words_of_a_failed_command_go_to_the_log_and_not_to_clients(caplog):
    key = "sk-ant-api03-" + "a1B2" * 20
    script = f"echo please log in as SECRETTOKEN-xyz, not {key} >&2; printf '\\033[2J' >&2; exit 3"
    with pytest.raises(ConfigError, match=r"'/bin/sh' failed \(3\); .*terminal") as raised:
        await run_token_command(("/bin/sh", "-c", script), "there")
    assert "SECRETTOKEN" not in str(raised.value)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    said = record.getMessage()
    assert "providers.there.token_command" in said
    assert "please log in as SECRETTOKEN-xyz" in said
    assert key not in said
    assert "\x1b" not in said


async def test_a_failed_command_without_words_logs_nothing(caplog):
    with pytest.raises(ConfigError, match=r"failed \(3\)"):
        await run_token_command(("/bin/sh", "-c", "exit 3"), "there")
    assert not caplog.records
