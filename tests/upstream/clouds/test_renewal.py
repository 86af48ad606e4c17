"""Credentials that expire, with a clock of the test's own."""

import asyncio
import os

import pytest

from toolbridge.config import ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.upstream.clouds import renewal
from toolbridge.upstream.clouds.endpoint import open_endpoint
from toolbridge.upstream.clouds.renewal import EARLY, Expiring, RenewedCredential
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.http_request import HttpRequest


class Source:
    """Fetches numbered credentials that live for `life` seconds."""

    def __init__(self, life: float = 3600.0) -> None:
        self.life = life
        self.now = 1000.0
        self.fetched = 0
        self.fails = False
        self.shared: RenewedCredential[int] = RenewedCredential(self.fetch, lambda: self.now)

    async def fetch(self) -> Expiring[int]:
        self.fetched += 1
        await asyncio.sleep(0)
        if self.fails:
            raise ConfigError("no")
        return Expiring(self.fetched, self.now + self.life)


async def test_requests_at_the_same_time_share_one_fetch():
    source = Source()
    assert await asyncio.gather(*(source.shared.get() for _ in range(20))) == [1] * 20
    assert source.fetched == 1


async def test_it_is_renewed_before_it_ends_once_for_all():
    source = Source()
    await source.shared.get()
    source.now += 3600 - EARLY - 1
    assert await source.shared.get() == 1
    source.now += 2
    assert await asyncio.gather(*(source.shared.get() for _ in range(20))) == [2] * 20
    assert source.fetched == 2


async def test_a_short_one_is_not_fetched_for_every_request():
    source = Source(life=100)
    await source.shared.get()
    source.now += 70
    assert await source.shared.get() == 1
    source.now += 10
    assert await source.shared.get() == 2


async def test_a_failed_renewal_is_not_seen_while_the_old_one_is_valid():
    source = Source()
    await source.shared.get()
    source.fails = True
    source.now += 3600 - EARLY + 1
    assert await source.shared.get() == 1
    assert await source.shared.get() == 1
    assert source.fetched == 2  # not tried again at once
    source.now += EARLY
    with pytest.raises(ConfigError):
        await source.shared.get()
    source.fails = False
    assert await source.shared.get() == 4


async def test_a_failed_first_fetch_is_raised_to_all_and_tried_again():
    source = Source()
    source.fails = True
    found = await asyncio.gather(*(source.shared.get() for _ in range(3)), return_exceptions=True)
    assert all(isinstance(one, ConfigError) for one in found)
    source.fails = False
    assert await source.shared.get() > 0


async def test_a_rejected_one_is_fetched_anew_unless_it_is_new():
    source = Source()
    assert not source.shared.forget()
    await source.shared.get()
    assert not source.shared.forget()
    source.now += 60
    assert source.shared.forget()
    assert not source.shared.forget()
    assert await source.shared.get() == 2


@pytest.mark.parametrize("cloud", ["bedrock", "mantle", "azure", "vertex"])
async def test_a_credential_that_a_cloud_rejects_is_fetched_anew(cloud, tmp_path, monkeypatch):
    """As `RequestSender` does after 401 and 403: sign, renew, sign again."""
    counted = tmp_path / "count"
    script = tmp_path / "token"
    script.write_text(
        f'#!/bin/sh\necho x >> {counted}\necho "token-$(wc -l < {counted} | tr -d " ")"\n'
    )
    script.chmod(0o700)
    provider_config = ProviderConfig(
        api="anthropic", cloud=cloud, token_command=[str(script)], region="us-east-1",
        project="p", url="https://cloud.example/{region}",
    )  # fmt: skip
    env = {"PATH": os.environ["PATH"]}
    asked = HttpRequest("/v1/messages", b'{"model":"claude","stream":true}', {})
    async with Upstream() as upstream:
        endpoint = open_endpoint("there", provider_config, upstream, env)
        first = await endpoint.sign("anthropic", "claude", asked)
        assert not endpoint.renew()  # it is new
        monkeypatch.setattr(renewal, "_FRESH", 0.0)
        assert endpoint.renew()
        second = await endpoint.sign("anthropic", "claude", asked)
    assert [one.headers["authorization"] for one in (first, second)] == [
        "Bearer token-1",
        "Bearer token-2",
    ]
