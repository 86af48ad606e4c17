"""A model file served on this machine by llama.cpp's server, in a child process.

`toolbridge serve --local` uses it; the engine comes with the extra `local`. It runs in a process of
its own, because loading a model blocks a process for seconds, and because a crash of the engine must
not end the gateway. `python -m toolbridge.upstream.local FILE` is the child; it ends with its parent.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import msgspec

from toolbridge.core.errors import ConfigError, ToolbridgeError

ENGINE = "xllamacpp"
WINDOW = 32768
"""The default context window in tokens; memory is reserved for all of them."""
_READY = "READY "
_LINES = 12


class LoadedModel(msgspec.Struct, frozen=True):
    """A model that the engine serves, with the properties that the engine reports."""

    name: str
    url: str
    window: int
    tools: bool
    vision: bool


def check_installed() -> None:
    """Raise `ConfigError` without the engine; call it before a model file is downloaded."""
    if find_spec(ENGINE) is None:
        raise ConfigError(
            "a local model needs the extra `local`, which is not installed. Run "
            "`pip install '.[local]'` in the clone of toolbridge, with the Python that runs it",
            where="--local",
        )


class Engine:
    """The child process that serves one model file."""

    def __init__(self, model: Path, *, window: int = WINDOW, wait: float = 300.0) -> None:
        if not model.is_file():
            raise ConfigError(
                f"there is no file {model}; give the path of a GGUF file", where="--local"
            )
        check_installed()
        self._model = model
        self._last_lines: deque[str] = deque(maxlen=_LINES)
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", __name__, str(model), f"--window={window}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()
        self._overdue = threading.Timer(wait, self._process.kill)
        self._overdue.daemon = True

    def wait_until_ready(self) -> LoadedModel:
        """Return the loaded model; raise with the engine's last lines if it ends before that."""
        stdout = self._process.stdout
        if stdout is None:
            raise RuntimeError("the engine was started without a pipe")
        self._overdue.start()
        try:
            for line in stdout:
                if line.startswith(_READY.encode()):
                    return self._read_properties(line[len(_READY) :].decode().strip())
            raise self._died()
        finally:
            self._overdue.cancel()

    def stop(self) -> None:
        """Stop the child process and wait until it has ended."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr_reader.join(1)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read_stderr(self) -> None:
        """Keep the engine's last lines. An unread pipe would block the engine once it is full."""
        for line in self._process.stderr or ():
            if text := line.decode("utf-8", "replace").strip():
                self._last_lines.append(text)

    def _read_properties(self, url: str) -> LoadedModel:
        while True:
            try:
                props = _get(f"{url}/props")
                break
            except (OSError, ValueError):
                # 503 while the model is being loaded.
                if self._process.poll() is not None:
                    raise self._died() from None
                time.sleep(0.1)
        shown = msgspec.convert(props, _Props)
        return LoadedModel(
            name=self._model.stem,
            url=url,
            window=shown.default_generation_settings.n_ctx,
            tools=shown.chat_template_caps.supports_tools,
            vision=shown.modalities.vision,
        )

    def _died(self) -> ToolbridgeError:
        status = self._process.wait()
        self._stderr_reader.join(1)
        lines = "\n  ".join(self._last_lines) or "(no output)"
        return ToolbridgeError(
            f"the engine ended with status {status} while it loaded {self._model}; its last lines "
            f"are:\n  {lines}"
        )


class _Settings(msgspec.Struct):
    n_ctx: int = 0


class _Modalities(msgspec.Struct):
    vision: bool = False


class _Caps(msgspec.Struct):
    supports_tools: bool = True


class _Props(msgspec.Struct):
    default_generation_settings: _Settings = msgspec.field(default_factory=_Settings)
    modalities: _Modalities = msgspec.field(default_factory=_Modalities)
    chat_template_caps: _Caps = msgspec.field(default_factory=_Caps)


def _get(url: str) -> dict[str, object]:
    import urllib.request  # only a gateway with a local model needs it

    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  loopback
        found: dict[str, object] = json.load(answer)
        return found


# ── the child ────────────────────────────────────────────────────────────────


def main() -> None:
    """Serve a model until the parent process ends."""
    parser = argparse.ArgumentParser(__name__)
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--window", type=int, default=WINDOW)
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    engine = import_module(ENGINE)
    params = engine.CommonParams()
    params.model.path = args.model
    params.model_alias = {Path(args.model).stem}
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.n_ctx = args.window
    # Two conversations at a time, each with the whole context: a client's side request for a
    # title must neither wait for the main one nor push its prefix out of the cache.
    params.n_parallel = 2
    params.kv_unified = True
    # One core is left to the gateway and its client: workers that wait for a core use it up.
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 2) - 1)
    params.cpuparams_batch.n_threads = params.cpuparams.n_threads
    params.ui = False
    server = engine.Server(params)
    sys.stdout.write(f"{_READY}{server.listening_address}\n")
    sys.stdout.flush()
    threading.Event().wait()


def _end_with_parent() -> None:
    """End this process when the pipe from the parent closes, however the parent ended."""
    while os.read(0, 4096):  # unbuffered: a buffer's lock would be held when this process ends
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
