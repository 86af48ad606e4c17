"""One of three hosts is malicious: told once, run on the chain in this process and on a real one."""

import pytest
from tests.node.deployed import HOSTS, account
from tests.node.server import Scene
from tests.node.sessions import PATIENT, TEXT, prompt, told
from tests.node.stories import three_hosts

from toolbridge.core.messages import Message

EVIL = HOSTS[2]
"""It has the highest stake, so it ranks first."""
CUT = Scene(wrong="cut", pause=0.01)
FLOOD = Scene(("x" * 2**19,) * 48, obeys_limit=False)
ONCE = {
    "1e9": Scene(claims={"completion": 10**9}),
    "1e30": Scene(claims={"used": 1e30}),
    "-50": Scene(claims={"chunk": -50}),
    "0": Scene(("word ",) * 49, claims={"completion": 0, "used": 0, "chunk": 0}),
    "images": Scene(vlm_tokens=10**6),
}
"""What ends the relation at once."""
THRICE = {"hangs up": CUT, "24 MiB": FLOOD, "no seal": Scene(responds=False)}
"""What ends it when it is repeated."""


def as_promised(message: Message) -> bool:
    """Whether an answer is what a client may get: whole, cut at the limit, or an error."""
    if message.problem is not None:
        return TEXT.startswith(message.text)
    return message.usage.output <= 50 or message.stop == "length"


class Malicious:
    async def excluded(self, home, tmp_path) -> str:
        async with home.provider(tmp_path) as provider:
            found = await provider.hosts()
        assert len(found.candidates) + len(found.excluded) == 3
        return "".join(one.why for one in found.excluded if one.address == account(EVIL))

    @pytest.mark.parametrize("way", ONCE)
    async def test_a_liar_is_left_at_once_and_not_paid_again(self, home, tmp_path, way):
        async with three_hosts(home) as nodes:
            evil = nodes[2]
            evil.play(ONCE[way])
            pinned = {"host": account(EVIL)}
            async with home.provider(tmp_path, **pinned) as provider:
                message = await told(provider)
                assert as_promised(message), message
                assert "by our count" in str(message.losses) or "images" in str(message.losses)
            assert "is excluded until" in await self.excluded(home, tmp_path)
            async with home.provider(tmp_path) as provider:
                for _ in range(3):
                    assert (await told(provider)).text == TEXT
            assert len(evil.heard) == 1
            assert await home.jobs() == 2  # one deposit for the liar, one for an honest host

    @pytest.mark.parametrize("way", THRICE)
    async def test_what_is_repeated_three_times_excludes_a_host(self, home, tmp_path, way):
        async with three_hosts(home) as nodes:
            evil = nodes[2]
            for number in range(3):
                assert await self.excluded(home, tmp_path) == "", number
                evil.play(THRICE[way])
                async with home.provider(tmp_path, host=account(EVIL), waits=PATIENT) as provider:
                    assert as_promised(await told(provider, prompt(max_tokens=50)))
            assert "is excluded until" in await self.excluded(home, tmp_path)
            async with home.provider(tmp_path) as provider:
                assert (await told(provider)).text == TEXT
            assert len(evil.heard) == 3

    async def test_who_bills_more_than_was_delivered_is_named_and_excluded(self, home, tmp_path):
        async with three_hosts(home) as nodes:
            pinned = {"host": account(EVIL), "settle_after": 3600.0}
            async with home.provider(tmp_path, **pinned) as provider:
                assert (await told(provider)).text == TEXT
                await home.prove(EVIL, "1", 5000)
            async with home.provider(tmp_path) as provider:
                recovery = await provider.recovery()
                (settled,) = [one async for one in recovery.settle(1000)]
            assert (settled.billed, settled.delivered, settled.overbilled) == (5000, 3, True)
            why = await self.excluded(home, tmp_path)
            assert "it billed 5000 tokens for job 1 and delivered 3" in why
            async with home.provider(tmp_path) as provider:
                assert (await told(provider)).text == TEXT
            assert len(nodes[2].heard) == 1
