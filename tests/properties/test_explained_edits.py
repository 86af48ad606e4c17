"""Every difference between the request that came in and the one that was sent is explained.

`came` is what the client's codec decodes, `sent` what the target's own codec decodes from the sent
body. A second comparison, which knows nothing of lists and alignment, counts the values of both:
each value that is missing or new must be inside an edit.
"""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.properties.request_bodies import BODIES, body
from tests.properties.test_same_api_requests import captures
from tests.strategies import requests
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.codec import Target
from toolbridge.core.errors import ClientError
from toolbridge.core.json import dump_bytes
from toolbridge.explain.edits import Comparison, find_edits
from toolbridge.explain.reasons import explain_edits
from toolbridge.translate import RequestOptions, plan

PAIRS = [(a, b) for a in codecs.names() for b in codecs.names()]
MODES = ("native", "prompt", "constrained")


def compared(api: str, given: bytes, target: str, mode: str = "native") -> Comparison:
    """Return what came and what is sent to `target`, as their codecs decode it."""
    codec = codecs.load(target)
    came = codecs.load(api).decode_request(given, model="m", stream=True)
    options = RequestOptions("drop", attaches=True, tool_mode=mode, constraint="json_schema")
    ready = plan(came, codec, Target(model="n", provider="p"), options)
    sent = codec.decode_request(dump_bytes(ready.outgoing.body), model="n", stream=True)
    return Comparison(came, sent, target, ready.losses, mode, ready.names)


def check(found: Comparison) -> None:
    names = codecs.load(found.came.origin).field_names
    for edit in explain_edits(found, names):
        assert edit.reason, f"{found.came.origin} to {found.target}: {edit}"
    edits = find_edits(found.came, found.sent, found.names)
    before, after = values(found.came), values(found.sent)
    covered_before, covered_after = Counter(), Counter()
    for edit in edits:
        covered_before.update(atoms(edit.before, edit.place.rpartition(".")[2]))
        covered_after.update(atoms(edit.after, edit.place.rpartition(".")[2]))
    # An edit shows whole values, so it may cover more than what differs, but never less.
    assert not (before - after) - covered_before, edits
    assert not (after - before) - covered_after, edits


def values(request) -> Counter:
    """Return how often each value stands in a request, under the name of its field."""
    plain = json.loads(dump_bytes(request))
    del plain["origin"]  # the API of each
    return Counter(atoms(plain, ""))


def atoms(value, name) -> Iterator[str]:
    if isinstance(value, dict):
        for n, v in value.items():
            if n not in {"source", "role"}:
                yield from atoms(v, n)
    elif isinstance(value, list):
        for v in value:
            yield from atoms(v, "")
    elif value not in (None, "") and name != "type":
        yield repr(value)


@every_row(("api", "target"), PAIRS)
@every_row("mode", MODES)
def test_each_difference_of_a_rich_request_is_explained(api, target, mode):
    check(compared(api, json.dumps(body(api)).encode(), target, mode))


def test_the_rich_requests_cover_all_apis():
    assert set(BODIES) == set(codecs.names())


@pytest.mark.parametrize(("api", "target"), PAIRS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_each_difference_of_any_request_is_explained(api, target, data):
    drawn = data.draw(requests(origin=api))
    given = codecs.load(api).encode_request(drawn, Target(model=drawn.model)).body
    mode = data.draw(st.sampled_from(MODES))
    try:
        found = compared(api, dump_bytes(given), target, mode)
    except ClientError:
        return  # refused with its reason, and not sent
    check(found)


@pytest.mark.parametrize(("api", "file"), captures())
def test_each_difference_of_a_captured_request_is_explained(api, file):
    if not api:
        pytest.skip(f"there are no captures of clients at {file}")
    given = dump_bytes(json.loads(file.read_text())["body"])
    for target in codecs.names():
        check(compared(api, given, target))
