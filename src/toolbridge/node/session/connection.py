"""A WebSocket connection to a host, for one paid job.

A host settles the job as soon as the connection ends (node protocol: there is no time to
reconnect). So a connection is opened once per job and never reopened. The address of the host is
checked when the connection is made, and no redirect is followed.
"""

import asyncio
import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import CloseCode
from websockets.protocol import State

from toolbridge.core.errors import (
    BrokenWire,
    Rejected,
    TimedOut,
    TooLarge,
    Unreachable,
    error_of,
)
from toolbridge.core.json import JsonObject, dumps
from toolbridge.node.chain.address import address_of, same_account
from toolbridge.node.funding.jobs import Host, Job
from toolbridge.node.hosts.access import HostAccess
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
    printable,
    problem_of,
)
from toolbridge.upstream.addresses import open_socket

MAX_MESSAGE = 64 * 2**20
MAX_INCOMING = 8 * 2**20
"""The largest message that is read: an image in place of an answer. A chunk has a few hundred bytes."""
MAX_FRAME = 8 * 2**20
"""Half of the 16 MiB that a node accepts per WebSocket frame; longer messages are fragmented."""

_log = logging.getLogger("toolbridge.node")


class HostUnreachable(Unreachable):
    """The host does not accept a connection; its job stays paid."""


class ConnectionLost(Unreachable):
    """The connection ended, and with it the job."""


class TooMuchSent(BrokenWire):
    """The host sent more than an answer can have."""


@dataclass(frozen=True)
class Timeouts:
    """How long to wait for a host, in seconds."""

    connect: float = 10.0
    init: float = 30.0
    first: float = 180.0
    """Until the first chunk of an answer; reading a long prompt takes time."""
    next: float = 60.0
    """Between two chunks."""
    grace: float = 3.0
    """For `stream_end` after the final chunk or a cancellation; old nodes do not send it."""
    total: float = 3600.0
    """For a whole answer."""


def socket_url(host: Host) -> str:
    """Return the WebSocket URL of a host.

    Trailing slashes are removed, because `//v1/ws` is a 404 on nodes. A `ws://` URL is used as is.
    """
    url = host.url.rstrip("/")
    if url.startswith(("ws://", "wss://")):
        return url
    scheme, _, rest = url.partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v1/ws"


def fresh_key() -> Secret:
    """Return random bytes that are valid as a private key and as a session key."""
    return check_private(Secret(secrets.token_bytes(encryption.KEY_SIZE)))


@dataclass
class Handshake:
    """The result of a handshake: a session id and its key."""

    session_id: str
    key: Secret
    decryptor: Decryptor
    index: int = 0
    """The index of the next prompt."""

    def prompt(self, body: JsonObject, id: str) -> JsonObject:
        """Return the next prompt, encrypted."""
        nonce = secrets.token_bytes(NONCE_SIZE)
        envelope = PromptEnvelope(self.session_id, id, self.key, nonce, self.index)
        self.index += 1
        return encode_prompt(body, envelope)


async def _open_websocket(url: str, access: HostAccess) -> ClientConnection:
    """Connect to an address of the host that was checked; its name is not resolved again.

    With a socket of its own, `connect` cannot follow a redirect and raises `ValueError`.
    """
    host, port, private = access.target(url)
    socket = await open_socket(host, port, private=private)
    try:
        return await connect(
            url,
            sock=socket,
            open_timeout=None,
            close_timeout=1,
            max_size=MAX_INCOMING,
            compression=None,
            proxy=None,
            ping_timeout=None,  # a node does not read its socket during a web search
            user_agent_header="toolbridge",
        )
    except BaseException:
        socket.close()
        raise


def _reason(error: Exception) -> str:
    """Return why a connection failed, without text that the host chose."""
    refused = error if isinstance(error, InvalidStatus) else error.__context__
    if not isinstance(refused, InvalidStatus):
        return str(error) or type(error).__name__
    status = refused.response.status_code
    note = ", a redirect, which is not followed" if 300 <= status < 400 else ""
    return f"it answered with HTTP status {status}{note}"


class HostConnection:
    """An open WebSocket to the host of one job."""

    def __init__(self, socket: ClientConnection, job: Job, wallet: Secret, waits: Timeouts) -> None:
        self._socket = socket
        self._wallet = wallet
        self._waits = waits
        self._open = True
        self.job = job
        self.last_handshake: Handshake | None = None
        """The last handshake; None before the first."""
        self.used = 0
        """Tokens that the host has charged to the job, by our count."""
        self.received = 0
        """Characters of all messages of the host."""
        self.hung_up = False
        """Whether the host closed the connection, not we."""

    @classmethod
    async def open(
        cls, job: Job, wallet: Secret, waits: Timeouts, access: HostAccess
    ) -> "HostConnection":
        """Connect to the host of `job`; raise `HostUnreachable` when that fails."""
        url = socket_url(job.host)
        if why := access.objection(job.host.url):
            raise HostUnreachable(f"the node at {job.host.url[:200]!r} is not contacted: {why}")
        try:
            async with asyncio.timeout(waits.connect):
                socket = await _open_websocket(url, access)
        except TimeoutError:
            raise HostUnreachable(
                f"the node at {url} did not accept a connection within {waits.connect:g} s"
            ) from None
        except (OSError, WebSocketException, ValueError) as error:
            raise HostUnreachable(
                f"the node at {url} cannot be reached ({_reason(error)})"
            ) from None
        return cls(socket, job, wallet, waits)

    @property
    def alive(self) -> bool:
        return self._open and self._socket.state is State.OPEN

    async def send(self, message: JsonObject) -> None:
        text = dumps(message)
        if len(text) > MAX_MESSAGE:
            raise TooLarge(
                f"the prompt with its images exceeds the {MAX_MESSAGE >> 20} MiB that a node accepts"
            )
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
        """Return the next message; raise `TimeoutError` at `until`, in the event loop's time."""
        try:
            async with asyncio.timeout_at(until):
                data = await self._socket.recv()
        except ConnectionClosed as error:
            raise self._lost(error) from None
        self.received += len(data)
        return decode_message(data)

    def _lost(self, error: ConnectionClosed) -> ConnectionLost | TooMuchSent:
        self.hung_up = self._open  # else we have closed it
        self._open = False
        if error.sent and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
            return TooMuchSent(f"the node sent a message of more than {MAX_INCOMING >> 20} MiB")
        code = error.rcvd.code if error.rcvd else 0
        how = f"closed the connection with code {code}" if code else "dropped the connection"
        return ConnectionLost(f"the node {how}")

    async def handshake(self, session_id: str, *, reset: bool = False) -> "Handshake":
        """Send a new key for `session_id`; with `reset` the node deletes its history first."""
        id = f"init-{secrets.token_hex(8)}"
        opening = SessionTopic(session_id, self.job.id, self.job.model, self.job.chain_id)
        session = fresh_key()
        nonce = secrets.token_bytes(NONCE_SIZE)
        keys = InitKeys(self._wallet, self.job.host.public, session, fresh_key(), nonce)
        if reset:
            await self.send(encode_reset(opening, id=f"reset-{secrets.token_hex(8)}"))
        await self.send(encode_init(opening, keys, id=id))
        self._compare_address(await self._acknowledgement(id))
        self.last_handshake = Handshake(session_id, session, Decryptor(session))
        return self.last_handshake

    async def _acknowledgement(self, id: str) -> InitAck:
        until = asyncio.get_running_loop().time() + self._waits.init
        while True:
            try:
                message = await self.receive(until)
            except TimeoutError:
                raise TimedOut(
                    f"the node did not acknowledge the handshake within {self._waits.init:g} s"
                ) from None
            match message:
                case InitAck(id=of, status="success") if of in {id, None}:
                    return message
                case InitAck(id=of, status=status) if of in {id, None}:
                    raise Rejected(
                        f"the node refused the handshake: {printable(status) or 'no reason'}"
                    )
                case NodeFault(id=of) if of in {id, None}:
                    raise error_of(problem_of(message))
                case _:
                    continue

    def _compare_address(self, ack: InitAck) -> None:
        """Log a client address that is not ours.

        Nodes without the E2EEv1 signature fix recover a random address, so this is not an error.
        """
        ours = address_of(encryption.public_key(self._wallet))
        if not same_account(ack.client_address or "", ours):
            _log.debug("the node takes our address %s for %r", ours, ack.client_address)

    async def close(self) -> None:
        """Close the WebSocket; the host then settles the job and refunds the rest."""
        self._open = False
        with suppress(WebSocketException, OSError):
            await self._socket.close(1000, "Client disconnect")
