"""One connection to a host, on one paid job.

A connection that ends takes its job with it: the host settles as soon as the socket is gone. So a
line is opened once and never mended.
"""

import asyncio
import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State

from toolbridge.core.errors import Rejected, TimedOut, TooLarge, Unreachable, error_of
from toolbridge.core.json import JsonObject, dumps
from toolbridge.node.chain.address import address_of, same_account
from toolbridge.node.funding.jobs import Host, Job
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import NONCE_SIZE, Decryptor, Secret, check_private
from toolbridge.node.protocol.messages import (
    InitAck,
    InitKeys,
    NodeFault,
    NodeMessage,
    PromptEnvelope,
    SessionTopic,
    decode_message,
    encode_init,
    encode_prompt,
    encode_reset,
    problem_of,
)

MAX_MESSAGE = 64 * 2**20
MAX_FRAME = 8 * 2**20
"""Half of what a node takes in one frame; a longer message is sent in several."""

_log = logging.getLogger("toolbridge.node")


class HostUnreachable(Unreachable):
    """Nobody answers where the host should be."""


class ConnectionLost(Unreachable):
    """The connection is gone, and the job with it."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds."""

    connect: float = 10.0
    init: float = 30.0
    first: float = 180.0
    """For the first piece of an answer: a node may read a long prompt first."""
    next: float = 60.0
    grace: float = 3.0
    """For the counts behind the last piece, and for the end of what was cancelled."""


def socket_url(host: Host) -> str:
    """Return where a host's socket is. A slash too many would be a path that it does not know."""
    url = host.url.rstrip("/")
    if url.startswith(("ws://", "wss://")):
        return url
    scheme, _, rest = url.partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v1/ws"


def fresh_key() -> Secret:
    """Return a new private key, or a new session key."""
    return check_private(Secret(secrets.token_bytes(encryption.KEY_SIZE)))


@dataclass
class Handshake:
    """What a handshake agreed on."""

    session_id: str
    key: Secret
    opener: Decryptor
    index: int = 0
    """The number of the next prompt."""

    def prompt(self, body: JsonObject, id: str) -> JsonObject:
        """Return the next prompt, sealed."""
        nonce = secrets.token_bytes(NONCE_SIZE)
        envelope = PromptEnvelope(self.session_id, id, self.key, nonce, self.index)
        self.index += 1
        return encode_prompt(body, envelope)


class HostConnection:
    def __init__(self, socket: ClientConnection, job: Job, wallet: Secret, waits: Timeouts) -> None:
        self._socket = socket
        self._wallet = wallet
        self._waits = waits
        self._open = True
        self.job = job
        self.agreed: Handshake | None = None
        """The key in force; none before the first handshake."""
        self.used = 0
        """Tokens that the job was charged for, as far as we know."""

    @classmethod
    async def open(cls, job: Job, wallet: Secret, waits: Timeouts) -> "HostConnection":
        """Connect to the host of `job`; raise `HostUnreachable` when nobody answers."""
        url = socket_url(job.host)
        try:
            socket = await connect(
                url,
                open_timeout=waits.connect,
                close_timeout=1,
                max_size=MAX_MESSAGE,
                compression=None,
                proxy=None,
                ping_timeout=None,  # a node that looks something up does not read its socket
                user_agent_header="toolbridge",
            )
        except TimeoutError:
            raise HostUnreachable(
                f"the node at {url} did not answer within {waits.connect:g} s"
            ) from None
        except (OSError, WebSocketException, ValueError) as error:
            why = str(error) or type(error).__name__
            raise HostUnreachable(f"the node at {url} cannot be reached ({why})") from None
        return cls(socket, job, wallet, waits)

    @property
    def alive(self) -> bool:
        return self._open and self._socket.state is State.OPEN

    async def send(self, message: JsonObject) -> None:
        text = dumps(message)
        if len(text) > MAX_MESSAGE:
            raise TooLarge("the prompt with its pictures is longer than a node takes")
        try:
            if len(text) <= MAX_FRAME:
                await self._socket.send(text)
            else:
                await self._socket.send(
                    text[at : at + MAX_FRAME] for at in range(0, len(text), MAX_FRAME)
                )
        except ConnectionClosed as error:
            raise self._lost(error) from None

    async def receive(self, until: float) -> NodeMessage:
        """Return the next message; raise `TimeoutError` at `until`, by the loop's clock."""
        try:
            async with asyncio.timeout_at(until):
                data = await self._socket.recv()
        except ConnectionClosed as error:
            raise self._lost(error) from None
        return decode_message(data)

    def _lost(self, error: ConnectionClosed) -> ConnectionLost:
        self._open = False
        code = error.rcvd.code if error.rcvd else 0
        how = f"closed the connection with {code}" if code else "broke the connection"
        return ConnectionLost(f"the node {how}")

    async def handshake(self, session_id: str, *, reset: bool = False) -> "Handshake":
        """Agree on a new key for `session_id`; with `reset` the node forgets what it heard there."""
        id = f"init-{secrets.token_hex(8)}"
        opening = SessionTopic(session_id, self.job.id, self.job.model, self.job.chain_id)
        session = fresh_key()
        nonce = secrets.token_bytes(NONCE_SIZE)
        keys = InitKeys(self._wallet, self.job.host.public, session, fresh_key(), nonce)
        if reset:
            await self.send(encode_reset(opening, id=f"reset-{secrets.token_hex(8)}"))
        await self.send(encode_init(opening, keys, id=id))
        self._compare(await self._acknowledged(id))
        self.agreed = Handshake(session_id, session, Decryptor(session))
        return self.agreed

    async def _acknowledged(self, id: str) -> InitAck:
        until = asyncio.get_running_loop().time() + self._waits.init
        while True:
            try:
                message = await self.receive(until)
            except TimeoutError:
                raise TimedOut(
                    f"the node did not answer the handshake within {self._waits.init:g} s"
                ) from None
            match message:
                case InitAck(id=of, status="success") if of in {id, None}:
                    return message
                case InitAck(id=of, status=status) if of in {id, None}:
                    raise Rejected(f"the node refused the handshake: {status or 'no reason'}")
                case NodeFault(id=of) if of in {id, None}:
                    raise error_of(problem_of(message))
                case _:
                    continue

    def _compare(self, ack: InitAck) -> None:
        """Note whom the node takes us for; old nodes recover an address that nobody has."""
        ours = address_of(encryption.public_key(self._wallet))
        if not same_account(ack.client_address or "", ours):
            _log.debug("the node takes %s for %s", ours, ack.client_address)

    async def hang_up(self) -> None:
        """Close as a client does that is done: the host settles and pays back."""
        self._open = False
        with suppress(WebSocketException, OSError):
            await self._socket.close(1000, "Client disconnect")
