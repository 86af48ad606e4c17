"""`toolbridge explain`: the gateway that is asked, and colours."""

import subprocess
import sys

import pytest
from tests.tables import every_row

from toolbridge.cli import explain, state
from toolbridge.config import Config
from toolbridge.server.row_explanations import explain_row
from toolbridge.store.ledger import LedgerRow


@every_row(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:4001"),
        ("0.0.0.0", "http://127.0.0.1:4001"),
        ("::", "http://127.0.0.1:4001"),
        ("::1", "http://[::1]:4001"),
        ("gateway.example", "http://gateway.example:4001"),
    ],
)
@pytest.mark.usefixtures("clean")
def test_without_a_gateway_in_the_background_the_configured_address_is_asked(host, url):
    assert explain._url(Config(host=host, port=4001)) == url


@pytest.mark.usefixtures("clean")
def test_a_gateway_in_the_background_is_asked_first():
    words = "print(flush=True); input()"
    command = [sys.executable, "-c", words, "toolbridge", "serve", "--announce"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as gateway:
        gateway.stdout.readline()
        state.write_pid(state.Running(gateway.pid, "http://127.0.0.1:4002"), state.pid_file())
        assert explain._url(Config(port=4001)) == "http://127.0.0.1:4002"
        gateway.communicate(b"\n")


def test_colours_are_only_for_a_terminal():
    assert explain._painter(colour=False)("bad", "text") == "text"
    assert explain._painter(colour=True)("bad", "text") == "\x1b[31mtext\x1b[0m"


def test_a_row_of_the_ledger_is_shown_without_the_parts_that_it_does_not_have():
    row = LedgerRow("req_1", 0.0, api="anthropic", asked="m", error="interrupted", status=499)
    lines = [line.strip() for line in explain.lines_of(explain_row(row), lambda _, text: text)]
    assert "interrupted" in lines
    assert "anthropic, model m" in lines
