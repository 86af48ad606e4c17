"""The other routes: what clients ask before they ask for words."""

import asyncio
import json

import aiohttp
import pytest
from tests.peers import SHOW, bridged, gateway, line_of, model_server, ollama, recorded, replay
from tests.tables import every_row

from toolbridge.config import Config, ProviderConfig
from toolbridge.server.dispatch import plain_path

GOOD = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello world"}]}


async def call(url: str, path: str, method: str = "GET", body: dict | None = None, **headers):
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, json=body, headers=headers) as answer,
    ):
        text = await answer.read()
        return answer, json.loads(text) if text.startswith(b"{") else text


@pytest.mark.req("CB-24", "PX-X9")
async def test_health_says_what_serves():
    async with gateway() as (url, _):
        answer, health = await call(url, "/health")
    assert answer.status == 200
    assert (health["status"], health["model"]) == ("ok", "demo/toolbridge-demo")


@pytest.mark.req("PX-X9", "CL-01")
@pytest.mark.parametrize("path", ["/", "/api/hello", "/health"])
async def test_a_head_request_has_no_body(path):
    async with gateway() as (url, _):
        answer, text = await call(url, path, "HEAD")
    assert answer.status == 200
    assert text == b""


@pytest.mark.req("CL-01")
@pytest.mark.parametrize(
    "path",
    ["/v1/messages?beta=true", "/v1/v1/messages", "/anthropic/v1/messages", "/v1/messages/", "//v1/messages"],
)  # fmt: skip
async def test_a_base_url_may_be_given_in_many_ways(path):
    async with gateway() as (url, _):
        answer, _ = await call(url, path, "POST", GOOD)
    assert answer.status == 200


@every_row(
    ("path", "plain"),
    [
        ("/v1/v1/v1/messages", "/v1/messages"),
        ("/api/v1/chat/completions", "/v1/chat/completions"),
        ("/v1beta/openai/chat/completions", "/v1/chat/completions"),
        ("/openai/v1/responses/", "/v1/responses"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/api/chat", "/api/chat"),
        ("/api/api/tags", "/api/tags"),
        ("/v1beta/v1beta/models/a:b:generateContent", "/v1beta/models/a:b:generateContent"),
        ("/v1/v1beta/models/x:generateContent", "/v1beta/models/x:generateContent"),
        ("//health", "/health"),
        ("/v1/nothing", "/v1/nothing"),
        ("/evil/v1/messages", "/evil/v1/messages"),
        ("/", "/"),
    ],
)
def test_a_path_is_served_as_the_route_that_its_base_url_means(path, plain):
    assert plain_path(path) == plain


async def test_a_method_of_gemini_may_have_a_slash_at_its_end():
    async with bridged(recorded("ollama/jinja/chat_stream.txt")) as (url, *_):
        body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
        for method in ("generateContent/", "countTokens/", "streamGenerateContent//"):
            answer, _ = await call(url, f"/v1beta/models/any:{method}?alt=sse", "POST", body)
            assert answer.status == 200, method


@pytest.mark.req("PX-31", "PX-52", "CL-10")
async def test_tokens_are_counted_without_asking_anybody():
    async with bridged(replay()) as (url, server, _):
        request = {k: v for k, v in GOOD.items() if k != "max_tokens"}
        answers = await asyncio.gather(
            *(call(url, "/v1/messages/count_tokens?beta=true", "POST", request) for _ in range(35))
        )
        longer = request | {"system": "You are a patient teacher of mathematics."}
        _, more = await call(url, "/v1/messages/count_tokens", "POST", longer)
    assert not server.heard
    answer, counted = answers[0]
    assert {a.status for a, _ in answers} == {200}
    # Four for the request, four for the message, and 11 characters at 3.6 to a token.
    assert {json.dumps(body) for _, body in answers} == {'{"input_tokens": 11}'}
    assert more["input_tokens"] > counted["input_tokens"] > 0
    assert answer.headers["x-toolbridge-token-count"] == "estimated"


async def test_counts_are_calibrated_by_what_the_model_reported():
    async with bridged(recorded("ollama/jinja/chat_stream.txt")) as (url, *_):
        for _ in range(3):
            _, reply = await call(url, "/v1/messages", "POST", GOOD)
        answer, counted = await call(url, "/v1/messages/count_tokens", "POST", GOOD)
    assert answer.headers["x-toolbridge-token-count"] == "calibrated"
    assert counted["input_tokens"] == reply["usage"]["input_tokens"]


LONG = {
    "model": "m",
    "system": "be kind",
    "messages": [
        {"role": "user", "content": "hello world"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "x y"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "found it"}]},
    ],
}  # fmt: skip
TEXT = 'be kind hello world {"path":"x y"} found it'


@pytest.mark.req("PX-29", "PX-30", "PX-31", "PX-32", "PX-33")
async def test_words4_counts_the_words_of_a_request_without_asking_the_provider():
    async with bridged(replay(), place={"counting": "words4"}) as (url, server, _):
        answer, counted = await call(url, "/v1/messages/count_tokens", "POST", GOOD)
        _, longer = await call(url, "/v1/messages/count_tokens", "POST", LONG)
    assert not server.heard
    assert answer.headers["x-toolbridge-token-count"] == "words4"
    assert counted == {"input_tokens": 4}
    assert longer == {"input_tokens": sum(-(-len(word) // 4) for word in TEXT.split())}


@pytest.mark.req("CB-12")
async def test_chars4_counts_the_characters_of_a_request():
    async with bridged(replay(), place={"counting": "chars4"}) as (url, server, _):
        answer, counted = await call(url, "/v1/messages/count_tokens", "POST", GOOD)
        _, longer = await call(url, "/v1/messages/count_tokens", "POST", LONG)
    assert not server.heard
    assert answer.headers["x-toolbridge-token-count"] == "chars4"
    assert counted == {"input_tokens": 3}
    assert longer == {"input_tokens": -(-len(TEXT) // 4)}


@pytest.mark.req("CB-12")
async def test_a_simple_count_stands_in_the_response_but_limits_go_by_the_estimate():
    asked = GOOD | {"max_tokens": 1_000_000}
    sent = []
    for counting in ("auto", "chars4"):
        answer = replay(line_of("hi", done=True))
        async with bridged(answer, place={"counting": counting}) as (url, server, _):
            _, reply = await call(url, "/v1/messages", "POST", asked)
        sent.append(server.chats()[-1].json["options"])
    assert reply["usage"]["input_tokens"] == 3
    assert sent[0] == sent[1]
    assert sent[0]["num_predict"] == sent[0]["num_ctx"] - 11


@pytest.mark.req("PX-X9", "CL-01")
async def test_models_are_listed_in_anthropics_shape():
    models = ("tiny:latest", "big:7b")
    async with bridged(replay(), models=models, map={"sonnet": "ollama/big:7b"}) as (url, *_):
        answer, listed = await call(
            url, "/v1/models?limit=1000", **{"anthropic-version": "2023-06-01"}
        )
        _, one = await call(url, "/v1/models/tiny:latest", **{"anthropic-version": "2023-06-01"})
    assert answer.status == 200
    assert {m["id"] for m in listed["data"]} == {"sonnet", "tiny:latest", "big:7b"}
    assert listed["has_more"] is False
    assert all(m["type"] == "model" and m["display_name"] for m in listed["data"])
    assert one["max_input_tokens"] == min(SHOW["model_info"]["llama.context_length"], 65536)


@pytest.mark.req("PX-X6", "PX-X10")
async def test_one_line_is_logged_per_request(capsys):
    from toolbridge.config import Config

    async with gateway(Config(log="json")) as (url, _):
        answer, _ = await call(url, "/v1/messages", "POST", GOOD)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == 1
    found = lines[0]
    assert found["request.id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    assert found["request.id"].startswith("req_")
    assert len(found["request.id"]) == 20
    assert found["gen_ai.request.model"] == "m"
    assert found["gen_ai.provider.name"] == "demo"
    assert found["http.response.status_code"] == 200
    assert found["gen_ai.usage.output_tokens"] > 0
    assert "hello world" not in json.dumps(found)


@pytest.mark.req("PX-X10")
async def test_what_was_dropped_is_said_in_a_header_and_counted():
    async with bridged(replay({"message": {"content": "x"}, "done": True})) as (url, *_):
        asked = GOOD | {
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        }
        answer, _ = await call(url, "/v1/messages", "POST", asked)
        _, metrics = await call(url, "/metrics")
    assert "tool_choice" in answer.headers["x-toolbridge-warning"]
    assert b'toolbridge_dropped_total{what="tool_choice"} 1' in metrics
    assert b"toolbridge_requests_total{" in metrics


async def test_a_thing_that_fails_inside_does_not_take_the_server_down(monkeypatch, capsys):
    async with gateway() as (url, app):
        monkeypatch.setattr(app.gateway.model_routes, "listed", lambda: 1 / 0)
        answer, error = await call(url, "/v1/models")
        assert answer.status == 500
        assert error["error"]["type"] == "server_error"
        assert "ZeroDivisionError" in capsys.readouterr().err
        assert (await call(url, "/health"))[0].status == 200


@pytest.mark.req("CB-27")
async def test_stopping_frees_the_port_and_ends_what_is_in_flight():
    async def chat(_, peer):
        await peer.head()
        await peer.send('{"message":{"content":"one"},"done":false}\n')
        await peer.gone()

    session = aiohttp.ClientSession()
    async with bridged(chat) as (url, *_):
        answer = await session.post(url + "/v1/messages", json=GOOD | {"stream": True})
        await answer.content.readany()
    with pytest.raises(aiohttp.ClientError):
        await answer.read()
    answer.close()
    with pytest.raises(aiohttp.ClientConnectionError):
        await session.get(url + "/health")
    await session.close()


@pytest.mark.req("CL-01")
async def test_a_list_of_models_does_not_wait_for_servers_one_after_the_other():
    asked = most = 0

    async def silent(_, line):
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await line.gone()
        asked -= 1

    async with model_server(silent) as one, model_server(silent) as two:
        places = {
            name: ProviderConfig(api="ollama", url=server.url)
            for name, server in (("one", one), ("two", two))
        }
        config = Config(log="off", map={"default": "one/m"}, providers=places)
        async with gateway(config) as (url, _):
            answer, found = await call(url, "/v1/models?limit=1000", **{"anthropic-version": "1"})
    assert (answer.status, most) == (200, 2)
    assert [model["id"] for model in found["data"]] == ["m"]


CLAUDE_CODE = {"user-agent": "claude-cli/2.1.223 (external, cli)", "anthropic-version": "1"}


@pytest.mark.req("CL-01")
async def test_claude_code_is_offered_every_model_under_a_name_that_it_shows():
    models = ("tiny:latest", "qwen3:8b", "my-claude")
    async with bridged(recorded("ollama/jinja/chat_stream.txt"), models=models) as (url, server, _):
        _, found = await call(url, "/v1/models?limit=1000", **CLAUDE_CODE)
        named = {model["id"]: model["display_name"] for model in found["data"]}
        assert named == {
            "claude-tiny:latest": "tiny:latest",
            "claude-qwen3:8b": "qwen3:8b",
            "my-claude": "my-claude",
        }
        _, plain = await call(url, "/v1/models", **{"anthropic-version": "1"})
        assert [model["id"] for model in plain["data"]] == list(models)
        for asked, served in (("claude-qwen3:8b", "qwen3:8b"), ("claude-sonnet-4-5", models[0])):
            await call(url, "/v1/messages", "POST", GOOD | {"model": asked})
            assert server.chats()[-1].json["model"] == served


@pytest.mark.req("PX-X8", "PX-49")
@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("qwen3:8b", "qwen3:8b"),
        ("small", "small:latest"),
        ("ollama/qwen3:8b", "qwen3:8b"),
        ("opus-of-mine", "opus-of-mine"),
        ("nobody-has-this", "tiny:latest"),
        ("claude-opus-4-5", "small:latest"),
        ("mapped", "qwen3:8b"),
    ],
)
async def test_a_model_that_is_listed_is_the_one_that_answers(asked, served):
    models = ("tiny:latest", "qwen3:8b", "small:latest", "opus-of-mine")
    named = {"opus": "ollama/small:latest", "mapped": "ollama/qwen3:8b"}
    chat = recorded("ollama/jinja/chat_stream.txt")
    async with bridged(chat, models=models, map=named) as (url, server, _):
        answer, _ = await call(url, "/v1/messages", "POST", GOOD | {"model": asked})
    assert answer.headers["x-toolbridge-model"] == f"ollama/{served}"
    assert server.chats()[0].json["model"] == served


async def test_a_wrong_method_is_told_the_right_one():
    async with gateway() as (url, _):
        answer, _ = await call(url, "/v1/messages", "PUT", GOOD)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("name", ["demo/a\r\nset-cookie: x", "demo/\x00\x1b[31m"])
async def test_a_models_name_with_control_characters_is_refused(name):
    async with gateway() as (url, _):
        answer, error = await call(url, "/v1/messages", "POST", GOOD | {"model": name})
    assert answer.status == 400
    assert error["error"]["message"].startswith("model: a model name cannot contain '\\")
    assert "set-cookie" not in answer.headers


async def test_a_models_name_cannot_break_a_header():
    async with gateway() as (url, _):
        name = "demo/" + "ü😀" * 9000
        answer, _ = await call(url, "/v1/messages", "POST", GOOD | {"model": name})
    assert answer.status == 200
    shown = answer.headers["x-toolbridge-model"]
    assert "set-cookie" not in answer.headers
    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) <= 4000


async def test_a_pretty_log_holds_one_line_per_request_whatever_was_asked(capsys):
    async with gateway(Config(log="pretty")) as (url, _):
        await call(url, "/x%0a%1b%5b31m")
    line, *more = capsys.readouterr().err.strip().split("\n")
    assert not more
    assert line.count("/x??[31m") == 2


async def test_a_request_that_outlives_the_grace_of_a_stop_is_told_so():
    async with gateway() as (url, app):
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST /v1/messages HTTP/1.1\r\nhost: {host}\r\ncontent-length: 9\r\n\r\n{{".encode()
        )
        while not app.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    reply = await reader.read()
    writer.close()
    assert reply.startswith(b"HTTP/1.1 529")
    assert b"retry-after: " in reply
    assert b"the gateway is shutting down" in reply


@pytest.mark.req("PX-X10")
@pytest.mark.parametrize(("capabilities", "think"), [(["completion"], None), (["thinking"], True)])
async def test_a_server_is_asked_once_what_its_model_can_do(capabilities, think):
    show = SHOW | {"capabilities": capabilities}
    chat = replay({"message": {"content": "x"}, "done": True})
    async with bridged(chat, show=show) as (url, server, _):
        for _ in range(3):
            await call(url, "/v1/messages", "POST", GOOD | {"thinking": {"type": "adaptive"}})
            await call(url, "/v1/models")
    asked = [heard.json for heard in server.heard if heard.path == "/api/show"]
    assert asked == [{"model": "tiny:latest"}]
    assert [chat.json.get("think") for chat in server.chats()] == [think] * 3


@pytest.mark.req("PX-X10")
@pytest.mark.parametrize(
    ("info", "window"),
    [
        ({"llama.context_length": -5}, 65536),
        ({"llama.context_length": True}, 65536),
        ({"llama.context_length": 1e30}, 65536),
        ({"llama.context_length": 4096}, 4096),
        ({"clip.context_length": 77, "general.architecture": "llama", "llama.context_length": 4096}, 4096),
    ],
)  # fmt: skip
async def test_a_window_is_believed_only_if_it_can_be_one(info, window):
    show = SHOW | {"model_info": info}
    async with bridged(recorded("ollama/jinja/chat_stream.txt"), show=show) as (url, server, _):
        answer, _ = await call(url, "/v1/messages", "POST", GOOD)
    assert answer.status == 200
    assert server.chats()[0].json["options"]["num_ctx"] == window


async def test_an_ollama_that_comes_up_late_is_found():
    chat = recorded("ollama/jinja/chat_stream.txt")
    async with model_server(ollama(chat)) as server:
        port = int(server.url.rpartition(":")[2])
    place = ProviderConfig(url=f"http://127.0.0.1:{port}", retries=0)
    async with gateway(Config(log="off", providers={"ollama": place})) as (url, _):
        answer, error = await call(url, "/v1/messages", "POST", GOOD | {"model": "claude-x"})
        assert answer.status == 502
        assert "refused the connection" in error["error"]["message"]
        async with model_server(ollama(chat), port) as late:
            answer, _ = await call(url, "/v1/messages", "POST", GOOD | {"model": "claude-y"})
            assert answer.status == 200
            assert late.chats()[0].json["model"] == "tiny:latest"


async def test_a_stream_for_a_client_that_hangs_up_does_not_claim_to_stay():
    async with gateway() as (url, _):
        answer, _ = await call(url, "/v1/messages", "POST", GOOD | {"stream": True})
        closing, _ = await call(
            url, "/v1/messages", "POST", GOOD | {"stream": True}, connection="close"
        )
    assert answer.headers.getall("connection") == ["keep-alive"]
    assert closing.headers.getall("connection") == ["close"]


@pytest.mark.parametrize(
    ("path", "method"),
    [("/chat/completions", "POST"), ("/models", "GET"), ("/embeddings", "POST"), ("/messages", "POST")],
)  # fmt: skip
async def test_paths_work_without_v1(path, method):
    bodies = {"/embeddings": {"model": "claude-x", "input": "x"}, "/models": None}
    body = bodies.get(path, GOOD | {"model": "claude-x"})
    async with gateway() as (url, _):
        answer, _ = await call(url, path, method, body)
    assert answer.status == 200


@pytest.mark.parametrize(
    ("path", "headers", "key", "offer"),
    [
        ("/v1/images/generations", {}, "param", "/v1/chat/completions"),
        ("/v1/nothing", {"authorization": "Bearer x"}, "param", "/v1/chat/completions"),
        ("/v1/nothing", {"anthropic-version": "2023-06-01"}, "type", "/v1/messages"),
        ("/v1/files", {}, "param", "/v1/chat/completions"),
        ("/v1/files", {"anthropic-version": "2023-06-01"}, "type", "/v1/messages"),
        ("/v1/files/x", {"x-goog-api-key": "x"}, "status", "generateContent"),
        ("/v1/responses/a/b", {}, "param", "/v1/responses"),
        ("/v1beta/nothing", {}, "status", "generateContent"),
        ("/api/push", {}, None, "/api/chat"),
    ],
)
async def test_an_unknown_path_is_answered_in_the_callers_api(path, headers, key, offer):
    async with gateway() as (url, _):
        answer, told = await call(url, path, "POST", {}, **headers)
    assert answer.status == 404
    error = told["error"]
    assert offer in (error if key is None else error["message"])
    assert key is None or key in error


@pytest.mark.parametrize("path", ["/api/show", "/api/pull"])
@pytest.mark.parametrize(
    ("body", "words"),
    [("{bad", "not valid JSON"), ("", "not valid JSON"), ("[]", "Expected `object`"), ("{}", "model: field required"),
     ('{"model": 1}', "model: Expected `str"), ('{"model":' + "[" * 100_000, "model")],
)  # fmt: skip
async def test_what_names_no_model_is_a_bad_request(path, body, words):
    async with (
        gateway() as (url, _),
        aiohttp.ClientSession() as session,
        session.post(url + path, data=body) as answer,
    ):
        assert answer.status == 400
        assert words.lower() in (await answer.json())["error"].lower()


async def test_a_model_on_offer_is_already_pulled():
    async with bridged(replay()) as (url, *_):
        whole, told = await call(
            url, "/api/pull", "POST", {"model": "tiny:latest", "stream": False}
        )
        missing, error = await call(url, "/api/pull", "POST", {"model": "ollama/none:7b"})
        bad, _ = await call(url, "/api/pull", "POST", {})
        async with (
            aiohttp.ClientSession() as session,
            session.post(url + "/api/pull", json={"name": "tiny"}) as answer,
        ):
            lines = [json.loads(line) for line in (await answer.read()).split(b"\n") if line]
    assert (whole.status, told) == (200, {"status": "success"})
    assert [line["status"] for line in lines] == ["pulling manifest", "success"]
    assert (missing.status, bad.status) == (404, 400)
    assert "none:7b" in error["error"]


@pytest.mark.parametrize("path", ["/api/generate", "/api/chat"])
@pytest.mark.parametrize(("keep", "reason"), [("5m", "load"), (0, "unload")])
async def test_a_request_that_only_loads_a_model_asks_no_other_api(path, keep, reason):
    async with model_server(replay()) as server:
        place = ProviderConfig(api="anthropic", url=server.url)
        config = Config(log="off", map={"default": "there/m"}, providers={"there": place})
        async with gateway(config) as (url, _):
            body = {"model": "m", "keep_alive": keep}
            answer, text = await call(url, path, "POST", body)
    assert (answer.status, text["done"], text["done_reason"]) == (200, True, reason)
    assert server.heard == []


async def test_an_unknown_model_is_missing_in_the_shape_of_the_list():
    async with gateway(Config(log="off"), demo=False) as (url, _):
        answer, found = await call(url, "/v1/models/nope")
        assert (answer.status, found["error"]["param"]) == (404, "model")
        _, found = await call(url, "/v1/models/nope", **{"anthropic-version": "2023-06-01"})
        assert found["type"] == "error"


async def test_an_unknown_method_of_a_gemini_model_is_told_the_known_ones():
    async with gateway() as (url, _):
        answer, found = await call(url, "/v1beta/models/m:predict", "POST", {})
    assert answer.status == 404
    assert "generateContent" in found["error"]["message"]
