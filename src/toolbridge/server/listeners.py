"""The listening sockets of a gateway: bound here, inherited from a parent, or passed by systemd."""

import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass

import msgspec

from toolbridge.config import Config, TlsConfig
from toolbridge.core.errors import ConfigError

INHERITED = "TOOLBRIDGE_INHERITED"
"""The variable that describes what a parent process hands over, as JSON."""
_FIRST = 3
"""systemd, sd_listen_fds(3): the first descriptor that is passed."""


@dataclass(frozen=True)
class Listeners:
    """The socket for HTTP, and the one for TLS if there is one."""

    http: socket.socket
    tls: socket.socket | None = None
    given: bool = False
    """Whether they were bound by another process: the addresses may not be those of the settings."""

    @property
    def all(self) -> tuple[socket.socket, ...]:
        return (self.http,) if self.tls is None else (self.http, self.tls)


class Inheritance(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process gets from the one that started it: descriptors, and its part."""

    http: int
    tls: int = -1
    ready: int = -1
    """The pipe to write a byte to when the process serves."""
    worker: int = 0
    """The number of the worker, from 1; 0 for a process that replaces its parent."""
    shows_banner: bool = False
    parent: int = 0
    """The process that hands over."""
    metrics: str = ""
    """The directory for the counters of all workers."""


def take_inheritance(env: MutableMapping[str, str]) -> Inheritance | None:
    """Return what the parent process hands over; the variable is removed from `env`."""
    text = env.pop(INHERITED, "")
    return msgspec.json.decode(text, type=Inheritance) if text else None


def adopt(inherited: Inheritance) -> Listeners:
    """Return the sockets of the parent process."""
    tls = None if inherited.tls < 0 else _adopted(inherited.tls)
    return Listeners(_adopted(inherited.http), tls, given=True)


def from_systemd(env: MutableMapping[str, str], pid: int) -> Listeners | None:
    """Return the sockets of systemd's socket activation; None without them.

    systemd, sd_listen_fds(3): `LISTEN_PID` is the process that they are for. A socket with
    `FileDescriptorName=tls` is the one for TLS.
    """
    count, owner = env.pop("LISTEN_FDS", ""), env.pop("LISTEN_PID", "")
    names = env.pop("LISTEN_FDNAMES", "").split(":")
    if owner != str(pid) or not count.isdigit() or int(count) < 1:
        return None
    found: dict[str, socket.socket] = {}
    for index in range(int(count)):
        kind = "tls" if names[index : index + 1] == ["tls"] else "http"
        if kind in found:
            raise ConfigError(
                f"systemd passed two sockets for {kind}; name the one for TLS with "
                "`FileDescriptorName=tls` in its socket unit"
            )
        found[kind] = _adopted(_FIRST + index)
    if "http" not in found:
        raise ConfigError("systemd passed a socket for TLS only; add one for HTTP")
    return Listeners(found["http"], found.get("tls"), given=True)


def _adopted(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)
    adopted = socket.socket(fileno=descriptor)
    adopted.setblocking(False)
    return adopted


def as_bound(config: Config, listening: Listeners) -> Config:
    """Return `config` with the addresses of sockets that were bound by another process.

    Whether a key is required depends on the address that clients really reach.
    """
    host, port = listening.http.getsockname()[:2]
    tls = config.tls
    if listening.tls is None:
        tls = TlsConfig()
    elif not tls.cert:
        raise ConfigError("there is a socket for TLS and no certificate; set `tls.cert`")
    else:
        name, number = listening.tls.getsockname()[:2]
        tls = msgspec.structs.replace(tls, host=name, port=number)
    return msgspec.structs.replace(config, host=host, port=port, tls=tls)
