"""Lists of models from servers that are healthy, slow, silent or away: who is asked, and who waits.

A silent server holds every question until the test lets it answer, so that "does not wait" means: the
request is answered while the question is still open.
"""

import asyncio
from collections.abc import Iterable
from contextlib import asynccontextmanager, closing

import pytest
from tests.peers import Heard, Line, gateway, model_server, whole
from tests.ports import HeldPort
from tests.routing.test_names import ask, chatting
from tests.waiting import HANG, until

from toolbridge.cli import doctor
from toolbridge.config import Config, ProviderConfig
from toolbridge.core.errors import UnknownModel
from toolbridge.policy.routing_rules import RoutingRule
from toolbridge.routing import discovery, model_lists, models
from toolbridge.routing.models import ModelRoutes
from toolbridge.upstream import engines, ollama, silence
from toolbridge.upstream.http import Upstream

APIS = ("openai_chat", "ollama")


class Place:
    """A model server whose list a test can hold back."""

    def __init__(self, api: str, *names: str) -> None:
        self.api = api
        self.names = list(names)
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = 0
        self.answered = 0
        self.url = ""

    async def answer(self, heard: Heard, line: Line) -> None:
        if heard.path in {"/v1/models", "/api/tags"}:
            self.asked += 1
            await self.answers.wait()
            rows = [{"id": name, "name": name, "object": "model"} for name in self.names]
            await whole(line, {"data": rows} if self.api == "openai_chat" else {"models": rows})
            self.answered += 1
        elif heard.path == "/api/show":
            await whole(line, {"capabilities": ["completion", "tools"]})
        elif heard.method == "GET":
            await whole(line, {"error": "no"}, 404)
        else:
            message = {"role": "assistant", "content": "hello"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            await whole(line, {"id": "1", "object": "chat.completion", "choices": [choice]})

    @property
    def config(self) -> ProviderConfig:
        return ProviderConfig(api=self.api, url=self.url)


@asynccontextmanager
async def served(**places: Place):
    """Serve all `places`; yield the providers of a configuration, in their order."""
    async with asyncio.timeout(HANG):
        servers = [model_server(place.answer, probes=True) for place in places.values()]
        try:
            for place, server in zip(places.values(), servers, strict=True):
                place.url = (await server.__aenter__()).url
            yield {name: place.config for name, place in places.items()}
        finally:
            for server in servers:
                await server.__aexit__(None, None, None)


@asynccontextmanager
async def routed(config: Config):
    async with Upstream() as upstream:
        routes = ModelRoutes(config, upstream, {})
        yield routes
        routes.close()


@pytest.fixture
def patient(monkeypatch):
    """Let a question wait as long as the test: what is still open then was not waited for."""
    monkeypatch.setattr(engines, "LIMIT", HANG)
    monkeypatch.setattr(model_lists, "LIST_WAIT", HANG)
    monkeypatch.setattr(models, "LIST_WAIT", HANG)


@pytest.fixture
def forgetful(monkeypatch):
    """Make every list and every route old at once."""
    monkeypatch.setattr(engines, "KEPT", 0.0)
    monkeypatch.setattr(ollama, "LIST_KEPT", 0.0)
    monkeypatch.setattr(models, "ROUTES_KEPT", 0.0)


@pytest.fixture
def brief(monkeypatch):
    """Let servers that were silent be asked again after a moment."""
    monkeypatch.setattr(silence, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(silence, "LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(discovery, "SLOW_INTERVAL", 0.0)
    monkeypatch.setattr(discovery, "INTERVAL", 0.0)


def hold(places: Iterable[Place]) -> None:
    for place in places:
        place.answers.clear()


# ── names that need no list ──


@pytest.mark.usefixtures("brief", "forgetful")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", ["a/m", "mine", "by-rule"])
async def test_a_name_that_names_its_provider_asks_no_other_provider(name, api):
    healthy, others = Place("openai_chat"), [Place(api) for _ in range(4)]
    hold(others)
    async with served(a=healthy, **{f"z{n}": one for n, one in enumerate(others)}) as providers:
        rule = RoutingRule(to="a/other", model="by-*")
        config = Config(log="off", providers=providers, map={"mine": "a/own"}, routes=(rule,))
        async with gateway(config) as (url, app):
            assert app.gateway.model_routes.default == ""  # so the search for a default goes on
            before = [one.asked for one in others]
            assert before == [1] * 4
            for _ in range(5):
                assert (await ask(url, name))[0] == 200
                await asyncio.sleep(0.03)  # longer than the longest pause
            assert [one.asked for one in others] == before


# ── all at once ──


class Meeting(Place):
    """A server that answers only when all that meet are asked."""

    def __init__(self, api: str, barrier: asyncio.Barrier, *names: str) -> None:
        super().__init__(api, *names)
        self._barrier = barrier

    async def answer(self, heard: Heard, line: Line) -> None:
        if heard.path in {"/v1/models", "/api/tags"}:
            await self._barrier.wait()
        await super().answer(heard, line)


def meeting(*apis: str) -> dict[str, Place]:
    barrier = asyncio.Barrier(len(apis))
    return {f"z{n}": Meeting(api, barrier, f"m{n}") for n, api in enumerate(apis)}


@pytest.mark.usefixtures("patient")
async def test_the_search_for_the_default_asks_all_at_once():
    async with (
        served(**meeting(*APIS, *APIS)) as providers,
        routed(Config(providers=providers)) as routes,
    ):
        await routes.discover()
        assert routes.default == "z0/m0"  # the first, whoever answers first


@pytest.mark.usefixtures("patient")
async def test_a_name_without_a_provider_asks_all_at_once():
    async with (
        served(**meeting(*APIS, *APIS)) as providers,
        routed(Config(providers=providers, map={"default": "z0/m0"})) as routes,
    ):
        await routes.discover()
        assert await routes.addresses("m3") == ("z3/m3",)


@pytest.mark.usefixtures("patient")
async def test_the_list_of_all_models_asks_all_at_once():
    async with (
        served(**meeting(*APIS, *APIS)) as providers,
        routed(Config(providers=providers, map={"default": "z0/m0"})) as routes,
    ):
        found = {model.address for model in await routes.listed()}
    assert {f"z{n}/m{n}" for n in range(4)} <= found


@pytest.mark.usefixtures("patient")
async def test_doctor_asks_all_at_once():
    places = meeting(*["openai_chat"] * 4)
    async with served(**places) as providers:
        found = await doctor._models(Config(providers=providers), [])
    assert [one.good for one in found if "answers at" in one.what] == [True] * 4
    assert [place.asked for place in places.values()] == [2] * 4


@pytest.mark.usefixtures("patient")
async def test_a_provider_after_one_whose_model_is_known_is_not_asked_for_the_default():
    first, last = Place("openai_chat", "x"), Place("openai_chat", "y")
    hold([last])
    async with served(a=first, z=last) as providers:
        config = Config(providers={"d": ProviderConfig(api="demo"), **providers})
        async with routed(config) as routes:
            await routes.discover()
            assert routes.default == "d/toolbridge-demo"
            await asyncio.sleep(0.05)
    assert (first.asked, last.asked) == (0, 0)


# ── old lists ──


@pytest.mark.usefixtures("patient", "forgetful")
@pytest.mark.parametrize("api", APIS)
async def test_an_old_list_serves_while_it_is_renewed_by_one_question(api):
    a, b = Place("openai_chat", "m"), Place(api, "x")
    async with served(a=a, b=b) as providers, routed(Config(providers=providers)) as routes:
        await routes.discover()
        assert await routes.addresses("x") == ("b/x",)
        assert await routes.addresses("claude-opus-5-5") == ("a/m",)  # no list has it
        await until(lambda: b.answered == b.asked)
        before = b.asked
        hold([b])
        for name, meant in (("m", "a/m"), ("x", "b/x"), ("claude-opus-5-5", "a/m")) * 2:
            assert await routes.addresses(name) == (meant,)
        await until(lambda: b.asked > before)
        assert b.asked == before + 1
        b.names = ["y"]
        b.answers.set()
        await until(lambda: not routes._lists._renewals)
        await asyncio.sleep(0.05)
        assert b.asked == before + 1
        assert await routes.addresses("y") == ("b/y",)
        with pytest.raises(UnknownModel):
            await routes.addresses("x")


@pytest.mark.usefixtures("patient", "forgetful")
@pytest.mark.parametrize("table", [{}, {"default": "a/m"}, {"*": "a/m"}])
@pytest.mark.parametrize("api", APIS)
async def test_a_name_that_nobody_knows_waits_for_the_renewal(api, table):
    a, b = Place("openai_chat", "m"), Place(api, "x")
    async with (
        served(a=a, b=b) as providers,
        routed(Config(providers=providers, map=table)) as routes,
    ):
        await routes.discover()
        assert await routes.addresses("x") == ("b/x",)
        await until(lambda: b.answered == b.asked)
        before = b.asked
        hold([b])
        waiting = asyncio.create_task(routes.addresses("new"))
        await until(lambda: b.asked > before)
        assert not waiting.done()
        b.names.append("new")
        b.answers.set()
        assert await waiting == ("b/new",)


@pytest.mark.usefixtures("patient")
async def test_a_new_list_counts_at_once(monkeypatch):
    monkeypatch.setattr(engines, "KEPT", 0.0)
    a, b = Place("openai_chat", "m"), Place("openai_chat", "x")
    async with (
        served(a=a, b=b) as providers,
        routed(Config(providers=providers, map={"default": "a/m"})) as routes,
    ):
        assert await routes.addresses("new") == ("a/m",)  # and is kept
        b.names.append("new")
        assert await routes.addresses("other") == ("a/m",)
        assert await routes.addresses("new") == ("b/new",)


@pytest.mark.usefixtures("patient")
async def test_a_pattern_of_the_map_does_not_take_a_name_that_a_slow_server_lists():
    slow, cloud = Place("ollama", "qwen3:8b"), Place("openai_chat", "big")
    hold([slow])
    async with served(cloud=cloud, slow=slow) as providers:
        config = Config(providers=providers, map={"default": "cloud/big", "*": "cloud/big"})
        async with routed(config) as routes:
            await routes.discover()
            waiting = asyncio.create_task(routes.addresses("qwen3:8b"))
            await until(lambda: slow.asked)
            assert not waiting.done()
            slow.answers.set()
            assert await waiting == ("slow/qwen3:8b",)


# ── silent servers, and those that come back ──


@pytest.mark.usefixtures("brief", "forgetful")
@pytest.mark.parametrize("api", APIS)
async def test_a_silent_server_is_asked_in_the_background_and_comes_back(api, monkeypatch):
    a, b = Place("openai_chat", "m"), Place(api, "x")
    hold([b])
    async with (
        served(a=a, b=b) as providers,
        gateway(Config(log="off", providers=providers, map={"default": "a/m"})) as (url, app),
    ):
        routes = app.gateway.model_routes
        assert await routes.addresses("first") == ("a/m",)
        assert b.asked == 1
        monkeypatch.setattr(engines, "LIMIT", HANG)  # whoever waits for it now waits for ever
        monkeypatch.setattr(model_lists, "LIST_WAIT", HANG)
        await asyncio.sleep(0.05)
        for name in ("m", "second", "third"):
            assert (await ask(url, name))[0] == 200
        await until(lambda: b.asked > 1)
        assert (await ask(url, "fourth"))[0] == 200
        assert b.asked == 2
        b.answers.set()
        await until(lambda: not routes._lists._renewals)
        assert await routes.addresses("x") == ("b/x",)


@pytest.mark.usefixtures("brief", "forgetful")
async def test_an_unknown_name_waits_for_a_silent_server_that_is_asked_again(monkeypatch):
    a, b = Place("openai_chat", "m"), Place("openai_chat", "x")
    hold([b])
    async with served(a=a, b=b) as providers, routed(Config(providers=providers)) as routes:
        await routes.discover()
        with pytest.raises(UnknownModel):
            await routes.addresses("x")
        before = b.asked
        monkeypatch.setattr(engines, "LIMIT", HANG)
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(routes.addresses("x"))
        await until(lambda: b.asked > before)
        assert not waiting.done()
        b.answers.set()
        assert await waiting == ("b/x",)


@pytest.mark.usefixtures("brief")
async def test_an_ollama_that_was_silent_at_the_start_serves_without_a_restart():
    held = asyncio.Event()
    chat = chatting("qwen3:8b")

    async def answer(heard: Heard, line: Line) -> None:
        await held.wait()
        await chat(heard, line)

    async with (
        model_server(answer) as server,
        gateway(demo=False, env={"OLLAMA_HOST": server.url}) as (url, _),
    ):
        assert (await ask(url, "claude-sonnet-4-5"))[2] == "demo/toolbridge-demo"
        held.set()
        answered = ""
        async with asyncio.timeout(HANG):
            while answered != "ollama/qwen3:8b":
                answered = (await ask(url, "claude-sonnet-4-5"))[2]


@pytest.mark.parametrize("api", APIS)
async def test_a_configured_server_that_starts_later_is_found_by_the_next_request(api):
    place = Place(api, "x")
    with closing(HeldPort()) as held:
        away = ProviderConfig(api=api, url=f"http://127.0.0.1:{held.number}")
        async with routed(Config(providers={"b": away})) as routes:
            await routes.discover()
            assert routes.default == ""
            async with model_server(place.answer, held.number, probes=True):
                assert await routes.addresses("x") == ("b/x",)
                assert await routes.addresses("claude-opus-5-5") == ("b/x",)


@pytest.mark.usefixtures("patient")
async def test_an_own_server_that_is_silent_about_its_models_still_chats(monkeypatch):
    a = Place("openai_chat", "m")
    hold([a])
    monkeypatch.setattr(engines, "LIMIT", 1.0)
    monkeypatch.setattr(silence, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(models, "ROUTES_KEPT", 0.0)
    async with served(a=a) as providers, routed(Config(providers=providers)) as routes:
        await routes.discover()
        monkeypatch.setattr(engines, "LIMIT", HANG)
        await asyncio.sleep(0.05)
        assert (await routes.route("a/m")).address == "a/m"
        await until(lambda: a.asked == 2)


@pytest.mark.usefixtures("patient")
async def test_a_closed_gateway_ends_its_questions():
    a, b = Place("openai_chat", "m"), Place("openai_chat", "x")
    hold([b])
    async with served(a=a, b=b) as providers, routed(Config(providers=providers)) as routes:
        search = asyncio.create_task(routes.discover())
        await until(lambda: b.asked)
        await search
        routes.close()
        await until(lambda: not routes._lists._renewals)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("api", APIS)
async def test_a_question_that_has_just_begun_ends_with_the_connections(api, turns):
    """Ctrl-C in the first moments of a command: a task must not end with an error of its own."""
    place = Place(api, "m")
    place.answers.clear()
    async with served(there=place) as providers:
        async with Upstream() as upstream:
            lists = model_lists.ModelLists(providers, upstream, {})
            task = lists.renew("there")
            for _ in range(turns):
                await asyncio.sleep(0)
            lists.close()
        place.answers.set()
        (found,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(found, asyncio.CancelledError)
