"""The card of a probe, as a table and as an image."""

from xml.etree import ElementTree as ET

import msgspec

from toolbridge.probe.card import Attempt, Card, Speed, failures, table, without_times
from toolbridge.probe.card_svg import card_svg

CARD = Card(
    "local/<model> & co", "openai_chat", 8192,
    (
        Attempt("weather", "one-call", "native", False, False, False, why="no call", speed=Speed(0.5, 2.5, 40, 100, 50)),
        Attempt("sum", "no-call", "native", True, None, None, speed=Speed(0.5, 0.5, 0, 100, 50)),
        Attempt("weather", "one-call", "prompt", True, True, False, dialect="hermes_json", healed=("trailing comma removed",)),
        Attempt("sum", "no-call", "prompt", True, None, None, thinking=True),
    ),
)  # fmt: skip


def test_the_table_has_a_row_for_each_kind_and_a_column_for_each_mode():
    shown = [line.split() for line in table(CARD).splitlines()]
    assert ["native", "prompt"] in shown
    assert ["one", "call", "0/1", "1/1"] in shown
    assert ["all", "tasks", "1/2", "2/2"] in shown
    assert ["valid", "0/1", "1/1"] in shown
    assert ["valid", "at", "first", "try", "0/1", "0/1"] in shown
    assert ["healed", "0", "1"] in shown
    assert ["parallel", "calls"] not in [line[:2] for line in shown]


def test_the_facts_are_under_the_table():
    shown = table(CARD)
    assert "best mode: prompt" in shown
    assert "dialect of calls in text: hermes_json" in shown
    assert "speed: 20.0 tokens/s" in shown
    assert "prompt cache: 50% of the input" in shown
    assert "window: 8192 tokens" in shown


def test_without_times_nothing_depends_on_the_run():
    timeless = without_times(CARD)
    assert b"speed" not in msgspec.json.encode(timeless)
    assert "tokens/s" not in table(timeless)


def test_failures_are_those_of_the_best_mode():
    assert failures(CARD) == []
    native = msgspec.structs.replace(CARD, attempts=CARD.attempts[:2])
    assert failures(native) == ["weather: no call"]


WRONG = msgspec.structs.replace(
    CARD,
    attempts=(
        Attempt("weather", "one-call", "native", False, False, False, why="it is busy", speed=Speed()),
        Attempt("sum", "no-call", "native", False, None, None, why="no text", speed=Speed()),
        Attempt("sum", "no-call", "prompt", False, None, None, why="no text", speed=Speed()),
    ),
)  # fmt: skip


def test_without_a_right_answer_there_is_no_best_mode():
    assert (CARD.best, CARD.fault) == ("prompt", "")
    assert WRONG.best is None
    assert WRONG.fault == "no answer is right (2 of 3: no text)"
    assert failures(WRONG) == ["2 of 3: no text", "1 of 3: it is busy"]
    assert "best mode: unknown" in table(WRONG)
    assert "best mode: unknown" in card_svg(WRONG)


def test_a_probe_that_was_stopped_has_no_best_mode():
    stopped = msgspec.structs.replace(CARD, stopped="no credit is left")
    assert (stopped.best, stopped.fault) == (None, "no credit is left")
    assert b"stopped" not in msgspec.json.encode(CARD)


def test_what_was_not_measured_is_not_zero():
    shown = table(WRONG)
    assert "speed: not measured" in shown
    assert "first token: not measured" in shown
    assert "prompt cache: not measured" in shown


def test_an_answer_without_content_does_not_lower_the_first_token():
    mixed = msgspec.structs.replace(CARD, attempts=(*CARD.attempts, *WRONG.attempts))
    assert "first token: 0.50 s" in table(mixed)


def test_the_image_is_xml_with_every_cell():
    root = ET.fromstring(card_svg(CARD))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "local/<model> & co"
    assert {"one call", "native", "prompt", "0/1", "1/1", "best mode: prompt"} <= set(texts)
