"""Read hosts from the NodeRegistry contract: URL, stake, price and public key.

A public key is verified against the host's address. If the metadata has none (the node's own
registration command leaves it out), it is recovered from a transaction that the host signed.
"""

from collections.abc import Sequence
from dataclasses import replace

from toolbridge.core.errors import BrokenWire, RateLimited, TimedOut, Unreachable
from toolbridge.core.json import Json
from toolbridge.node.chain.abi import MalformedAnswer, Value, topic
from toolbridge.node.chain.address import address_of, model_id, same_account
from toolbridge.node.chain.client import Answer, ChainClient, Log, ReadCall, hexed, word
from toolbridge.node.chain.contracts import (
    METADATA_UPDATED,
    NATIVE,
    NODE_REGISTERED,
    PROOF_SUBMITTED,
)
from toolbridge.node.chain.rpc import RpcRejected
from toolbridge.node.chain.transaction import signer
from toolbridge.node.hosts.candidates import (
    ExcludedHost,
    FoundHosts,
    HostCandidate,
    HostRequirements,
    ListedHost,
    NoHosts,
    claimed_key,
    given_key,
    rank,
)
from toolbridge.node.hosts.scoring import SHORT_LIST, Mode

_WINDOW = 9_000
"""Blocks per `eth_getLogs` request, for servers that limit the range."""
_WINDOWS = 12
_MAX_TRANSACTIONS = 5
"""Transactions per contract that are tried for a key; usually the first is the host's own."""


class HostRegistry:
    """The hosts in the NodeRegistry contract, with prices in `currency`."""

    def __init__(self, chain: ChainClient, *, currency: str = NATIVE) -> None:
        self._chain = chain
        self._currency = currency
        self.native = currency == NATIVE
        """Whether prices are in the chain's own coin."""
        self._keys: dict[str, bytes] = {}
        """Keys recovered from transactions, by address; empty for a host without one."""

    async def find(
        self, model: str, requirements: HostRequirements, mode: Mode, only: str = ""
    ) -> FoundHosts:
        """Return the usable hosts by score, best first; with `only`, no other address is read."""
        addresses = [only] if only else await self._serving(requirements.model)
        if not addresses:
            raise NoHosts(
                f"no host in the registry serves {model}; check `model` (case-sensitive) and `network`"
            )
        able: list[HostCandidate] = []
        excluded: list[ExcludedHost] = []
        for host in await self._listed(addresses, requirements.model):
            if isinstance(host, ExcludedHost):
                excluded.append(host)
            elif why := requirements.objection(host):
                excluded.append(ExcludedHost(host.address, why))
            else:
                able.append(_candidate(host, requirements))
        return await self._verified(rank(able, mode, native=self.native), excluded)

    async def _verified(
        self, ranked: Sequence[HostCandidate], excluded: list[ExcludedHost]
    ) -> FoundHosts:
        """Return the best hosts with a verified key; the number of slow key searches is limited."""
        candidates: list[HostCandidate] = []
        searches = SHORT_LIST
        for one in ranked[: 10 * SHORT_LIST]:
            public = one.public or self._keys.get(one.address, b"")
            if not public and one.address not in self._keys and searches:
                searches -= 1
                public = await self._recovered(one.address)
            if not public:
                excluded.append(
                    ExcludedHost(
                        one.address, "its public key cannot be verified; set `host_key` to use it"
                    )
                )
            elif len(candidates) < SHORT_LIST:
                source = one.key_from if one.public else "transaction"
                candidates.append(replace(one, public=public, key_from=source))
        return FoundHosts(tuple(candidates), tuple(excluded))

    async def _serving(self, model: bytes) -> list[str]:
        (found,) = await self._chain.read(self._chain.network.registry, "getNodesForModel", model)
        return list(dict.fromkeys(str(one) for one in found)) if isinstance(found, list) else []

    async def _listed(
        self, addresses: Sequence[str], model: bytes
    ) -> list[ListedHost | ExcludedHost]:
        """Return the registry's entry of each address, read in few requests."""
        registry = self._chain.network.registry
        calls: list[ReadCall] = []
        for address in addresses:
            calls += [
                ReadCall(registry, "getNodeFullInfo", (address,)),
                ReadCall(registry, "getModelPricing", (address, model, self._currency)),
            ]
        answers = await self._chain.read_many(calls)
        return [
            _read(address, answers[2 * n], answers[2 * n + 1])
            for n, address in enumerate(addresses)
        ]

    # ── keys from signed transactions ──

    async def _recovered(self, address: str) -> bytes:
        """Return a host's key from a transaction that it signed; empty if none is found."""
        try:
            self._keys[address] = await self._search(address)
        except (RpcRejected, RateLimited, Unreachable, TimedOut, BrokenWire):
            return b""  # only this host is excluded
        return self._keys[address]

    async def _search(self, address: str) -> bytes:
        network, who = self._chain.network, word(address)
        entries: list[Json] = [[_topic(NODE_REGISTERED), _topic(METADATA_UPDATED)], who]
        proofs: list[Json] = [_topic(PROOF_SUBMITTED), None, who]
        for contract, topics in ((network.registry, entries), (network.marketplace, proofs)):
            for log in (await self._logs(contract, topics))[:_MAX_TRANSACTIONS]:
                found = await self._chain.transaction(log.transaction)
                public = signer(found) if found and found.get("hash") == log.transaction else None
                if public is not None and same_account(address_of(public), address):
                    return public
        return b""

    async def _logs(self, contract: str, topics: list[Json]) -> list[Log]:
        """Return logs from all blocks if the server allows it, else from the latest ones."""
        try:
            return await self._chain.logs(contract, topics)
        except RpcRejected:
            pass
        last = await self._chain.block_number()
        for _ in range(_WINDOWS):
            first = max(0, last - _WINDOW + 1)
            if found := await self._chain.logs(contract, topics, (hex(first), hex(last))):
                return found
            if not first:
                break
            last = first - 1
        return []


def _topic(signature: str) -> str:
    return hexed(topic(signature))


def model_bytes(model: str) -> bytes:
    """Return the 32-byte id of `repo:file`."""
    return bytes.fromhex(model_id(model).removeprefix("0x"))


def _read(address: str, info: Answer, price: Answer) -> ListedHost | ExcludedHost:
    if not isinstance(info, list):
        return ExcludedHost(address, f"the registry has no entry for it ({info.reason})")
    match info:
        case [
            str(operator), int(stake), bool(active), str(metadata), str(url),
            list(models), int(), int(),
        ]:  # fmt: skip
            if not same_account(operator, address):
                return ExcludedHost(address, "it is not registered")
            served = tuple(one for one in models if isinstance(one, bytes))
            return ListedHost(
                address,
                stake,
                active,
                metadata,
                url,
                served,
                _price(price),
            )
        case _:
            raise MalformedAnswer(
                "the registry returned a host in an unknown form; check `registry`"
            )


def _candidate(host: ListedHost, requirements: HostRequirements) -> HostCandidate:
    """Return a usable host, with its key from the registry or from `host_key`."""
    claimed = claimed_key(host)
    return HostCandidate(
        host.address,
        requirements.url_of(host),
        claimed or given_key(host, requirements.keys) or b"",
        host.stake,
        host.price,
        key_from="registry" if claimed else "settings",
    )


def _price(answer: Answer) -> int:
    """Return a price; `getModelPricing` reverts if the host has set none, which counts as 0."""
    found: Value = answer[0] if isinstance(answer, list) else 0
    return found if isinstance(found, int) else 0
