"""What a model's answers show about its tool modes is kept, in this process and in the next."""

import stat
from contextlib import asynccontextmanager

import pytest
from tests.asking import ask, request
from tests.peers import gateway, model_server, whole
from tests.server.test_tool_modes import JSON_CALL, PARIS, TAGGED, says
from tests.streams import chunk

from toolbridge.cli.models import list_models
from toolbridge.config import Config, ModelConfig, ProviderConfig


class Engine:
    """A llama.cpp server: its template, and the answer of its model to each request."""

    def __init__(self, *, tools: bool = True, template: str = "first") -> None:
        self.props = {
            "build_info": "b1",
            "chat_template": template,
            "chat_template_caps": {"supports_tools": tools},
            "default_generation_settings": {"n_ctx": 4096},
        }
        self.asked: list[dict] = []
        self.native = says("I would rather not.")
        self.told = says(TAGGED)
        self.constrained = says(JSON_CALL)

    async def __call__(self, heard, line) -> None:
        if heard.path == "/props":
            await whole(line, self.props)
        elif heard.path.endswith("/models"):
            await whole(line, {"data": [{"id": "m", "owned_by": "llamacpp"}]})
        else:
            self.asked.append(heard.json)
            kind = "constrained" if "response_format" in heard.json else "told"
            await getattr(self, "native" if "tools" in heard.json else kind)(heard, line)

    @property
    def modes(self) -> list[str]:
        """The modes of the requests so far."""
        return [
            "native"
            if "tools" in body
            else "constrained"
            if "response_format" in body
            else "prompt"
            for body in self.asked
        ]


def config_of(server, **settings) -> Config:
    models = {"llamacpp/m": ModelConfig(**settings)} if settings else {}
    return Config(
        log="off",
        map={"default": "llamacpp/m"},
        providers={
            "llamacpp": ProviderConfig(api="openai_chat", url=f"{server.url}/v1", retries=0)
        },
        models=models,
    )


@asynccontextmanager
async def bridged(engine: Engine, state=None, **settings):
    env = {} if state is None else {"XDG_STATE_HOME": str(state)}
    async with (
        model_server(engine, probes=True) as server,
        gateway(config_of(server, **settings), env) as (url, _),
    ):
        yield url


async def ask_for(url: str, choice: str = "", *, stream: bool = True):
    return await ask(url, "anthropic", request(choice=choice), stream=stream)


async def test_a_template_without_tools_is_never_sent_any():
    engine = Engine(tools=False)
    async with bridged(engine) as url:
        assert (await ask_for(url)).calls == [PARIS]
        assert (await ask_for(url, "required")).calls == [PARIS]
        assert (await ask_for(url, "get_weather")).calls == [PARIS]
    assert engine.modes == ["prompt", "constrained", "constrained"]


@pytest.mark.parametrize("stream", [True, False])
async def test_text_in_place_of_a_demanded_call_moves_the_model_down(stream):
    engine = Engine()
    async with bridged(engine) as url:
        assert (await ask_for(url, "required", stream=stream)).calls == []
        assert (await ask_for(url, "required", stream=stream)).calls == [PARIS]
        assert (await ask_for(url, stream=stream)).calls == [PARIS]
    assert engine.modes == ["native", "constrained", "prompt"]


async def test_an_engine_that_cannot_parse_its_model_is_asked_natively_once():
    async def broken(_, line) -> None:
        text = "The model produced output that does not match the expected peg-native format"
        await whole(line, {"error": {"code": 500, "message": text, "type": "server_error"}}, 500)

    engine = Engine()
    engine.native = broken
    async with bridged(engine) as url:
        for _ in range(3):
            assert (await ask_for(url)).calls == [PARIS]
    assert engine.modes == ["native", "prompt", "prompt", "prompt"]


async def test_calls_that_stay_invalid_move_the_model_down():
    async def broken(_, line) -> None:
        call = {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": "Paris?"}}
        await line.head(kind="text/event-stream")
        await line.send(chunk({"tool_calls": [call]}) + chunk({}, "tool_calls"))
        await line.send("data: [DONE]\n\n")
        await line.end()

    engine = Engine()
    engine.native = broken
    async with bridged(engine) as url:
        await ask_for(url)
        assert (await ask_for(url)).calls == [PARIS]
    assert engine.modes == ["native", "prompt"]


def calls(_, line):
    call = {
        "index": 0,
        "id": "c",
        "function": {"name": "get_weather", "arguments": '{"city": "P"}'},
    }
    return _send(line, chunk({"tool_calls": [call]}) + chunk({}, "tool_calls"))


async def _send(line, text: str) -> None:
    await line.head(kind="text/event-stream")
    await line.send(text + "data: [DONE]\n\n")
    await line.end()


async def test_a_mode_that_has_worked_survives_a_failure():
    engine = Engine()
    refuses = engine.native
    async with bridged(engine) as url:
        engine.native = calls
        await ask_for(url, "required")
        engine.native = refuses
        await ask_for(url, "required")
        await ask_for(url, "required")
        assert engine.modes == ["native"] * 3
        await ask_for(url, "required")
        await ask_for(url, "required")
    assert engine.modes == ["native"] * 4 + ["constrained"]


@pytest.mark.parametrize("status", [429, 500, 503, 0])
async def test_a_transport_error_shows_nothing(status):
    async def broken(_, line) -> None:
        if status:
            await whole(line, {"error": {"message": "internal error"}}, status)
        else:
            line.cut()

    engine = Engine()
    refused, engine.native = engine.native, broken
    async with bridged(engine) as url:
        for _ in range(4):
            assert (await ask_for(url)).error
        engine.native = refused
        await ask_for(url)
    assert set(engine.modes) == {"native"}


async def test_small_talk_shows_nothing():
    engine = Engine()
    async with bridged(engine) as url:
        for _ in range(4):
            await ask_for(url)
    assert engine.modes == ["native"] * 4


async def test_a_low_token_limit_shows_nothing():
    engine = Engine()
    engine.native = lambda _, line: _send(line, chunk({"content": "So"}) + chunk({}, "length"))
    async with bridged(engine) as url:
        for _ in range(2):
            await ask(url, "anthropic", request(choice="required", max_tokens=16), stream=True)
    assert engine.modes == ["native"] * 2


async def test_the_next_process_knows_it_and_the_file_is_private(tmp_path):
    async with bridged(Engine(), tmp_path) as url:
        await ask_for(url, "required")
    (file,) = tmp_path.rglob("toolbridge.sqlite")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    engine = Engine()
    async with bridged(engine, tmp_path) as url:
        await ask_for(url, "required")
    assert engine.modes == ["constrained"]


async def test_another_template_is_another_model(tmp_path):
    async with bridged(Engine(), tmp_path) as url:
        await ask_for(url, "required")
    engine = Engine(template="second")
    async with bridged(engine, tmp_path) as url:
        await ask_for(url, "required")
    assert engine.modes == ["native"]


async def test_the_configuration_overrides_what_was_learned(tmp_path):
    async with bridged(Engine(), tmp_path) as url:
        await ask_for(url, "required")
    engine = Engine()
    async with bridged(engine, tmp_path, tool_mode="native") as url:
        await ask_for(url, "required")
        await ask_for(url, "required")
    assert engine.modes == ["native"] * 2


async def test_nothing_is_stored_before_something_was_learned(tmp_path):
    async with bridged(Engine(), tmp_path) as url:
        await ask_for(url)
    assert list(tmp_path.rglob("toolbridge.sqlite")) == []


@pytest.mark.parametrize(
    ("settings", "tools", "fails", "shown"),
    [
        ({}, True, False, "tools: native"),
        ({}, False, False, "tools: prompt, the model has no native tools"),
        ({"tool_mode": "constrained"}, True, False, "tools: constrained, set by `tool_mode`"),
        ({}, True, True, "tools: prompt, learned: it answered with text where a call was demanded"),
    ],
)
async def test_the_list_of_models_shows_the_mode_and_why(
    tmp_path, monkeypatch, settings, tools, fails, shown
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    engine = Engine(tools=tools)
    async with model_server(engine, probes=True) as server:
        config = config_of(server, **settings)
        if fails:
            async with gateway(config, {"XDG_STATE_HOME": str(tmp_path)}) as (url, _):
                await ask_for(url, "required")
        default, listed = await list_models(config)
    assert {model.address: mode for model, mode in listed}[default] == shown


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Automatic parser generation failed: JSON schema error at #: unrecognized type x"),
        (400, "Failed to initialize samplers: failed to parse grammar"),
        (422, "Unsupported parameter: response_format"),
        (500, 'invalid format: "x"; expected "json" or a valid JSON Schema object'),
    ],
)  # fmt: skip
async def test_a_rejected_constraint_is_sent_once(status, text):
    async def rejects(_, line) -> None:
        await whole(line, {"error": {"message": text}}, status)

    engine = Engine(tools=False)
    engine.constrained = rejects
    async with bridged(engine) as url:
        assert (await ask_for(url, "required")).calls == [PARIS]
        assert (await ask_for(url, "required")).calls == [PARIS]
    assert engine.modes == ["constrained", "prompt", "prompt"]


@pytest.mark.parametrize("api", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_a_choice_of_a_tool_that_is_not_offered_teaches_nothing(api):
    engine = Engine()
    async with bridged(engine) as url:
        for _ in range(4):
            await ask(url, api, request(choice="get_wether"), stream=True)
        await ask(url, api, request(), stream=True)
    assert engine.modes == ["native"] * 5
