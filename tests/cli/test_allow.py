"""`toolbridge allow` shows where a file sends money, and refuses a file that node commands refuse."""

import pytest
from tests.commands import run_command

CONTRACT, HOST, TOKEN = "0x" + "e1" * 20, "0x" + "ab" * 20, "0x" + "70" * 20
NODE = '[providers.mynode]\napi = "node"\n[providers.mynode.node]\n'
PUBLIC = "024bc2a31265153f07e70e0bab08724e6b85e217f8cd628ceb62974247bb493382"


@pytest.fixture
def allow(env, tmp_path):
    """Return a function that allows a file with this text; its result is status, output and errors."""

    def run(text: str, **more: str):
        file = tmp_path / "toolbridge.toml"
        file.write_text(text)
        file.chmod(0o644)
        done = run_command(env | more, "allow", str(file))
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def test_all_that_decides_where_money_goes_is_shown(allow):
    status, out, err = allow(
        f"""{NODE}marketplace = "{CONTRACT}"
rpc_url = "https://user:word@evil.example/v2/apikey"
pay = "token"
token = "{TOKEN}"
deposit = "7"
daily_limit = "70"
allow = ["{HOST}"]
deny = ["{TOKEN}"]
"""
    )
    assert status == 0, err
    assert "provider mynode: node and may spend money" in out
    assert "network base-sepolia, chain 84532" in out
    assert f"pays the contract {CONTRACT} (set by the file)" in out
    assert "through the server evil.example (set by the file)" in out
    assert f"in the token {TOKEN} (set by the file)" in out
    assert "7 token 0x7070…7070 per session, at most 70 token" in out
    assert f"hosts that may be used: {HOST}" in out
    assert f"hosts that are not used: {TOKEN}" in out
    assert "apikey" not in out + err
    assert "word" not in out + err


def test_defaults_are_shown_too(allow):
    status, out, err = allow('[providers.mynode]\napi = "node"\n')
    assert status == 0, err
    assert "and may spend money" in out
    assert "0.0002 ETH per session, at most 0.002 ETH and 0.001 ETH of gas in 24 hours" in out
    assert "every registered host may be used" in out
    assert "set by the file" not in out


def test_a_direct_host_costs_nothing_and_is_shown(allow):
    status, out, err = allow(f'{NODE}host_url = "http://h:1"\nhost_key = "{PUBLIC}"\n')
    assert status == 0, err
    assert "spend" not in out
    assert "nothing is paid" in out
    assert "the host is reached at http://h:1" in out


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('allow = ["0x123"]', "`allow` has '0x123', which is not an address"),
        ('dailylimit = "1"', "did you mean `daily_limit`?"),
        ("waits = { frist = 1 }", "did you mean `first`?"),
        ('marketplace = "0x12"', "`marketplace` is not an address"),
    ],
)  # fmt: skip
def test_a_fault_is_reported_and_nothing_is_allowed(allow, env, tmp_path, line, text):
    assert allow(NODE)[0] == 0  # an earlier permission
    status, out, err = allow(f"{NODE}{line}\n")
    assert (status, out) == (1, "")
    assert "providers.mynode.node" in err
    assert text in err
    forgotten = run_command(env, "allow", "--forget", str(tmp_path / "toolbridge.toml"))
    assert b"was not allowed" in forgotten.stdout


def test_variables_fill_what_the_table_leaves_out(allow):
    table = f'{NODE}network = ""\nchain_id = 5\nmarketplace = "{CONTRACT}"\nregistry = "{HOST}"\n'
    status, _, err = allow(table)
    assert (status, "`rpc_url` is not set" in err) == (1, True)
    status, out, err = allow(table, CLAUDE_BRIDGE_RPC_URL="http://127.0.0.1:1")
    assert (status, "through the server 127.0.0.1:1\n" in out) == (0, True), err


def test_escapes_of_a_file_are_never_printed(allow):
    status, out, _ = allow('[map]\n"a\\u001b[2J" = "x/y"\n')
    assert (status, "\x1b" in out) == (0, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[providers.groc]\nkey = "$X"\n', ("providers.groc: needs `api`", "did you mean [providers.groq]?", "line 1")),
        ('[providers.groq]\napi = "opnai_chat"\n', ("providers.groq.api: ", "did you mean `openai_chat`?", "line 2")),
        ('[providers.box]\nurl = "http://box:1"\n', ("providers.box: needs `api`",)),
        ('[map]\ndefault = "grok/m"\n[models."groc/m"]\nwindow = 1\n', ("models.groc/m: there is no provider",)),
    ],
)  # fmt: skip
def test_a_file_with_which_serve_would_not_start_is_not_allowed(allow, env, tmp_path, text, words):
    status, out, err = allow(text)
    assert (status, out) == (1, "")
    assert all(word in err for word in (f"{tmp_path}/toolbridge.toml", *words)), err
    assert b"you have not allowed it" in run_command(env, "models", cwd=tmp_path).stderr


def test_an_address_without_a_provider_gets_the_nearest_one(allow):
    status, out, _ = allow('[map]\ndefault = "groc/llama"\nsonnet = "meta-llama/m"\n')
    assert status == 0
    assert "default → groc/llama\n    there is no provider 'groc'; did you mean 'groq'?\n" in out
    assert out.count("did you mean") == 1
