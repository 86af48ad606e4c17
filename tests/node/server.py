"""A node for tests, built on the facts, that misbehaves on demand.

It reads its socket as a real one does: while it writes an answer it looks for a cancellation and
drops every other message. Keys live in memory until it restarts. `Scene` says what the next prompt
gets; without one the prompt is answered with `ANSWER`.
"""

import asyncio
import json
import secrets
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec
from tests.node.frames import Speaker
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from toolbridge.node.chain.address import address_of
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import DecryptionFailed, Decryptor, Secret
from toolbridge.node.protocol.messages import InitPayload, Payload, read_hex

HOST = Secret.from_hex("46" * 32)
ANSWER = ("Hello", ", ", "world")


@dataclass
class Scene:
    """What one prompt gets."""

    texts: tuple[str, ...] = ANSWER
    finish: str = "stop"
    pause: float = 0.0
    """Seconds before each chunk."""
    wrong: str = ""
    """The fault: `cut`, `close`, `stall`, `drop`, `swap`, `replay`, `flip`, `other_key`, `restart`,
    `picture`, `engine`, `nothing`, `silence`, `garbage`, `cut_at_end`."""
    at: int = 1
    """The chunk at which it happens."""
    fault: dict = field(default_factory=dict)
    """An error instead of an answer."""
    fault_ends: bool = False
    """Whether a `stream_end` follows the error."""
    deaf: bool = False
    """Whether it goes on after a cancellation."""
    responds: bool = True
    ends: bool = True
    """Whether there is a `stream_end`; old nodes send none."""
    counts: bool = True
    """Whether it brings usage; old nodes bring none."""
    vlm_tokens: object = 0
    obeys_limit: bool = True
    claims: dict = field(default_factory=dict)
    """Counts that it claims: `chunk`, `used`, `completion`, `prompt`; any JSON value."""
    final: bool = True
    """Whether the last chunk comes."""


@dataclass
class Heard:
    """A prompt that reached the node."""

    session_id: str
    prompt: dict
    outside: dict
    aad: str


class Node:
    def __init__(self, *, recovers_old: bool = False, key: Secret = HOST) -> None:
        self.key = key
        self.scenes: deque[Scene] = deque()
        self.init_scenes: deque[str | dict] = deque()
        """What the next handshakes get instead of an ack: `silence`, `cut`, `refuse`, an error."""
        self.recovers_old = recovers_old
        self.keys: dict[str, Secret] = {}
        self.inits: list[dict] = []
        self.resets: list[dict] = []
        self.heard: list[Heard] = []
        self.dropped: list[dict] = []
        self.cancelled: list[str] = []
        self.closed: list[int | None] = []
        self.sent: list[str] = []
        self.sockets: set[ServerConnection] = set()
        self.connections = 0
        self.writing = 0
        self.most_at_once = 0
        self.history: dict[str, list[str]] = defaultdict(list)
        self.url = ""

    def play(self, *scenes: Scene) -> None:
        self.scenes.extend(scenes)

    def restart(self) -> None:
        """Forget every key and drop every connection."""
        self.keys.clear()
        for socket in self.sockets:
            socket.transport.abort()

    def forget(self) -> None:
        """Forget every key but keep the connections."""
        self.keys.clear()

    # ── connections ──

    async def serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        self.sockets.add(socket)
        try:
            greeting = "WebSocket connected successfully"
            await self._send(socket, {"type": "connected", "message": greeting})
            async for data in socket:
                await self._hear(socket, data)
        except ConnectionClosed:
            pass
        finally:
            self.sockets.discard(socket)
            self.closed.append(socket.close_code)

    async def _send(self, socket: ServerConnection, message: dict) -> None:
        text = json.dumps(message, ensure_ascii=False)
        self.sent.append(text)
        await socket.send(text)

    async def _hear(self, socket: ServerConnection, data: str | bytes) -> None:
        try:
            message = json.loads(data) if isinstance(data, str) else {}
        except ValueError:
            message = {}
        match message.get("type"):
            case "encrypted_session_init":
                await self._init(socket, message)
            case "session_init":
                self.resets.append(message)
                self.history.pop(message["session_id"], None)
                ack = {"type": "session_init_ack", "status": "success"}
                await self._send(socket, ack | {"session_id": message["session_id"]})
            case "encrypted_message":
                await self._prompt(socket, message)
            case _:
                self.dropped.append(message)

    # ── handshakes ──

    async def _init(self, socket: ServerConnection, message: dict) -> None:
        scene = self.init_scenes.popleft() if self.init_scenes else ""
        if scene == "silence":
            return
        if scene == "cut":
            socket.transport.abort()
            return
        if isinstance(scene, dict):
            await self._send(socket, {"type": "error", "id": message.get("id")} | scene)
            return
        try:
            payload = msgspec.convert(message["payload"], InitPayload)
            inside = json.loads(payload.open(self.key))
        except DecryptionFailed:
            await self._fault(socket, message, "DECRYPTION_FAILED")
            return
        assert isinstance(inside["jobId"], str)
        assert isinstance(inside["pricePerToken"], int)
        self.inits.append({"outside": message, "inside": inside})
        self.keys[message["session_id"]] = Secret.from_hex(inside["sessionKey"])
        await self._send(
            socket,
            {
                "type": "session_init_ack",
                "status": "success",
                "session_id": message["session_id"],
                "job_id": int(inside["jobId"]),
                "chain_id": message.get("chain_id", 84532),
                "client_address": self._client(payload),
                "message": "Encrypted session initialized successfully",
                **({"id": message["id"]} if "id" in message else {}),
            },
        )

    def _client(self, payload: InitPayload) -> str:
        if self.recovers_old:  # nodes up to 8.42 recover over something that nobody signed
            digest = encryption.init_digest(read_hex(payload.ciphertext))
            return address_of(encryption.recover(digest, read_hex(payload.signature))).lower()
        return address_of(payload.signer(encryption.public_key(self.key))).lower()

    async def _fault(self, socket: ServerConnection, message: dict, code: str) -> None:
        names = {name: message[name] for name in ("id", "session_id") if name in message}
        await self._send(socket, {"type": "error", "code": code, "message": code.lower(), **names})

    # ── prompts ──

    async def _prompt(self, socket: ServerConnection, message: dict) -> None:
        scene = self.scenes.popleft() if self.scenes else Scene()
        if scene.wrong == "restart":
            self.forget()
        key = self.keys.get(message["session_id"])
        if key is None:
            await self._fault(socket, message, "SESSION_KEY_NOT_FOUND")
            return
        payload = msgspec.convert(message["payload"], Payload)
        try:
            prompt = json.loads(payload.open(Decryptor(key), payload.label))
        except DecryptionFailed:
            await self._fault(socket, message, "DECRYPTION_FAILED")
            return
        self.heard.append(Heard(message["session_id"], prompt, message, payload.label))
        self.history[message["session_id"]].append(prompt["prompt"])
        if scene.fault:
            await self._refuse(socket, message, scene)
            return
        self.writing += 1
        self.most_at_once = max(self.most_at_once, self.writing)
        try:
            await _Answer(self, socket, message, scene, key, prompt).write()
        finally:
            self.writing -= 1

    async def _refuse(self, socket: ServerConnection, message: dict, scene: Scene) -> None:
        await self._send(socket, {"type": "error", "id": message["id"]} | scene.fault)
        if scene.fault_ends:
            end = {"type": "stream_end", "reason": "error", "tokens_used": 0, "id": message["id"]}
            await self._send(socket, end)


class _Answer:
    """The writing of one answer, during which the socket is read for a cancellation alone."""

    def __init__(
        self,
        node: Node,
        socket: ServerConnection,
        message: dict,
        scene: Scene,
        key: Secret,
        prompt: dict,
    ) -> None:
        self._node = node
        self._socket = socket
        self._session = message["session_id"]
        self._scene = scene
        self._prompt = prompt
        speaking = Secret(secrets.token_bytes(32)) if scene.wrong == "other_key" else key
        nonces = iter(lambda: int.from_bytes(secrets.token_bytes(24), "big"), -1)
        self._speaker = Speaker(speaking, message["id"], self._session, nonces)
        self._tokens = 0

    async def _send(self, message: dict) -> None:
        await self._node._send(self._socket, message)

    async def write(self) -> None:
        scene = self._scene
        if scene.wrong == "silence":
            await self._stalled()
            return
        if scene.wrong == "picture":
            picture = '{"type":"image_generation_result"}'
            await self._send(self._speaker.response(picture, encryption.IMAGE_AAD))
            return
        texts = () if scene.wrong == "nothing" else scene.texts
        limit = self._prompt["max_tokens"] if scene.obeys_limit else len(texts)
        for number, text in enumerate(texts[:limit]):
            if await self._told_to_stop(scene.pause):
                await self._cancelled()
                return
            if not await self._chunk(number, text):
                return
        await self._finish("length" if len(texts) > limit else scene.finish)

    async def _chunk(self, number: int, text: str) -> bool:
        """Send one chunk, or do what is wrong with it; False when nothing more is sent."""
        message = self._speaker.chunk(text, tokens=self._scene.claims.get("chunk"))
        self._tokens += 1
        wrong = self._scene.wrong if number == self._scene.at else ""
        match wrong:
            case "cut":
                self._socket.transport.abort()
                return False
            case "close":
                await self._socket.close(1001)
                return False
            case "stall":
                await self._stalled()
                return False
            case "drop":
                return True
            case "garbage":
                await self._socket.send("no json")
            case "flip":
                text = message["payload"]["ciphertextHex"]
                message["payload"]["ciphertextHex"] = f"{int(text[0], 16) ^ 1:x}{text[1:]}"
            case "replay":
                await self._send(message)
            case "swap":
                await self._send(self._speaker.chunk("later"))
        await self._send(message)
        return True

    async def _told_to_stop(self, pause: float) -> bool:
        """Listen for a cancellation while time passes; drop whatever else comes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause or 0.001):
                while True:
                    message = json.loads(await self._socket.recv())
                    if message.get("type") != "stream_cancel":
                        self._node.dropped.append(message)
                    elif message["session_id"] == self._session:
                        self._node.cancelled.append(self._session)
                        if not self._scene.deaf:
                            return True
        return False

    async def _stalled(self) -> None:
        """Say nothing until a cancellation comes."""
        while not await self._told_to_stop(3600):
            pass
        await self._cancelled()

    async def _cancelled(self) -> None:
        end = self._speaker.end("cancelled", used=self._tokens, finish_reason="cancelled")
        await self._send(end)

    async def _finish(self, finish: str) -> None:
        scene, speaker = self._scene, self._speaker
        failed = scene.wrong == "engine"
        if failed:
            await self._send(speaker.chunk("Error: out of memory"))
        if scene.final:
            await self._send(speaker.chunk("", final=True))
        if scene.responds:
            await self._send(speaker.response("error" if failed else "stop"))
        if scene.wrong == "cut_at_end":
            self._socket.transport.abort()
            return
        more = {"vlm_tokens": scene.vlm_tokens} if scene.vlm_tokens else {}
        if scene.counts and scene.wrong != "nothing":
            usage = speaker.usage(11, self._tokens)
            named = {"prompt_tokens": "prompt", "completion_tokens": "completion"}
            usage |= {k: scene.claims[name] for k, name in named.items() if name in scene.claims}
            more |= {"usage": usage, "finish_reason": finish}
        if scene.ends:
            reason = "error" if failed else "complete"
            used = scene.claims.get("used", self._tokens)
            await self._send(speaker.end(reason, used=used, **more))


@asynccontextmanager
async def running(given: Node | None = None, **options: bool | Secret) -> AsyncIterator[Node]:
    """Serve a node on a free port of this machine."""
    node = given or Node(**options)

    def route(connection: ServerConnection, request):
        return None if request.path == "/v1/ws" else connection.respond(HTTPStatus.NOT_FOUND, "")

    limits = {"max_size": (64 * 2**20, 16 * 2**20), "compression": None, "ping_interval": None}
    server: Server
    async with serve(node.serve, "127.0.0.1", 0, process_request=route, **limits) as server:
        node.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield node
        finally:
            for socket in list(node.sockets):
                socket.transport.abort()
