"""What only the Responses API has: answers that are kept, and gone on from."""

import openai
import pytest
from tests.peers import bridged, gateway, model_server, ollama, replay
from tests.server.test_messages import line

from toolbridge.config import Config, ProviderConfig


def client(url: str, key: str = "x") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=url + "/v1", api_key=key, max_retries=0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_goes_on_from_an_answer(stream):
    chat = replay(line("one", done=True))
    async with bridged(chat, first_byte=5) as (url, server, _), client(url) as sdk:
        if stream:
            async with sdk.responses.stream(model="m", input="first") as events:
                first = await events.get_final_response()
        else:
            first = await sdk.responses.create(model="m", input="first")
        second = await sdk.responses.create(
            model="m", input="second", previous_response_id=first.id
        )
        assert second.previous_response_id == first.id
        found = await sdk.responses.retrieve(first.id)
        assert found.output_text == "one"
    sent = server.chats()[1].json["messages"]
    assert [(m["role"], m["content"]) for m in sent] == [
        ("user", "first"), ("assistant", "one"), ("user", "second"),
    ]  # fmt: skip


async def test_an_answer_that_was_not_stored_cannot_be_gone_on_from():
    async with gateway() as (url, _), client(url) as sdk:
        first = await sdk.responses.create(model="m", input="hello", store=False)
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            await sdk.responses.create(model="m", input="x", previous_response_id=first.id)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("given", "stored"),
    [({}, True), ({"store": None}, True), ({"store": True}, True), ({"store": False}, False)],
)
async def test_a_response_has_whether_it_is_stored(given, stored, stream):
    asked = {"model": "m", "input": "hello", **given}
    async with gateway() as (url, _), client(url) as sdk:
        response = await sdk.responses.create(**asked, stream=stream)
        objects = (
            [e.response async for e in response if hasattr(e, "response")] if stream else [response]
        )
        assert {found.store for found in objects} == {stored}
        if stored:
            assert (await sdk.responses.retrieve(objects[-1].id)).store is True
            return
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(objects[-1].id)


async def test_an_unknown_response_is_reported_with_every_cause():
    causes = ("id is wrong", "`store: false`", "another key", "deleted", "30 days", "was stopped")
    async with gateway() as (url, _), client(url) as sdk:
        for refused in (
            sdk.responses.retrieve,
            sdk.responses.delete,
            sdk.responses.input_items.list,
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                await refused("resp_none")
            # OpenAI Responses: the code of a response that does not exist is null.
            assert (caught.value.code, caught.value.type) == (None, "invalid_request_error")
            assert all(cause in caught.value.message for cause in causes), caught.value.message
        with pytest.raises(openai.BadRequestError) as caught:
            await sdk.responses.create(model="m", input="x", previous_response_id="resp_none")
        assert all(cause in caught.value.message for cause in causes)


async def test_an_answer_may_be_deleted():
    async with gateway() as (url, _), client(url) as sdk:
        first = await sdk.responses.create(model="m", input="hello")
        await sdk.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(first.id)


async def test_answers_survive_a_restart(tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with gateway(env=env) as (url, _), client(url) as sdk:
        first = await sdk.responses.create(model="m", input="say blue")
    async with gateway(env=env) as (url, _), client(url) as sdk:
        assert (await sdk.responses.retrieve(first.id)).id == first.id


@pytest.mark.req("TF-50")
async def test_secrets_of_a_conversation_are_exact_until_a_restart_and_masked_after(tmp_path):
    chat = replay(line("password: hunter2secret", done=True))
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with model_server(ollama(chat)) as server:
        config = Config(
            log="off",
            map={"default": "ollama/tiny"},
            providers={"ollama": ProviderConfig(api="ollama", url=server.url)},
        )
        async with gateway(config, env) as (url, _), client(url) as sdk:
            first = await sdk.responses.create(model="m", input="my key is sk_live_123456")
            more = {"model": "m", "input": "and?", "previous_response_id": first.id}
            await sdk.responses.create(**more)
        async with gateway(config, env) as (url, _), client(url) as sdk:
            await sdk.responses.create(**more)
            assert (await sdk.responses.retrieve(first.id)).output_text == "password: [redacted]"
    _, same, restarted = [heard.json["messages"] for heard in server.chats()]
    assert [m["content"] for m in same[:2]] == [
        "my key is sk_live_123456",
        "password: hunter2secret",
    ]
    assert [m["content"] for m in restarted[:2]] == [
        "my key is [redacted]",
        "password: [redacted]",
    ]
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sk_live" not in written
    assert b"hunter2" not in written


async def test_nobody_goes_on_from_the_answer_of_another_caller():
    # One server has one key; a change of key is a change of owner.
    from toolbridge.core.messages import Message, Request, Text
    from toolbridge.server.stored_responses import StoredResponses
    from toolbridge.store.sqlite import SqliteStore

    store = SqliteStore()
    kept = StoredResponses(store)
    await kept.keep("r1", Request("m"), Message(content=(Text("x"),)), b"{}", "me")
    assert await kept.find("r1", "me") is not None
    assert await kept.find("r1", "you") is None
    await store.close()


async def test_background_is_refused_with_its_place():
    async with gateway(Config(log="off")) as (url, _), client(url) as sdk:
        with pytest.raises(openai.BadRequestError, match="background"):
            await sdk.responses.create(model="m", input="x", background=True)


async def test_the_input_of_a_stored_response_is_listed():
    said = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    async with gateway() as (url, _), client(url) as sdk:
        first = await sdk.responses.create(model="claude-x", input=said)
        newest = [item async for item in sdk.responses.input_items.list(first.id)]
        oldest = await sdk.responses.input_items.list(first.id, order="asc", limit=2)
        rest = await sdk.responses.input_items.list(first.id, order="asc", after=oldest.data[-1].id)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.input_items.list("resp_none")
        with pytest.raises(openai.BadRequestError, match="limit"):
            await sdk.responses.input_items.list(first.id, limit=1000)
    texts = [item.content[0].text for item in newest]
    assert texts == ["three", "two", "one"]
    assert [item.content[0].text for item in oldest.data] == ["one", "two"]
    assert oldest.has_more
    assert [item.content[0].text for item in rest.data] == ["three"]
    assert len({item.id for item in newest}) == 3


async def test_only_background_responses_can_be_cancelled():
    async with gateway() as (url, _), client(url) as sdk:
        first = await sdk.responses.create(model="claude-x", input="hello")
        with pytest.raises(openai.BadRequestError, match="background"):
            await sdk.responses.cancel(first.id)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.cancel("resp_none")


async def test_a_conversation_is_compacted_and_goes_on():
    chat = replay(line("The user likes blue.", done=True))
    async with bridged(chat, first_byte=5) as (url, server, _), client(url) as sdk:
        said = [
            {"role": "user", "content": "I like blue"},
            {"role": "assistant", "content": "Noted, at great length."},
        ]
        small = await sdk.responses.compact(model="m", input=said)
        assert small.object == "response.compaction"
        assert [item.type for item in small.output] == ["message", "compaction"]
        await sdk.responses.create(
            model="m", input=[item.model_dump(warnings=False, exclude_none=True) for item in small.output] + [
                {"role": "user", "content": "Which colour?"}
            ],
        )  # fmt: skip
    asked, after = (heard.json["messages"] for heard in server.chats())
    assert "summary" in asked[-1]["content"]
    assert asked[0]["content"] == "I like blue"
    read = "\n".join(message["content"] for message in after)
    assert "The user likes blue." in read
    assert "at great length" not in read
    assert read.endswith("Which colour?")


async def test_the_count_of_a_request_includes_the_answer_that_it_goes_on_from():
    async with gateway() as (url, _), client(url) as sdk:
        first = await sdk.responses.create(model="m", input="hello " * 200)
        alone = await sdk.responses.input_tokens.count(model="m", input="go on")
        whole = await sdk.responses.input_tokens.count(
            model="m", input="go on", previous_response_id=first.id
        )
        assert whole.input_tokens > alone.input_tokens + 200
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            await sdk.responses.input_tokens.count(
                model="m", input="go on", previous_response_id="resp_none"
            )


async def test_a_conversation_that_nobody_keeps_is_refused_not_forgotten():
    async with gateway() as (url, _), client(url) as sdk:
        with pytest.raises(openai.BadRequestError, match="previous_response_id") as caught:
            await sdk.responses.create(model="m", input="x", conversation="conv_1")
        assert caught.value.param == "conversation"
