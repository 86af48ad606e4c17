"""Transactions, compared byte for byte with eth-account, in an environment of its own.

eth-account needs pycryptodome below 4, so it cannot be installed beside toolbridge.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.real.clients import installing

from toolbridge.node.chain.address import checksum
from toolbridge.node.chain.transaction import Transaction, sign, signer
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret

pytestmark = pytest.mark.real

LIST = Path(__file__).with_name("eth_account.txt")
PROGRAM = """
import json, sys
from eth_account import Account
for key, transaction in json.load(sys.stdin):
    signed = Account.sign_transaction(transaction, key)
    fields = {name: hex(getattr(signed, name)) for name in ("r", "s", "v")}
    print(json.dumps({"raw": signed.raw_transaction.hex(), "hash": signed.hash.hex(), **fields}))
"""


@pytest.fixture(scope="session")
def eth_account() -> Path:
    """Return a Python with eth-account; skip where it cannot be installed."""
    with installing("eth-account") as home:
        python = home / "bin" / "python"
        if not (home / "done").exists():
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            install = [
                str(python),
                "-m",
                "pip",
                "install",
                "-q",
                "--require-hashes",
                "-r",
                str(LIST),
            ]
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"eth-account cannot be installed: {done.stderr[-300:]}")
            (home / "done").touch()
    return python


def signed_by(python: Path, asked: list[tuple[str, dict]]) -> list[dict]:
    done = subprocess.run(
        [str(python), "-c", PROGRAM], input=json.dumps(asked), capture_output=True, text=True, check=True
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def key(dice: random.Random) -> str:
    return f"{dice.randrange(1, 2**255):064x}"


def common(dice: random.Random) -> dict:
    return {
        "chainId": dice.choice([1, 8453, 84532, 31337]), "nonce": dice.getrandbits(dice.randrange(33)),
        "gas": dice.randrange(21_000, 10**7), "to": checksum(dice.randbytes(20).hex()),
        "value": dice.getrandbits(dice.randrange(100)), "data": "0x" + dice.randbytes(dice.randrange(200)).hex(),
    }  # fmt: skip


def test_eip_1559_transactions_are_signed_to_the_same_bytes(eth_account):
    dice = random.Random(13)
    asked = []
    for _ in range(150):
        tip = dice.getrandbits(30)
        fees = {"type": 2, "maxPriorityFeePerGas": tip, "maxFeePerGas": tip + dice.getrandbits(40)}
        asked.append((key(dice), common(dice) | fees))
    for (secret, made), found in zip(asked, signed_by(eth_account, asked), strict=True):
        ours = Transaction(
            made["chainId"], made["nonce"], made["to"], bytes.fromhex(made["data"][2:]),
            made["value"], made["gas"], made["maxFeePerGas"], made["maxPriorityFeePerGas"],
        )  # fmt: skip
        signed = sign(ours, Secret.from_hex(secret))
        assert signed.raw.hex() == found["raw"].removeprefix("0x")
        assert signed.hash.removeprefix("0x") == found["hash"].removeprefix("0x")


@pytest.mark.parametrize("kind", ["legacy", "listed"])
def test_the_signers_of_other_transactions_are_found(eth_account, kind):
    dice = random.Random(14)
    entry = {"address": "0x" + "11" * 20, "storageKeys": ["0x" + "00" * 31 + "05"]}
    more = {} if kind == "legacy" else {"type": 1, "accessList": [entry]}
    asked = [
        (key(dice), common(dice) | {"gasPrice": dice.getrandbits(40)} | more) for _ in range(50)
    ]
    for (secret, made), found in zip(asked, signed_by(eth_account, asked), strict=True):
        named = {name: hex(made[name]) for name in ("chainId", "nonce", "gas", "value", "gasPrice")}
        answer = named | {
            "hash": "0x" + found["hash"].removeprefix("0x"), "to": made["to"], "input": made["data"],
            "type": "0x0" if kind == "legacy" else "0x1", "r": found["r"], "s": found["s"], "v": found["v"],
            **({} if kind == "legacy" else {"accessList": [entry]}),
        }  # fmt: skip
        assert signer(answer) == encryption.public_key(Secret.from_hex(secret))
