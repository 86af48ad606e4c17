"""The page of the gateway as a person uses it, in Chromium, with real requests."""

import asyncio
import json
import re
import time
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from tests.browser.test_timeline import CONTRAST, EVIL, until
from tests.key_users import settings as team_settings
from tests.peers import Heard, Line, gateway, model_server, whole
from tests.streams import chunk

from toolbridge.config import Config, ModelConfig, ProviderConfig, RatesConfig
from toolbridge.server import team
from toolbridge.store.ledger import LedgerRow

pytestmark = pytest.mark.browser

CALL = '<tool_call>{"name": "read_file", "arguments": {path: 5,}}</tool_call>'
TOOL = {
    "name": "read_file",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
}
ROW = "#request-list .sheet .row"
YESTERDAY = time.time() - 86_400
"""The ledger removes rows that are too old."""


class Model:
    """A Chat Completions server: it answers, fails, writes a broken call, or waits, by the model."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.waiting = 0

    async def __call__(self, heard: Heard, line: Line) -> None:
        name = heard.json["model"]
        if name == "down":
            await whole(line, {"error": {"message": f"overloaded {EVIL}"}}, 529)
            return
        if name == "slow":
            self.waiting += 1
            await self.gate.wait()
        content = CALL if heard.json.get("tools") else f"Hello. {EVIL}"
        message = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": 120, "completion_tokens": 12}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        if heard.json.get("stream"):
            await line.head(kind="text/event-stream")
            await line.send(chunk({"content": content}) + chunk({}, "stop"))
            last = {"id": "c", "choices": [], "usage": usage}
            await line.send(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n")
            await line.end()
            return
        await whole(line, {"id": "c", "choices": [choice], "usage": usage})


@asynccontextmanager
async def served(tmp_path, **more):
    """Serve a gateway in front of a `Model`; yield its URL, the model and the application."""
    model = Model()
    async with model_server(model) as server:
        priced = ModelConfig(rates=RatesConfig(input=1.0, output=10.0), tools=True)
        config = Config(
            **{
                "log": "off",
                "map": {"default": "there/good"},
                "providers": {
                    "there": ProviderConfig(api="openai_chat", url=server.url, retries=0)
                },
                "models": {f"there/{name}": priced for name in ("good", "down", "slow")},
                **more,
            }
        )
        async with gateway(config, {"XDG_STATE_HOME": str(tmp_path / "state")}) as (url, app):
            yield url, model, app


async def ask(url: str, model: str = "claude-sonnet-4-5", key: str = "", **fields) -> str:
    """Send a request; return its id."""
    headers = {
        "user-agent": fields.pop("agent", "my-agent/1.0"),
        **({"x-api-key": key} if key else {}),
    }
    body = {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", json=body | fields, headers=headers) as answer,
    ):
        await answer.read()
        return answer.headers["request-id"]


async def shown(page) -> list[str]:
    """Return the ids in the list, from top to bottom."""
    return await page.evaluate(
        f"""() => [...document.querySelectorAll("{ROW}")]
              .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) => row.dataset.id)"""
    )


async def live(page) -> None:
    await page.wait_for_selector("#live[data-state=live]")


async def row(page, id: str, state: str = "") -> None:
    """Wait until a request is in the list, in this state."""
    with_state = f"[data-state={state}]" if state else ""
    await page.wait_for_selector(f"{ROW}[data-id={id}]{with_state}")


# ── the list ─────────────────────────────────────────────────────────────────


async def test_the_page_opens_on_an_empty_list_that_says_what_to_do(browse, tmp_path, shots):
    async with served(tmp_path) as (url, _, _), browse(url) as watched:
        page = watched.page
        await page.wait_for_selector("#empty-first:visible")
        text = await page.inner_text("#request-empty")
        assert "No requests yet" in text
        assert url in text
        assert "toolbridge claude" in text
        assert await page.title() == "Requests · toolbridge"
        await page.screenshot(path=shots / "no-requests.png")


async def test_requests_appear_as_they_begin_and_end(browse, tmp_path, shots):
    async with served(tmp_path) as (url, model, _), browse(url) as watched:
        page = watched.page
        await live(page)
        task = asyncio.create_task(ask(url, "there/slow"))
        await page.wait_for_selector(f"{ROW}[data-state=running]")
        assert await page.inner_text("#sum-running") == "1"
        assert await page.inner_text(f"{ROW} .state") == "waiting"
        model.gate.set()
        await row(page, await task, "ok")
        cells = {
            name: await page.inner_text(f"{ROW} .{name}")
            for name in ("state", "client", "model", "in", "out", "cost")
        }
        assert cells == {
            "state": "200",
            "client": "my-agent",
            "model": "there/slow",
            "in": "120",
            "out": "12",
            "cost": "$0.00024",
        }
        assert re.fullmatch(r"[\d.]+ (ms|s)", await page.inner_text(f"{ROW} .ttft"))
        failed = await ask(url, "there/down")
        await row(page, failed, "error")
        assert (await shown(page))[0] == failed
        assert await page.inner_text("#sum-errors") == "1"
        assert "overloaded" in await page.inner_text(f"{ROW}[data-id={failed}] .model")
        await page.screenshot(path=shots / "requests.png")


async def test_what_was_before_the_page_is_there_and_older_ones_follow_at_the_end(browse, tmp_path):
    async with served(tmp_path) as (url, _, app):
        for n in range(700):
            app.ledger.add(LedgerRow(f"req_{n:08x}", YESTERDAY + n, asked="old", status=200))
        last = await ask(url)
        await until(lambda: _written(url, 200))
        async with browse(url) as watched:
            page = watched.page
            await row(page, last)
            await until(lambda: _count_is(page, "#sum-requests", "200"))

            async def at_the_end() -> bool:
                await page.evaluate("document.querySelector('#request-list').scrollTop = 1e9")
                return await _count_is(page, "#sum-requests", "701")

            await until(at_the_end)
            assert "all requests" in await page.inner_text("#request-end")
            assert await page.locator(ROW).count() < 80, "only rows in sight are elements"


async def _written(url: str, count: int) -> bool:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/v1/requests?limit=200") as got,
    ):
        return len((await got.json())["requests"]) == count


async def _count_is(page, where: str, text: str) -> bool:
    return await page.inner_text(where) == text


async def test_a_thousand_live_requests_do_not_make_the_page_slow(browse, tmp_path):
    async with served(tmp_path) as (url, _, app), browse(url) as watched:
        page = watched.page
        await live(page)
        await page.evaluate(
            """() => {
                 window.longest = 0;
                 let before = performance.now();
                 const tick = () => {
                   const now = performance.now();
                   window.longest = Math.max(window.longest, now - before);
                   before = now;
                   requestAnimationFrame(tick);
                 };
                 requestAnimationFrame(tick);
               }"""
        )
        for n in range(5):
            for m in range(200):
                id = f"req_{n * 200 + m:08x}"
                app.recent_requests.add(LedgerRow(id, 5e9 + n * 200 + m, asked="m", status=200))
            await until(lambda n=n: _count_is(page, "#sum-requests", f"{(n + 1) * 200:,}"))
        assert await page.locator(ROW).count() < 80
        work = await page.evaluate(
            """async () => {
                 const { Rows, matching } = await import("/ui/rows.js");
                 const rows = new Rows();
                 const one = (n) => ({ id: `r${n}`, at: n, total_ms: 1, running: false, routes: [], status: 200, error: "" });
                 rows.add(Array.from({ length: 5000 }, (_, n) => one(n)));
                 const began = performance.now();
                 for (let n = 0; n < 20; n += 1) matching(rows.list, "nothing here", "all");
                 return (performance.now() - began) / 20;
               }"""
        )
        print(
            f"a search in 5,000 rows took {work:.1f} ms; the longest frame {await page.evaluate('longest')} ms"
        )
        assert work < 250


async def test_a_row_of_the_ledger_does_not_take_away_the_name_of_the_process(browse, tmp_path):
    async with served(tmp_path) as (url, _, _), browse(url) as watched:
        found = await watched.page.evaluate(
            """async () => {
                 const { Rows } = await import("/ui/rows.js");
                 const rows = new Rows();
                 const one = { id: "r", at: 1, total_ms: 1, running: false };
                 rows.add([{ ...one, process: "here:1" }]);
                 rows.add([{ ...one, status: 200 }]);
                 return rows.find("r");
               }"""
        )
        assert (found["process"], found["status"]) == ("here:1", 200)


async def test_search_and_filters_find_requests_also_in_the_ledger(browse, tmp_path):
    async with served(tmp_path) as (url, _, app):
        app.ledger.add(LedgerRow("req_0000000a", YESTERDAY, session="needle-7", status=200))
        for n in range(250):
            app.ledger.add(LedgerRow(f"req_{n:07x}f", YESTERDAY + 1 + n, status=200))
        good = await ask(url)
        bad = await ask(url, "there/down")
        healed = await ask(url, tools=[TOOL], top_k=3)
        await until(lambda: _written(url, 200))
        async with browse(url) as watched:
            page = watched.page
            await row(page, good)
            await page.keyboard.press("/")
            await page.keyboard.type("NEEDLE")
            await until(lambda: _shows(page, ["req_0000000a"]))
            await page.fill("#search", "my-agent down")
            await until(lambda: _shows(page, [bad]))
            await page.fill("#search", "nothing-has-this")
            await page.wait_for_selector("#empty-filtered:visible")
            await page.fill("#search", "")
            await page.click(".segments label:has-text('Errors')")
            await until(lambda: _shows(page, [bad]))
            await page.click(".segments label:has-text('Healed')")
            await until(lambda: _shows(page, [healed]))
            await page.click(".segments label:has-text('Losses')")
            await until(lambda: _shows(page, [healed]))


async def test_the_word_of_a_state_is_searched(browse, tmp_path):
    async with served(tmp_path) as (url, _, app):
        app.ledger.add(LedgerRow("req_0000000a", YESTERDAY, status=499, error="aborted"))
        app.ledger.add(LedgerRow("req_0000000b", YESTERDAY, status=200, error="upstream_error"))
        await until(lambda: _written(url, 2))
        async with browse(url) as watched:
            page = watched.page
            await row(page, "req_0000000a")
            await page.fill("#search", "client left")
            await until(lambda: _shows(page, ["req_0000000a"]))
            await page.fill("#search", "broke off")
            await until(lambda: _shows(page, ["req_0000000b"]))


async def _shows(page, ids: list[str]) -> bool:
    return await shown(page) == ids


async def test_a_pause_holds_requests_back_and_scrolling_keeps_its_place(browse, tmp_path):
    async with served(tmp_path) as (url, _, app), browse(url) as watched:
        page = watched.page
        await live(page)
        for n in range(100):
            app.recent_requests.add(LedgerRow(f"req_{n:08x}", 1000.0 + n, status=200))
        await until(lambda: _count_is(page, "#sum-requests", "100"))
        await page.keyboard.press("p")
        id = await ask(url)
        await until(lambda: _count_is(page, "#held", "1 request held back"))
        assert id not in await shown(page)
        await page.keyboard.press("p")
        await row(page, id)
        await page.evaluate("document.querySelector('#request-list').scrollTop = 1000")
        await page.wait_for_selector("#newest:visible")
        top = "document.elementFromPoint(300, 400).closest('.row').dataset.id"
        before = await page.evaluate(top)
        await ask(url)
        await page.wait_for_selector("#newest:has-text('1 new request')")
        assert await page.evaluate(top) == before
        await page.keyboard.press("f")
        await page.wait_for_selector("#newest", state="hidden")
        assert await page.evaluate("document.querySelector('#request-list').scrollTop") == 0


async def test_the_list_is_exported(browse, tmp_path):
    async with served(tmp_path) as (url, _, _):
        id = await ask(url, "=cmd|' /C calc'!A0")
        async with browse(url) as watched:
            page = watched.page
            await row(page, id)
            found = {}
            for kind in ("json", "ndjson", "csv"):
                await page.click("#save-menu summary")
                async with page.expect_download() as file:
                    await page.click(f"[data-save={kind}]")
                found[kind] = (await (await file.value).path()).read_text()
    (one,) = json.loads(found["json"])
    assert json.loads(found["ndjson"]) == one
    assert one["id"] == id
    assert "seen" not in one
    head, line = found["csv"].splitlines()
    assert head.startswith("id,at,status")
    assert ",'=cmd|" in line, "a spreadsheet must not run it"


# ── one request ──────────────────────────────────────────────────────────────


async def test_a_request_opens_with_timeline_edits_on_both_sides_and_healed_answer(
    browse, tmp_path, shots
):
    async with served(tmp_path) as (url, _, _):
        id = await ask(url, tools=[TOOL], top_k=3, stream=True, metadata={"user_id": "u"})
        async with browse(url) as watched:
            page = watched.page
            await page.click(f"{ROW}[data-id={id}]")
            await page.wait_for_selector(".waterfall")
            assert await page.evaluate("location.hash") == f"#request/{id}"
            assert await page.title() == f"Request {id} · toolbridge"
            steps = await page.locator(".step-label").all_text_contents()
            assert steps == ["Received and routed", "Attempt 1: there/good", "Answer"]
            places = await page.locator(".edit .place").all_text_contents()
            assert {"model", "top_k"} <= set(places)
            number = places.index("model")
            await page.click(f".edit-head >> nth={number}")
            came, sent = await page.locator(".line.chosen .code-text").all_text_contents()
            assert '"claude-sonnet-4-5"' in came
            assert '"good"' in sent
            removed = places.index("top_k")
            marked = await page.locator(f"[data-edit='{removed}'] .code-text").all_text_contents()
            assert [text.strip() for text in marked] == ['"top_k": 3,']
            assert "Call of read_file" in await page.inner_text("#request-body")
            assert await page.locator(".healing-step").count() >= 1
            assert (
                "path"
                in await page.locator(".healing-step del, .healing-step ins").first.inner_text()
            )
            await page.screenshot(path=shots / "request.png")


async def test_markup_in_names_errors_and_answers_stays_text(browse, tmp_path, shots):
    async with served(tmp_path) as (url, _, _):
        model = f"there/{EVIL}"
        id = await ask(url, model, agent=EVIL, metadata={"user_id": EVIL}, system=EVIL)
        failed = await ask(url, "there/down", metadata={"user_id": EVIL})
        async with browse(url) as watched:
            page = watched.page
            await row(page, failed)
            await page.screenshot(path=shots / "hostile.png")
            for one in (id, failed):
                await page.evaluate(f"location.hash = 'request/{one}'")
                await page.wait_for_selector(f"#request-title:has-text('{one}') >> visible=true")
                await page.wait_for_selector(".waterfall")
                assert EVIL in await page.text_content("#request-body")
            await page.screenshot(path=shots / "hostile-request.png")
            for view in ("usage", "models", "providers", f"request/{EVIL}", f"run/{EVIL}"):
                await page.evaluate("(view) => { location.hash = view; }", view)
                await page.wait_for_function("document.readyState === 'complete'")
            watched.expected = ("status of 404",)
            await page.evaluate("location.hash = 'providers'")
            await page.wait_for_selector(".failures:has-text('onerror')")
            assert "owned" not in await page.title()
            assert await page.locator("img:not(header img), main script").count() == 0


async def test_a_name_cannot_read_as_another_one(browse, tmp_path):
    async with served(tmp_path) as (url, _, _):
        id = await ask(url, "there/\u202eevil", system="\u2067isolated")
        async with browse(url) as watched:
            page = watched.page
            await row(page, id)
            assert "there/\\u202eevil" in await page.inner_text(f"{ROW}[data-id={id}]")
            await page.evaluate(f"location.hash = 'request/{id}'")
            await page.wait_for_selector(".waterfall")
            text = await page.text_content("#request-body")
            assert "\\u2067isolated" in text
            assert not {"\u202e", "\u2067"} & set(text)


async def test_a_request_that_runs_is_filled_in_at_its_end(browse, tmp_path):
    async with served(tmp_path) as (url, model, _), browse(url) as watched:
        page = watched.page
        await live(page)
        task = asyncio.create_task(ask(url, "there/slow"))
        await page.click(f"{ROW}[data-state=running]")
        await page.wait_for_selector("#request-body:has-text('is running')")
        model.gate.set()
        await task
        await page.wait_for_selector(".waterfall")
        assert "Hello." in await page.inner_text("#request-body")


async def test_an_unknown_request_says_so(browse, tmp_path):
    async with served(tmp_path) as (url, _, _), browse(url, at="#request/req_00000000") as watched:
        watched.expected = ("status of 404",)
        await watched.page.wait_for_selector("#request-body:has-text('there is no request')")


# ── usage, models, providers ─────────────────────────────────────────────────


async def test_usage_models_and_providers_show_what_the_gateway_knows(browse, tmp_path, shots):
    async with served(tmp_path) as (url, _, _):
        await ask(url)
        await ask(url, "there/down")
        await until(lambda: _written(url, 2))
        async with browse(url, at="#usage") as watched:
            page = watched.page
            await page.wait_for_selector("table.data tbody tr")
            names = await page.locator("table.data tbody th").all_text_contents()
            assert set(names) == {"there/good", "there/down"}
            assert await page.locator(".bar-rect").count() >= 30
            await page.select_option("#usage-by", "client")
            await page.wait_for_selector("table.data th:has-text('my-agent')")
            await page.select_option("#usage-measure", "requests")
            await page.screenshot(path=shots / "usage.png")
            async with page.expect_download() as file:
                await page.click("#usage-save")
            text = (await (await file.value).path()).read_text()
            assert text.startswith("client,requests,errors")
            await page.keyboard.press("4")
            await page.wait_for_selector(".model-card >> nth=2")
            assert await page.inner_text("#model-count") == "3 models"
            card = page.locator(".model-card:has-text('default')")
            assert "$10" in await card.inner_text()
            assert await card.locator("[data-has=yes]").first.inner_text() != ""
            await page.fill("#model-search", "slow")
            await until(lambda: _is(page.locator(".model-card").count(), 1))
            await page.click("nav a:has-text('Providers')")
            await page.wait_for_selector(".provider-card .failures")
            text = await page.inner_text(".provider-card")
            assert "failing" in text  # the last request failed; the breaker is still closed
            assert "overloaded" in text
            await ask(url)
            await page.wait_for_selector(".provider-card .state-badge:has-text('in use')")


async def _is(found, value) -> bool:
    return await found == value


# ── keyboard, theme, connection, key ─────────────────────────────────────────


async def test_everything_is_reached_with_the_keyboard_and_nothing_holds_the_focus(
    browse, tmp_path
):
    async with served(tmp_path) as (url, _, _):
        ids = [await ask(url) for _ in range(3)]
        async with browse(url) as watched:
            page = watched.page
            await row(page, ids[-1])
            await page.keyboard.press("j")
            focused = "document.activeElement.dataset?.id ?? document.activeElement.id"
            assert await page.evaluate(focused) == ids[2]
            await page.keyboard.press("ArrowDown")
            await page.keyboard.press("Enter")
            await page.wait_for_selector(f"#request-title:has-text('{ids[1]}')")
            await page.keyboard.press("j")
            await page.wait_for_selector(f"#request-title:has-text('{ids[0]}')")
            shown = await page.inner_text("#view-request")
            assert re.search(r"\d\d:\d\d:\d\d", shown)
            assert not re.search(r":\d\d\s[AP]M", shown)  # 24 hours, as in the list
            await page.keyboard.press("Escape")
            await page.wait_for_selector("#view-requests:visible")
            await until(lambda: _is(page.evaluate(focused), ids[0]))
            await page.keyboard.press("?")
            assert await page.is_visible("#shortcuts")
            keys = (await page.inner_text("#shortcuts dl")).split()
            assert {"j", "↓", "k", "↑", "Enter", "Escape", "Pause"} <= set(keys)
            await page.keyboard.press("Escape")
            assert not await page.is_visible("#shortcuts")
            await page.keyboard.press("5")
            await page.wait_for_selector("#view-providers:visible")
            await page.keyboard.press("1")
            await page.wait_for_selector("#view-requests:visible")
            await page.evaluate("document.activeElement.blur()")
            seen = []
            for _ in range(40):
                await page.keyboard.press("Tab")
                seen.append(
                    await page.evaluate(
                        "document.activeElement === document.body ? 'body' : "
                        "(document.activeElement.className || document.activeElement.id)"
                    )
                )
            assert "skip" in seen
            assert "row" in " ".join(seen)
            assert seen.count("skip") >= 2, "the focus goes round"


async def test_the_theme_is_switched_and_kept(browse, tmp_path):
    async with served(tmp_path) as (url, _, _), browse(url, color_scheme="light") as watched:
        page = watched.page
        ground = "getComputedStyle(document.body).backgroundColor"
        light = await page.evaluate(ground)
        await page.click("#theme")
        assert await page.evaluate(ground) == light
        await page.keyboard.press("t")
        dark = await page.evaluate(ground)
        assert dark != light
        await page.reload()
        await live(page)
        assert await page.evaluate(ground) == dark
        await page.click("#theme")
        assert await page.get_attribute("#theme", "aria-label") == "Theme: as the system"
        assert await page.evaluate(ground) == light


async def test_a_lost_gateway_is_shown_and_its_return_too(browse, tmp_path, shots):
    host, closed = "127.0.0.1", asyncio.Event()
    async with served(tmp_path) as (url, _, _):
        port = int(url.rpartition(":")[2])
        open_writers: list[asyncio.StreamWriter] = []

        async def pump(reader, writer) -> None:
            with suppress(ConnectionError):
                while piece := await reader.read(65536):
                    writer.write(piece)
                    await writer.drain()
            writer.close()

        async def relay(reader, writer) -> None:
            if closed.is_set():
                writer.transport.abort()
                return
            there, back = await asyncio.open_connection(host, port)
            open_writers.extend([writer, back])
            await asyncio.gather(pump(reader, back), pump(there, writer))

        listening = await asyncio.start_server(relay, host, 0)
        front = f"http://{host}:{listening.sockets[0].getsockname()[1]}"
        async with browse(front) as watched:
            watched.expected = ("net::ERR_",)
            page = watched.page
            await live(page)
            before = await ask(url)
            await row(page, before)
            closed.set()
            for writer in open_writers:
                writer.transport.abort()
            await page.wait_for_selector("#lost:visible")
            assert await page.inner_text("#live-text") == "connection lost"
            await page.screenshot(path=shots / "lost.png")
            meanwhile = await ask(url)
            closed.clear()
            await page.click("#retry")
            await live(page)
            await row(page, meanwhile)
            assert await page.is_hidden("#lost")
            assert before in await shown(page)
        listening.close()
        for writer in open_writers:
            writer.transport.abort()


async def test_the_key_is_asked_for_kept_in_the_tab_and_forgotten(browse, tmp_path, shots):
    async with (
        served(tmp_path, key="s3cret-of-the-house") as (url, _, _),
        browse(url, at="#usage") as watched,
    ):
        watched.expected = ("status of 401", "status of 403")
        page = watched.page
        await page.wait_for_selector("#key-form:visible")
        assert await page.is_hidden("#views")
        await page.screenshot(path=shots / "key-needed.png")
        await page.fill("#key", "wrong")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#key-problem:has-text('the key is wrong')")
        await page.fill("#key", "s3cret-of-the-house")
        await page.keyboard.press("Enter")
        await live(page)
        await page.wait_for_selector("#view-usage:visible")
        id = await ask(url, key="s3cret-of-the-house")
        await page.keyboard.press("1")
        await row(page, id)
        await page.reload()
        await row(page, id)
        stored = await page.evaluate("JSON.stringify([{...localStorage}, document.cookie])")
        assert "s3cret" not in stored
        assert "s3cret" not in await page.content()
        await page.click("#forget")
        await page.wait_for_selector("#key-form:visible")
        assert await page.evaluate("sessionStorage.length") == 0


# ── looks ────────────────────────────────────────────────────────────────────

VIEWS = ("requests", "request", "usage", "models", "providers")
STICKS_OUT = """
() => [...document.querySelectorAll("header *, .view:not([hidden]) *")]
  .filter((el) => el.offsetParent && !el.closest(".unseen, .table-card, nav, .probe, .lines, pre, .cell"))
  .filter((el) => el.getBoundingClientRect().right > innerWidth + 1)
  .map((el) => el.className || el.tagName)
"""


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1440])
async def test_every_view_fits_every_width_and_is_readable_in_both_looks(
    browse, tmp_path, shots, width, look
):
    async with served(tmp_path) as (url, model, _):
        await ask(url, "claude-" + "long-name-" * 30, agent="a" * 60 + "/1")
        await ask(url, "there/down")
        id = await ask(url, tools=[TOOL], top_k=3, stream=True)
        task = asyncio.create_task(ask(url, "there/slow"))
        async with browse(
            url, viewport={"width": width, "height": 850}, color_scheme=look
        ) as watched:
            page = watched.page
            await page.wait_for_selector(f"{ROW}[data-state=running]")
            waits = {
                "requests": f"{ROW}[data-id={id}]",
                "request": ".healing-step",
                "usage": "table.data tbody tr",
                "models": ".model-card",
                "providers": ".failures",
            }
            for view in VIEWS:
                target = f"request/{id}" if view == "request" else view
                await page.evaluate(f"location.hash = '{target}'")
                await page.wait_for_selector(f"{waits[view]} >> visible=true")
                assert await page.evaluate("document.documentElement.scrollWidth") == width
                assert await page.evaluate("document.documentElement.scrollHeight") == 850
                assert await page.evaluate(STICKS_OUT) == []
                assert await page.evaluate(CONTRAST) == []
                await page.screenshot(path=shots / f"{view}-{width}-{look}.png")
        model.gate.set()
        await task


@pytest.mark.parametrize("width", [390, 768, 1440])
async def test_the_list_names_the_process_and_opens_the_requests_of_others(
    browse, tmp_path, shots, monkeypatch, width
):
    monkeypatch.setattr(team, "_TICK", 0.05)
    async with (
        served(tmp_path, workers=2) as (one, model, _),
        served(tmp_path, workers=2) as (other, _, _),
    ):
        id = await ask(one, tools=[TOOL], top_k=3, stream=True)
        task = asyncio.create_task(ask(one, "there/slow"))
        async with browse(other, viewport={"width": width, "height": 850}) as watched:
            page = watched.page
            await row(page, id, "ok")
            await page.wait_for_selector(f"{ROW}[data-state=running]")
            # On a busy machine the ledger tells of the request before its process does.
            await page.wait_for_selector(f"{ROW}[data-id={id}] .process:has-text(':')")
            named = await page.text_content(f"{ROW}[data-id={id}] .process")
            assert re.fullmatch(r".+:[0-9]+", named)
            assert await page.evaluate("document.documentElement.scrollWidth") == width
            assert await page.evaluate(STICKS_OUT) == []
            await page.screenshot(path=shots / f"team-{width}.png")
            await page.click(f"{ROW}[data-id={id}]")
            await page.wait_for_selector(".healing-step >> visible=true")
            assert named in await page.text_content("#request-body")
            assert "top_k" in await page.text_content("#request-body")
            await page.screenshot(path=shots / f"team-request-{width}.png")
            model.gate.set()
            ended = await task
            await page.evaluate("location.hash = 'requests'")
            await row(page, ended, "ok")


async def test_nothing_moves_for_people_who_want_no_motion(browse, tmp_path):
    async with served(tmp_path) as (url, model, _):
        task = asyncio.create_task(ask(url, "there/slow"))
        moving = "document.getAnimations().filter((one) => one.playState === 'running').length"
        for motion, running in (("reduce", 0), ("no-preference", 1)):
            async with browse(url, reduced_motion=motion) as watched:
                await watched.page.wait_for_selector(f"{ROW}[data-state=running]")
                await until(lambda p=watched.page, n=running: _is(p.evaluate(moving), n))
        model.gate.set()
        await task


async def test_a_created_key_sees_its_own_requests_on_the_page(browse, tmp_path, monkeypatch):
    from tests.key_users import CountingModel, create

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with model_server(CountingModel()) as server:
        env = {"XDG_STATE_HOME": str(tmp_path)}
        config = team_settings(server.url)
        alice, bob = await create("alice"), await create("bob")
        async with gateway(config, env) as (url, _):
            mine, theirs = await ask(url, key=alice), await ask(url, key=bob)
            async with browse(url, at=f"#request/{theirs}") as watched:
                watched.expected = ("status of 401", "status of 404", "status of 403")
                page = watched.page
                await page.fill("#key", alice)
                await page.keyboard.press("Enter")
                await page.wait_for_selector("#request-body:has-text('there is no request')")
                await page.keyboard.press("1")
                await row(page, mine)
                assert await shown(page) == [mine]


async def test_a_key_with_few_routes_uses_the_views_that_it_may(browse, tmp_path, monkeypatch):
    from tests.key_users import CountingModel, create

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with model_server(CountingModel()) as server:
        usage = await create("usage", "--routes", "/v1/usage")
        async with (
            gateway(team_settings(server.url), {"XDG_STATE_HOME": str(tmp_path)}) as (url, _),
            browse(url, at="#usage") as watched,
        ):
            watched.expected = ("status of 401", "status of 403")
            page = watched.page
            await page.fill("#key", usage)
            await page.keyboard.press("Enter")
            await page.wait_for_selector("#usage-empty:has-text('No requests in this time')")
            await page.wait_for_selector("#live[data-state=limited]")
            await page.click("nav a:has-text('Requests')")
            await page.wait_for_selector("#empty-problem:has-text('may not use /v1/requests')")
