"""The servers that are measured: toolbridge, and nginx as the reference.

A target is started with a command, is ready at its first answer with status 200, and ends with the
run. toolbridge runs in its default configuration: a provider with an API and a URL, a model with
its window, and a map; its request log goes to a file. nginx forwards the same bytes without a log.
"""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench import bodies
from bench.native import OUT, scratch
from bench.processes import memory

UPSTREAMS = {"ollama": ("/api/chat", '"done":true'), "openai_chat": ("/v1/chat/completions", "[DONE]")}  # fmt: skip
"""API of the model server → its path, and the text at the end of its streams."""
KEY = "sk-bench-0123456789abcdef0123456789abcdef"
"""LiteLLM does not start without a key of this length; the other servers need none."""
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": KEY, "authorization": f"Bearer {KEY}"}
CONFIG = """
[map]
default = "mock/m"
[providers.mock]
api = "{api}"
url = "http://127.0.0.1:{port}{path}"
[models."mock/m"]
window = 1000000
"""
# Bodies stay in memory: without `client_body_buffer_size` nginx writes those above 16 KB to a file.
NGINX = """
worker_processes 1; daemon off; master_process off; pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_max_body_size 4m; client_body_buffer_size 2m; keepalive_requests 1000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream mock {{ server 127.0.0.1:{mock}; keepalive 512; keepalive_requests 1000000; }}
  server {{ listen 127.0.0.1:{port};
    location / {{ proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection "";
                  proxy_buffering off; }} }}
}}
"""


@dataclass
class Server:
    """A gateway as a process, ready when it answers a message with status 200."""

    name: str
    command: list[str]
    port: int
    path: str = "/v1/messages"
    expect: str = "message_stop"
    """Text at the end of its streams."""
    model: str = bodies.MODEL
    env: dict[str, str] = field(default_factory=dict)
    cold_start: float = 0.0
    """Seconds from the start of the process to the first answer with status 200."""
    idle: float = 0.0
    """Memory after that answer, in MB."""

    def start(self, limit: float = 180) -> None:
        home = Path(
            tempfile.mkdtemp(prefix=f"home-{self.port}-", dir=scratch())
        )  # ports come again
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env = {**keep, "HOME": str(home), "OLLAMA_HOST": "127.0.0.1:1", **self.env}
        self._log = OUT / f"{self.name}.log"
        started = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                cwd=home, start_new_session=True,
            )  # fmt: skip
        try:
            self._wait(started + limit)
            self.cold_start = time.monotonic() - started
            time.sleep(0.3)  # the end of what the first request has started
            self.idle = memory(self.pid)
        except BaseException:
            self.close()
            raise

    def _wait(self, deadline: float) -> None:
        last = "no connection"
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                code = self._process.returncode
                raise RuntimeError(f"{self.name} ended with {code}; see {self._log}")
            try:
                status, answer = self.ask(bodies.plain(stream=False, model=self.model))
                if status == 200:
                    return
                last = f"{status} {answer[:200]!r}"
            except (OSError, http.client.HTTPException):
                pass  # it does not listen yet
            time.sleep(0.005)
        raise RuntimeError(f"{self.name} gave no 200 ({last}); see {self._log}")

    def ask(self, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            head = {"content-type": "application/json", **HEADERS}
            connection.request("POST", self.path, body, head)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        """End the process and its children; each server has a process group of its own."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(10)
                return
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


@dataclass(frozen=True)
class Target:
    """One path of a server: what a round of a scenario is sent to."""

    server: Server
    path: str
    expect: str

    @property
    def name(self) -> str:
        return self.server.name


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def toolbridge(api: str, mock: int, *, workers: int = 1, name: str = "toolbridge") -> Server:
    """Return a gateway in front of the model server at the port `mock`, which speaks `api`."""
    config = scratch() / f"{name}-{api}-{mock}.toml"
    path = "/v1" if api == "openai_chat" else ""
    config.write_text(CONFIG.format(api=api, port=mock, path=path))
    port = free_port()
    command = [str(Path(sys.executable).parent / "toolbridge"), "serve"]
    command += ["--config", str(config), "--port", str(port)]
    if workers > 1:
        command += ["--workers", str(workers)]
    return Server(name, command, port)


def nginx(mock: int) -> Server | None:
    """Return nginx in front of the model server; None if it is not installed."""
    # Debian installs it in a folder that is not on the PATH of every user.
    search = os.environ.get("PATH", "") + ":/usr/sbin"
    if (program := shutil.which("nginx", path=search)) is None:
        return None
    port = free_port()
    folder = scratch() / f"nginx-{port}"
    folder.mkdir(exist_ok=True)
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, mock=mock, port=port))
    command = [program, "-c", str(config), "-e", str(folder / "nginx.log")]
    return Server("nginx", command, port, path="/v1/chat/completions", model="m")


def message_target(server: Server) -> Target:
    return Target(server, server.path, server.expect)


def forward_target(server: Server, api: str) -> Target:
    """Return nginx at the path of the upstream's API, where it forwards the same bytes."""
    return Target(server, *UPSTREAMS[api])
