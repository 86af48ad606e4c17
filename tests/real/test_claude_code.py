"""The real Claude Code creates a file through its own tool."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.real.clients import CLAUDE_CODE, WANT, run

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.mark.req("CB-37", "CL-01", "CL-02")
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5-5", "qwen3"])
def test_claude_code_creates_a_file_with_the_demo_model(serve, tmp_path, model):
    done = run(CLAUDE_CODE, serve(), tmp_path / "work", model=model)
    assert done.file is not None, done.output
    assert done.file.strip() == WANT
    assert done.status == 0, done.output


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
