"""The laws over all pairs: what one API says, as another says it, for any cut of the bytes."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.grammar import check, joined
from tests.properties.losses import losses_of
from tests.properties.subjects import ASKED, decoded, encoded, single_bytes
from tests.strategies import answers, cuts

from toolbridge import codecs
from toolbridge.core.events import Failed, Finished
from toolbridge.core.fold import collect
from toolbridge.translate import translate

PAIRS = [
    pytest.param(source, target, id=f"{source}→{target}")
    for source, target in itertools.product(codecs.names(), repeat=2)
]
every_pair = pytest.mark.parametrize(("source", "target"), PAIRS)
few = settings(max_examples=8)


def translated(source: str, target: str, pieces: list[bytes]) -> bytes:
    stage = translate(source, target, asked=ASKED, seed="law")
    return b"".join([out for piece in pieces for out in stage.feed(piece)] + stage.close())


def events_of(target: str, data: bytes):
    return joined(decoded(codecs.load(target), [data]))


@every_pair
@few
@given(st.data())
def test_any_cut_is_translated_to_the_same(source, target, data):
    written = encoded(codecs.load(source), data.draw(answers(origin=source)))
    once = events_of(target, translated(source, target, [written]))
    check(once)
    assert events_of(target, translated(source, target, single_bytes(written))) == once
    assert events_of(target, translated(source, target, data.draw(cuts(written)))) == once


@every_pair
@few
@given(st.data())
def test_an_answer_says_the_same_in_another_api(source, target, data):
    said = collect(data.draw(answers(origin=source, broken=False, failed=False)))
    written = encoded(codecs.load(source), _events(said))
    read = collect(decoded(codecs.load(source), [written]))
    found = collect(events_of(target, translated(source, target, [written])))
    keep = losses_of(target).message
    expected, shown = keep(read), keep(found)
    assert shown.text == expected.text
    assert [(c.name, c.arguments) for c in shown.calls] == [
        (c.name, c.arguments) for c in expected.calls
    ]
    assert shown.stop == expected.stop


@every_pair
@few
@given(st.data())
def test_a_cut_answer_is_a_success_in_no_api(source, target, data):
    written = encoded(codecs.load(source), data.draw(answers(origin=source)))
    half = written[: data.draw(st.integers(0, max(0, len(written) // 2)))]
    end = events_of(target, translated(source, target, [half]))[-1]
    own = decoded(codecs.load(source), [half])[-1]
    assert isinstance(end, Failed if isinstance(own, Failed) else Finished)


def _events(message):
    from toolbridge.core.draft import Draft
    from toolbridge.core.ids import Ids
    from toolbridge.core.json import dumps
    from toolbridge.core.messages import Call, Text, Thinking

    draft = Draft(Ids("law"))
    events = draft.start(id=message.id, model=message.model)
    for place, part in enumerate(message.content):
        match part:
            case Text(text):
                events += draft.text(text, place) + draft.end(place)
            case Thinking(text):
                events += draft.think(text, place) + draft.end(place)
            case Call(id, name, arguments):
                events += draft.call(place, name=name, id=id)
                events += draft.arguments(place, dumps(arguments)) + draft.end(place)
            case _:
                pass
    return events + draft.usage(message.usage) + draft.finish("end")
