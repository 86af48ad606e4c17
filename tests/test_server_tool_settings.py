"""Settings of server tools: what is accepted, and errors that name the setting and the next step."""

import pytest

from toolbridge.config_file import ConfigSource, read
from toolbridge.core.errors import ConfigError
from toolbridge.server_tool_settings import (
    McpServerSettings,
    ServerToolSettings,
    WebSearchSettings,
    server_tool_secrets,
)


def loaded(text, tmp_path):
    return read(ConfigSource(tmp_path / "toolbridge.toml", text.encode()), env={}).server_tools


def test_the_defaults_send_nothing_and_start_nothing(tmp_path):
    found = loaded("", tmp_path)
    assert found == ServerToolSettings()
    assert (found.web_search.backend, found.mcp, found.mcp_urls) == ("auto", {}, ())
    assert found.web_fetch.allow_hosts == ()
    assert found.code_execution.server == ""


def test_every_table_is_read(tmp_path):
    text = """
[server_tools.web_search]
backend = "searxng"
url = "http://127.0.0.1:8888"
block = ["spam.example", "example.com/ads"]
parameters = { engines = "wikipedia", safesearch = 1 }
[server_tools.web_fetch]
allow_hosts = ["docs.corp.example", "10.1.0.0/16", "127.0.0.1:8000", "[fd00::1]:80"]
[server_tools.code_execution]
server = "box"
tool = "run"
[server_tools.mcp.box]
command = "npx"
args = ["-y", "x"]
[server_tools.mcp.far-away]
url = "https://mcp.example.com/mcp"
headers = { x-a = "$A" }
"""
    found = loaded(text, tmp_path)
    assert found.web_search.parameters == {"engines": "wikipedia", "safesearch": 1}
    assert found.mcp["box"].args == ("-y", "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[server_tools.web_search]\nbackend = 'google'", ["server_tools.web_search.backend", "searxng"]),
        ("[server_tools.web_search]\nbackend = 'searxng'", ["server_tools.web_search.backend", "add `url`"]),
        ("[server_tools.web_search]\nbackend = 'mcp'\ntool = 't'\nserver = 'x'", ["no MCP server 'x'", "there: none"]),
        ("[server_tools.web_search]\nbackend = 'command'", ["add `command"]),
        ("[server_tools.web_search]\nbackend = 'model'", ["add `model"]),
        ("[server_tools.web_search]\ncount = 0", ["server_tools.web_search.count"]),
        ("[server_tools.web_search]\nurl = 'localhost:8888'", ["server_tools.web_search.url", "http://"]),
        ("[server_tools.web_search]\ncountry = 'Germany'", ["two letters"]),
        ("[server_tools.web_search]\nallow = ['a.org']\nblock = ['b.org']", ["exclude each other"]),
        ("[server_tools.web_search]\nallow = ['https://a.org']", ["without a scheme"]),
        ("[server_tools.web_fetch]\nallow_hosts = ['10.0.0.0/99']", ["server_tools.web_fetch.allow_hosts"]),
        ("[server_tools.web_fetch]\nproxy = 'x'", ["server_tools.web_fetch.proxy"]),
        ("[server_tools.web_fetch]\nports = [70000]", ["server_tools.web_fetch.ports"]),
        ("[server_tools.code_execution]\nserver = 'x'", ["server_tools.code_execution.server"]),
        ("[server_tools.mcp.x]", ["server_tools.mcp.x", "either `command`"]),
        ("[server_tools.mcp.x]\ncommand = 'a'\nurl = 'https://b'", ["not both"]),
        ("[server_tools.mcp.x]\nurl = 'ftp://b'", ["server_tools.mcp.x.url"]),
        ("[server_tools.mcp.x]\nurl = 'https://b'\nargs = ['a']", ["belong to `command`"]),
        ("[server_tools.mcp.x]\ncommand = 'a'\nauthorization = 't'", ["belong to `url`"]),
        ("[server_tools.mcp.a__b]\ncommand = 'a'", ["the label 'a__b'"]),
        ("[server_tools.mcp.x]\ncommand = 'a'\ntimeout = 0", ["timeout"]),
        ("[server_tools]\nmcp_urls = ['mcp.example.com']", ["server_tools.mcp_urls"]),
        ("[server_tools.web_serch]", ["server_tools", "web_serch"]),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_with_the_next_step(text, expected, tmp_path):
    with pytest.raises(ConfigError) as caught:
        loaded(text, tmp_path)
    for part in expected:
        assert part in str(caught.value).replace('"', "'")


def test_patterns_of_urls_are_accepted(tmp_path):
    text = '[server_tools]\nmcp_urls = ["*", "https://*", "https://*.example.org/*"]'
    assert len(loaded(text, tmp_path).mcp_urls) == 3


def test_every_secret_is_known_to_the_redactor():
    settings = ServerToolSettings(
        web_search=WebSearchSettings(backend="brave"),
        mcp={
            "a": McpServerSettings(
                url="https://x", authorization="Bearer tok-1", headers={"x": "$HEADER"}
            ),
            "b": McpServerSettings(command="c", env={"K": "$VALUE", "MODE": "fast"}),
        },
    )
    env = {"BRAVE_API_KEY": "brave-1", "HEADER": "head-1", "VALUE": "val-1"}
    assert sorted(set(server_tool_secrets(settings, env))) == [
        "brave-1", "head-1", "tok-1", "val-1",
    ]  # fmt: skip
