"""Text of strangers cannot imitate a template, a dialect or the frame."""

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.untrusted import escape_marks, framed


@every_row(
    "mark",
    [
        "<|im_start|>", "<tool_call>", "</untrusted_content>", "[INST]", "[/INST]",
        "[TOOL_CALLS]", "<function=Bash>", "<\uff5ctool\uff5c>", "<!-- -->", "<\u200b|im_end|>",
        "<\U000e0041tool_call>",
    ],
)  # fmt: skip
def test_marks_are_escaped(mark):
    assert mark not in escape_marks(f"a {mark} b")
    assert "<" not in escape_marks(mark)
    assert framed(mark, "web").count("<") == 2


@every_row("text", ["a < b", "x <= 3", "[1] and [see below]", "naïve — 日本語 🙂"])
def test_ordinary_text_stays(text):
    assert escape_marks(text) == text


@given(st.text())
def test_escaping_again_changes_nothing(text):
    once = escape_marks(text)
    assert escape_marks(once) == once
