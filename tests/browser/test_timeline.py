"""Structured runs on the page as a person uses it, in Chromium, with a scripted model."""

import asyncio
import json
import re
from contextlib import asynccontextmanager, suppress
from functools import partial

import aiohttp
import pytest
from tests.peers import gateway
from tests.streams import call, chunk, frame, read, reply, streaming, thing

from toolbridge.config import Config
from toolbridge.core import draft

pytestmark = pytest.mark.browser

SEARCH = {"mode": "search", "target": {"kind": "place", "id": "near"}}
BOOKING = {"place_id": "pl_002", "time": "19:00"}
BROKEN = "{mode: book, target: {kind: place, id: pl_002,}"
DEMO = (
    f"Let me look around. {thing('O1', 'Action', SEARCH)}{call('T1', 'places.search', {'query': 'pizza'})}",
    f"That one. {thing('O2', 'Action', BROKEN)}{call('T2', 'bookings.create', BOOKING)}",
    reply(answer="A table is booked for 7 pm."),
)
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def paced(*answers: str, wait: float = 0.01, size: int = 9):
    """Return a model that writes like one: a few characters at a time, with time between them."""
    left = iter(answers)

    async def answer(_, line) -> None:
        await line.head(kind="text/event-stream")
        text = next(left)
        for at in range(0, len(text), size):
            await line.send(chunk({"content": text[at : at + size]}))
            await asyncio.sleep(wait)
        await line.send(chunk({}, "stop") + "data: [DONE]\n\n")
        await line.end()

    return answer


class Endless:
    """A model that never stops, and counts what it has written."""

    def __init__(self, piece: str = "again and again ", wait: float = 0.01) -> None:
        self.sent = 0
        self._piece = chunk({"content": piece})
        self.wait = wait

    async def __call__(self, _, line) -> None:
        await line.head(kind="text/event-stream")
        with suppress(ConnectionError):
            while True:
                await line.send(self._piece)
                self.sent += 1
                await asyncio.sleep(self.wait)


@pytest.fixture
def browse(browse):
    """Open the view of the runs."""
    return partial(browse, at="#runs")


@pytest.fixture
def home(tmp_path):
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


async def state(page, name: str) -> None:
    await page.wait_for_selector(f"#state[data-state={name}]")


async def start(page, prompt: str = "") -> None:
    if prompt:
        await page.fill("[name=prompt]", prompt)
    await page.click("#start")


async def events(page) -> int:
    return int(await page.text_content("#events"))


async def until(check, most: float = 60.0):
    """Return the first true answer of `check`."""
    async with asyncio.timeout(most):
        while not (found := await check()):  # noqa: ASYNC110  it is the page that changes
            await asyncio.sleep(0.02)
    return found


async def labels(page, lane: str) -> list[str]:
    return await page.locator(f".lane-{lane} .item .label").all_text_contents()


# ── a live run ───────────────────────────────────────────────────────────────

GROWTH = """
async () => {
  const frame = () => new Promise(requestAnimationFrame);
  let item;
  while (!(item = document.querySelector(".lane-objects .item"))) await frame();
  const seen = {};
  while (item.classList.contains("open")) {
    const scale = document.querySelector(".axis").lastChild.style.left;
    (seen[scale] ??= []).push(parseFloat(item.querySelector(".fill").style.width));
    await frame();
  }
  return seen;
}
"""
"""The widths of the first object while it is written, by the scale of the axis."""


@pytest.mark.req("TF-60", "TF-65")
async def test_the_demo_appears_on_the_axis_as_it_happens(browse, home, shots):
    async with streaming(paced(*DEMO, wait=0.15), home) as (url, server, _), browse(url) as watched:
        page = watched.page
        assert await page.input_value("[name=prompt]") == (
            "Find pizza near me; book a table at 7pm if open."
        )
        assert await page.input_value("[name=profile]") == "demo"
        await page.screenshot(path=shots / "empty.png")
        growing = asyncio.create_task(page.evaluate(GROWTH))
        await start(page)
        widths = await growing
        assert any(len(set(seen)) > 1 and seen == sorted(seen) for seen in widths.values())
        await page.screenshot(path=shots / "growing.png")
        await state(page, "ended")
        shown = {
            lane: await labels(page, lane)
            for lane in ["text", "objects", "tools", "repairs", "result", "errors"]
        }
        assert shown == {
            "text": ["Let me look around. ", "That one. "],
            "objects": ["Action", "Action"],
            "tools": ["places.search", "bookings.create"],
            "repairs": ["healed Action"],
            "result": ["AssistantReply"],
            "errors": [],
        }
        assert "A table is booked for 7 pm." in await page.text_content("#result .reply")
        assert "Let me look around." in await page.text_content("#text")
        assert (await page.text_content("#run")).startswith("run_")
        await page.screenshot(path=shots / "ended.png", full_page=True)
        assert server.heard[0].json["seed"] == 42, "the demo profile was asked for"


async def test_an_item_tells_its_value_its_steps_and_its_time(browse, home, shots):
    async with streaming(paced(*DEMO), home) as (url, _, _), browse(url) as watched:
        page = watched.page
        await start(page)
        await state(page, "ended")
        await page.click(".lane-repairs .item")
        details = await page.inner_text("#details")
        assert "missing quotes added" in details
        assert json.loads(await page.locator("#details pre").first.text_content()) == {
            "mode": "book",
            "target": {"kind": "place", "id": "pl_002"},
        }
        assert await page.locator("#details pre").last.text_content() == BROKEN
        await page.screenshot(path=shots / "details.png", full_page=True)
        await page.click(".lane-tools .item >> nth=1")
        arguments, given = await page.locator("#details pre").all_text_contents()
        assert json.loads(arguments) == BOOKING
        assert json.loads(given)["status"] == "confirmed"
        assert "took" in await page.inner_text("#details .facts")
        await page.click("#text .chip >> nth=0")
        assert "Object: Action" in await page.inner_text("#details h3")


async def test_everything_can_be_reached_with_the_keyboard(browse, home):
    async with streaming(paced(*DEMO, wait=0), home) as (url, _, _), browse(url) as watched:
        page = watched.page
        await page.focus("[name=prompt]")
        await page.keyboard.press("Control+Enter")
        await state(page, "ended")
        stops = await page.locator(".chart .item[tabindex='0']").count()
        assert stops == 1, "the axis is one stop of the Tab key"
        await page.focus(".chart .item[tabindex='0']")
        walked = (
            [await page.inner_text("#details h3")]
            if await page.query_selector("#details h3")
            else []
        )
        for _ in range(7):
            await page.keyboard.press("ArrowRight")
            walked.append(await page.inner_text("#details h3"))
        kinds = [said.split(":")[0].split("\n")[0] for said in walked]
        assert kinds == ["Object", "Tool", "Text", "Object", "Repair", "Tool", "Result"]
        await page.keyboard.press("Home")
        assert (await page.inner_text("#details h3")).startswith("Text")


@pytest.mark.req("TF-60", "TF-53")
async def test_a_pause_stops_growth_and_a_resume_goes_on(browse, home, shots):
    async with streaming(Endless(), home) as (url, _, _), browse(url) as watched:
        page = watched.page
        await start(page)
        await until(lambda: _more_than(page, 10))
        await page.click("#pause")
        await state(page, "paused")
        assert await page.inner_text("#pause") == "Resume"
        stood = await events(page), await page.text_content("#text")
        await page.wait_for_timeout(600)
        assert (await events(page), await page.text_content("#text")) == stood
        assert await page.locator(".span-paused").count() == 1
        await page.screenshot(path=shots / "paused.png")
        await page.click("#pause")
        await until(lambda: _more_than(page, stood[0] + 20))
        assert "1 (" in await page.text_content("#pauses")
        await page.click("#abort")
        await state(page, "ended")


async def _more_than(page, count: int) -> bool:
    return await events(page) > count


@pytest.mark.req("TF-33", "TF-34", "TF-53")
async def test_a_pause_holds_up_the_model_itself(browse, home, monkeypatch):
    # The system alone takes up to 32 MB for each of the two connections (net.ipv4.tcp_rmem).
    monkeypatch.setattr(draft, "MOST_WRITTEN", 1 << 30)
    model = Endless("word " * 20_000, wait=0.1)
    async with streaming(model, home) as (url, _, _), browse(url) as watched:
        page = watched.page
        await start(page)
        await until(lambda: _more_than(page, 3))
        await page.click("#pause")
        await state(page, "paused")

        model.wait = 0  # what lies between the model and the page is filled soon

        async def stands() -> int:
            before = model.sent
            await asyncio.sleep(0.7)
            return before if model.sent == before else 0

        stood = await until(stands, most=60)
        print(f"the model stood after {stood} pieces of 100 kB")
        await page.click("#pause")
        await until(lambda: _true(model.sent > stood + 20))
        await page.click("#abort")
        await state(page, "ended")


async def _true(value: bool) -> bool:  # noqa: FBT001
    return value


async def test_an_abort_ends_the_run_also_while_it_is_paused(browse, home, shots):
    async with streaming(Endless(), home) as (url, _, _), browse(url) as watched:
        page = watched.page
        await start(page)
        await until(lambda: _more_than(page, 5))
        await page.click("#pause")
        await page.click("#abort")
        await state(page, "ended")
        assert await labels(page, "errors") == ["aborted"]
        assert "without a result" in await page.inner_text("#result")
        assert await page.is_disabled("#abort")
        assert await page.is_enabled("#start")
        await page.screenshot(path=shots / "aborted.png", full_page=True)


async def test_a_tool_of_the_callers_own_is_answered_on_the_page(browse, home):
    lamp = [{"name": "lamp.set", "parameters": {"type": "object"}, "client": True}]
    answers = (call("T1", "lamp.set", {"on": True}), reply(answer="lit"))
    async with streaming(paced(*answers), home) as (url, _, _), browse(url) as watched:
        page = watched.page
        await page.click("#order summary")
        await page.fill("[name=tools]", json.dumps(lamp))
        await page.fill("[name=profile]", "")
        await start(page)
        await page.click(".lane-tools .item.open", force=True)  # it grows, so it is never still
        await page.fill("#details textarea", '{"bulb": 1}')
        await page.click("#details button")
        await state(page, "ended")
        await page.click(".lane-tools .item")
        assert '"bulb": 1' in await page.inner_text("#details")


async def test_the_built_in_model_is_read_at_a_pace_that_people_can_watch(browse, home, shots):
    config = Config(log="off")
    async with gateway(config, home) as (url, _), browse(url) as watched:
        page = watched.page
        await page.wait_for_selector("#past .hint:has-text('No run')")
        assert await page.input_value("[name=pace]") == "30"
        await start(page)
        await page.wait_for_selector(".lane-tools .item")
        await page.click("#pause")
        await state(page, "paused")
        stood = await events(page)
        await page.wait_for_timeout(300)
        assert await events(page) == stood
        await page.click("#pause")
        await state(page, "ended")
        assert await labels(page, "tools") == ["places.search", "bookings.create"]
        assert "Booked" in await page.text_content("#result .reply")
        await page.screenshot(path=shots / "demo.png", full_page=True)


async def test_the_axis_can_be_stretched(browse, home, shots):
    async with streaming(paced(*DEMO), home) as (url, _, _), browse(url) as watched:
        page = watched.page
        await start(page)
        await state(page, "ended")
        width = "parseFloat(document.querySelector('.lane-result .fill').style.width)"
        before = await page.evaluate(width)
        await page.select_option("#zoom", "5")
        await page.wait_for_function(f"{width} > {before * 4}")
        assert await page.evaluate("document.documentElement.scrollWidth") == 1280
        await page.locator(".lane-result .item").scroll_into_view_if_needed()
        await page.click(".lane-result .item")
        assert "Result: AssistantReply" in await page.inner_text("#details h3")
        names = await page.locator(".lane-name").first.bounding_box()
        chart = await page.locator("#chart").bounding_box()
        assert abs(names["x"] - chart["x"]) < 2, "the names of the lanes stay in sight"
        await page.screenshot(path=shots / "zoom.png")


# ── what is written stays text ───────────────────────────────────────────────

TOOLS = f"""
from toolbridge.tools.functions import tool

@tool(name="evil.say")
def say() -> dict:
    "Say it."
    return {{"said": {EVIL!r}}}
"""


@pytest.mark.req("TF-60")
async def test_markup_stays_text_wherever_it_comes_from(browse, home, tmp_path, shots):
    (tmp_path / "evil.py").write_text(TOOLS)
    action = {"mode": "search", "target": {"kind": "place", "id": EVIL}}
    answers = (
        f"{EVIL}{thing('O1', 'Action', action)}{call('T1', 'evil.say', {})}",
        f"{frame('OBJECT', 'O2', 'Nope', json.dumps(EVIL))}{reply(answer=EVIL)}",
    )
    tools = (str(tmp_path / "evil.py"),)
    async with streaming(paced(*answers), home, tools=tools) as (url, _, _), browse(url) as watched:
        page = watched.page
        await page.click("#order summary")
        await page.fill("[name=tools]", "evil.say")
        await start(page, EVIL)
        await state(page, "ended")
        assert EVIL in await page.text_content("#text")
        assert await page.text_content("#result .reply") == EVIL
        assert await labels(page, "errors") == ["unknown_schema"]
        for at in range(await page.locator(".chart .item").count()):
            await page.locator(".chart .item").nth(at).click()
            if at == 1:
                await page.screenshot(path=shots / "markup.png", full_page=True)
        await page.click(".lane-tools .item")
        assert json.dumps(EVIL) in await page.text_content("#details")
        assert await page.text_content("#past .run-prompt") == EVIL
        await page.click("#past .run")
        await page.wait_for_selector("#replay:not([hidden])")
        assert await page.title() == f"Run {await page.text_content('#run')} · toolbridge"
        assert await page.locator("img:not(header img), main script").count() == 0


# ── when things go wrong ─────────────────────────────────────────────────────


@asynccontextmanager
async def shaky(url: str, after: int, times: int):
    """Serve `url` on another port; cut streams after so many bytes, the first `times` times.

    Yield the URL, and what clients asked to go on after.
    """
    host, port = url.removeprefix("http://").split(":")
    cut: list[int] = []
    resumed: list[str] = []

    async def pump(reader, writer, *, down: bool) -> None:
        streamed = -1
        with suppress(ConnectionError):
            while piece := await reader.read(4096):
                writer.write(piece)
                await writer.drain()
                if b"text/event-stream" in piece:
                    streamed = 0
                if not down:
                    resumed.extend(
                        re.findall(r"last-event-id: (\S+)", piece.decode("latin-1"), re.IGNORECASE)
                    )
                if streamed >= 0:
                    streamed += len(piece)
                if down and streamed > after and len(cut) < times:
                    cut.append(streamed)
                    break
        writer.close()

    async def serve(reader, writer) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        up = asyncio.create_task(pump(reader, back, down=False))
        await pump(there, writer, down=True)
        back.transport.abort()
        await up

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", resumed
    finally:
        listening.close()


@pytest.mark.req("TF-60")
async def test_a_lost_connection_is_taken_up_where_it_broke(browse, home, shots):
    async with (
        streaming(paced(*DEMO), home) as (url, server, _),
        shaky(url, after=1500, times=2) as (there, resumed),
        browse(there) as watched,
    ):
        watched.expected = ("net::ERR_",)
        page = watched.page
        await start(page)
        await state(page, "lost")
        await state(page, "ended")
        assert len(resumed) == 2
        assert [
            re.fullmatch(r"run_[0-9a-f]{16}:[1-9]\d*", last) is not None for last in resumed
        ] == [True] * 2
        assert await labels(page, "tools") == ["places.search", "bookings.create"]
        assert await labels(page, "result") == ["AssistantReply"]
        assert len(server.heard) == 3, "it was not run twice"
        text = await page.text_content("#text")
        assert text == "Let me look around. ActionThat one. ActionAssistantReply".replace(
            "ActionThat", "Actionplaces.searchThat"
        ).replace("ActionAssistant", "Actionbookings.createAssistant")
        assert await page.locator(".span-lost").count() >= 1
        await page.screenshot(path=shots / "reconnected.png", full_page=True)


async def test_a_request_that_cannot_be_met_says_why_at_its_field(browse, home, shots):
    async with streaming(paced(), home) as (url, _, _), browse(url) as watched:
        watched.expected = ("status of 400",)
        page = watched.page
        await page.fill("[name=profile]", "night")
        await start(page)
        await page.wait_for_selector("#order .problem:not([hidden])")
        assert "no profile 'night'" in await page.inner_text("#order .problem")
        assert await page.inner_text("#state") == "not started"
        assert await page.get_attribute("[name=profile]", "aria-invalid") == "true"
        await page.fill("[name=profile]", "")
        await page.click("#order summary")
        await page.fill("[name=schemas]", "{half")
        await start(page)
        assert "schemas:" in await page.inner_text("#order .problem")
        await page.screenshot(path=shots / "problem.png")
        assert await page.is_enabled("#start")


async def test_a_model_that_fails_is_an_error_on_the_axis(browse, home):
    async def broken(_, line) -> None:
        await line.head(500, "text/plain")
        await line.send("out of order")
        await line.end()

    async with streaming(broken, home) as (url, _, _), browse(url) as watched:
        page = watched.page
        await start(page)
        await state(page, "ended")
        assert await labels(page, "errors") == ["upstream_error"]


async def test_a_gateway_that_wants_a_key_gets_it(browse, tmp_path, shots):
    env = {"XDG_STATE_HOME": str(tmp_path), "HOUSE": "s3cret"}
    async with (
        streaming(paced(reply(answer="for you")), env, key="$HOUSE") as (url, _, _),
        browse(url) as watched,
    ):
        watched.expected = ("status of 401", "status of 403")
        page = watched.page
        await page.wait_for_selector("#key-form:not([hidden])")
        await page.screenshot(path=shots / "key.png")
        await page.fill("#key", "wrong")
        await page.click("#key-form button")
        await page.wait_for_selector("text=the key is wrong")
        await page.fill("#key", "s3cret")
        await page.click("#key-form button")
        await page.wait_for_selector("#key-form", state="hidden")
        await start(page)
        await state(page, "ended")
        assert await page.text_content("#result .reply") == "for you"
        await page.wait_for_selector("#past .run")
        await page.reload()
        await page.wait_for_selector("#past .run")
        assert await page.is_hidden("#key-form"), "the tab remembers it"
        assert "s3cret" not in await page.content()


# ── past runs ────────────────────────────────────────────────────────────────


@pytest.mark.req("TF-60")
async def test_a_past_run_opens_and_is_told_again_at_any_speed(browse, home, shots):
    async with streaming(paced(*DEMO, wait=0.02), home) as (url, _, _):
        async with browse(url) as watched:
            await start(watched.page)
            await state(watched.page, "ended")
            told = await events(watched.page)
        async with browse(url) as watched:
            page = watched.page
            await page.click("#past .run")
            await state(page, "past")
            await until(lambda: _true_of(page, told))
            assert await labels(page, "repairs") == ["healed Action"]
            assert "7 pm" in await page.text_content("#result .reply")
            assert "there/m" in await page.inner_text("#details")
            await page.screenshot(path=shots / "past.png", full_page=True)
            await page.focus("#seek")
            await page.keyboard.press("Home")
            await until(lambda: _at_most(page, 3))
            await page.select_option("#speed", "0.25")
            await page.click("#play")
            await until(lambda: _more_than(page, 5))
            assert await page.inner_text("#play") == "Stop"
            await page.screenshot(path=shots / "replay.png")
            assert await events(page) < told
            await page.click("#play")
            await page.wait_for_timeout(100)
            stood = await events(page)
            await page.wait_for_timeout(300)
            assert await events(page) == stood
            await page.select_option("#speed", "16")
            await page.click("#play")
            await until(lambda: _true_of(page, told))
            await page.wait_for_selector("#play:text('Play')")


async def _true_of(page, count: int) -> bool:
    return await events(page) == count


async def _at_most(page, count: int) -> bool:
    return await events(page) <= count


async def test_a_run_without_artifacts_is_read_from_its_events_and_an_unknown_one_is_a_notice(
    browse, home, tmp_path
):
    async with streaming(paced(reply()), home) as (url, _, _):
        async with browse(url) as watched:
            page = watched.page
            await page.wait_for_selector("#past:has-text('No runs are recorded yet')")
            await start(page)
            await page.wait_for_selector("#past .run")
            await state(page, "ended")
            run = await page.get_attribute("#past .run", "data-run")
        for folder in (tmp_path / "state" / "toolbridge" / "runs").iterdir():
            folder.rename(tmp_path / folder.name)
        # A page of its own: the first one shows "ended" before and after the run is opened again.
        async with browse(url) as watched:
            watched.expected = ("status of 404",)
            page = watched.page
            await page.evaluate("run => { location.hash = `run/${run}`; }", run)
            await state(page, "ended")
            assert await labels(page, "result") == ["AssistantReply"]
            await page.evaluate("location.hash = 'run/run_00000000000000aa'")
            await page.wait_for_selector("#notice:not([hidden])")
            assert "cannot be opened" in await page.inner_text("#notice")


@asynccontextmanager
async def started(url: str, body: dict):
    """Start a run as another client does; yield its id and the rest of its events."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/stream", json=body) as answer,
    ):
        yield answer.headers["x-toolbridge-run"], read(answer)


LAMP = {
    "name": "lamp.set",
    "parameters": {"type": "object"},
    "client": True,
    "returns": {
        "type": "object",
        "properties": {
            "bulb": {"type": "integer", "description": "The number of the bulb"},
            "color": {"enum": ["warm", "cold"]},
            "lit": {"type": "boolean"},
            "note": {"type": "string"},
        },
        "required": ["bulb"],
    },
}


async def test_a_run_of_another_client_is_attached_to_keeps_its_times_and_is_answered_in_place(
    browse, home, shots
):
    answers = (f"One moment. {call('T1', 'lamp.set', {'on': True})}", reply(answer="lit"))
    async with (
        streaming(paced(*answers), home) as (url, _, _),
        started(url, {"prompt": "light", "tools": [LAMP]}) as (run, events),
    ):
        async for event in events:
            if event.name == "tool.call":
                break
        async with browse(url) as watched:
            page = watched.page
            await page.click("#past .run:has-text('running')")
            await page.wait_for_selector(".lane-tools .item.open")
            assert await page.evaluate("location.hash") == f"#run/{run}"
            path = f"fetch('/v1/runs/{run}').then((answer) => answer.json())"
            frames = (await page.evaluate(path))["frames"]
            (called,) = [frame for frame in frames if frame["event"] == "tool.call"]
            shown = await page.get_attribute(".lane-tools .item", "aria-label")
            # The time at which the gateway wrote the event, not the time at which it was read.
            assert f"at {spoken(called['ms'])}" in shown
            await page.wait_for_selector("#details form[aria-label='Result of lamp.set']")
            await page.screenshot(path=shots / "attached.png", full_page=True)
            await page.click("#details button.primary")
            assert "bulb is required" in await page.inner_text("#details .problem")
            await page.fill("#details input[type=number]", "3")
            await page.select_option("#details select", "1")
            await page.check("#details input[type=checkbox]")
            await page.click("#details button.primary")
            await state(page, "ended")
            await page.click(".lane-tools .item")
            given = await page.locator("#details pre").last.text_content()
            assert json.loads(given) == {"bulb": 3, "color": "cold", "lit": True}
        assert [event.name async for event in events][-1] == "done"


def spoken(ms: float) -> str:
    """Return a short duration as the page writes it."""
    return f"{round(ms)} ms" if ms < 1000 else f"{ms / 1000:.2f} s"


async def test_a_deep_link_opens_a_run_and_a_failure_can_be_reported(browse, home):
    answers = (call("T1", "lamp.set", {}), reply(answer="dark"))
    async with streaming(paced(*answers), home) as (url, _, _):
        async with started(url, {"prompt": "light", "tools": [LAMP]}) as (run, events):
            async for event in events:
                if event.name == "tool.call":
                    break
            async with browse(url, at=f"#run/{run}") as watched:
                page = watched.page
                await page.fill("#details input[type=text]", "the bulb is broken")
                await page.click("#details button:has-text('Report a failure')")
                await state(page, "ended")
                assert await page.title() == f"Run {run} · toolbridge"
            names = {event.name: event.data async for event in events}
        assert names["tool.result"]["result"]["error"]["message"] == "the bulb is broken"
        async with browse(url, at=f"#run/{run}") as watched:
            await state(watched.page, "past")
            assert await labels(watched.page, "result") == ["AssistantReply"]


async def test_runs_are_searched_and_exported(browse, home, tmp_path):
    async with streaming(paced(reply(answer="one"), reply(answer="two")), home) as (url, _, _):
        for prompt in ("bake bread", "brew tea"):
            async with started(url, {"prompt": prompt}) as (_, events):
                assert [event.name async for event in events][-1] == "done"
        async with browse(url) as watched:
            page = watched.page
            await page.wait_for_selector("#past .run >> nth=1")
            await page.fill("#run-search", "TEA")
            await until(lambda: _is(page.locator("#past .run").count(), 1))
            await page.fill("#run-search", "nothing")
            await page.wait_for_selector("#past:has-text('No run contains')")
            await page.fill("#run-search", "bread")
            await page.click("#past .run")
            await state(page, "past")
            async with page.expect_download() as json_file:
                await page.click("#run-json")
            async with page.expect_download() as lines_file:
                await page.click("#run-ndjson")
            whole = json.loads((await (await json_file.value).path()).read_text())
            lines = (await (await lines_file.value).path()).read_text().splitlines()
    assert whole["prompt"]["order"]["prompt"] == "bake bread"
    assert [json.loads(line) for line in lines] == whole["frames"]


async def _is(found, value) -> bool:
    return await found == value


# ── looks ────────────────────────────────────────────────────────────────────

CONTRAST = """
() => {
  const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (el) => {
    for (; el; el = el.parentElement) {
      const colour = parse(getComputedStyle(el).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.9) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const el of document.querySelectorAll("h1,h2,h3,h4,p,dt,dd,label,button,.badge,.tick,.lane-name,pre,.label")) {
    if (!el.offsetParent || el.matches(".unseen") || el.disabled || el.closest(":disabled") || !el.textContent.trim()) continue;
    const inside = el.matches("[data-side=inside] .label");
    const under = inside ? parse(getComputedStyle(el.previousSibling).backgroundColor) : ground(el);
    const [a, b] = [light(parse(getComputedStyle(el).color)), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${el.className || el.tagName} ${el.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
  }
  return poor;
}
"""


@pytest.mark.parametrize("look", ["light", "dark"])
async def test_both_looks_are_readable(browse, home, shots, look):
    async with (
        streaming(paced(*DEMO), home) as (url, _, _),
        browse(url, color_scheme=look) as watched,
    ):
        page = watched.page
        await start(page)
        await state(page, "ended")
        await page.wait_for_selector("#past .run")
        await page.click(".lane-repairs .item")
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (int(ground[4:].split(",")[0]) > 128) == (look == "light")
        assert await page.evaluate(CONTRAST) == []
        await page.screenshot(path=shots / f"{look}.png", full_page=True)


@pytest.mark.parametrize("width", [400, 700, 1100])
async def test_nothing_sticks_out_of_a_narrow_page(browse, home, shots, width):
    async with (
        streaming(paced(*DEMO), home) as (url, _, _),
        browse(url, viewport={"width": width, "height": 800}) as watched,
    ):
        page = watched.page
        await start(page)
        await state(page, "ended")
        await page.wait_for_selector("#past .run")
        await page.click(".lane-objects .item >> nth=1")
        assert await page.evaluate("document.documentElement.scrollWidth") == width
        # The view scrolls, the document does not: below it there would be nothing.
        assert await page.evaluate("document.documentElement.scrollHeight") == 800
        out = await page.evaluate(
            """() => [...document.querySelectorAll("main *")]
                 .filter((el) => el.offsetParent && !el.matches(".unseen"))
                 .filter((el) => el.getBoundingClientRect().right > innerWidth + 1)
                 .map((el) => el.className || el.tagName)"""
        )
        assert out == []
        await page.screenshot(path=shots / f"width-{width}.png", full_page=True)


# ── the reader of events ─────────────────────────────────────────────────────

STREAM = 'id: run_1:1\nevent: text.delta\ndata: {"text": "aé⟦🍕"}\n\nevent: ping\r\ndata: {}\r\n\r\n: no\nid: run_1:2\nevent: done\ndata: {}\n\n'


async def test_events_are_read_whole_from_every_cut(browse, home):
    async with streaming(paced(), home) as (url, _, _), browse(url) as watched:
        found = await watched.page.evaluate(
            """async (text) => {
                 const { EventReader } = await import("/ui/sse.js");
                 const bytes = new TextEncoder().encode(text);
                 const read = (cuts) => {
                   const reader = new EventReader();
                   return JSON.stringify(cuts.flatMap(([a, b]) => reader.feed(bytes.slice(a, b))));
                 };
                 const all = new Set();
                 for (let at = 0; at <= bytes.length; at++) all.add(read([[0, at], [at, bytes.length]]));
                 all.add(read([...bytes.keys()].map((at) => [at, at + 1])));
                 return [...all];
               }""",
            STREAM,
        )
    assert [json.loads(one) for one in found] == [
        [
            {"name": "text.delta", "data": {"text": "aé⟦🍕"}, "id": "run_1:1"},
            {"name": "ping", "data": {}, "id": ""},
            {"name": "done", "data": {}, "id": "run_1:2"},
        ]
    ]
