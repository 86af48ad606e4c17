"""Many questions to contracts in one: Multicall3's `aggregate3`, which lets single ones fail."""

from collections.abc import Sequence

from toolbridge.node.chain import abi

_SIGNATURE = "aggregate3((address,bool,bytes)[])"
_MAY_FAIL = True


def encode_questions(questions: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the call data that asks each address its question."""
    bodies = [
        abi.encode(["address", "bool", "bytes"], [address, _MAY_FAIL, data])
        for address, data in questions
    ]
    offset = 32 * len(bodies)
    offsets: list[abi.Value] = []
    for body in bodies:
        offsets.append(offset)
        offset += len(body)
    heads = abi.encode(["uint256"] * len(offsets), offsets)
    start = abi.encode(["uint256", "uint256"], [32, len(bodies)])
    return abi.selector(_SIGNATURE) + start + heads + b"".join(bodies)


def decode_answers(data: bytes) -> list[tuple[bool, bytes]]:
    """Return for each question whether it was answered, and with what."""
    inside = data[_number(data, 0) :]
    size, items = _number(inside, 0), inside[32:]
    if size * 32 > len(items):
        raise abi.MalformedAnswer("a contract's list is longer than its answer")
    return [_answer(items[_number(items, 32 * n) :]) for n in range(size)]


def _answer(item: bytes) -> tuple[bool, bytes]:
    done, data = abi.decode(["bool", "bytes"], item)
    return bool(done), data if isinstance(data, bytes) else b""


def _number(data: bytes, at: int) -> int:
    (found,) = abi.decode(["uint256"], data[at : at + 32])
    return int(found) if isinstance(found, int) else 0
