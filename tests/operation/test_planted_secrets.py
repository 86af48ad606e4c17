"""No byte that a gateway keeps holds a secret, wherever in a request, an answer or an error it was.

A real gateway process gets distinct secrets in every field; then the state directory, the log, the
metrics and the lists of past runs are searched, byte by byte.
"""

import asyncio
import json
import re
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

import aiohttp
import pytest
from tests.peers import Heard, Line, model_server, whole
from tests.processes import gateway_process
from tests.streams import chunk, read

pytestmark = pytest.mark.operation
PROVIDER_KEY = 'prov/ider+key"0123456789'
GATEWAY_KEY = "gateway-key-abcdefgh"
PROSE = "colourless green ideas"
"""Words of a prompt that are no secret: the log of the five APIs holds no prompt at all."""

SHAPES = [
    "sk-proj-{n:04}aAbBcCdDeEfF", "AIzaSy{n:04}aAbBcCdDeEfFgGhHiIjJkKlLmM", "ghp_{n:04}aAbBcCdDeEfFgGhHiIjJ",
    "xoxb-{n:04}-aAbBcCdDeEfF", "AKIA{n:04}ABCDEFGHIJKL", "eyJhbGciOi{n:04}.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF{n:04}",
    "sk_live_{n:04}aAbBcCdDeEfF", "github_pat_{n:04}aAbBcCdDeEfFgG", "glpat-{n:04}aAbBcCdDeEfF",
]  # fmt: skip


@dataclass
class Garden:
    """Hands out secrets, and remembers where each was planted."""

    planted: dict[str, str] = field(default_factory=dict)

    def plant(self, where: str) -> str:
        secret = SHAPES[len(self.planted) % len(SHAPES)].format(n=len(self.planted))
        self.planted[secret] = where
        return secret

    def word(self, where: str) -> str:
        """Return a secret without a shape: only the member's name says what it is."""
        secret = f"swordfish{len(self.planted):04}"
        self.planted[secret] = where
        return secret

    def found(self, data: bytes) -> list[str]:
        return [where for secret, where in self.planted.items() if secret.encode() in data]


def config(url: str) -> str:
    def provider(name: str, api: str, path: str = "") -> str:
        return (
            f'[providers.{name}]\napi = "{api}"\nurl = "{url}{path}"\nkey = "$PROVIDER_KEY"\n'
            "retries = 0\npassthrough = false\n"
        )

    apis = ["anthropic", "openai_chat", "openai_responses", "gemini"]
    return "\n".join(
        [
            f'key = "{GATEWAY_KEY}"',
            '[map]\ndefault = "openai_chat/m"',
            *(provider(api, api) for api in apis),
            f'[stream]\ntool_hosts = ["{url.removeprefix("http://")}"]\ndatabases = {{ d = "d.sqlite" }}',
        ]
    )


AUTH = {"authorization": f"Bearer {GATEWAY_KEY}"}


class Model:
    """A Chat Completions server that says what it is told to, cut into small pieces."""

    def __init__(self) -> None:
        self.answers: list[object] = []
        self.chats = 0

    async def __call__(self, heard: Heard, line: Line) -> None:
        if heard.path.startswith("/tool"):
            await whole(line, self.answers.pop(0))
            return
        self.chats += 1
        answer = self.answers.pop(0) if self.answers else "fine"
        if isinstance(answer, dict):
            await whole(line, answer, 400)
            return
        await line.head(kind="text/event-stream")
        pieces = answer if isinstance(answer, list) else [str(answer)]
        for piece in pieces:
            delta = piece if isinstance(piece, dict) else None
            for at in range(0, 1 if delta else len(piece), 5):
                await line.send(chunk(delta or {"content": piece[at : at + 5]}))
        await line.send(chunk({}, "stop") + "data: [DONE]\n\n")
        await line.end()


async def structured_stream(client, url: str, garden: Garden, model: Model, tools: str) -> str:
    """Run a stream with secrets in all its parts; return the run's id."""
    plant, word = garden.plant, garden.word
    body = {
        "messages": [
            {"role": "user", "content": f"first {plant('messages.0')}"},
            {"role": "assistant", "content": f"my password: {word('messages.1 password')}"},
            {"role": "user", "content": json.dumps({"api_key": word("JSON in messages.2")})},
        ],
        "system": f"the key is {plant('system')} at https://ada:{word('login')}@example.com/",
        "schemas": {
            "Extra": {
                "type": "object",
                "description": plant("schema description"),
                "properties": {"token": {"type": "string", "default": word("schema default")},
                               "note": {"enum": [plant("schema enum"), "x"]}},
            },
        },
        "tools": [
            {"name": "mine", "client": True, "description": plant("tool description"),
             "parameters": {"type": "object", "properties": {"q": {"description": plant("tool parameter")}}}},
            {"name": "theirs", "url": f"{tools}/tool?key={word('tool url')}",
             "description": f"Authorization: Bearer {word('tool bearer')}"},
        ],
        "tool_retries": 0,
    }  # fmt: skip
    split = plant("model text, cut")
    model.answers += [
        (f"Here is {split} and\n-----BEGIN PRIVATE KEY-----\nMIIEvQ{(pem := word('PEM'))}IBADANBg\n-----END "
        'PRIVATE KEY-----\n⟦BEGIN_TOOL_CALL id=T1 name=mine⟧{"q":"'
        f'{plant("call arguments")}","password":"{word("call password")}"}}⟦END_TOOL_CALL id=T1⟧'),
        ('⟦BEGIN_TOOL_CALL id=T2 name=theirs⟧{"nested":{"secret":["'
        f'{word("list in a secret")}"]}}}}⟦END_TOOL_CALL id=T2⟧'),
        {"data": plant("result of a URL tool"), "credentials": {"user": word("result credentials")}},
        '⟦BEGIN_TOOL_CALL id=T3 name=mine⟧{"q":"x"}⟦END_TOOL_CALL id=T3⟧',
        (f'⟦BEGIN_OBJECT id=O1 schema=Extra⟧{{"token":"{word("object token")}","note":"x","more":'
        f'{{"passwords":{{"deep":"{word("deep in an object")}"}}}}}}⟦END_OBJECT id=O1⟧'
        f'⟦BEGIN_RESULT id=R1 schema=AssistantReply⟧{{"answer":"{plant("result")}","citations":[]}}'
        "⟦END_RESULT id=R1⟧"),
    ]  # fmt: skip
    assert pem
    results = iter(
        [
            {"result": {"said": plant("client tool result"), "token": word("result token")}},
            {"error": f"failed with {plant('client tool error')}"},
        ]
    )
    headers = AUTH | {"idempotency-key": plant("Idempotency-Key"), "x-session-id": plant("session"),
                      "cookie": f"c={plant('cookie')}", "user-agent": plant("user agent")}  # fmt: skip
    names = []
    async with client.post(f"{url}/v1/stream", json=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        run = response.headers["x-toolbridge-run"]
        async for said in read(response):
            names.append(said.name)
            if said.name == "tool.call" and said.data.get("client"):
                answer = {"id": said.data["id"], **next(results)}
                async with client.post(
                    f"{url}/v1/stream/{run}/results", json=answer, headers=AUTH
                ) as taken:
                    assert taken.status == 200
    assert names[-1] == "done"
    assert {"text.delta", "tool.call", "tool.result", "json.end", "result.end"} <= set(names)
    model.answers.append(
        {"error": {"message": f"bad key {plant('upstream error')} {PROVIDER_KEY}"}}
    )
    failing = {"prompt": "hello", "model": f"openai_chat/{plant('model name')}"}
    async with client.post(f"{url}/v1/stream", json=failing, headers=AUTH) as response:
        assert b"event: done" in await response.read()
    return run


def five_requests(garden: Garden) -> list[tuple[str, dict, dict]]:
    """Return a request of each API with a secret in each of its fields."""
    plant, word = garden.plant, garden.word

    def said(where: str) -> str:
        return f"{PROSE} {plant(where)}, password: {word(where)}"

    tool = {"type": "object", "properties": {"token": {"type": "string", "default": word("tool")}}}
    headers = AUTH | {"x-session-id": plant("session of five"), "x-unknown": plant("header")}
    anthropic = {
        "model": "openai_chat/m",
        "max_tokens": 50,
        "system": said("system"),
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": said("text")}]},
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "t",
                        "input": {"password": word("input")},
                    }
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": said("tool result"),
                    }
                ],
            },
        ],
        "tools": [{"name": "t", "description": said("tool"), "input_schema": tool}],
        "metadata": {"user_id": plant("user id")},
        "stop_sequences": [plant("stop")],
        plant("name of a field"): plant("unknown field"),
        "top_k": 5,
    }
    chat = {
        "model": "openai_chat/m",
        "user": plant("user"),
        "stop": [plant("stop of chat")],
        "messages": [
            {"role": "system", "content": said("system of chat")},
            {"role": "user", "content": said("user of chat"), "name": plant("name")},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "t", "description": said("t"), "parameters": tool},
            }
        ],
        "metadata": {"k": plant("metadata")},
        "logit_bias": {},
        plant("field of chat"): 1,
    }
    responses = {
        "model": "openai_chat/m",
        "instructions": said("instructions"),
        "store": True,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": said("input")}]},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "t",
                "arguments": json.dumps({"token": word("args")}),
            },
            {"type": "function_call_output", "call_id": "c1", "output": said("output")},
        ],
        "metadata": {"k": plant("metadata of responses")},
        "prompt_cache_key": plant("cache key"),
    }
    gemini = {
        "contents": [{"role": "user", "parts": [{"text": said("part")}]}],
        "systemInstruction": {"parts": [{"text": said("system of gemini")}]},
        "labels": {"k": plant("label")},
        "generationConfig": {"stopSequences": [plant("stop of gemini")]},
    }
    ollama = {
        "model": "openai_chat/m", "messages": [{"role": "user", "content": said("ollama")}],
        "options": {"stop": [plant("stop of ollama")], plant("option"): 1}, "stream": False,
        "format": {"type": "object", "description": said("format")},
    }  # fmt: skip
    at = quote(f"/v1beta/models/openai_chat/m:generateContent?key={GATEWAY_KEY}", safe="/:?=")
    return [
        ("/v1/messages", anthropic, headers),
        ("/v1/messages", {**anthropic, "stream": True}, headers),
        ("/v1/chat/completions", chat, headers),
        ("/v1/responses", responses, headers),
        (at, gemini, {}),
        ("/api/chat", ollama, headers),
        # Faults, which quote what is wrong with them.
        ("/v1/messages", {**anthropic, "messages": plant("not a list")}, headers),
        ("/v1/chat/completions", {**chat, "messages": [{"role": plant("role"), "content": PROSE}]}, headers),
        ("/v1/responses", {**responses, "previous_response_id": plant("previous id")}, headers),
        ("/v1/messages", {**anthropic, "model": plant("unknown model")}, headers),
        (f"/v1/{plant('path')}", {}, headers),
        ("/v1/stream", {"prompt": PROSE, "tools": [plant("unknown tool")]}, headers),
        ("/v1/stream", {"prompt": PROSE, plant("field of stream"): 1}, headers),
        ("/v1/stream", {"prompt": PROSE, "result": plant("unknown schema")}, headers),
    ]  # fmt: skip


async def ask_five(client, url: str, garden: Garden, model: Model) -> None:
    call = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {
        "name": "t", "arguments": f"{{'token': '{garden.word('broken call')}', b: {garden.plant('healed')},"}}]}  # fmt: skip
    for path, body, headers in five_requests(garden):
        model.answers = [
            [f"I say {garden.plant('answer')}, password: {garden.word('answer')}", call]
        ]
        async with client.post(f"{url}{path}", json=body, headers=headers) as response:
            await response.read()
        model.answers = [
            {"error": {"message": f"{garden.plant('rejection')} {PROVIDER_KEY} {PROSE}"}}
        ]
        async with client.post(f"{url}{path}", json=body, headers=headers) as response:
            await response.read()
    broken = f'{{"model": "x", "messages": [{{"password": "{garden.word("broken JSON")}"'
    async with client.post(f"{url}/v1/messages", data=broken, headers=AUTH) as response:
        assert response.status == 400


def kept_bytes(process) -> dict[str, bytes]:
    found = {}
    for path in process.state.rglob("*"):
        if path.is_file():
            with suppress(FileNotFoundError):  # a temporary file, which has got its own name
                found[str(path.relative_to(process.state))] = path.read_bytes()
    return found


async def shown(client, url: str, run: str) -> dict[str, bytes]:
    paths = ["/metrics", "/health", "/v1/runs", f"/v1/runs/{run}"]
    found = {}
    for path in paths:
        async with client.get(f"{url}{path}", headers=AUTH) as response:
            assert response.status == 200
            found[path] = await response.read()
    return found


@pytest.mark.req("TF-50")
async def test_nothing_that_is_kept_holds_a_secret(tmp_path):
    garden, model = Garden(), Model()
    async with model_server(model) as server, aiohttp.ClientSession() as client:
        env = {"PROVIDER_KEY": PROVIDER_KEY}
        async with gateway_process(tmp_path, config(server.url), env=env) as process:
            run = await structured_stream(client, process.url, garden, model, server.url)
            await ask_five(client, process.url, garden, model)
            await asyncio.sleep(0.3)  # the thread of the artifacts
            kept = kept_bytes(process) | await shown(client, process.url, run)
            # In the same process a run is told again exactly as it was.
            again = await told(client, process.url, run)
            assert "[redacted]" not in again
        kept |= {f"later {name}": data for name, data in kept_bytes(process).items()}
        kept["log"] = process.log.read_bytes()
        async with gateway_process(tmp_path, config(server.url), env=env) as process:
            kept["replay"] = (await told(client, process.url, run)).encode()
    for key in (PROVIDER_KEY, GATEWAY_KEY):
        spellings = {
            key,
            json.dumps(key)[1:-1],
            quote(key, safe=""),
            b64encode(key.encode()).decode(),
        }
        garden.planted |= dict.fromkeys(spellings, "configured key")
    found = {name: where for name, data in kept.items() if (where := garden.found(data))}
    assert found == {}
    assert len(garden.planted) > 90
    assert any(b"[redacted]" in data for name, data in kept.items() if name.endswith("prompt.json"))
    assert PROSE.encode() not in kept["log"]
    # The run can still be followed after a restart, from its first event to its last.
    replay = kept["replay"].decode()
    assert replay.count("event: done") == 1
    assert replay.count("\nid: ") == again.count("\nid: ")
    assert joined(replay).startswith("Here is [redacted] and\n")


async def told(client, url: str, run: str) -> str:
    async with client.get(f"{url}/v1/stream/{run}", headers=AUTH) as response:
        assert response.status == 200, await response.text()
        return await response.text()


def joined(stream: str) -> str:
    """Return the text of a stream."""
    data = re.findall(r"event: text\.delta\ndata: (.*)\n", stream)
    return "".join(json.loads(line)["text"] for line in data)
