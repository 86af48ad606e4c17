import pytest

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.shapes import Detail, split_data_url
from toolbridge.core.messages import Opaque


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("data:image/png;base64,aGk=", ("image/png", "aGk=")),
        ("data:;base64,aGk=", ("", "aGk=")),
        ("https://example.org/a,b", ("", "")),
        ("aGk=", ("", "")),
    ],
)
def test_a_data_url_has_a_type_and_data(url, expected):
    assert split_data_url(url) == expected


@pytest.mark.parametrize(
    "detail",
    [
        Detail("reasoning.text", signature="s"),
        Detail("reasoning.encrypted", data="z"),
        Detail("reasoning.text", signature="s", format="anthropic-claude-v1", index=0),
        Detail("reasoning.encrypted", data="z", id="rs_1", format="openai-responses-v1"),
    ],
)
def test_a_seal_goes_back_as_it_came(detail):
    assert shapes.write_seal(shapes.read_seal(detail)) == detail


def test_a_detail_without_a_token_is_no_seal():
    assert shapes.read_seal(Detail("reasoning.text", text="A", index=0)) is None


def test_a_seal_of_another_api_stays_away():
    assert shapes.write_seal(Opaque("anthropic", "signature", "s")) is None
    assert shapes.write_seal(Opaque("openai_chat/openrouter", "signature", "s")) is not None


def test_every_reason_that_is_written_is_read():
    assert {shapes.STOPS[theirs] for theirs in shapes.FINISH_REASONS.values()} <= set(
        shapes.FINISH_REASONS
    )
