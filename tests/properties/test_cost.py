"""The law of cost: twice the answer takes about twice the work, read or written.

Work is counted in function calls, which no other load on the machine changes.
"""

import pytest
from tests.properties.subjects import decoded, encoded, every_codec, single_bytes
from tests.strategies import MODEL
from tests.work import calls_made

from toolbridge.core.draft import Draft
from toolbridge.core.ids import Ids


def long_answer(size):
    draft = Draft(Ids("long"))
    events = draft.start(id="msg_1", model=MODEL)
    for _ in range(size):
        events += draft.think("so ")
    for _ in range(size):
        events += draft.text("word ")
    events += draft.call("a", name="f", id="toolu_1") + draft.arguments("a", '{"text":"')
    for _ in range(size):
        events += draft.arguments("a", "more ")
    return events + draft.arguments("a", '"}') + draft.finish("end")


SIZES = (100, 200)
MOST = 2.2


@every_codec
def test_twice_the_answer_takes_twice_the_work_to_write(codec):
    rows = [long_answer(size) for size in SIZES]
    once, twice = (calls_made(lambda row=row: encoded(codec, row)) for row in rows)
    assert twice <= MOST * once


@every_codec
@pytest.mark.parametrize("split", [lambda data: [data], single_bytes], ids=["at-once", "by-byte"])
def test_twice_the_answer_takes_twice_the_work_to_read(codec, split):
    rows = [split(encoded(codec, long_answer(size))) for size in SIZES]
    once, twice = (calls_made(lambda row=row: decoded(codec, row)) for row in rows)
    assert twice <= MOST * once
