"""Credentials that expire, with a clock of the test's own."""

import asyncio

import pytest

from toolbridge.core.errors import ConfigError
from toolbridge.upstream.clouds.renewal import EARLY, Expiring, RenewedCredential


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
