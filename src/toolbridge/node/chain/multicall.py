"""Several contract reads in one: `aggregate3` of Multicall3, where single calls may fail."""

from collections.abc import Sequence

from toolbridge.node.chain import abi

_SIGNATURE = "aggregate3((address,bool,bytes)[])"
_MAY_FAIL = True


def encode_calls(calls: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the call data of `aggregate3` for pairs of an address and its call data."""
    bodies = [
        abi.encode(["address", "bool", "bytes"], [address, _MAY_FAIL, data])
        for address, data in calls
    ]
    offset = 32 * len(bodies)
    offsets: list[abi.Value] = []
    for body in bodies:
        offsets.append(offset)
        offset += len(body)
    heads = abi.encode(["uint256"] * len(offsets), offsets)
    start = abi.encode(["uint256", "uint256"], [32, len(bodies)])
    return abi.selector(_SIGNATURE) + start + heads + b"".join(bodies)


def decode_results(data: bytes) -> list[tuple[bool, bytes]]:
    """Return for each call whether it succeeded, and its return or revert data."""
    inside = data[_number(data, 0) :]
    size, items = _number(inside, 0), inside[32:]
    if size * 32 > len(items):
        raise abi.MalformedAnswer("a list in a contract's return data is longer than the data")
    return [_result(items[_number(items, 32 * n) :]) for n in range(size)]


def _result(item: bytes) -> tuple[bool, bytes]:
    succeeded, data = abi.decode(["bool", "bytes"], item)
    return bool(succeeded), data if isinstance(data, bytes) else b""


def _number(data: bytes, offset: int) -> int:
    (found,) = abi.decode(["uint256"], data[offset : offset + 32])
    return int(found) if isinstance(found, int) else 0
