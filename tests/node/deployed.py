"""Our contracts on a chain, three hosts in the registry, and an account with money."""

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.node.local_chain import CHAIN_ID

from toolbridge.node.chain import abi
from toolbridge.node.chain.address import address_of, model_id
from toolbridge.node.chain.client import ChainClient, Receipt
from toolbridge.node.chain.contracts import NATIVE
from toolbridge.node.chain.networks import Network
from toolbridge.node.chain.rpc import Rpc
from toolbridge.node.chain.transaction import Transaction, sign
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.provider import NodeProvider
from toolbridge.node.settings import read_settings

CODE = json.loads((Path(__file__).parent / "contracts" / "contracts.json").read_text())
MODEL = "someone/tiny-model-GGUF:tiny-model.Q4.gguf"
MODEL_ID = bytes.fromhex(model_id(MODEL)[2:])
OWNER = Secret.from_hex("a1" * 32)
PAYER = Secret.from_hex("b2" * 32)
HOSTS = [Secret.from_hex(f"{n}{n}" * 32) for n in "456"]
FAB = 10**18
NATIVE_PRICE = 3_000_000
STABLE_PRICE = 2000


def account(key: Secret) -> str:
    return address_of(encryption.public_key(key))


@dataclass
class Deployed:
    """A chain with everything on it."""

    chain: ChainClient

    @property
    def network(self) -> Network:
        return self.chain.network

    async def act(self, key: Secret, to: str, call: str, *values, value: int = 0) -> Receipt:
        """Send a call as somebody and return its receipt."""
        return await self._send(key, to, abi.encode_call(call, values), value)

    async def deploy(self, code: str, types=(), values=()) -> str:
        data = bytes.fromhex(code) + abi.encode(types, values)
        receipt = await self._send(OWNER, "", data)
        found = await self.chain.rpc.ask("eth_getTransactionReceipt", receipt.hash)
        return found["contractAddress"]

    async def _send(self, key: Secret, to: str, data: bytes, value: int = 0) -> Receipt:
        fee, tip = await self.chain.fees()
        nonce = await self.chain.nonce(account(key))
        signed = sign(Transaction(CHAIN_ID, nonce, to, data, value, 8_000_000, fee, tip), key)
        await self.chain.send(signed.raw)
        receipt = await self.chain.wait_for(signed.hash, 10, 0.02)
        assert receipt is not None
        assert receipt.succeeded, (to, data[:4].hex())
        return receipt

    async def give(self, key: Secret, coins: int = 10 * FAB) -> None:
        await self.chain.rpc.ask("anvil_setBalance", account(key), hex(coins))

    @asynccontextmanager
    async def no_blocks(self):
        """Let the chain take transactions and make no blocks of them."""
        await self.chain.rpc.ask("evm_setAutomine", False)
        try:
            yield
        finally:
            await self.chain.rpc.ask("evm_mine")
            await self.chain.rpc.ask("evm_setAutomine", True)

    async def mine(self) -> None:
        await self.chain.rpc.ask("evm_mine")

    async def forget(self) -> None:
        """Let the chain lose what it has not made a block of."""
        await self.chain.rpc.ask("anvil_dropAllTransactions")

    async def later(self, seconds: int) -> None:
        await self.chain.rpc.ask("evm_increaseTime", seconds)
        await self.chain.rpc.ask("evm_mine")

    # ── hosts ──

    async def register(
        self,
        key: Secret,
        url: str,
        *,
        stake: int = 1000 * FAB,
        price: int = NATIVE_PRICE,
        stable: int = STABLE_PRICE,
        metadata: str | None = None,
    ) -> str:
        """Enter a host into the registry; it signs for itself."""
        await self.give(key)
        about = json.dumps({"publicKey": encryption.public_key(key).hex(), "location": "here"})
        said = about if metadata is None else metadata
        provider = self.network.registry
        await self.act(
            key, provider, "register(uint256,string,string,bytes32[])", stake, said, url, [MODEL_ID]
        )
        for token, cost in ((NATIVE, price), (self.network.token, stable)):
            if cost:
                await self.price(key, token, cost)
        return account(key)

    async def price(self, key: Secret, token: str, price: int) -> None:
        call = "setModelTokenPricing(bytes32,address,uint256)"
        await self.act(key, self.network.registry, call, MODEL_ID, token, price)

    async def set_active(self, key: Secret, active) -> None:
        await self.act(key, self.network.registry, "setActive(bool)", active)

    async def pause(self, paused) -> None:
        await self.act(OWNER, self.network.marketplace, "setPaused(bool)", paused)

    async def mint(self, key: Secret, amount: int) -> None:
        await self.act(OWNER, self.network.token, "mint(address,uint256)", account(key), amount)

    async def prove(self, key: Secret, job: str, tokens: int) -> Receipt:
        """Let a host claim tokens for a job."""
        call = "submitProofOfWork(uint256,uint256,bytes32,string,string)"
        return await self.act(
            key, self.network.marketplace, call, int(job), tokens, bytes(32), "", ""
        )

    async def complete(self, key: Secret, job: str) -> Receipt:
        call = "completeSessionJob(uint256,string)"
        return await self.act(key, self.network.marketplace, call, int(job), "cid")

    async def session(self, job: str) -> list:
        return await self.chain.read(self.network.marketplace, "sessionJobs", int(job))

    async def jobs(self) -> int:
        """Return how many sessions were ever paid for."""
        (following,) = await self.chain.read(self.network.marketplace, "nextJobId")
        return following - 1

    # ── us ──

    def settings(self, **more):
        network = self.network
        return read_settings(
            {
                "model": MODEL, "network": "", "chain_id": CHAIN_ID, "rpc_url": network.rpc_url,
                "marketplace": network.marketplace, "registry": network.registry,
                "token": network.token, "multicall": network.multicall, "seed": 7,
                "daily_gas": "1",
            } | more
        )  # fmt: skip

    def provider(self, state: Path, *, wallet=PAYER, waits=None, **more) -> NodeProvider:
        options = {"pay_wait": 5.0, "settle_after": 0.0}
        options |= {name: more.pop(name) for name in options.keys() & more.keys()}
        return NodeProvider(self.settings(**more), wallet, state=state, waits=waits, **options)


@asynccontextmanager
async def deployed(url: str):
    """Put the contracts on the chain at `url`."""
    async with Rpc(url) as rpc:
        bare = Deployed(ChainClient(rpc, Network(CHAIN_ID, url)))
        await bare.give(OWNER)
        await bare.give(PAYER)
        registry = await bare.deploy(CODE["Registry"])
        market = await bare.deploy(CODE["Marketplace"], ["address"], [registry])
        token = await bare.deploy(CODE["Token"])
        multicall = await bare.deploy(CODE["Multicall"])
        await bare.act(OWNER, registry, "approveModel(bytes32)", MODEL_ID)
        await bare.act(OWNER, market, "setTokenMinDeposit(address,uint256)", token, 500_000)
        network = Network(CHAIN_ID, url, market, registry, token, 6, multicall)
        yield Deployed(ChainClient(rpc, network))
