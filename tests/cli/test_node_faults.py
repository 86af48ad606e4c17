"""`toolbridge node` with wrong input: one line names the flag, variable or setting as the user wrote it."""

import pytest
from tests.cli.test_node import ADDRESS, FILE, KEY, LEAST, parsed
from tests.commands import run_beside as run

from toolbridge.cli import main
from toolbridge.cli.node import flags
from toolbridge.core.errors import ConfigError

# ── the provider ──


@pytest.mark.parametrize("name", ["mynod", "node", "Mine"])
def test_a_provider_that_does_not_exist_is_refused_with_those_of_the_file(clean, tmp_path, name):
    own = tmp_path / "config" / "toolbridge"
    own.mkdir(parents=True)
    (own / "toolbridge.toml").write_text(FILE)
    with pytest.raises(ConfigError) as raised:
        flags.choose(parsed("--provider", name))
    text = f"there is no node provider '{name}'; {own / 'toolbridge.toml'} has mine"
    assert str(raised.value) == text


def test_without_node_providers_only_the_default_name_means_flags_and_environment(clean):
    for variable, value in LEAST.items():
        clean.setenv(variable, value)
    with pytest.raises(ConfigError) as raised:
        flags.choose(parsed("--provider", "mine"))
    assert str(raised.value) == (
        "there is no node provider 'mine', because no configuration file is used; leave --provider "
        "out to use flags and environment only"
    )
    assert flags.choose(parsed("--provider", "node")).provider == "node"


def test_a_file_without_a_node_provider_is_not_shown_as_the_source(clean, tmp_path, capsys):
    own = tmp_path / "config" / "toolbridge"
    own.mkdir(parents=True)
    (own / "toolbridge.toml").write_text('[providers.other]\napi = "demo"\n')
    for variable, value in LEAST.items():
        clean.setenv(variable, value)
    flags.choose(parsed()).print_heading()
    assert "settings from flags and environment\n" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"'mine', because .*toolbridge\.toml has none; leave"):
        flags.choose(parsed("--provider", "mine"))


# ── flags, variables and the file ──


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--price=-1"], "--price must be a whole number from 0 to 9223372036854775807, not -1"),
        (["--sessions=0"], "--sessions must be a whole number from 1 to 64, not 0"),
        (["--confirmations=-1"], "--confirmations must be a whole number from 0 to 1000, not -1"),
        (["--deposit=0"], "--deposit is 0, so no session can be paid; set --deposit to an amount such as 0.0002"),
        (["--deposit=x"], "--deposit must be a decimal number such as 0.0002, not 'x'"),
        (["--deposit=1"], "--daily-limit is below one --deposit, so no session can be paid; raise --daily-limit"),
        (["--daily-gas=0"], "--daily-gas is 0, so no transaction can be sent; raise it"),
        (["--host=h"], "--host is not an address (0x and 40 hex digits): 'h'; put a URL into --host-url"),
        (["--rpc-url=ftp://x"], "--rpc-url must begin with http:// or https://"),
        (["--model=a"], "--model must be written as repo:file, not 'a'"),
        (["--private-key=0x12"], "--private-key is not a private key"),
        (["--private-key="], "--private-key is not a private key"),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_named_in_one_line(clean, capsys, given, text):
    for variable, value in LEAST.items():
        clean.setenv(variable, value)
    assert main(["node", "serve", *given]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"toolbridge: {text}")
    assert "providers." not in last


@pytest.mark.parametrize("digits", [74, 81])
def test_a_number_that_is_too_large_is_called_so(clean, capsys, digits):
    for variable, value in LEAST.items():
        clean.setenv(variable, value)
    assert main(["node", "serve", f"--deposit={'9' * digits}"]) == 2
    assert "toolbridge: --deposit is too large: " in capsys.readouterr().err
    assert main(["node", "serve", f"--price={'9' * digits}"]) == 2
    assert "toolbridge: --price must be a whole number from 0 to " in capsys.readouterr().err


def test_a_wrong_variable_is_named(clean):
    for variable, value in (LEAST | {"CLAUDE_BRIDGE_HOST": "h"}).items():
        clean.setenv(variable, value)
    with pytest.raises(ConfigError) as raised:
        flags.choose(parsed())
    assert str(raised.value).startswith("CLAUDE_BRIDGE_HOST is not an address")


@pytest.mark.parametrize(
    ("line", "given", "text"),
    [
        ("dailylimit = '1'", ["--daily-limit", "1"], "providers.mine.node: there is no setting `dailylimit`; did you mean `daily_limit`?"),
        ("price = -1", [], "providers.mine.node: `price` must be a whole number from 0 to 9223372036854775807, not -1"),
        ("price = -1", ["--price=-2"], "--price must be a whole number from 0 to 9223372036854775807, not -2"),
        ("daily_limit = '0.001'", ["--deposit=1"], "providers.mine.node: `daily_limit` is below one --deposit, so no session can be paid; raise `daily_limit`"),
        ("waits = { frist = 1 }", [], "providers.mine.node.waits: there is no setting `frist`; did you mean `first`?"),
    ],
)  # fmt: skip
def test_a_setting_of_the_file_is_named_with_its_table(clean, tmp_path, line, given, text):
    own = tmp_path / "config" / "toolbridge"
    own.mkdir(parents=True)
    (own / "toolbridge.toml").write_text(f"{FILE}{line}\n")
    clean.setenv("MY_KEY", KEY)
    with pytest.raises(ConfigError) as raised:
        flags.choose(parsed(*given))
    assert str(raised.value) == text


def test_a_wrong_key_that_was_typed_is_not_blamed_on_a_variable(clean):
    clean.setenv("CLAUDE_BRIDGE_MODEL", "a/b:c")
    clean.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda _: True})())
    clean.setattr("getpass.getpass", lambda _: "zz")
    with pytest.raises(ConfigError, match="the key that you typed is not a private key"):
        flags.choose(parsed())


# ── arguments of the commands ──

UNREACHABLE = {"CLAUDE_BRIDGE_RPC_URL": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["history", "--days=-3"], "--days must be more than 0, not -3"),
        (["history", "--days=0"], "--days must be more than 0, not 0"),
        (["history", "--days=nan"], "--days must be more than 0, not nan"),
        (["hosts", "--forget", "zz"], "--forget needs the address of a host (0x and 40 hex digits), not 'zz'"),
        (["settle", "--blocks=-1"], "--blocks must be at least 1, not -1"),
        (["settle", "--blocks=0"], "--blocks must be at least 1, not 0"),
        (["transactions", "--raise", "zz"], "--raise needs the hash of a transaction (0x and 64 hex digits), not 'zz'"),
        (["transactions", "--cancel", ADDRESS], f"--cancel needs the hash of a transaction (0x and 64 hex digits), not '{ADDRESS}'"),
        (["transactions", "--forget", ""], "--forget needs the hash of a transaction (0x and 64 hex digits), not ''"),
        (["limit", "--day", "9" * 26], f"--day is too large: '{'9' * 26}'"),
        (["limit", "--job", "5", "--day", "1"], "--job is 5 ETH, more than the cap of 1 ETH per day; lower --job or raise --day"),
        (["limit", "--job", "0.02"], "--job is 0.02 ETH, more than the cap of 0.01 ETH per day; lower --job or raise --day"),
    ],
)  # fmt: skip
async def test_a_wrong_argument_is_refused_before_the_chain_is_contacted(env, given, text):
    status, out, err = await run(env | LEAST | UNREACHABLE, "node", *given)
    assert (status, out) == (2, "")
    assert err.startswith(f"toolbridge: {text}")
    assert len(err.splitlines()) == 1


async def test_the_heading_has_the_caps_that_were_just_set(env):
    env |= LEAST | UNREACHABLE
    status, out, err = await run(env, "node", "limit", "--day", "0.5", "--job", "0.1")
    assert (status, "0.5 ETH per day, 0.1 ETH per job (set by you)" in out) == (0, True), err
    assert "hard cap of the account: 0.5 ETH per day, 0.1 ETH per job" in err
    status, _, err = await run(env, "node", "limit", "--day", "0.05")
    assert (status, "0.05 ETH per day, 0.1 ETH per job" in err) == (0, True), err
