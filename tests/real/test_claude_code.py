"""The real Claude Code creates a file through its own tool."""

import json
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.real.clients import CLAUDE_CODE, WANT, clean_environment, install, run
from tests.real.conftest import COMMAND

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.mark.req("CB-37", "CL-01", "CL-02")
@pytest.mark.parametrize(
    ("model", "config"),
    [("claude-sonnet-4-5", ""), ("claude-opus-5-5", ""), ("qwen3", '[map]\ndefault = "demo"')],
)
def test_claude_code_creates_a_file_with_the_demo_model(serve, tmp_path, model, config):
    done = run(CLAUDE_CODE, serve(config), tmp_path / "work", model=model)
    assert done.file is not None, done.output
    assert done.file.strip() == WANT
    assert done.status == 0, done.output


def started(tmp_path, *args: str) -> dict:
    """Return what Claude Code reports of a turn that `toolbridge claude` started."""
    ours = {k: v for k, v in CLAUDE_CODE.env.items() if not k.startswith("ANTHROPIC_")}
    env = clean_environment(str(tmp_path)) | ours | {"OLLAMA_HOST": "127.0.0.1:1"}
    command = [str(COMMAND), "claude", "--claude", str(install(CLAUDE_CODE)), *args]
    done = subprocess.run(
        [*command, "-p", "what is 5 + 5", "--output-format", "json"], cwd=tmp_path, env=env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("args", [(), ("--model", "claude-opus-5-5")])
def test_claude_code_shows_the_real_model_its_window_and_its_price(tmp_path, args):
    told = started(tmp_path, *args)
    (used,) = told["modelUsage"].items()
    assert used[0] == "demo/toolbridge-demo"
    assert used[1]["contextWindow"] == 200_000
    assert told["total_cost_usd"] == 0
    assert told["result"] == "5 + 5 = 10"
    found = list(tmp_path.rglob("gateway-models.json"))
    assert "claude-toolbridge-demo" in found[0].read_text()


class ScriptedOllama(BaseHTTPRequestHandler):
    """An Ollama whose model writes the file that it is asked for, then says so."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/api/show":
            self._reply([{"capabilities": ["tools"], "model_info": {"x.context_length": 131072}}])
            return
        done = {"done": True, "done_reason": "stop", "prompt_eval_count": 9000, "eval_count": 9}
        if asked["messages"][-1]["role"] == "tool":
            self._reply([{"message": {"role": "assistant", "content": "Done."}, **done}])
            return
        path = f"{self.server.work}/hello.txt"
        call = {"function": {"name": "Write", "arguments": {"file_path": path, "content": WANT}}}
        self._reply([
            {"message": {"role": "assistant", "content": "I write it."}, "done": False},
            {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False},
            {"message": {"role": "assistant", "content": ""}, **done},
        ])  # fmt: skip

    def _reply(self, lines: list[dict]) -> None:
        body = "".join(json.dumps({"model": "m", **line}) + "\n" for line in lines).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.req("CB-37", "PX-50")
def test_claude_code_creates_a_file_with_an_ollama_behind(serve, tmp_path):
    work = tmp_path / "work"
    server = ThreadingHTTPServer(("127.0.0.1", 0), ScriptedOllama)
    server.work = work
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = serve(
            f'[map]\ndefault = "ollama/qwen3:8b"\n'
            f'[providers.ollama]\napi = "ollama"\nurl = "http://127.0.0.1:{server.server_port}"\n'
        )
        done = run(CLAUDE_CODE, url, work)
    finally:
        server.shutdown()
        server.server_close()
    assert done.file is not None, done.output
    assert done.file.strip() == WANT
    assert done.status == 0, done.output


class DyingOllama(ScriptedOllama):
    """A provider that dies in the middle of the session: between two turns, or inside an answer."""

    def do_POST(self):
        if self.server.dead:
            self.close_connection = True
            return
        if self.path == "/api/show" or self.server.dies == "between turns":
            super().do_POST()
            self.server.dead = self.path != "/api/show"
            return
        self.rfile.read(int(self.headers["content-length"]))
        self.server.dead = self.close_connection = True
        begun = {"model": "m", "message": {"role": "assistant", "content": "I wri"}, "done": False}
        self.send_response(200)
        self.send_header("content-length", "100000")
        self.end_headers()
        self.wfile.write(json.dumps(begun).encode() + b"\n")


@pytest.mark.parametrize("dies", ["between turns", "inside an answer"])
def test_claude_code_finishes_its_task_while_its_provider_dies(serve, tmp_path, dies):
    work = tmp_path / "work"
    servers = [
        ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (DyingOllama, ScriptedOllama)
    ]
    asked = []
    for server in servers:
        server.work, server.dies, server.dead = work, dies, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
    tables = "".join(
        f'[providers.{name}]\napi = "ollama"\nretries = 0\n'
        f'url = "http://127.0.0.1:{server.server_port}"\n'
        for name, server in zip(("first", "second"), servers, strict=True)
    )
    try:
        url = serve(f'[map]\ndefault = ["first/qwen3:8b", "second/qwen3:8b"]\n{tables}')
        done = run(CLAUDE_CODE, url, work)
        with urllib.request.urlopen(f"{url}/metrics") as found:
            asked = found.read().decode().split("\n")
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
    assert servers[0].dead
    assert done.file is not None, done.output
    assert done.file.strip() == WANT
    assert done.status == 0, done.output
    assert "Done." in done.output
    assert any(line.startswith('toolbridge_failovers_total{provider="first"') for line in asked)


class SlowOllama(ScriptedOllama):
    """A provider that needs a while for each line of its answer."""

    def _reply(self, lines: list[dict]) -> None:
        self.server.chats += self.path == "/api/chat"
        pieces = [json.dumps({"model": "m", **line}).encode() + b"\n" for line in lines]
        self.send_response(200)
        self.send_header("content-length", str(sum(map(len, pieces))))
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(1.0 if len(pieces) > 1 else 0.0)


class CuttingProxy(socketserver.ThreadingTCPServer):
    """A proxy that drops its first connection at the first bytes of the response."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._there = ("127.0.0.1", int(url.rpartition(":")[2]))
        self.cut = 0

    def finish_request(self, request, _) -> None:
        with socket.create_connection(self._there) as there:

            def up() -> None:
                with suppress(OSError):
                    while data := request.recv(65536):
                        there.sendall(data)
                    there.shutdown(socket.SHUT_WR)

            threading.Thread(target=up, daemon=True).start()
            with suppress(OSError):
                while data := there.recv(65536):
                    if not self.cut:
                        self.cut += 1
                        return
                    request.sendall(data)


def test_the_retry_of_claude_code_gets_the_answer_that_its_connection_lost(serve, tmp_path):
    work = tmp_path / "work"
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowOllama)
    server.work, server.chats = work, 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = serve(
        f'resume_grace = 60\n[map]\ndefault = "ollama/qwen3:8b"\n'
        f'[providers.ollama]\napi = "ollama"\nurl = "http://127.0.0.1:{server.server_port}"\n'
    )
    proxy = CuttingProxy(url)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        done = run(CLAUDE_CODE, f"http://127.0.0.1:{proxy.server_address[1]}", work)
        with urllib.request.urlopen(f"{url}/metrics") as found:
            shown = found.read().decode()
    finally:
        for one in (server, proxy):
            one.shutdown()
            one.server_close()
    assert proxy.cut == 1
    assert done.file is not None, done.output
    assert done.file.strip() == WANT
    assert done.status == 0, done.output
    assert 'toolbridge_repeats_total{surface="anthropic"} 1' in shown
    assert server.chats == 2, "one for each turn"
