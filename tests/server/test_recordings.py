"""`serve --record`, `replay FILE` and `replay FILE --transcript`: from a real request to a test."""

import asyncio
import json
import stat
from base64 import b64encode
from contextlib import suppress

import aiohttp
import msgspec
import pytest
from tests import transcript
from tests.peers import gateway, model_server, whole
from tests.tables import every_row

from toolbridge.cli import main
from toolbridge.config import Config, ProviderConfig
from toolbridge.core.redaction import Redactor
from toolbridge.explain.recording import redact_pieces

PROVIDER_KEY = "provider-key-0123456789"
LOGIN = "login-of-the-caller-987"
TOOL = {
    "name": "read_file",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["path"],
    },
}
BODY = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 64,
    "stream": True,
    "messages": [{"role": "user", "content": "read a.txt"}],
    "tools": [TOOL],
}


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c1', 'model': 'm', 'choices': [choice]})}\n\n"


def said(text):
    return [chunk({"content": text[at : at + 7]}) for at in range(0, len(text), 7)]


# A call in a text dialect, with arguments that are no JSON and do not fit the schema.
BROKEN = [
    *said('Let me see.\n<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt", "lines": "5",}}\n</tool_call>'),
    chunk({}, "stop"),
    "data: [DONE]\n\n",
]  # fmt: skip


def streaming(pieces, *, pause=0.0):
    async def answer(_, line):
        await line.head(200, "text/event-stream")
        for piece in pieces:
            await line.send(piece)
            await asyncio.sleep(pause)
        await line.end()

    return answer


async def record(answer, folder, body=BODY, *, path="/v1/messages", headers=None, **settings):
    """Send one request through a recording gateway; return its response."""
    async with model_server(answer) as server:
        place = settings.pop("place", {})
        provider = ProviderConfig(api="openai_chat", url=server.url, key=PROVIDER_KEY, **place)
        config = Config(
            log="off", map={"default": "p/m"}, providers={"p": provider}, record=str(folder), **settings
        )  # fmt: skip
        async with (
            gateway(config) as (url, _),
            aiohttp.ClientSession() as session,
            session.post(url + path, json=body, headers=headers or {}) as reply,
        ):
            data = b""
            with suppress(aiohttp.ClientPayloadError):  # an answer that was cut
                async for piece in reply.content.iter_any():
                    data += piece
            return reply.status, data, reply.headers["request-id"]


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


async def test_a_stream_with_a_dialect_and_broken_json_replays_identical(tmp_path, capsys):
    status, data, id = await record(streaming(BROKEN), tmp_path / "r")
    assert status == 200
    assert b"tool_use" in data
    (file,) = files(tmp_path / "r")
    assert file.name.endswith(f"-{id}.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = json.loads(file.read_text())
    assert "".join(p["text"] for p in found["response"]["body"]["pieces"]).encode() == data
    upstream = found["attempts"][0]["response"]["pieces"]
    assert "".join(piece["text"] for piece in upstream) == "".join(BROKEN)
    assert [piece["at"] for piece in upstream] == sorted(piece["at"] for piece in upstream)
    assert await replay(str(file)) == 0
    assert "the answer is the same" in capsys.readouterr().out
    assert await replay(str(file), "--heal", "0") == 1
    shown = capsys.readouterr().out
    assert "--- recorded" in shown
    assert "+++ replayed" in shown
    assert await replay(str(file), "--with", "dialect=off") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("-event") and '"tool_use"' in line]
    assert [line for line in lines if line.startswith("+event") and "text_delta" in line]


async def replay(*arguments):
    return await asyncio.to_thread(main, ["replay", *arguments])


@pytest.mark.parametrize("to", ["openai_chat", "openai_responses", "gemini", "ollama"])
async def test_an_answer_in_another_api_is_compared_by_events(tmp_path, capsys, to):
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    counts = f"data: {json.dumps({'id': 'c1', 'choices': [], 'usage': usage})}\n\n"
    words = [*said("Hello there."), chunk({}, "stop"), counts, "data: [DONE]\n\n"]
    await record(streaming(words), tmp_path / "r", BODY | {"tools": []})
    (file,) = files(tmp_path / "r")
    status = await replay(str(file), "--to", to)
    shown = capsys.readouterr().out
    assert "event: message_start" not in shown
    assert status == 0, shown


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "m", "stream": True, "messages": BODY["messages"]}),
        ("/v1/chat/completions", {"model": "m", "messages": BODY["messages"]}),
        ("/v1/responses", {"model": "m", "stream": True, "input": "hi"}),
        ("/v1/responses", {"model": "m", "input": "hi"}),
        ("/v1beta/models/m:streamGenerateContent", {"contents": [{"parts": [{"text": "hi"}]}]}),
        ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "hi"}]}]}),
        ("/api/chat", {"model": "m", "messages": BODY["messages"]}),
        ("/v1/messages", {k: v for k, v in BODY.items() if k != "stream"}),
    ],
)
async def test_every_api_replays_identical(tmp_path, capsys, path, body):
    words = [*said("Hello there."), chunk({}, "stop"), "data: [DONE]\n\n"]
    status, _, _ = await record(streaming(words), tmp_path / "r", body, path=path)
    assert status == 200
    (file,) = files(tmp_path / "r")
    assert await replay(str(file)) == 0, capsys.readouterr().out


@pytest.mark.parametrize("api", ["openai_responses", "anthropic", "ollama"])
async def test_keep_alives_before_and_in_the_stream_are_replayed(tmp_path, capsys, api):
    path, body = {
        "openai_responses": ("/v1/responses", {"model": "m", "stream": True, "input": "hi"}),
        "anthropic": ("/v1/messages", BODY),
        "ollama": ("/api/chat", {"model": "m", "messages": BODY["messages"]}),
    }[api]

    async def answer(heard, line):
        await asyncio.sleep(0.3)
        await streaming([*said("Hello there."), chunk({}, "stop")], pause=0.15)(heard, line)

    folder = tmp_path / "r"
    await record(answer, folder, body, path=path, first_byte=0.05, keep_alive=0.05)
    (file,) = files(folder)
    pieces = json.loads(file.read_text())["response"]["body"]["pieces"]
    assert any(piece.get("keep_alive") for piece in pieces)
    assert await replay(str(file)) == 0, capsys.readouterr().out


async def test_a_retry_a_rejection_and_a_cut_stream_replay_identical(tmp_path, capsys):
    answers = ["busy", "cut"]

    async def answer(heard, line):
        if answers.pop(0) == "busy":
            await whole(line, {"error": {"message": "busy"}}, 503)
            return
        await line.head(200, "text/event-stream")
        await line.send(chunk({"content": "Half an ans"}))
        line.cut()

    folder = tmp_path / "r"
    await record(answer, folder)
    (file,) = files(folder)
    found = json.loads(file.read_text())
    assert [one["status"] for one in found["attempts"]] == [503, 200]
    assert found["attempts"][1]["broken"]["kind"] == "truncated"
    assert await replay(str(file)) == 0, capsys.readouterr().out

    async def rejects(heard, line):
        await whole(line, {"error": {"message": "no", "type": "invalid_request_error"}}, 400)

    status, _, _ = await record(rejects, tmp_path / "s")
    assert status == 400
    (file,) = files(tmp_path / "s")
    assert await replay(str(file)) == 0, capsys.readouterr().out


async def test_passthrough_and_a_client_that_left_replay_identical(tmp_path, capsys):
    events = [
        {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "real", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}} for _ in range(50)),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]  # fmt: skip
    pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    async with model_server(streaming(pieces, pause=0.01)) as server:
        provider = ProviderConfig(api="anthropic", url=server.url, passthrough=True)
        places = {"map": {"default": "p/real"}, "providers": {"p": provider}}
        config = Config(log="off", record=str(tmp_path / "r"), **places)
        async with gateway(config) as (url, _), aiohttp.ClientSession() as session:
            async with session.post(f"{url}/v1/messages", json=BODY) as reply:
                assert (await reply.read()).decode() == "".join(pieces)
            async with session.post(f"{url}/v1/messages", json=BODY) as reply:
                await reply.content.readany()
                reply.close()
            await asyncio.sleep(0.3)
    found = [json.loads(file.read_text()) for file in files(tmp_path / "r")]
    assert sorted(one["response"].get("client_left", False) for one in found) == [False, True]
    for file in files(tmp_path / "r"):
        assert await replay(str(file)) == 0, capsys.readouterr().out


# ── secrets ──────────────────────────────────────────────────────────────────

SPLIT = "sk-proj-0007aAbBcCdDeEfFgGhH"
SECRETS = [
    PROVIDER_KEY,
    LOGIN,
    SPLIT,
    "ghp_0001aAbBcCdDeEfFgGhHiIjJ",
    "sk-ant-0002aAbBcCdDeEfF",
    "swordfish0003",
    "hunter2hunter2",
]


async def test_planted_secrets_are_in_no_file(tmp_path, capsys):
    arguments = json.dumps({"path": "a.txt", "password": "hunter2hunter2"})
    call = {"index": 0, "id": "call_1", "function": {"name": "read_file", "arguments": ""}}
    pieces = [
        *said(f"Your key is {SPLIT}, your login {LOGIN}, mine {PROVIDER_KEY}."),
        chunk({"tool_calls": [call]}),
        *(
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments[at : at + 5]}}]})
            for at in range(0, len(arguments), 5)
        ),
        chunk({}, "tool_calls"),
        "data: [DONE]\n\n",
    ]
    body = BODY | {
        "system": f"The token is {SECRETS[3]}.",
        "metadata": {"user_id": "u", "api_key": SECRETS[5]},
        "messages": [{"role": "user", "content": f"use {SECRETS[4]} and {LOGIN}"}],
    }
    headers = {
        "authorization": f"Bearer {LOGIN}",
        "cookie": "session=swordfish0003",
        "x-trace": "t1",
    }
    folder = tmp_path / "r"
    await record(
        streaming(pieces), folder, body, headers=headers, path="/v1/messages?key=swordfish0003"
    )
    (file,) = files(folder)
    data = file.read_bytes()
    text = json.loads(data)
    together = "".join(p["text"] for p in text["attempts"][0]["response"]["pieces"])
    content = "".join(
        json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
        for line in together.splitlines()
        if line.startswith("data: {")
    )
    assert "Your key is " in content
    for secret in SECRETS:
        assert secret.encode() not in data, secret
        assert secret not in content, secret
        assert b64encode(secret.encode())[:12] not in data
    assert text["client"]["headers"]["x-trace"] == "t1"
    assert text["client"]["headers"]["authorization"] == "[redacted]"
    assert await replay(str(file)) == 0, capsys.readouterr().out


async def test_the_login_of_a_caller_that_is_forwarded_is_in_no_file(tmp_path, capsys):
    async def answer(heard, line):
        assert LOGIN in heard.headers["authorization"]
        message = {"role": "assistant", "content": f"You are {LOGIN}."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await whole(line, {"id": "c", "model": "m", "choices": [choice]})

    async with model_server(answer) as server:
        provider = ProviderConfig(api="openai_chat", url=server.url, key="caller")
        places = {"map": {"default": "p/m"}, "providers": {"p": provider}}
        async with (
            gateway(Config(log="off", record=str(tmp_path / "r"), **places)) as (url, _),
            aiohttp.ClientSession() as session,
            session.post(
                f"{url}/v1/chat/completions",
                json={"model": "m", "messages": BODY["messages"]},
                headers={"authorization": f"Bearer {LOGIN}"},
            ) as reply,
        ):
            assert reply.status == 200
    (file,) = files(tmp_path / "r")
    assert LOGIN.encode() not in file.read_bytes()
    assert await replay(str(file)) == 0, capsys.readouterr().out


async def test_an_id_that_a_server_repeats_replays_identical(tmp_path, capsys):
    words = [*said("Hello there."), chunk({}, "stop"), "data: [DONE]\n\n"]
    # "chat" is a part of every new id (`chatcmpl-…`), so the two are not told apart by `in`.
    words = [word.replace('"c1"', '"chat"') for word in words]
    async with model_server(streaming(words)) as server:
        provider = ProviderConfig(api="openai_chat", url=server.url)
        places = {"map": {"default": "p/m"}, "providers": {"p": provider}}
        async with gateway(Config(log="off", record=str(tmp_path / "r"), **places)) as (url, _):
            for _ in range(2):
                body = {"model": "m", "stream": True, "messages": BODY["messages"]}
                async with (
                    aiohttp.ClientSession() as session,
                    session.post(f"{url}/v1/chat/completions", json=body) as reply,
                ):
                    await reply.read()
    assert len(files(tmp_path / "r")) == 2
    for file in files(tmp_path / "r"):
        assert await replay(str(file)) == 0, capsys.readouterr().out


@every_row("size", [1, 2, 3, 5, 8, 13])
def test_a_secret_that_is_split_between_events_is_masked_and_pieces_keep_their_number(size):
    text = "".join(said(f"ä {SPLIT} ü"))
    pieces = [
        (float(at), text.encode()[at : at + size], False)
        for at in range(0, len(text.encode()), size)
    ]
    found = redact_pieces(pieces, Redactor())
    assert len(found.pieces) == len(pieces)
    lines = b"".join(found.data()).decode().splitlines()
    words = [json.loads(line[6:])["choices"][0]["delta"]["content"] for line in lines if line]
    assert "".join(words) == "ä [redacted] ü"


def test_bytes_without_secrets_stay_as_they_are():
    data = [b'data: {"a" : "\xc3', b'\xa4"}\r\n\r\n', b"\xff\x00\xfe"]
    for pieces in (data[:2], data):
        found = redact_pieces([(0.0, piece, False) for piece in pieces], Redactor())
        assert b"".join(found.data()) == b"".join(pieces)


# ── limits and faults ────────────────────────────────────────────────────────


async def test_recordings_are_bounded_by_number_and_size(tmp_path):
    folder = tmp_path / "r"
    folder.mkdir()
    other = folder / "notes.json"
    other.write_text("{}")
    for _ in range(3):
        await record(streaming(BROKEN), folder, record_files=2)
    assert len(files(folder)) == 3  # two recordings and the user's own file
    await record(streaming(BROKEN), folder, record_bytes=1)
    assert files(folder) == [other]


async def test_a_directory_that_cannot_be_written_changes_no_answer(tmp_path, capfd):
    blocked = tmp_path / "file"
    blocked.write_text("")
    status, data, _ = await record(streaming(BROKEN), blocked / "r")
    assert status == 200
    assert b"message_stop" in data
    assert "requests are not recorded" in capfd.readouterr().err


async def test_nothing_is_recorded_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await record(streaming(BROKEN), "")
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no-such.json"], "no-such.json"),
        (["bad.json"], "is not a recording"),
        (["old.json"], "another version"),
        (["run_0123456789abcdef", "--heal", "1"], "need a recording"),
    ],
)
def test_a_file_that_is_no_recording_is_an_error(tmp_path, monkeypatch, capsys, arguments, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    client = {"method": "POST", "path": "/", "body": ""}
    old = {"toolbridge_recording": 99, "id": "r", "time": 0, "seed": "", "client": client}
    (tmp_path / "old.json").write_text(json.dumps(old | {"response": {"status": 200}}))
    assert main(["replay", *arguments]) == 1
    assert text in capsys.readouterr().err


# ── transcripts ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["stream", "whole", "rejection"])
async def test_a_recording_becomes_a_transcript_that_the_tests_accept(tmp_path, capsys, kind):
    async def answer(heard, line):
        if kind == "stream":
            await streaming(BROKEN)(heard, line)
        elif kind == "whole":
            message = {"role": "assistant", "content": "Hi"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            await whole(line, {"id": "c", "model": "m", "choices": [choice]})
        else:
            await whole(line, {"error": {"message": "no such thing", "type": "x"}}, 400)

    body = BODY if kind == "stream" else {k: v for k, v in BODY.items() if k != "stream"}
    await record(answer, tmp_path / "r", body)
    (file,) = files(tmp_path / "r")
    assert await replay(str(file), "--transcript") == 0
    made = tmp_path / "case.md"
    made.write_text(capsys.readouterr().out)
    story = transcript.read(made)
    assert transcript.tell(story) == [fence.text for fence in story.fences]
    assert not transcript.bless(made)
    assert story.title
    assert story.why.count(".") >= 2
    assert len(story.fences) == 3
    if kind == "stream":
        assert story.fences[0].text == "".join(BROKEN)


def test_the_format_round_trips():
    from toolbridge.explain.recording import Piece, RecordedBytes

    given = RecordedBytes((Piece(0.5, "a", keep_alive=True), Piece(1.0, "\xff")), binary=True)
    assert msgspec.json.decode(msgspec.json.encode(given), type=RecordedBytes) == given
    assert given.data() == [b"a", b"\xff"]


async def failover(folder, body, *, answers=True):
    """Record a request whose first model fails; the second one answers, or fails too."""

    async def busy(_, line):
        await whole(line, {"error": {"message": "busy"}}, 503)

    async def second(heard, line):
        await (streaming(BROKEN) if answers else busy)(heard, line)

    async with model_server(busy) as one, model_server(second) as other:
        a = ProviderConfig(api="anthropic", url=one.url, key=PROVIDER_KEY, retries=1)
        b = ProviderConfig(api="openai_chat", url=other.url, key=PROVIDER_KEY, retries=0)
        config = Config(
            log="off", map={"default": ("a/x", "b/m")}, providers={"a": a, "b": b}, record=str(folder)
        )  # fmt: skip
        async with (
            gateway(config) as (url, _),
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/messages", json=body) as reply,
        ):
            return reply.status, await reply.read()


@pytest.mark.parametrize("answers", [True, False])
async def test_a_request_that_failed_over_replays_identical(tmp_path, capsys, answers):
    status, data = await failover(tmp_path / "r", BODY, answers=answers)
    assert (status == 200) is answers, data
    (file,) = files(tmp_path / "r")
    found = json.loads(file.read_text())
    assert [one["route"]["provider"] for one in found["failed_routes"]] == ["a"]
    assert found["route"]["provider"] == "b"
    assert PROVIDER_KEY not in file.read_text()
    assert await replay(str(file)) == 0, capsys.readouterr().out
    assert "the answer is the same" in capsys.readouterr().out
    if answers:
        assert await replay(str(file), "--heal", "0") == 1
