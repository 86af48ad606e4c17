"""Token counts of the model calls of a structured stream."""

from toolbridge.core import events as ev
from toolbridge.core.usage import Usage
from toolbridge.runs.usage import CallTokens


def test_before_the_provider_reports_the_count_is_an_estimate():
    call = CallTokens(20)
    for event in (ev.TextDelta(0, "abcd"), ev.ThinkingDelta(1, "efgh"), ev.CallDelta(2, "ij")):
        call.feed(event)
    assert call.usage == Usage(input=20, output=3)
    assert not call.final


def test_a_report_in_mid_stream_never_lowers_the_count():
    call = CallTokens(20)
    call.feed(ev.TextDelta(0, "x" * 40))
    call.feed(ev.UsageReported(Usage(input=30, output=1)))
    assert call.usage == Usage(input=30, output=10)


def test_the_last_report_of_a_finished_answer_counts():
    call = CallTokens(20)
    call.feed(ev.TextDelta(0, "x" * 40))
    call.feed(ev.UsageReported(Usage(input=30, output=7)))
    call.feed(ev.Finished("end"))
    assert call.final
    assert call.usage == Usage(input=30, output=7)


def test_a_finished_answer_without_a_report_keeps_the_estimate():
    call = CallTokens(20)
    call.feed(ev.TextDelta(0, "x" * 40))
    call.feed(ev.Finished("end"))
    assert not call.final
    assert call.usage == Usage(input=20, output=10)
