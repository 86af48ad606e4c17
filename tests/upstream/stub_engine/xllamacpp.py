"""An engine that does as the model file says, in place of llama.cpp's."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace


class CommonParams(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(
            model=SimpleNamespace(path=""),
            cpuparams=SimpleNamespace(n_threads=0),
            cpuparams_batch=SimpleNamespace(n_threads=0),
        )


class Server:
    def __init__(self, params: CommonParams) -> None:
        told = Path(params.model.path).read_text()
        if told == "die":
            sys.stderr.write("llama_model_load: error loading model: bad magic\n")
            raise RuntimeError("failed to load the model")
        if told == "hang":
            threading.Event().wait()
        answers = iter([503, 200, 200, 200] if told == "slow" else [200] * 9)

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                shown = {
                    "default_generation_settings": {"n_ctx": params.n_ctx},
                    "chat_template_caps": {"supports_tools": told != "no tools"},
                    "modalities": {"vision": told == "eyes"},
                    "model_alias": sorted(params.model_alias),
                }
                self.send_response(next(answers))
                self.end_headers()
                self.wfile.write(json.dumps(shown).encode())

        server = ThreadingHTTPServer((params.hostnames[0], params.port), Handler)
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
