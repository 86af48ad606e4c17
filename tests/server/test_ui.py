"""The timeline page's files, and the past runs that it shows."""

import asyncio
import json
import re
import threading
from pathlib import Path

import aiohttp
import pytest
from tests.peers import gateway
from tests.streams import ask, call, reply, scripted, streaming
from tests.tables import every_row

import toolbridge
from toolbridge.config import Config
from toolbridge.runs.folders import list_runs
from toolbridge.server import ui

FOLDER = Path(toolbridge.__file__).parent / "ui"
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
UNKNOWN = "run_00000000000000aa"


async def get(url: str, path: str, method: str = "GET", **headers: str):
    """Return the status, the headers and the body of an answer; the path goes out as it is."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}:{port}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in rest), body


def test_every_file_of_the_page_is_served_and_no_other():
    assert sorted(ui.FILES.values()) == sorted(path.name for path in FOLDER.iterdir())


@pytest.mark.req("TF-60")
@pytest.mark.parametrize("path", sorted(ui.FILES))
async def test_a_file_comes_with_headers_that_let_it_do_little(path):
    async with gateway() as (url, _):
        status, headers, body = await get(url, path)
        assert (status, body) == (200, (FOLDER / ui.FILES[path]).read_bytes())
        looked, same, nothing = await get(url, path, "HEAD")
        assert (looked, same["content-length"], nothing) == (200, str(len(body)), b"")
    rules = [rule.split(" ", 1) for rule in headers["content-security-policy"].split("; ")]
    assert dict(rules) == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    kind = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg"}
    assert headers["content-type"].startswith(kind[Path(ui.FILES[path]).suffix])


@every_row("name", sorted(path.name for path in FOLDER.iterdir()))
def test_no_file_needs_another_host_or_writes_markup(name):
    text = (FOLDER / name).read_text("utf-8")
    links = [link for link in re.findall(r"https?://[^\s\"']+", text) if "w3.org" not in link]
    assert links == []
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML",
        text,
    )
    assert not re.search(r"\son\w+=|\sstyle=|<script(?![^>]*src=)|<style|javascript:", text)


def test_everything_the_page_loads_is_a_file_that_is_served():
    found = set()
    for path in FOLDER.iterdir():
        text = path.read_text("utf-8")
        found |= set(re.findall(r'(?:href|src)="([^"]+)"', text))
        found |= {f"/ui/{name}" for name in re.findall(r'from "\./([\w.]+)"', text)}
    found = {link for link in found if not link.startswith("#")}  # views of the same page
    assert len(found) > 30
    assert found <= set(ui.FILES)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/nothing.js",
        "/ui/index.html",
        "/ui/../server/ui.py",
        "/ui/..%2fserver%2fui.py",
        "/ui/%2e%2e/%2e%2e/pyproject.toml",
        "/ui//etc/passwd",
        "/ui/....//style.css",
        "/ui/style.css/..",
        "/ui/style.css%00.js",
        "/ui\\style.css",
        f"/v1/runs/{UNKNOWN}/../../toolbridge.sqlite",
        "/v1/runs/..%2f..",
        "/v1/runs/run_",
        f"/v1/runs/{UNKNOWN}",
        f"/v1/runs/{UNKNOWN}a",
    ],
)
async def test_no_path_leads_to_anything_else(path, tmp_path):
    async with gateway(env={"XDG_STATE_HOME": str(tmp_path)}) as (url, _):
        status, headers, body = await get(url, path)
        assert (await get(url, "/ui/"))[0] == 200
    assert status == 404
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["error"]["message"]


@pytest.mark.parametrize("path", ["/ui", "/ui/main.js", "/v1/runs"])
async def test_what_is_shown_cannot_be_written(path):
    async with gateway() as (url, _):
        status, headers, _ = await get(url, path, "POST", content_length="0")
    assert (status, headers["allow"]) == (405, "get")


# ── the key ──────────────────────────────────────────────────────────────────

KEYED = Config(log="off", key="key-of-the-house")


@pytest.mark.parametrize("path", ["/v1/runs", f"/v1/runs/{UNKNOWN}"])
async def test_runs_need_the_key_and_the_page_does_not(path, tmp_path):
    async with gateway(KEYED, {"XDG_STATE_HOME": str(tmp_path)}) as (url, _):
        assert (await get(url, "/ui"))[0] == 200
        assert (await get(url, "/ui/main.js"))[0] == 200
        status, _, body = await get(url, path)
        assert (status, json.loads(body)["error"]["code"]) == (401, "not_allowed")
        assert (await get(url, path, x_api_key="wrong"))[0] == 403
        assert (await get(url, path, x_api_key="key-of-the-house"))[0] in {200, 404}


async def test_pages_of_others_may_not_read_runs():
    async with gateway() as (url, _):
        assert (await get(url, "/v1/runs", origin="http://evil.example"))[0] == 403
        assert (await get(url, "/v1/runs", origin=url))[0] == 200


# ── past runs ────────────────────────────────────────────────────────────────


async def listed(url: str) -> list[dict]:
    """Return the list of runs once the newest is written whole."""
    for _ in range(200):
        status, _, body = await get(url, "/v1/runs")
        assert status == 200
        runs = json.loads(body)["runs"]
        if runs and runs[0]["finished"]:
            return runs
        await asyncio.sleep(0.01)
    raise AssertionError(runs)


async def test_without_a_home_there_are_no_runs():
    async with gateway() as (url, app):
        assert app.gateway.state is None
        assert json.loads((await get(url, "/v1/runs"))[2]) == {"runs": []}
        assert (await get(url, f"/v1/runs/{UNKNOWN}"))[0] == 404


@pytest.mark.req("TF-60")
async def test_a_run_is_listed_and_told_from_its_artifacts(tmp_path):
    answers = (f"Hm. {call('T1', 'places.search', {'query': 'pizza'})}", reply(answer="there"))
    asked = {"prompt": "p" * 300, "tools": ["places.search"]}
    async with streaming(scripted(*answers), {"XDG_STATE_HOME": str(tmp_path)}) as (url, _, _):
        events = await ask(url, asked)
        (run,) = await listed(url)
        status, _, body = await get(url, f"/v1/runs/{run['id']}")
    assert run["prompt"] == "p" * 200
    assert (run["model"], run["tool_calls"], run["errors"]) == ("there/m", 1, {})
    assert run["events"]["done"] == 1
    kept = json.loads(body)
    assert status == 200
    files = {"id", "frames", "prompt", "result", "tool_logs", "metrics"}
    assert set(kept) == {*files, "active", "elapsed_ms"}
    assert (kept["active"], kept["elapsed_ms"], run["active"]) == (False, None, False)
    assert [(f["event"], f["data"]) for f in kept["frames"]] == [(e.name, e.data) for e in events]
    assert kept["result"] == {"answer": "there", "citations": []}


async def test_a_prompt_is_told_as_far_as_it_can_be_read(tmp_path):
    async with streaming(scripted(reply(), reply()), {"XDG_STATE_HOME": str(tmp_path)}) as (
        url,
        _,
        _,
    ):
        await ask(url, {"messages": [{"role": "user", "content": "in words"}]})
        (run,) = await listed(url)
        assert run["prompt"] == "in words"
        file = tmp_path / "toolbridge" / "runs" / run["id"] / "prompt.json"
        file.write_text("{half")
        assert (await listed(url))[0]["prompt"] == ""
        secret = tmp_path / "secret.json"
        secret.write_text('{"order": {"prompt": "not ours"}}')
        file.unlink()
        file.symlink_to(secret)
        assert (await listed(url))[0]["prompt"] == ""


def test_a_run_is_listed_while_its_files_get_their_names(tmp_path):
    folder = tmp_path / UNKNOWN
    folder.mkdir()
    (folder / "metrics.json").write_text("{}")
    stop = threading.Event()

    def rename() -> None:
        while not stop.is_set():
            (folder / ".prompt.json.tmp").write_text("{}")
            (folder / ".prompt.json.tmp").replace(folder / "prompt.json")

    renaming = threading.Thread(target=rename)
    renaming.start()
    try:
        missed = sum(not list_runs(tmp_path) for _ in range(2000))
    finally:
        stop.set()
        renaming.join()
    assert missed == 0


async def test_the_page_starts_quickly_without_what_streams_need():
    async with (
        gateway() as (url, app),
        aiohttp.ClientSession() as client,
        client.get(f"{url}/ui") as answer,
    ):
        assert answer.status == 200
        assert "desk" not in vars(app)
