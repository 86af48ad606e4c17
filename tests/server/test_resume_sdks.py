"""Official SDKs whose connection breaks, and OpenAI's own way to continue a response."""

import asyncio
from contextlib import asynccontextmanager, suppress

import anthropic
import openai
import pytest
from tests.resuming import Asker, paced
from tests.sdks import PLAIN
from tests.waiting import until


@asynccontextmanager
async def flaky(url: str, cuts: int):
    """Yield the URL of a proxy that drops its first connections after some bytes of the response."""
    host, port = url.removeprefix("http://").split(":")
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        cut = seen <= cuts
        there, out = await asyncio.open_connection(host, int(port))

        async def up() -> None:
            while data := await reader.read(65536):
                out.write(data)

        sending = asyncio.create_task(up())
        with suppress(ConnectionError, asyncio.TimeoutError):
            async with asyncio.timeout(0.5 if cut else None):
                while data := await there.read(65536):
                    writer.write(data)
                    await writer.drain()
        sending.cancel()
        out.close()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("sdk", ["anthropic", "openai"])
async def test_the_retry_of_an_sdk_gets_the_answer_that_was_paid_for(sdk):
    async with paced(resume_grace=30.0) as (url, model), flaky(url, 1) as proxy:
        if sdk == "anthropic":
            client = anthropic.AsyncAnthropic(
                base_url=proxy,
                api_key="k",
                http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN),
            )
            asking = client.messages.create(model="m", max_tokens=100, messages=MESSAGES)
        else:
            client = openai.AsyncOpenAI(
                base_url=f"{proxy}/v1",
                api_key="k",
                http_client=openai.DefaultAsyncHttpxClient(verify=PLAIN),
            )
            asking = client.chat.completions.create(model="m", messages=MESSAGES)
        task = asyncio.create_task(asking)
        await until(lambda: model.requests == 1)
        await asyncio.sleep(0.7)  # the connection breaks meanwhile
        await model.allow()
        found = await task
        text = found.content[0].text if sdk == "anthropic" else found.choices[0].message.content
        assert text.startswith("answer 1: ")
        assert (model.requests, model.left) == (1, 0)
        await client.close()


async def test_openais_sdk_continues_a_response_after_a_number():
    async with paced() as (url, model):
        client = openai.AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key="k",
            http_client=openai.DefaultAsyncHttpxClient(verify=PLAIN),
        )
        await model.allow(5)
        stream = await client.responses.create(
            model="m", input="hi", stream=True, extra_headers={"x-toolbridge-resume": "30"}
        )
        seen = []
        async for event in stream:
            seen.append(event)
            if event.type == "response.output_text.delta" and "word2" in event.delta:
                break
        await stream.close()
        response = seen[0].response.id
        await model.allow()
        rest = [
            event
            async for event in await client.responses.retrieve(
                response, stream=True, starting_after=seen[-1].sequence_number
            )
        ]
        numbers = [event.sequence_number for event in [*seen, *rest]]
        assert numbers == list(range(len(numbers)))
        assert rest[-1].type == "response.completed"
        assert rest[-1].response.id == response
        assert rest[-1].response.output_text.startswith("answer 1: word0")
        whole = [e async for e in await client.responses.retrieve(response, stream=True)]
        assert [event.sequence_number for event in whole] == numbers
        with pytest.raises(openai.NotFoundError, match="X-Toolbridge-Resume"):
            await client.responses.retrieve("resp_unknown", stream=True)
        with pytest.raises(openai.BadRequestError, match="starting_after"):
            await client.get(f"/responses/{response}?stream=true&starting_after=x", cast_to=object)
        assert (model.requests, model.left) == (1, 0)
        await client.close()


async def test_the_key_of_an_sdk_is_a_header_of_the_request():
    async with paced() as (url, model):
        await model.allow()
        client = anthropic.AsyncAnthropic(
            base_url=url, api_key="k", http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN)
        )
        found = [
            await client.messages.create(
                model="m", max_tokens=100, messages=MESSAGES, extra_headers={"idempotency-key": "k"}
            )
            for _ in range(2)
        ]
        assert found[0] == found[1]
        with pytest.raises(anthropic.ConflictError, match="was used with another request"):
            await client.messages.create(
                model="m", max_tokens=9, messages=MESSAGES, extra_headers={"idempotency-key": "k"}
            )
        await client.close()
        assert model.requests == 1
        other = await Asker(url, "anthropic", stream=False, idempotency_key="k" * 300).reply()
        assert other.status == 400
