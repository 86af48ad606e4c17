"""`toolbridge explain`: the gateway that is asked, and colours."""

import subprocess
import sys

import pytest
from tests.tables import every_row

from toolbridge.cli import explain, state
from toolbridge.config import Config


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
