"""Checks of model ids, host scores, ABI encoding and the removal of prompt markers."""

from collections.abc import Mapping
from math import isclose

from toolbridge.core.json import Json
from toolbridge.node.chain.abi import Value, decode, encode, encode_call, topic, types_of
from toolbridge.node.chain.address import model_id
from toolbridge.node.chain.contracts import FUNCTIONS, SESSION_CREATED
from toolbridge.node.hosts.scoring import WEIGHTS, factors, score
from toolbridge.node.protocol.flattening import FAMILIES, flatten
from toolbridge.node.vectors.case import Checks, VectorCase, guarded, numbered


def model(case: VectorCase) -> Checks:
    yield from case.agree(
        model_id=model_id(case.text("model")),
        preimage_utf8=case.text("model").replace(":", "/", 1),
    )


def scoring(case: VectorCase) -> Checks:
    ours = factors(int(case.text("stake_wei")), int(case.text("price_stable")))
    theirs = {
        "stakeScore": ours.stake,
        "priceScore": ours.price,
        "uptimeScore": ours.uptime,
        "latencyScore": ours.latency,
    }
    yield from _close(case.inner("factors"), theirs)
    yield from _close(case.inner("scores"), {mode: score(ours, mode) for mode in WEIGHTS})


def _close(known: VectorCase, ours: Mapping[str, float]) -> Checks:
    """Compare floats with a tolerance: the last digit depends on the order of the terms."""
    for name, value in ours.items():
        right = known.fields.get(name)
        if isinstance(right, int | float):
            near = isclose(value, right, rel_tol=1e-12, abs_tol=1e-12)
            yield name, right if near else value, right


def flattening(found: VectorCase) -> Checks:
    ours: Json = [{"triggers": list(f.triggers), "delete": list(f.delete)} for f in FAMILIES]
    yield from found.agree(patterns_in_order=ours)
    for label, case in numbered(found.fields.get("examples")):
        yield f"example {label}", flatten(case.text("in")), case.text("out")


def abi(found: VectorCase) -> Checks:
    for group, size in (("selectors", 4), ("topics", 32)):
        for _, contract in numbered(found.fields.get(group)):
            for signature, hash in contract.fields.items():
                yield signature, "0x" + topic(signature)[:size].hex(), hash
    for name, check in (("calldata", _call), ("return_data", _returned), ("logs", _log)):
        for label, case in numbered(found.fields.get(name)):
            yield from guarded(f"{name} {label}", check, case)


def _call(case: VectorCase) -> Checks:
    signature, _ = FUNCTIONS[case.text("fn")]
    given = case.fields["args"]
    texts = given if isinstance(given, list) else []
    values = [_value(type, t) for type, t in zip(types_of(signature), texts, strict=True)]
    yield from case.agree(data="0x" + encode_call(signature, values).hex())


def _value(type: str, given: Json) -> Value:
    """Return an argument of a vector, where numbers and bytes are strings."""
    if isinstance(given, list):
        return [_value(type[:-2], item) for item in given]
    if isinstance(given, str) and type.startswith("uint"):
        return int(given)
    if isinstance(given, str) and type.startswith("bytes"):
        return bytes.fromhex(given.removeprefix("0x"))
    if isinstance(given, str | int):
        return given
    raise TypeError(f"{given!r} is not of the type {type}")


def _returned(case: VectorCase) -> Checks:
    _, types = FUNCTIONS[case.text("fn")]
    if "field_order" in case.fields:
        order = case.fields["field_order"]
        names = order if isinstance(order, list) else []
        yield "field_order", list(types), [str(name).split()[0] for name in names]
    values = decode(types, case.hex("data"))
    yield from case.agree(values=[_shown(value) for value in values])
    yield "again", "0x" + encode(types, values).hex(), case.text("data")


def _shown(value: Value) -> Json:
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return value if isinstance(value, bool | str) else str(value)


def _log(case: VectorCase) -> Checks:
    found = case.fields["topics"]
    topics = [str(t) for t in found] if isinstance(found, list) else []
    yield "topic", "0x" + topic(SESSION_CREATED).hex(), topics[0]
    yield from case.agree(job_id=str(int(topics[1], 16)))
