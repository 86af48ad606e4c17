"""Answers that are repeated and continued, in all five APIs, over real sockets."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing, suppress

import pytest
from tests.peers import Heard, Line, gateway, model_server
from tests.raw_http import connect, read_all
from tests.resuming import APIS, USAGE, Asker, config, paced
from tests.streams import chunk
from tests.waiting import until

from toolbridge.conformance import clients

KEY = {"idempotency_key": "k-1"}
ID = re.compile(rb"^id: (req_[0-9a-f]{16}):([0-9]+)\n", re.MULTILINE)


def same_headers(one: dict, other: dict) -> bool:
    """Whether two responses have the same headers, apart from those of one request."""
    own = {"request-id", "x-request-id", "date"}
    return {k: v for k, v in one.items() if k not in own} == {
        k: v for k, v in other.items() if k not in own
    }


def events(api: str, body: bytes) -> list[bytes]:
    end = b"\n" if api == "ollama" else b"\n\n"
    return [part + end for part in body.split(end) if part]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_repeat_with_the_key_gets_the_same_answer_while_it_runs_and_after(api, stream):
    async with paced() as (url, model):
        await model.allow(3)
        first = Asker(url, api, stream=stream, **KEY)
        await until(lambda: model.requests == 1 and (not stream or first.so_far))
        second = Asker(url, api, stream=stream, **KEY)
        if stream:
            await until(lambda: second.so_far == first.so_far)
        await model.allow()
        one, two = await first.reply(), await second.reply()
        three = await Asker(url, api, stream=stream, **KEY).reply()
        assert (one.status, one.ended) == (200, "clean")
        assert b"answer 1" in one.body
        assert two.body == one.body == three.body
        assert two.ended == three.ended == "clean"
        assert same_headers(one.headers, two.headers)
        assert same_headers(one.headers, three.headers)
        assert one.headers["request-id"] == one.headers["x-toolbridge-answer"]
        assert three.headers["request-id"] != one.headers["request-id"]
        assert model.requests == 1
        other = await Asker(url, api, stream=stream, idempotency_key="k-2").reply()
        assert b"answer 2" in other.body


@pytest.mark.parametrize("api", APIS)
async def test_the_key_with_another_request_is_a_conflict_in_the_clients_api(api):
    async with paced() as (url, model):
        await model.allow()
        assert (await Asker(url, api, stream=True, **KEY).reply()).status == 200
        found = await Asker(url, api, stream=True, text="other", **KEY).reply()
        assert (found.status, found.headers["x-should-retry"]) == (409, "false")
        error = json.loads(found.body)["error"]
        text = error if isinstance(error, str) else error["message"]
        assert "this Idempotency-Key was used with another request; use a new one" in text
        assert model.requests == 1


@pytest.mark.parametrize("api", APIS)
async def test_a_failure_frees_the_key(api):
    async with paced() as (url, model):
        model.status = 500
        assert (await Asker(url, api, stream=False, **KEY).reply()).status >= 500
        model.status = 200
        await model.allow()
        assert (await Asker(url, api, stream=False, **KEY).reply()).status == 200
        assert model.requests == 2


@pytest.mark.parametrize("stream", [True, False])
async def test_without_a_grace_the_provider_is_cancelled_and_the_key_is_free(stream):
    async with paced() as (url, model):
        await model.allow(3)
        first = Asker(url, "anthropic", stream=stream, **KEY)
        await until(lambda: model.requests == 1)
        await first.leave()
        await until(lambda: model.left == 1)
        await model.allow()
        found = await Asker(url, "anthropic", stream=stream, **KEY).reply()
        assert b"answer 2" in found.body
        assert model.requests == 2


async def test_a_second_reader_keeps_the_answer_of_a_client_that_left():
    async with paced() as (url, model):
        await model.allow(3)
        first = Asker(url, "anthropic", stream=True, **KEY)
        await until(lambda: first.so_far)
        second = Asker(url, "anthropic", stream=True, **KEY)
        await until(lambda: second.so_far)
        begun = await first.leave()
        await model.allow()
        found = await second.reply()
        assert found.ended == "clean"
        assert found.body.startswith(begun)
        assert (model.requests, model.left) == (1, 0)


@pytest.mark.parametrize("api", APIS)
async def test_a_client_that_left_continues_after_any_event(api):
    async with paced() as (url, model):
        await model.allow(5)
        first = Asker(url, api, stream=True, x_toolbridge_resume="30")
        await until(lambda: first.so_far.count(b"word") >= 4)
        begun = await first.leave()
        id = first.client.reply.headers["x-toolbridge-answer"]
        await model.allow()
        seen = 3 if api == "ollama" else int(ID.findall(begun)[2][1])
        rest = await Asker(url, api, stream=True, last_event_id=f"{id}:{seen}").reply()
        whole = await Asker(url, api, stream=True, last_event_id=f"{id}:0").reply()
        assert (rest.ended, whole.ended) == ("clean", "clean")
        assert events(api, whole.body)[seen:] == events(api, rest.body)
        assert whole.body.startswith(begun)
        for n in range(len(events(api, whole.body)) + 1):
            found = await Asker(url, api, stream=True, last_event_id=f"{id}:{n}").reply()
            assert events(api, found.body) == events(api, whole.body)[n:], n
        assert (model.requests, model.left) == (1, 0)


@pytest.mark.parametrize("api", APIS)
async def test_events_have_ids_only_where_the_client_asks_for_them(api):
    async with paced(resume_grace=5.0) as (url, model):
        await model.allow()
        plain = await Asker(url, api, stream=True).reply()
        assert not ID.search(plain.body)
        found = await Asker(url, api, stream=True, x_toolbridge_resume="on").reply()
        ids = ID.findall(found.body)
        if api == "ollama":
            assert ids == []
        else:
            assert [int(n) for _, n in ids] == list(range(1, len(ids) + 1))
            assert len(ids) == found.body.count(b"\n\n")
        off = await Asker(url, api, stream=True, x_toolbridge_resume="off").reply()
        assert "x-toolbridge-answer" not in off.headers


async def test_an_answer_without_readers_ends_after_its_grace():
    async with paced() as (url, model):
        await model.allow(3)
        first = Asker(url, "anthropic", stream=True, x_toolbridge_resume="0.3")
        await until(lambda: first.so_far)
        await first.leave()
        id = first.client.reply.headers["x-toolbridge-answer"]
        await until(lambda: model.left == 1)
        found = await Asker(url, "anthropic", stream=True, last_event_id=f"{id}:0").reply()
        assert found.ended == "cut"
        assert b"word1" in found.body
        assert b"gateway process" not in found.body  # its end is stored


@pytest.mark.parametrize(
    ("id", "status", "text"),
    [
        ("req_0123456789abcdef:3", 404, "there is no answer 'req_0123456789abcdef'"),
        ("17", 400, "is not an event id of this gateway"),
    ],
)
@pytest.mark.parametrize("api", APIS)
async def test_an_unknown_event_is_an_error_in_the_clients_api(api, id, status, text):
    async with paced() as (url, model):
        found = await Asker(url, api, stream=True, last_event_id=id).reply()
        assert found.status == status
        error = json.loads(found.body)["error"]
        assert text in (error if isinstance(error, str) else error["message"])
        assert model.requests == 0


@pytest.mark.parametrize("api", APIS)
async def test_an_event_that_the_answer_does_not_have_is_an_error(api):
    async with paced() as (url, model):
        await model.allow()
        first = await Asker(url, api, stream=True, x_toolbridge_resume="30").reply()
        id = first.headers["x-toolbridge-answer"]
        last = len(events(api, first.body))
        end = await Asker(url, api, stream=True, last_event_id=f"{id}:{last}").reply()
        assert (end.status, end.body, end.ended) == (200, b"", "clean")
        found = await Asker(url, api, stream=True, last_event_id=f"{id}:{last + 1}").reply()
        assert found.status == 400
        assert f"the answer has {last} events" in found.body.decode()
        other = "ollama" if api == "anthropic" else "anthropic"
        found = await Asker(url, other, stream=True, last_event_id=f"{id}:1").reply()
        assert found.status == 400
        assert "belongs to a request to /" in found.body.decode()


@pytest.mark.parametrize("api", APIS)
async def test_an_empty_key_is_an_error(api):
    async with paced() as (url, model):
        found = await Asker(url, api, stream=True, idempotency_key=" ").reply()
        assert found.status == 400
        assert "must not be empty" in found.body.decode()
        assert model.requests == 0


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_whose_process_died_before_its_first_event_is_asked_for_again(api):
    async with gateway() as (url, app):
        id = "req_0123456789abcdef"
        scope = "answer_process/"
        await app.gateway.store.put(scope, id, b"process-0", seconds=60)
        found = await Asker(url, api, stream=True, last_event_id=f"{id}:2").reply()
        assert found.status in {503, 529}
        assert "send the request again" in found.body.decode()


async def test_answers_belong_to_their_caller(tmp_path, monkeypatch):
    from tests.key_users import create

    from toolbridge.server import created_keys

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    async with paced({"XDG_STATE_HOME": str(tmp_path)}) as (url, model):
        alice, bob = await create("alice"), await create("bob")
        await model.allow()
        wanted = {"stream": True, "x_toolbridge_resume": "on", **KEY}
        one = await Asker(url, "anthropic", x_api_key=alice, **wanted).reply()
        two = await Asker(url, "anthropic", x_api_key=bob, **wanted).reply()
        assert (b"answer 1" in one.body, b"answer 2" in two.body) == (True, True)
        last = f"{one.headers['x-toolbridge-answer']}:0"
        found = await Asker(
            url, "anthropic", stream=True, x_api_key=bob, last_event_id=last
        ).reply()
        assert found.status == 404
        again = await Asker(
            url, "anthropic", stream=True, x_api_key=alice, last_event_id=last
        ).reply()
        assert again.body == one.body


@pytest.mark.parametrize("grace", ["0.3", ""])
async def test_a_reader_that_does_not_read_delays_the_model_for_its_grace_only(grace):
    async with paced() as (url, model):
        model.words = [f"{n} " + "x" * 8000 + "\n" for n in range(900)]
        await model.allow()
        headers = {"idempotency_key": "k"} | ({"x_toolbridge_resume": grace} if grace else {})
        stuck = Asker(url, "anthropic", stream=True, **headers)
        stuck.cancel()
        body = stuck.body
        reader, writer = await connect(url)
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = [
            "POST /v1/messages HTTP/1.1",
            "host: localhost",
            f"content-length: {len(body)}",
            *lines,
        ]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        begun = await reader.read(100)
        assert begun.startswith(b"HTTP/1.1 200")
        second = Asker(url, "anthropic", stream=True, **headers)
        if grace:
            # The answer goes on without the reader that is stuck, also if nobody else reads.
            await second.leave()
            found = await Asker(url, "anthropic", stream=True, **headers).reply()
        else:
            found = await second.reply()  # the faster of two readers sets the pace
        assert found.ended == "clean"
        assert found.body.count(b" xxxx") == 900
        assert model.requests == 1
        writer.transport.abort()


async def test_the_model_waits_for_a_reader_that_does_not_read():
    async with paced() as (url, model):
        model.words = [f"{n} " + "x" * 8000 + "\n" for n in range(3000)]
        await model.allow()
        asker = Asker(url, "anthropic", stream=True)
        asker.cancel()
        reader, writer = await connect(url)
        head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(asker.body)}\r\n"
        writer.write(f"{head}idempotency-key: k\r\n\r\n".encode() + asker.body)
        assert (await reader.read(100)).startswith(b"HTTP/1.1 200")
        before = -1
        while model.sent != before:  # until nothing moves
            before = model.sent
            await asyncio.sleep(0.5)
        assert 0 < model.sent < 3000
        writer.transport.abort()
        await until(lambda: model.left == 1)


async def test_a_kept_answer_can_be_recorded_and_explained(tmp_path):
    folder = tmp_path / "recordings"
    async with paced(record=str(folder)) as (url, model):
        await model.allow()
        found = await Asker(url, "anthropic", stream=True, **KEY).reply()
        await Asker(url, "anthropic", stream=True, **KEY).reply()
        id = found.headers["request-id"]
        reader, writer = await connect(url)
        writer.write(
            f"GET /v1/explain/{id} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
        )
        assert b"there/m" in await read_all(reader)
        writer.close()
    (file,) = folder.iterdir()
    recorded = json.loads(file.read_text())
    body = "".join(piece["text"] for piece in recorded["response"]["body"]["pieces"])
    assert body.encode() == found.body


# ── retries without a key ────────────────────────────────────────────────────

RETRY = {"x_stainless_retry_count": "1"}
CLAUDE = {"user_agent": "claude-cli/2.1.325 (external, cli)", "x_claude_code_session_id": "s-1"}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_the_retry_of_a_client_whose_connection_broke_gets_the_same_answer(api, stream):
    async with paced(resume_grace=30.0) as (url, model):
        await model.allow(3)
        first = Asker(url, api, stream=stream, x_stainless_retry_count="0")
        await until(lambda: model.requests == 1 and (not stream or first.so_far))
        begun = await first.leave()
        second = Asker(url, api, stream=stream, **RETRY)
        if stream:
            await until(lambda: second.so_far)
        await model.allow()
        found = await second.reply()
        assert found.ended == "clean"
        assert found.body.startswith(begun)
        assert b"answer 1" in found.body
        assert (model.requests, model.left) == (1, 0)


async def test_an_answer_that_ended_while_its_client_was_away_is_given_to_the_retry():
    async with paced(resume_grace=30.0) as (url, model):
        await model.allow(3)
        first = Asker(url, "anthropic", stream=True, **CLAUDE)
        await until(lambda: first.so_far)
        await first.leave()
        await model.allow()
        await asyncio.sleep(0.3)
        assert b"answer 1" in (await Asker(url, "anthropic", stream=True, **CLAUDE).reply()).body
        # One retry only: the next request with the same body is a new one.
        assert b"answer 2" in (await Asker(url, "anthropic", stream=True, **CLAUDE).reply()).body


async def test_equal_requests_that_are_meant_are_never_joined():
    async with paced(resume_grace=30.0) as (url, model):
        await model.allow()
        # In parallel, as a program samples a model, also with a retry among them.
        found = await asyncio.gather(
            *(Asker(url, "openai_chat", stream=True).reply() for _ in range(4)),
            Asker(url, "openai_chat", stream=True, **RETRY).reply(),
            Asker(url, "openai_chat", stream=True, **CLAUDE).reply(),
            Asker(url, "openai_chat", stream=True, **CLAUDE).reply(),
        )
        assert len({one.body for one in found}) == 7
        # One after the other, after a person has stopped the first: the same body is meant anew.
        await model.allow(3)
        first = Asker(url, "openai_chat", stream=True)
        await until(lambda: first.so_far)
        await first.leave()
        await model.allow()
        again = await Asker(url, "openai_chat", stream=True).reply()
        assert b"answer 9" in again.body
        assert model.requests == 9


@pytest.mark.parametrize(
    ("setting", "headers", "joined"),
    [
        ("any", {}, True),
        ("off", RETRY, False),
        ("retries", {"x_stainless_retry_count": "0"}, False),
    ],
)
async def test_a_setting_decides_which_requests_are_retries(setting, headers, joined):
    async with paced(resume_grace=30.0, resume_repeats=setting) as (url, model):
        await model.allow(3)
        first = Asker(url, "openai_chat", stream=True, **headers)
        await until(lambda: first.so_far)
        await first.leave()
        await model.allow()
        found = await Asker(url, "openai_chat", stream=True, **headers).reply()
        assert (b"answer 1" in found.body) is joined


# ── what is recorded, and what is kept ───────────────────────────────────────


async def test_one_answer_is_one_row_and_one_charge(tmp_path, monkeypatch):
    from tests.key_users import create, key

    from toolbridge.server import created_keys

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    async with paced({"XDG_STATE_HOME": str(tmp_path)}) as (url, model):
        alice = await create("alice", "--requests", "9/day", "--tokens", "900k/day")
        await model.allow()
        for stream in (True, False):
            wanted = {"stream": stream, "x_api_key": alice, "idempotency_key": f"k-{stream}"}
            found = [await Asker(url, "anthropic", **wanted).reply() for _ in range(3)]
            assert {one.status for one in found} == {200}
        shown = await key("show", "alice")
        assert "used      2 requests of" in shown
        assert "used      220 tokens of" in shown
    with closing(sqlite3.connect(tmp_path / "toolbridge" / "ledger.sqlite")) as ledger:
        assert ledger.execute("select count(*), sum(output) from requests").fetchone() == (2, 20)


async def test_no_secret_of_a_kept_answer_is_on_the_disk(tmp_path):
    secret = "sk-live-0123456789abcdefghijklmnop"
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with paced(env) as (url, model):
        model.words = [*secret, " is the key\n", "and ", *secret, "\n", "more\nand ", *secret]
        await model.allow()
        ids = {}
        for api in APIS:
            for stream in (True, False):
                wanted = {"stream": stream, "idempotency_key": f"{api} {stream}"}
                one = await Asker(url, api, **wanted).reply()
                two = await Asker(url, api, **wanted).reply()
                assert one.body == two.body, "exact in the same process"
                ids[api, stream] = one.headers["x-toolbridge-answer"]
    written = b"".join(
        file.read_bytes() for file in (tmp_path / "toolbridge").iterdir() if file.is_file()
    )
    assert b"is the key" in written
    assert secret.encode() not in written
    # Another process has masks, also for a secret that the model wrote one letter at a time.
    async with paced(env) as (url, _):
        for (api, stream), id in ids.items():
            found = await Asker(url, api, stream=stream, last_event_id=f"{id}:0").reply()
            client = clients.load(api)
            plain = ID.sub(b"", found.body)
            seen = client.read_stream(plain) if stream else client.read_whole(json.loads(plain))
            assert seen.text.count("[redacted]") == 3, (api, stream)
            for size in (12, 20, len(secret)):
                assert secret[:size] not in seen.text
                assert secret[-size:] not in seen.text


async def test_an_answer_that_is_too_large_is_kept_in_part_and_says_so():
    async with paced(resume_bytes=2000) as (url, model):
        model.words = [f"{n} " + "x" * 200 + "\n" for n in range(20)]
        await model.allow()
        first = await Asker(url, "anthropic", stream=True, x_toolbridge_resume="on", **KEY).reply()
        assert (first.ended, first.body.count(b" xxxx")) == ("clean", 20)
        last = f"{first.headers['x-toolbridge-answer']}:0"
        found = await Asker(url, "anthropic", stream=True, last_event_id=last).reply()
        while found.ended == "clean":  # memory has all of it for a moment
            found = await Asker(url, "anthropic", stream=True, last_event_id=last).reply()
        assert found.ended == "cut"
        assert b"event: error" in found.body
        assert b"`resume_bytes`" in found.body
        assert len(found.body) < 4000
        # The key is free, as the answer cannot be repeated.
        again = await Asker(url, "anthropic", stream=True, **KEY).reply()
        assert b"answer 2" in again.body


async def test_a_repeat_that_knows_of_the_claim_before_the_first_request_does_is_attached(
    monkeypatch,
):
    """The answers of a server to two claims may arrive in the other order."""
    from toolbridge.store.sqlite import SqliteStore

    claims, others = SqliteStore.claim, asyncio.Event()

    async def claim(self, *args, **kwargs):
        value, new = await claims(self, *args, **kwargs)
        if new:  # the winner is told last
            with suppress(TimeoutError):
                await asyncio.wait_for(others.wait(), 0.5)
        others.set()
        return value, new

    monkeypatch.setattr(SqliteStore, "claim", claim)
    async with paced() as (url, model):
        await model.allow()
        asked = [Asker(url, "openai_chat", stream=True, **KEY) for _ in range(3)]
        assert len({(await asker.reply()).body for asker in asked}) == 1
        assert model.requests == 1


@pytest.mark.parametrize("asked", [{"x_toolbridge_resume": "30"}, {}], ids=["header", "setting"])
async def test_what_a_client_sees_first_is_stored_before(asked, tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with paced(env, resume_grace=0.0 if asked else 30.0) as (url, model):
        for api in APIS:
            await model.allow(2)
            asker = Asker(url, api, stream=True, **asked)
            await until(lambda asker=asker: asker.so_far)
            with closing(sqlite3.connect(tmp_path / "toolbridge" / "toolbridge.sqlite")) as file:
                found = file.execute("select count(distinct key) from logged").fetchone()
            assert found == (APIS.index(api) + 1,), api
            await model.allow()
            assert (await asker.reply()).ended == "clean"
            await model.allow(0)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("count", [150, 300, 3000])
@pytest.mark.parametrize("together", [True, False])
async def test_a_provider_that_is_faster_than_the_client_loses_nothing(api, count, together):
    """One delivery may have thousands of events, more than memory holds of those that are read."""
    words = [f"w{n} " for n in range(count)]
    chunks = [chunk({"content": word}) for word in words]
    last = chunk({}, "stop") + f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\n"

    async def answer(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        for piece in ["".join(chunks)] if together else chunks:
            await line.send(piece)
        await line.send(last + "data: [DONE]\n\n")
        await line.end()

    async with model_server(answer) as server, gateway(config(server.url)) as (url, _):
        for headers in (KEY, KEY, {"x_toolbridge_resume": "30"}):
            found = await Asker(url, api, stream=True, **headers).reply()
            assert (found.status, found.ended) == (200, "clean")
            seen = clients.load(api).read_stream(ID.sub(b"", found.body))
            assert seen.text == "".join(words)
            id = found.headers["x-toolbridge-answer"]
            again = await Asker(url, api, stream=True, last_event_id=f"{id}:0").reply()
            assert ID.sub(b"", again.body) == ID.sub(b"", found.body)


async def test_a_reader_that_is_too_slow_for_an_answer_that_is_too_large_gets_an_error():
    async with paced(resume_bytes=2000) as (url, model):
        model.words = [f"{n} " + "x" * 50_000 + "\n" for n in range(400)]  # 20 MB
        await model.allow(1)
        fast = Asker(url, "anthropic", stream=True, **KEY)
        await until(lambda: fast.so_far)
        slow = Asker(url, "anthropic", stream=True, **KEY)
        body = slow.body
        await slow.leave()
        reader, writer = await connect(url)
        head = "".join(f"{name}: {value}\r\n" for name, value in slow.headers.items())
        head += f"host: localhost\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        writer.write(f"POST {slow.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        await reader.readuntil(b"answer 1")
        await model.allow()
        assert (await fast.reply()).ended == "clean"
        found = await read_all(reader)
        assert b"event: error" in found
        assert b"are no longer kept" in found
        assert not found.endswith(b"0\r\n\r\n"), "no clean end"
        writer.close()
