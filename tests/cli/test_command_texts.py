"""What a person reads after a typing error: the fault, its place, and the way out."""

import asyncio
import socket
from contextlib import closing
from pathlib import Path

import pytest
from tests.commands import run_beside, run_command
from tests.peers import gateway

from toolbridge.cli import COMMANDS, main


def failed(env, *args: str, given: bytes = b"", status: int = 0) -> str:
    """Run a command that must fail with one error and no traceback; return the error.

    Without a `status` it is 2 for an error that names a flag, and 1 for any other.
    """
    done = run_command(env, *args, given=given, cwd=Path(env["HOME"]))
    text = done.stderr.decode()
    assert done.returncode == (status or (2 if "toolbridge: -" in text else 1)), text
    assert "Traceback" not in text
    assert "Errno" not in text
    return text


def closed_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


# ── files ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "command",
    [
        ("heal", "--schema", "gone.json"),
        ("read", "--tools", "gone.json"),
        ("import", "gone.json"),
        ("replay", "gone.json"),
    ],
    ids=lambda command: command[0],
)
def test_a_missing_file_is_named_without_a_number_of_the_system(env, command):
    assert "there is no file gone.json" in failed(env, *command)


@pytest.mark.parametrize("command", [("heal", "--schema"), ("read", "--tools"), ("import",)])
def test_a_folder_in_place_of_a_file_is_named(env, tmp_path, command):
    assert f"{tmp_path}: cannot be read: Is a directory" in failed(env, *command, str(tmp_path))


@pytest.mark.parametrize(
    "command", [("init",), ("import", "--write", "ccr.json")], ids=lambda command: command[0]
)
def test_a_file_that_cannot_be_written_is_named_and_not_its_temporary_name(env, tmp_path, command):
    (tmp_path / "ccr.json").write_text(
        '{"Providers": [{"name": "o", "api_base_url": "http://127.0.0.1:1/v1/chat/completions", '
        '"api_key": "$K", "models": ["m"]}], "Router": {"default": "o,m"}}'
    )
    text = failed(env, *command, "--path", str(tmp_path / "gone/x.toml"))
    assert f"{tmp_path}/gone/x.toml cannot be written: there is no directory" in text


def test_a_run_or_recording_that_is_missing_is_named_as_either(env):
    text = failed(env, "replay", "recordng")
    assert "there is no file recordng" in text
    assert "no run whose id begins with run_recordng" in text


# ── words ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "nearest"),
    [
        (("serve", "--prot", "1"), "--port"),
        (("serve", "--prot=1"), "--port"),
        (("explain", "--jsn"), "--json"),
        (("key", "creat", "alice"), "create"),
        (("key", "create", "alice", "--requets", "5/day"), "--requests"),
        (("node", "hots"), "hosts"),
        (("node", "hosts", "--mdoel", "x"), "--model"),
        (("mcp", "lst"), "list"),
        (("serve", "--thinking", "atuo"), "auto"),
        (("usage", "--by", "modle"), "model"),
    ],
    ids=" ".join,
)
def test_a_mistyped_word_has_a_suggestion(env, command, nearest):
    assert f"did you mean `{nearest}`?" in failed(env, *command, status=2)


def test_a_word_that_is_like_no_other_has_no_suggestion(env):
    assert "did you mean" not in failed(env, "serve", "--xyzzy", status=2)
    # What follows `--` is no flag.
    assert "did you mean" not in failed(env, "explain", "a", "b", "--", "--jsn", status=2)


@pytest.mark.parametrize(
    ("text", "place", "nearest"),
    [
        ("[server_tools.web_search]\nulr = 'x'\n", "server_tools.web_search", "url"),
        ("[server_tools.mcp.loc]\ncomand = 'x'\n", "server_tools.mcp.loc", "command"),
        ("[server_tools]\nmax_use = 3\n", "server_tools", "max_uses"),
        ("[models.'a/b'.rates]\ninpt = 3\n", "models.a/b.rates", "input"),
        ("[stream]\nroot = []\n", "stream", "roots"),
    ],
)
def test_a_mistyped_setting_of_an_inner_table_has_a_suggestion(env, tmp_path, text, place, nearest):
    (tmp_path / "c.toml").write_text(text)
    shown = failed(env, "models", "--config", "c.toml")
    assert f"{place}: there is no setting" in shown
    assert f"did you mean `{nearest}`? (at line 2)" in shown


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("thinking = 'dropp'\n", "drop"),
        ("[models.'ollama/x']\ntool_mode = 'nativ'\n", "native"),
        ("[[routes]]\ntask = 'backgrund'\nto = 'demo'\n", "background"),
        ("[server_tools.web_search]\nbackend = 'brav'\n", "brave"),
        ("[providers.x]\napi = 'antropic'\nurl = 'http://127.0.0.1:1'\n", "anthropic"),
        ("[providers.x]\ncloud = 'bedrok'\n", "bedrock"),
    ],
)
def test_a_mistyped_value_of_a_setting_has_a_suggestion(env, tmp_path, text, nearest):
    (tmp_path / "c.toml").write_text(text)
    assert f"did you mean `{nearest}`?" in failed(env, "models", "--config", "c.toml")


@pytest.mark.parametrize("command", [("show", "alic"), ("revoke", "alic"), ("set", "alic")])
def test_a_mistyped_key_has_a_suggestion(env, command):
    run_command(env, "key", "create", "alice", cwd=Path(env["HOME"]))
    text = failed(env, "key", *command, *(("--tokens", "5/day") if command[0] == "set" else ()))
    assert "there is no key 'alic'; see `toolbridge key list`; did you mean `alice`?" in text


def test_a_mistyped_mcp_server_has_a_suggestion(env, tmp_path):
    (tmp_path / "c.toml").write_text("[server_tools.mcp.weather]\ncommand = 'x'\n")
    assert "did you mean `weather`?" in failed(env, "mcp", "list", "wether", "--config", "c.toml")
    (tmp_path / "c.toml").write_text(
        "[server_tools.web_search]\nbackend = 'mcp'\nserver = 'wether'\ntool = 'find'\n"
        "[server_tools.mcp.weather]\ncommand = 'x'\n"
    )
    assert "did you mean `weather`?" in failed(env, "models", "--config", "c.toml")


def test_a_mistyped_family_of_cases_has_a_suggestion(env):
    text = failed(env, "conform", "--list", "--only", "dialets")
    assert "did you mean `dialects`?" in text


# ── values ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", [("key", "list"), ("mcp", "list"), ("key", "create", "a")])
@pytest.mark.parametrize("first", [True, False])
def test_the_configuration_may_come_before_and_after_a_subcommand(env, tmp_path, command, first):
    (tmp_path / "c.toml").write_text("prot = 1\n")
    given = ["--config", "c.toml"]
    words = [command[0], *given, *command[1:]] if first else [*command, *given]
    assert "c.toml: the top level: there is no setting `prot`" in failed(env, *words)


@pytest.mark.parametrize("amount", ["0/day", "0.0k/month", "-5/day", "-0.5/month"])
@pytest.mark.parametrize("measure", ["requests", "tokens"])
def test_a_limit_that_leaves_nothing_is_refused(env, measure, amount):
    text = failed(env, "key", "create", "alice", f"--{measure}", amount)
    assert f"--{measure}: must be" in text
    assert b"no keys" in run_command(env, "key", "list").stdout


def test_a_negative_amount_of_money_is_refused_and_zero_is_for_free_models(env):
    assert "--dollars: must be" in failed(env, "key", "create", "a", "--dollars", "-5/day")
    assert run_command(env, "key", "create", "free", "--dollars", "0/day").returncode == 0


def test_a_key_that_is_revoked_already_is_reported_as_such(env):
    run_command(env, "key", "create", "alice")
    first = run_command(env, "key", "revoke", "alice").stdout.decode()
    second = run_command(env, "key", "revoke", "alice")
    assert "is revoked; it stops working within a second" in first
    assert "was revoked already, on 20" in second.stdout.decode()
    assert second.returncode == 0


@pytest.mark.parametrize("number", ["-1", "0"])
def test_a_number_of_runs_is_at_least_one(env, number):
    assert "--limit: must be at least 1" in failed(env, "runs", "-n", number)


# ── conform ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_a_case_that_does_not_exist_is_named_before_anything_starts(env, stream):
    text = failed(env, "conform", "--self", "--only", "nosuchcase", *stream)
    assert "--only: no case" in text
    assert "matches 'nosuchcase'" in text
    assert "--list" in text


def test_a_case_that_the_pair_of_apis_does_not_have_is_named(env):
    url = f"http://127.0.0.1:{closed_port()}"
    only = ("--only", "anthropic/*", "--listen", "0")
    text = failed(env, "conform", url, "--api", "gemini", "--upstream", "ollama", *only)
    assert "--only: no case for clients of gemini and an upstream of ollama matches" in text


@pytest.mark.parametrize("flag", ["--api", "--upstream"])
@pytest.mark.parametrize("target", ["--self", "http://127.0.0.1:1"])
def test_a_mistyped_api_has_a_suggestion_and_nothing_else_is_printed(env, flag, target):
    text = failed(env, "conform", target, "--api", "gemini", flag, "antropic", status=2)
    assert "did you mean `anthropic`?" in text
    assert "LiteLLM" not in text


# ── addresses ────────────────────────────────────────────────────────────────

WITH_URL = [("explain", "last", "--url"), ("demo", "--url"), ("conform", "--api", "gemini")]


@pytest.mark.parametrize("command", WITH_URL, ids=lambda command: command[0])
@pytest.mark.parametrize(
    "url", ["http://", "ftp://127.0.0.1", "http://a b", "127.0.0.1:99999", "http://[::1", "a/b?c"]
)
def test_an_address_that_is_none_is_reported_as_such(env, command, url):
    text = failed(env, *command, url)
    assert "must be the address of a gateway, such as http://127.0.0.1:3456" in text
    assert repr(url) in text


@pytest.mark.parametrize("command", WITH_URL[:2], ids=lambda command: command[0])
async def test_an_address_without_a_scheme_is_http(env, command):
    async with gateway() as (url, _):
        address = url.removeprefix("http://")
        status, out, err = await run_beside(env, *command, address)
    if command[0] == "demo":
        assert (status, err) == (0, "")
        assert "book" in out
    else:
        assert "no gateway answers" not in err
        assert "no request was made" in err


@pytest.mark.parametrize("command", WITH_URL[:2], ids=lambda command: command[0])
def test_a_gateway_that_does_not_answer_is_not_called_a_provider(env, command):
    address = f"127.0.0.1:{closed_port()}"
    text = failed(env, *command, address)
    assert "gateway" in text
    assert f"at http://{address}" in text
    assert "provider" not in text
    assert "toolbridge serve" in text


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "it answered with status 404"),
        (
            b'HTTP/1.1 404 Not Found\r\ncontent-length: 22\r\n\r\n{"detail":"Not Found"}',
            "it answered with status 404",
        ),
        (
            b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data":[]}',
            "it did not answer with an explanation",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
            "it did not answer with an explanation",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "it did not answer with HTTP"),
        (b"", "it did not answer with HTTP"),
    ],
)
async def test_explain_at_another_server_names_the_fault(env, wire, why):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(wire)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        status, out, err = await run_beside(env, "explain", "last", "--url", address)
    assert (status, out) == (1, "")
    assert f"the server at http://{address} is not a toolbridge gateway ({why}); " in err
    assert "--url" in err


# ── help ─────────────────────────────────────────────────────────────────────


def shown_help(capsys, *command: str) -> str:
    with pytest.raises(SystemExit) as left:
        main([*command, "--help"])
    assert left.value.code == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", [("serve",), ("node", "serve")], ids=" ".join)
def test_help_explains_every_value_of_the_log_and_of_thinking(capsys, command):
    shown = shown_help(capsys, *command)
    for words in (
        "`pretty` is one short line per request",
        "`json` one JSON object per line",
        "`auto` pretty on a terminal and JSON elsewhere",
        "`drop` leaves thinking out",
        "`reject` answers 400",
    ):
        assert words in shown


def test_help_of_usage_names_every_group(capsys):
    text = shown_help(capsys, "usage").partition("options:")[0]
    for group in ("model", "key", "day", "session", "client", "provider"):
        assert group in text.partition("Show")[2]


def test_help_of_node_names_every_source_of_the_key(capsys):
    shown = shown_help(capsys, "node")
    for source in ("CLAUDE_BRIDGE_PRIVATE_KEY", "--env-file", "--key-file", "terminal"):
        assert source in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_no_value_in_help_is_called_by_the_name_of_its_flag_alone(capsys, monkeypatch, name):
    """`--max-tokens MAX_TOKENS` explains nothing: a value of several words has a name of its own."""
    monkeypatch.setenv("COLUMNS", "200")
    shown = shown_help(capsys, name)
    assert "MAX_TOKENS" not in shown
    assert "LIMIT" not in shown or name == "node"


@pytest.mark.parametrize(
    "command",
    [("key", "create"), ("key", "set"), ("key", "list"), ("key", "show"), ("key", "revoke"),
     ("mcp", "list"), ("mcp", "call"), ("mcp", "login"), ("mcp", "logout")],
    ids=" ".join,
)  # fmt: skip
def test_help_of_a_subcommand_says_what_it_does(capsys, command):
    before, _, after = shown_help(capsys, *command).partition("positional arguments:")
    text = before.rpartition("]")[2] + after
    assert len(before.split(". ")) > 1 or before.rstrip().endswith("."), text
