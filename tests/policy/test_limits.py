"""What fits into a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.errors import Overflow, status_of
from toolbridge.policy.limits import check_window, output_limit, was_truncated


@pytest.mark.req("ZG-25")
@every_row(
    ("asked", "max_output", "window", "prompt", "limit"),
    [
        (None, 64_000, 0, 0, 21_333),
        (None, 128_000, 0, 0, 32_000),
        (None, 96_000, 0, 0, 32_000),
        (None, 0, 0, 0, None),
        (None, 0, 8_192, 100, None),
        (1000, 64_000, 200_000, 100, 1000),
        (128_000, 64_000, 0, 0, 64_000),
        (32_000, 0, 8_192, 192, 8_000),
        (32_000, 4_096, 8_192, 6_000, 2_192),
        (None, 64_000, 8_192, 192, 8_000),
        (100, 0, 8_192, 9_000, 100),
        (4_000, 0, 8_192, 9_000, 256),
        (1, 0, 0, 0, 1),
    ],
)
def test_an_answer_gets_what_was_asked_or_a_third_and_never_more_than_fits(
    asked, max_output, window, prompt, limit
):
    assert output_limit(asked, max_output=max_output, window=window, prompt=prompt) == limit


@pytest.mark.req("CL-09")
def test_a_prompt_that_cannot_fit_is_refused_in_words_that_make_claude_code_compact():
    with pytest.raises(Overflow) as raised:
        check_window(9000, 8192, 192)
    assert raised.value.problem.text == "prompt is too long: 9000 tokens > 8000 maximum"
    assert status_of(raised.value.problem) == 400


@pytest.mark.parametrize(
    ("prompt", "window", "reserve"), [(8000, 8192, 192), (10**9, 0, 0), (8192, 8192, 0)]
)
def test_a_prompt_that_fits_passes(prompt, window, reserve):
    check_window(prompt, window, reserve)


@every_row(
    ("estimated", "reported", "window", "cut"),
    [
        (20_000, 4_096, 4_096, True),
        (20_000, 4_000, 4_096, True),
        (20_000, 2_050, 4_096, True),
        (5_000, 4_096, 4_096, False),
        (20_000, 3_000, 4_096, False),
        (20_000, 900, 4_096, False),
        (20_000, 19_000, 4_096, False),
        (3_000, 2_050, 4_096, False),
        (20_000, 0, 4_096, False),
        (20_000, 4_096, 0, False),
    ],
)
def test_a_cut_is_claimed_only_when_the_counts_can_mean_nothing_else(
    estimated, reported, window, cut
):
    assert was_truncated(estimated, reported, window) is cut


@given(st.integers(1, 10**6), st.floats(0.8, 1.25), st.integers(1, 10**6))
def test_a_prompt_that_fits_is_never_called_cut(actual, error, window):
    if actual <= window:
        assert not was_truncated(round(actual * error), actual, window + 1)


def test_a_count_that_is_not_sure_gets_the_benefit_of_the_doubt():
    check_window(1100, 1000, sure=False)
    with pytest.raises(Overflow, match="1200 tokens > 1000 maximum"):
        check_window(1200, 1000, sure=False)
    with pytest.raises(Overflow):
        check_window(1100, 1000)
