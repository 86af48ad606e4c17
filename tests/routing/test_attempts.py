"""Attempts: when a request is sent again, and what is kept of the answer."""

import asyncio

import pytest

from toolbridge.config import ProviderConfig
from toolbridge.core import events as ev
from toolbridge.core.codec import Target
from toolbridge.core.errors import (
    Overloaded,
    Rejected,
    TimedOut,
    ToolbridgeError,
    Truncated,
    Unsupported,
)
from toolbridge.core.messages import Problem, Text
from toolbridge.policy.answer_stages import AnswerStages
from toolbridge.routing.attempts import AnswerAttempts
from toolbridge.routing.route import Route

START = [ev.Started("m1", "m"), ev.TextStart(0), ev.TextDelta(0, "Hi")]
END = [ev.TextEnd(0, Text("Hi")), ev.Finished("end")]
AT_ONCE = Problem("overloaded", "busy", retry_after=0.0)


class Scripted:
    """A source that returns batches, or raises the errors among them."""

    passing = False

    def __init__(self, *steps):
        self._steps = list(steps)
        self.closed = False

    async def read(self):
        if not self._steps:
            return None
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def close(self):
        self.closed = True


class Silent(Scripted):
    """A source that returns its batches and then waits for ever."""

    async def read(self):
        return await super().read() or await asyncio.Event().wait()


class Sendable:
    """A request whose answers are scripted, one source per attempt."""

    retries_empty = True
    streams = True
    needs_other_api = False

    def __init__(self, *sources, retries=2, midstream_failure="event", lacks=(), **limits):
        config = ProviderConfig(
            api="openai_chat", retries=retries, midstream_failure=midstream_failure, **limits
        )
        self.route = Route("local", config, "", Target("m"))
        self.sources = list(sources)
        self.used = []
        self._lacks = list(lacks)

    def source(self, _):
        self.used.append(self.sources.pop(0))
        return self.used[-1]

    def stages(self, _):
        return AnswerStages((), ())

    def rescue(self, _problem, _seed):
        return None

    def downgrade(self, problem):
        return problem.kind in self._lacks and bool(self._lacks.remove(problem.kind) or True)


def error(kind, problem):
    raised = kind(problem.text)
    raised.problem = problem
    return raised


async def events_of(request):
    return [event async for batch in AnswerAttempts(request).events() for event in batch]


@pytest.mark.parametrize(("setting", "aborts"), [("event", False), ("abort", True)])
def test_a_setting_decides_whether_a_failure_closes_the_connection(setting, aborts):
    assert AnswerAttempts(Sendable(midstream_failure=setting)).aborts is aborts


def test_opaque_tokens_are_signed_by_api_provider_and_model():
    maker = AnswerAttempts(Sendable()).maker
    assert all(word in maker for word in ("openai_chat", "local", "m"))


async def test_a_failure_before_content_is_repeated_and_every_source_is_closed():
    request = Sendable(Scripted(error(Overloaded, AT_ONCE)), Scripted(START, END))
    assert await events_of(request) == [*START, *END]
    assert [source.closed for source in request.used] == [True, True]


async def test_a_failure_after_content_is_the_last_event_and_nothing_is_repeated():
    request = Sendable(Scripted(START, error(Overloaded, AT_ONCE)), Scripted(START, END))
    found = await events_of(request)
    assert found == [*START, ev.Failed(AT_ONCE)]
    assert len(request.used) == 1


async def test_no_more_is_sent_than_the_retries_allow():
    request = Sendable(*(Scripted(error(Overloaded, AT_ONCE)) for _ in range(9)), retries=1)
    with pytest.raises(Overloaded):
        await events_of(request)
    assert len(request.used) == 2


async def test_a_rejection_is_not_repeated_unless_the_request_can_do_without_the_feature():
    rejected = Problem("rejected", "no tools here", status=400)
    request = Sendable(*(Scripted(error(Rejected, rejected)) for _ in range(3)))
    with pytest.raises(Rejected):
        await events_of(request)
    assert len(request.used) == 1
    request = Sendable(
        Scripted(error(Rejected, rejected)), Scripted(START, END), lacks=["rejected"]
    )
    assert await events_of(request) == [*START, *END]


async def test_an_empty_answer_is_repeated_once_and_then_accepted():
    empty = [ev.Started("m1", "m"), ev.Finished("end")]
    request = Sendable(Scripted(empty), Scripted(empty), Scripted(START, END))
    assert await events_of(request) == empty
    assert len(request.used) == 2
    request = Sendable(Scripted(empty), Scripted(START, END), retries=0)
    assert await events_of(request) == empty


async def test_a_failed_event_before_content_is_raised_and_may_be_repeated():
    failed = [ev.Started("m1", "m"), ev.Failed(AT_ONCE)]
    request = Sendable(Scripted(failed), Scripted(START, END))
    assert await events_of(request) == [*START, *END]


async def test_a_whole_answer_may_be_repeated_after_content():
    request = Sendable(Scripted(START, error(Overloaded, AT_ONCE)), Scripted(START, END))
    assert (await AnswerAttempts(request).message()).text == "Hi"
    assert len(request.used) == 2


async def test_a_whole_answer_without_an_end_is_truncated():
    request = Sendable(Scripted(START), Scripted(START), retries=0)
    with pytest.raises(Truncated, match="local closed the connection"):
        await AnswerAttempts(request).message()


async def test_a_whole_answer_that_ends_with_a_failure_raises_it():
    problem = Problem("unsupported", "no")
    request = Sendable(Scripted(START, [ev.Failed(problem)]))
    with pytest.raises(Unsupported) as raised:
        await AnswerAttempts(request).message()
    assert isinstance(raised.value, ToolbridgeError)
    assert raised.value.problem == problem


async def test_nothing_is_read_after_a_failure_even_if_the_provider_goes_on():
    source = Scripted(START, [ev.Failed(AT_ONCE)], [ev.TextDelta(0, "more")])
    assert await events_of(Sendable(source)) == [*START, ev.Failed(AT_ONCE)]
    assert await source.read() == [ev.TextDelta(0, "more")]


@pytest.mark.parametrize("passing", [False, True])
async def test_what_follows_the_end_of_an_answer_does_not_make_it_incomplete(passing):
    source = Scripted(START, END, [], Truncated("the connection was closed"))
    source.passing = passing
    request = Sendable(source, retries=0)
    assert await events_of(request) == [*START, *END]
    again = Scripted(START, END, Truncated("the connection was closed"))
    assert (await AnswerAttempts(Sendable(again, retries=0)).message()).stop == "end"


@pytest.mark.parametrize("setting", ["first_byte_timeout", "total_timeout"])
async def test_a_silent_provider_is_left_at_the_limit_of_its_settings(setting):
    request = Sendable(Silent(), retries=0, **{setting: 0.01})
    with pytest.raises(TimedOut, match=setting):
        await events_of(request)
    assert request.used[0].closed


async def test_the_limit_of_the_first_content_ends_with_it():
    request = Sendable(Silent(START), retries=0, first_byte_timeout=0.5, total_timeout=0.6)
    *_, last = await events_of(request)
    assert isinstance(last, ev.Failed)
    assert "total_timeout" in last.problem.text


async def test_only_a_stream_has_a_limit_of_its_first_content():
    request = Sendable(Silent(), retries=0, first_byte_timeout=0.01, total_timeout=0.2)
    request.streams = False
    with pytest.raises(TimedOut, match="total_timeout"):
        await events_of(request)
