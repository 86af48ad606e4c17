"""Several contract reads in one: `aggregate3` of Multicall3, where single calls may fail."""

from collections.abc import Sequence

from toolbridge.node.chain import abi

_SIGNATURE = "aggregate3((address,bool,bytes)[])"
_MAY_FAIL = True
_MAX_RESULT = 64 * 1024
"""Bytes that one call may return on average: a host's texts are a few hundred."""
_LEAST_RESULT = 4 * abi.WORD
"""Bytes of a result without data: the offset, `success`, the offset and the length of the data."""


def encode_calls(calls: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the call data of `aggregate3` for pairs of an address and its call data."""
    bodies = [
        abi.encode(["address", "bool", "bytes"], [address, _MAY_FAIL, data])
        for address, data in calls
    ]
    offset = abi.WORD * len(bodies)
    offsets: list[abi.Value] = []
    for body in bodies:
        offsets.append(offset)
        offset += len(body)
    heads = abi.encode(["uint256"] * len(offsets), offsets)
    start = abi.encode(["uint256", "uint256"], [abi.WORD, len(bodies)])
    return abi.selector(_SIGNATURE) + start + heads + b"".join(bodies)


def decode_results(data: bytes, calls: int) -> list[tuple[bool, bytes]]:
    """Return for each of `calls` calls whether it succeeded, and its return or revert data.

    Raise `MalformedAnswer` for data that is too long, has another number of results, or is not the
    canonical encoding.
    """
    if len(data) > calls * _MAX_RESULT:
        raise abi.MalformedAnswer(
            f"aggregate3 returned {len(data)} bytes for {calls} calls, more than "
            f"{_MAX_RESULT} per call"
        )
    reader = abi.Reader(data)
    reader.at(0, reader.offset())
    count = reader.count(_LEAST_RESULT)
    if count != calls:
        raise abi.MalformedAnswer(f"aggregate3 returned {count} results for {calls} calls")
    start = reader.position
    offsets = [reader.offset() for _ in range(count)]
    results = [_result(reader, start, offset) for offset in offsets]
    reader.finish()
    return results


def _result(reader: abi.Reader, start: int, offset: int) -> tuple[bool, bytes]:
    """Return the next result: a tuple of a bool and bytes."""
    reader.at(start, offset)
    succeeded, data = reader.values(["bool", "bytes"])
    return bool(succeeded), data if isinstance(data, bytes) else b""
