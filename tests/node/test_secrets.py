"""After a whole run with everything that can go wrong, the key that pays stands nowhere."""

import asyncio
import base64
import gc
import signal
import sys
from hashlib import sha256

import pytest
from tests.commands import run_beside
from tests.node.deployed import MODEL, deployed
from tests.node.gateways import ask, body, works
from tests.node.local_chain import local_chain
from tests.node.server import HOST, Scene, running
from tests.peers import gateway
from tests.waiting import until

from toolbridge import trust
from toolbridge.config import Config, ProviderConfig
from toolbridge.node.protocol.encryption import Secret

WALLET = Secret(sha256(b"the key that this test pays with").digest())


def spellings(key: Secret) -> list[bytes]:
    """Return the ways in which a key could have been written down."""
    raw = key.reveal()
    number = int.from_bytes(raw, "big")
    texts = [
        raw.hex(), raw.hex().upper(), str(number), base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="), raw.hex()[:20], raw.hex()[-20:],
        repr(raw)[2:-1], ", ".join(map(str, raw)), str(int.from_bytes(raw, "little")),
    ]  # fmt: skip
    return [raw, *(text.encode() for text in texts)]


def leaks(data: bytes) -> list[bytes]:
    return [spelling for spelling in spellings(WALLET) if spelling in data]


def test_the_search_finds_what_it_looks_for():
    raw = WALLET.reveal()
    shown = f"0x{raw.hex()} {int(raw.hex(), 16)} {raw!r} {list(raw)} ".encode()
    for text in (shown, base64.b64encode(raw), raw):
        assert leaks(text)
    assert not leaks(b"nothing of it")


def table(chain, network) -> dict:
    return {
        "model": MODEL, "network": "", "chain_id": network.chain_id, "rpc_url": chain.url,
        "marketplace": network.marketplace, "registry": network.registry,
        "multicall": network.multicall, "seed": 1,
    }  # fmt: skip


def toml(table: dict) -> str:
    lines = [f"{k} = {v}" if isinstance(v, int) else f'{k} = "{v}"' for k, v in table.items()]
    waits = "waits = { connect = 1, init = 3, first = 3, next = 3, grace = 0.2, pay = 3 }"
    return "\n".join(['[providers.mine]\napi = "node"\n[providers.mine.node]', *lines, waits])


async def misfortunes(url: str, node, chain, said: list[bytes]) -> None:
    """Let everything go wrong that can; keep whatever a client gets to read."""

    async def note(**more) -> None:
        said.append(repr(await ask(url, body(**more), wait=30)).encode())

    chain.faults["*"] = ["down"] * 30
    await note()
    chain.faults.clear()
    chain.faults["eth_sendRawTransaction"] = ["nonce too low"]
    await note()
    chain.faults.clear()
    await works(url)
    for wrong in ("flip", "cut", "engine", "picture", "nothing"):
        node.play(Scene(wrong=wrong, pause=0.01))
        await note()
        await note(stream=False)
    node.restart()
    await note(model="mine/other")
    await note(max_tokens=0)
    await note()


@pytest.mark.parametrize("how", ["env", "file", "flag"])
async def test_the_key_stands_in_no_log_no_answer_and_no_file(env, tmp_path, how):
    async with local_chain() as chain, deployed(chain.url) as world, running() as node:
        await world.register(HOST, node.url)
        await world.give(WALLET)
        (tmp_path / "toolbridge.toml").write_text(toml(table(chain, world.network)))
        trust.allow(tmp_path / "toolbridge.toml", env)
        given = ["--config", str(tmp_path / "toolbridge.toml")]
        text = WALLET.reveal().hex()
        if how == "env":
            env["CLAUDE_BRIDGE_PRIVATE_KEY"] = f"0x{text}"
        elif how == "flag":
            given += ["--private-key", text]
        else:
            file = tmp_path / "keys" / "node.key"
            file.parent.mkdir()
            file.write_text(text)
            file.chmod(0o600)
            given += ["--key-file", str(file)]
        said: list[bytes] = []
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-X", "dev", "-m", "toolbridge", "node", "serve", "--port", "0",
            "--log", "json", *given, env=env | {"PYTHONWARNINGS": "default"},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        log = asyncio.create_task(process.stderr.read())
        try:
            line = b""
            async with asyncio.timeout(120):
                while b" at http://" not in line:
                    line = await process.stdout.readline()
                    assert line, "the gateway has ended"
                    said.append(line)
            await misfortunes(line.split()[-1].decode(), node, chain, said)
        finally:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(120):
                said.append(await process.stdout.read())
                said.append(await log)
                await process.wait()
        commands = ["balance", "limit", "settle", "withdraw", "transactions", "history", "hosts"]
        for command in commands:
            said += await _run(env, "node", command, *given)
        said += await _run(env, "node", "serve", "--dry-run", *given)
        assert await world.jobs() > 0
        assert b"mine" in b"".join(said)
        assert b'"error.type"' in b"".join(said)  # there was something to log
    assert not leaks(b"".join(said))
    written = [p for p in tmp_path.rglob("*") if p.is_file() and p.parent.name != "keys"]
    assert any(p.suffix == ".sqlite" for p in written)
    assert {p for p in written if leaks(p.read_bytes())} == set()


async def _run(env: dict, *given: str) -> list[bytes]:
    _, out, err = await run_beside(env, *given)
    return [out.encode(), err.encode()]


@pytest.fixture
def env(tmp_path):
    return {
        "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"), "OLLAMA_HOST": "127.0.0.1:1",
    }  # fmt: skip


async def test_no_object_of_ours_shows_the_key(tmp_path, capsys):
    async with local_chain() as chain, deployed(chain.url) as world, running() as node:
        await world.register(HOST, node.url)
        await world.give(WALLET)
        file = tmp_path / "key"
        file.write_text(WALLET.reveal().hex())
        file.chmod(0o600)
        provider = ProviderConfig(api="node", key=f"file:{file}", node=table(chain, world.network))
        config = Config(log="json", providers={"mine": provider})
        async with gateway(config, {"XDG_STATE_HOME": str(tmp_path / "state")}) as (url, _):
            await works(url)
            node.play(Scene(wrong="flip", pause=0.01))
            await ask(url)
            await until(lambda: not node.writing)
            shown = [repr(one) for one in gc.get_objects() if _is_ours(one)]
    assert len(shown) > 20
    assert not leaks("\n".join(shown).encode())
    assert not leaks("".join(capsys.readouterr()).encode())


def _is_ours(one: object) -> bool:
    return str(type(one).__module__).startswith("toolbridge.")
