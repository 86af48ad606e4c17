"""A resolver that leaves out private addresses, for sessions of aiohttp and for `Upstream`.

It is apart from `addresses` because aiohttp is loaded only where it is needed.
"""

import socket
from collections.abc import Callable

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

from toolbridge.upstream.addresses import PrivateAddress, is_own, is_public


class AddressGuard(AbstractResolver):
    """The resolver of an aiohttp session: private addresses are left out unless they are allowed.

    aiohttp does not resolve a host that is written as an address; check it with `is_private_host`,
    or with `permits`.
    """

    def __init__(
        self,
        *,
        private: bool = False,
        local: frozenset[str] = frozenset(),
        also: Callable[[str, int, str], bool] | None = None,
        own: bool = True,
        inner: AbstractResolver | None = None,
    ) -> None:
        """With `private` all addresses are allowed, else only to the names in `local`.

        `also` decides about other private addresses, by host, port and address. `own` is whether a
        public address of this machine is allowed; `inner` resolves the names.
        """
        self._private = private
        self._local = local
        self._also = also
        self._own = own
        self._inner = inner

    def permits(self, address: str) -> bool:
        """Whether a connection to `address` is allowed, whatever name leads to it."""
        return self._private or (is_public(address) and (self._own or not is_own(address)))

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self._inner = self._inner or DefaultResolver()
        found = await self._inner.resolve(host, port, family)
        if self._private or host.lower() in self._local:
            return found
        also = self._also or (lambda _host, _port, _address: False)
        allowed = [
            one for one in found if self.permits(one["host"]) or also(host, port, one["host"])
        ]
        if not allowed:
            raise PrivateAddress(host)
        return allowed

    async def close(self) -> None:
        if self._inner is not None:
            await self._inner.close()
