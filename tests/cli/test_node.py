"""`toolbridge node`: what flags, variables and files amount to, and the commands as people run them."""

import argparse
import asyncio
import json
import os
import re
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.commands import run_beside as run
from tests.node.deployed import MODEL as CHAIN_MODEL
from tests.node.deployed import PAYER, account, deployed
from tests.node.gateways import MODEL, PUBLIC, ask, works
from tests.node.local_chain import local_chain
from tests.node.server import HOST, Scene, running
from tests.waiting import until

from toolbridge import trust
from toolbridge.cli import main
from toolbridge.cli.node import env_file, flags, serve
from toolbridge.core.errors import ConfigError
from toolbridge.node.hosts.candidates import NATIVE_PER_STABLE
from toolbridge.node.protocol.encryption import Secret
from toolbridge.routing.nodes import read_key

KEY = "c3" * 32
ADDRESS = "0x" + "ab" * 20


def parsed(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.arguments(parser)
    return parser.parse_args(given)


def seen(chosen: flags.NodeChoice) -> dict[str, object]:
    """Return everything that a variable or a flag can change, as it is in force."""
    settings = chosen.settings
    names = (
        "model", "host", "host_url", "chain_id", "rpc_url", "deposit", "localhost_override",
        "mode", "daily_limit", "daily_gas", "price", "confirmations", "sessions", "seed", "pay",
    )  # fmt: skip
    found = {name: getattr(settings, name) for name in names}
    found |= {"port": chosen.config.port, "api_key": chosen.config.key}
    found["key"] = read_key(chosen.provider, chosen.provider_config, chosen.env)
    return found


# ── variables and flags ──

ENV = {
    "CLAUDE_BRIDGE_PORT": ("4001", "port", 4001),
    "CLAUDE_BRIDGE_PRIVATE_KEY": (KEY, "key", Secret.from_hex(KEY)),
    "CLAUDE_BRIDGE_HOST": (ADDRESS, "host", ADDRESS),
    "CLAUDE_BRIDGE_MODEL": ("a/b:c", "model", "a/b:c"),
    "CLAUDE_BRIDGE_RPC_URL": ("http://127.0.0.1:9", "rpc_url", "http://127.0.0.1:9"),
    "CLAUDE_BRIDGE_CHAIN_ID": ("8453", "chain_id", 8453),
    "CLAUDE_BRIDGE_DEPOSIT": ("0.0003", "deposit", "0.0003"),
    "CLAUDE_BRIDGE_API_KEY": ("word", "api_key", "word"),
    "CLAUDE_BRIDGE_LOCALHOST_OVERRIDE": ("docker", "localhost_override", "docker"),
}
FLAGS = {
    "--port": ("4002", "port", 4002),
    "--private-key": ("0x" + "d4" * 32, "key", Secret.from_hex("d4" * 32)),
    "--host": ("0x" + "cd" * 20, "host", "0x" + "cd" * 20),
    "--host-url": ("http://h:1", "host_url", "http://h:1"),
    "--model": ("d/e:f", "model", "d/e:f"),
    "--chain-id": ("5611", "chain_id", 5611),
    "--deposit": ("0.0004", "deposit", "0.0004"),
    "--rpc-url": ("http://127.0.0.1:8", "rpc_url", "http://127.0.0.1:8"),
    "--api-key": ("other", "api_key", "other"),
    "--mode": ("cheapest", "mode", "cheapest"),
    "--daily-limit": ("0.05", "daily_limit", "0.05"),
    "--sessions": ("3", "sessions", 3),
    "--seed": ("7", "seed", 7),
    "--pay": ("token", "pay", "token"),
    "--price": ("77", "price", 77),
    "--daily-gas": ("0.5", "daily_gas", "0.5"),
    "--confirmations": ("3", "confirmations", 3),
}
LEAST = {"CLAUDE_BRIDGE_MODEL": "a/b:c", "CLAUDE_BRIDGE_PRIVATE_KEY": KEY}


@pytest.mark.req("CB-08")
@pytest.mark.parametrize("name", ENV)
def test_every_variable_takes_effect(clean, name):
    for variable, value in LEAST.items():
        clean.setenv(variable, value)
    before = seen(flags.choose(parsed()))
    value, what, expected = ENV[name]
    clean.setenv(name, value)
    after = seen(flags.choose(parsed()))
    assert after[what] == expected
    changed = {key for key in after if after[key] != before[key]}
    assert changed == (set() if name in LEAST else {what})


@pytest.mark.req("CB-28")
@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_takes_effect_and_goes_before_the_environment(clean, flag):
    for variable, (value, _, _) in ENV.items():
        clean.setenv(variable, value)
    before = seen(flags.choose(parsed()))
    value, what, expected = FLAGS[flag]
    after = seen(flags.choose(parsed(flag, value)))
    assert after[what] == expected != before[what]
    assert {key for key in after if after[key] != before[key]} == {what}


@pytest.mark.req("CB-06")
def test_the_defaults_are_those_of_the_bridge(clean):
    for variable, value in LEAST.items():
        clean.setenv(variable, value)
    chosen = flags.choose(parsed())
    settings = chosen.settings
    assert chosen.config.port == 3456
    assert (settings.chain.chain_id, settings.deposit_amount) == (84532, 2 * 10**14)
    assert (settings.proof_interval, settings.duration) == (100, 86400)
    assert settings.highest_price == 5000 * NATIVE_PER_STABLE
    assert flags.choose(parsed("--pay", "token")).settings.highest_price == 5000


@pytest.mark.req("CB-28", "CB-08")
def test_an_env_file_is_read_and_what_is_set_already_stays(clean, tmp_path):
    file = tmp_path / "node.env"
    file.write_text(
        f'# money\nexport CLAUDE_BRIDGE_PRIVATE_KEY="{KEY}"\nCLAUDE_BRIDGE_MODEL=a/b:c # mine\n'
        "CLAUDE_BRIDGE_DEPOSIT='0.0005'\n\nCLAUDE_BRIDGE_PORT = 4003\n"
    )
    file.chmod(0o600)
    clean.setenv("CLAUDE_BRIDGE_DEPOSIT", "0.0006")
    found = seen(flags.choose(parsed("--env-file", str(file))))
    assert (found["model"], found["port"], found["deposit"]) == ("a/b:c", 4003, "0.0006")
    assert found["key"] == Secret.from_hex(KEY)


def test_an_env_file_with_a_key_that_others_can_read_is_refused(clean, tmp_path):
    file = tmp_path / "node.env"
    file.write_text(f"CLAUDE_BRIDGE_PRIVATE_KEY={KEY}\n")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600") as raised:
        flags.choose(parsed("--env-file", str(file)))
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1", "1"),
        ("A = 1 ", "1"),
        ("export A=1", "1"),
        ('A="x # y"', "x # y"),
        ("A='x\\n'", "x\\n"),
        ('A="x\\ny"', "x\ny"),
        ('A="x" # y', "x"),
        ("A=x#y", "x#y"),
        ("A=", ""),
        ("\ufeffB=2\nA=1", "1"),
    ],
)
def test_lines_of_an_env_file(tmp_path, text, expected):
    file = tmp_path / "env"
    file.write_text(text, "utf-8")
    assert env_file.read_env_file(file)["A"] == expected


@pytest.mark.parametrize("text", ["Axy", "=1", '1A="2"', 'A="x'])
def test_a_line_that_is_none_is_named_by_its_number_alone(tmp_path, text):
    file = tmp_path / "env"
    file.write_text(f"B=1\n{text}\n")
    with pytest.raises(ConfigError, match="line 2") as raised:
        env_file.read_env_file(file)
    assert text not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), (b"\xff\xfe\xff", "not a text file")]
)
def test_an_env_file_that_cannot_be_read_is_said(tmp_path, content, why):
    file = tmp_path / "env"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=why):
        env_file.read_env_file(file)


# ── the key ──


@pytest.mark.req("CB-07")
@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"CLAUDE_BRIDGE_MODEL": "a/b:c"}, "CLAUDE_BRIDGE_PRIVATE_KEY"),
        ({"CLAUDE_BRIDGE_PRIVATE_KEY": KEY}, "CLAUDE_BRIDGE_MODEL"),
        ({"CLAUDE_BRIDGE_PRIVATE_KEY": "zz", "CLAUDE_BRIDGE_MODEL": "a/b:c"}, "64 hex digits"),
        ({"CLAUDE_BRIDGE_PRIVATE_KEY": KEY, "CLAUDE_BRIDGE_MODEL": "a"}, "repo:file"),
    ],
)
def test_without_a_key_or_a_model_it_is_refused_at_once(clean, capsys, env, words):
    for name, value in env.items():
        clean.setenv(name, value)
    assert main(["node", "serve"]) == 1
    said = capsys.readouterr()
    assert words in said.err
    assert "http://" not in said.out
    assert KEY not in said.err


@pytest.mark.req("CB-28")
def test_a_key_on_the_command_line_works_but_warns(clean, capsys):
    clean.setenv("CLAUDE_BRIDGE_MODEL", "a/b:c")
    chosen = flags.choose(parsed("--private-key", KEY))
    assert seen(chosen)["key"] == Secret.from_hex(KEY)
    warning = capsys.readouterr().err
    assert "CLAUDE_BRIDGE_PRIVATE_KEY or --key-file instead" in warning
    assert KEY not in warning
    assert KEY not in repr(chosen)


@pytest.mark.parametrize(("mode", "taken"), [(0o600, True), (0o400, True), (0o640, False)])
def test_a_key_file_is_taken_when_nobody_else_can_read_it(clean, tmp_path, mode, taken):
    clean.setenv("CLAUDE_BRIDGE_MODEL", "a/b:c")
    clean.setenv("CLAUDE_BRIDGE_PRIVATE_KEY", "d4" * 32)
    file = tmp_path / "key"
    file.write_text(f"0x{KEY}\n")
    file.chmod(mode)
    if taken:
        assert seen(flags.choose(parsed("--key-file", str(file))))["key"] == Secret.from_hex(KEY)
    else:
        with pytest.raises(ConfigError, match="chmod 600"):
            flags.choose(parsed("--key-file", str(file)))


def test_a_person_is_asked_for_the_key_and_it_is_not_shown(clean, capsys):
    clean.setenv("CLAUDE_BRIDGE_MODEL", "a/b:c")
    clean.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda _: True})())
    asked = []
    clean.setattr("getpass.getpass", lambda words: asked.append(words) or KEY)
    assert seen(flags.choose(parsed()))["key"] == Secret.from_hex(KEY)
    assert len(asked) == 1
    assert KEY not in "".join(capsys.readouterr())


# ── the file ──

FILE = """
[providers.other]
api = "demo"
[providers.mine]
api = "node"
key = "$MY_KEY"
[providers.mine.node]
model = "a/b:c"
deposit = "0.0007"
"""


def test_the_file_goes_before_defaults_and_behind_the_environment(clean, tmp_path):
    (tmp_path / "toolbridge.toml").write_text(FILE)
    trust.allow(tmp_path / "toolbridge.toml", os.environ)
    clean.setenv("TOOLBRIDGE_CONFIG", "toolbridge.toml")
    clean.setenv("MY_KEY", KEY)
    chosen = flags.choose(parsed())
    assert chosen.provider == "mine"
    assert seen(chosen)["deposit"] == "0.0007"
    assert seen(chosen)["key"] == Secret.from_hex(KEY)
    assert chosen.config.map["default"] == "mine/a/b:c"
    clean.setenv("CLAUDE_BRIDGE_DEPOSIT", "0.0008")
    assert seen(flags.choose(parsed()))["deposit"] == "0.0008"


def test_a_provider_that_is_no_node_is_not_taken_for_one(clean, tmp_path):
    (tmp_path / "toolbridge.toml").write_text(FILE)
    trust.allow(tmp_path / "toolbridge.toml", os.environ)
    clean.setenv("TOOLBRIDGE_CONFIG", "toolbridge.toml")
    with pytest.raises(ConfigError, match=r'providers.other: .*api = "node"'):
        flags.choose(parsed("--provider", "other"))


# ── as people run it ──


@asynccontextmanager
async def started(env, *given: str):
    """Run a command that serves; yield its process, its URL and all that it said until then."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "toolbridge", *given, env=env,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said = ""
    try:
        async with asyncio.timeout(30):
            while "Stop with Ctrl-C" not in said:
                line = await process.stdout.readline()
                assert line, said
                said += line.decode()
        yield process, re.search(r" at (http://\S+)", said)[1], said
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.req("CB-27", "CB-28")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_node_is_served_until_a_signal_and_hung_up_on(env, number):
    async with running() as node:
        given = ["--model", MODEL, "--host-url", node.url, "--host-key", PUBLIC, "--port", "0"]
        async with started(env, "node", "serve", *given) as (process, url, said):
            assert f"export ANTHROPIC_BASE_URL={url}" in said
            assert "nothing is paid" in said
            await works(url)
            process.send_signal(number)
            async with asyncio.timeout(20):
                assert await process.wait() == 0
        await until(lambda: node.closed)  # the process may end first
        assert node.closed == [1000]


@pytest.mark.req("CB-25", "CB-28")
async def test_the_key_for_clients_is_asked_of_them(env):
    async with running() as node:
        given = ["--model", MODEL, "--host-url", node.url, "--host-key", PUBLIC, "--port", "0"]
        async with started(env, "node", "serve", *given, "--api-key", "word") as (_, url, said):
            assert "set TOOLBRIDGE_KEY" in said
            assert (await ask(url)).status == 401


@asynccontextmanager
async def chained(env):
    """A chain with a host, and an environment in which commands find both."""
    async with local_chain() as chain, deployed(chain.url) as world, running() as node:
        await world.register(HOST, node.url)
        network = world.network
        file = f"""
[providers.mine]
api = "node"
[providers.mine.node]
model = "{CHAIN_MODEL}"
network = ""
chain_id = {network.chain_id}
rpc_url = "{chain.url}"
marketplace = "{network.marketplace}"
registry = "{network.registry}"
multicall = "{network.multicall}"
token = "{network.token}"
"""
        folder = Path(env["XDG_CONFIG_HOME"]) / "toolbridge"
        folder.mkdir(parents=True)
        (folder / "toolbridge.toml").write_text(file)
        yield env | {"CLAUDE_BRIDGE_PRIVATE_KEY": PAYER.reveal().hex()}, world, node


@pytest.mark.req("CB-18", "CB-19", "CB-28")
async def test_a_life_on_a_chain_from_the_command_line(env):
    async with chained(env) as (env, world, node):
        status, out, err = await run(env, "node", "hosts")
        assert status == 0, err
        head, row = out.splitlines()
        assert head.split() == ["score", "price", "stake", "latency", "host", "url"]
        assert (account(HOST) in row, node.url in row) == (True, True)
        assert "0.000000003 ETH/M" in row
        assert "1000 FAB" in row
        assert " ms " in row

        status, out, err = await run(env, "node", "hosts", "--json", "--no-latency")
        (host,) = json.loads(out)["hosts"]
        assert (host["address"], host["latency"]) == (account(HOST), None)

        status, out, err = await run(env, "node", "serve", "--dry-run")
        assert (status, await world.jobs()) == (0, 0), err
        assert account(HOST) in out
        assert "createSessionJobForModel" in out
        assert "0.0002 ETH" in out

        async with started(env, "node", "serve", "--port", "0") as (process, url, said):
            assert "0.0002 ETH per session, at most 0.002 ETH in 24 hours" in said
            assert f"account {account(PAYER)} pays the contract {world.network.marketplace}" in said
            assert "(chain 84532)" in said
            assert "hard cap of the account: 0.01 ETH per day, 0.002 ETH per job" in said
            assert str(Path(env["XDG_CONFIG_HOME"]) / "toolbridge" / "toolbridge.toml") in said
            await works(url)
            assert await world.jobs() == 1
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        await until(lambda: node.closed)  # the process may end first
        assert node.closed == [1000]

        status, out, err = await run(env, "node", "balance")
        assert status == 0, err
        assert account(PAYER) in out
        assert "0.0002 ETH of 0.002 ETH" in out
        assert "open job     1" in out
        status, out, err = await run(env, "node", "settle")
        assert status == 0, err
        assert out.startswith("job 1: settled in transaction 0x")
        status, out, err = await run(env, "node", "balance", "--json")
        assert json.loads(out)["open_jobs"] == []
        assert (await run(env, "node", "settle"))[1] == "no open jobs\n"


async def test_doctor_and_models_know_nodes(env):
    async with chained(env) as (env, world, _):
        status, out, _ = await run(env, "models")
        assert status == 0
        assert f"tiny-model.Q4  →  mine/{CHAIN_MODEL}  (default)" in out
        status, out, _ = await run(env, "doctor")
        assert "ok    mine has hosts" in out
        assert f"ok    default → mine/{CHAIN_MODEL}" in out
        await world.set_active(HOST, False)
        status, out, _ = await run(env, "doctor")
        assert status == 1
        assert "BAD   mine: no host" in out
        del env["CLAUDE_BRIDGE_PRIVATE_KEY"]
        status, out, _ = await run(env, "doctor")
        assert "BAD   mine: no private key" in out


async def test_hosts_that_cannot_be_used_are_named_with_the_reason(env):
    async with chained(env) as (env, world, _):
        await world.set_active(HOST, False)
        status, out, _ = await run(env, "node", "hosts")
        assert status == 1
        assert f"excluded {account(HOST)}: it is not active" in out


async def test_a_host_that_claims_too_much_is_excluded_until_it_is_forgotten(env):
    async with chained(env) as (env, _, node):
        node.play(Scene(claims={"completion": 10**9}))
        async with started(env, "node", "serve", "--port", "0") as (process, url, _):
            await works(url)
            await until(lambda: node.closed)
            process.send_signal(signal.SIGTERM)
            await process.wait()
        status, out, _ = await run(env, "node", "hosts")
        assert status == 1
        assert f"excluded {account(HOST)}: it is excluded until 20" in out
        assert "claims 1000000000 tokens for an answer of 3 tokens by our count" in out
        status, out, _ = await run(env, "node", "hosts", "--forget", account(HOST).lower())
        assert out == f"1 recorded faults of {account(HOST).lower()} are deleted\n"
        assert (await run(env, "node", "hosts"))[0] == 0


async def test_one_question_in_the_terminal_is_answered_by_a_node_and_hangs_up(env):
    async with running() as node:
        folder = Path(env["XDG_CONFIG_HOME"]) / "toolbridge"
        folder.mkdir(parents=True)
        (folder / "toolbridge.toml").write_text(
            f'[providers.mine]\napi = "node"\n[providers.mine.node]\nmodel = "{MODEL}"\n'
            f'host_url = "{node.url}"\nhost_key = "{PUBLIC}"\n'
        )
        status, out, err = await run(env, "ask", "why is the sky blue")
        assert (status, out) == (0, "Hello, world\n"), err
        await until(lambda: node.closed)  # the process may end first
        assert node.closed == [1000]
        status, out, _ = await run(env, "doctor")
        assert "ok    mine has hosts" in out
    status, out, _ = await run(env, "doctor")
    assert status == 1
    assert "it cannot be reached" in out


@pytest.mark.parametrize("part", ["hosts", "balance", "settle"])
async def test_a_chain_that_cannot_be_reached_is_said_in_one_line(env, part):
    env |= LEAST | {"CLAUDE_BRIDGE_RPC_URL": "http://127.0.0.1:1"}
    status, out, err = await run(env, "node", part)
    assert (status, out) == (1, "")
    *heading, last = err.splitlines()
    assert last.startswith("toolbridge: ")
    assert not any(line.startswith("toolbridge: ") for line in heading)
    assert "127.0.0.1:1" in last
    assert KEY not in err


@pytest.mark.parametrize("given", [[], ["host"], ["serve", "--nosuch"]])
def test_a_wrong_part_or_flag_is_refused(given):
    with pytest.raises(SystemExit) as left:
        main(["node", *given])
    assert left.value.code == 2
